"""Turns what Pulumi calls assets and archives into zip files, and functions into what the emulator can run truly."""

from __future__ import annotations

import io
import shlex
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pulumi

RUNTIME = Path(__file__).resolve().parent / "lambda_runtime.py"
_RUNTIME_NAME = "_local_lambda_runtime.py"
_TIME = (1980, 1, 1, 0, 0, 0)
"""The same content must give the same bytes, or a second deploy would change every function."""


class PackageError(ValueError):
    """An asset that cannot be packed on this machine; the message says which."""


def zip_bytes(code: Any) -> bytes:
    """The zip of a FileArchive (a directory or a .zip), an AssetArchive, or a FileAsset that is a zip file."""
    if isinstance(code, pulumi.FileArchive | pulumi.FileAsset) and zipfile.is_zipfile(code.path):
        return Path(code.path).read_bytes()  # as it is: on AWS, too
    return _packed(_entries(code))


def with_runtime(package: bytes, python: str, layers: Iterable[Path]) -> bytes:
    """The same package with a `bootstrap` that serves its Python handler under `python`, with those layers.

    Raises PackageError when the package has a bootstrap of its own: it is no Python function then.
    """
    entries = dict(_unzipped(package))
    if "bootstrap" in entries:
        raise PackageError("the package of a Python function holds a file named bootstrap")
    command = [python, "-I", "-S", "-u"]
    arguments = [str(layer) for layer in layers]
    entries["bootstrap"] = (
        f'#!/bin/sh\nexec {shlex.join(command)} "$LAMBDA_TASK_ROOT/{_RUNTIME_NAME}" {shlex.join(arguments)}\n'.encode()
    )
    entries[_RUNTIME_NAME] = RUNTIME.read_bytes()
    return _packed(entries.items())


def unpack(package: bytes, into: Path) -> Path:
    """Unpack once: a directory that exists is complete, because it is renamed into place at the end."""
    if into.exists():
        return into
    into.parent.mkdir(parents=True, exist_ok=True)
    # Several functions are made at once, in threads of one process and in several processes.
    fresh = Path(tempfile.mkdtemp(prefix=f"{into.name}.", dir=into.parent))
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        archive.extractall(fresh)
    try:
        fresh.rename(into)
    except OSError:  # somebody else was faster; both hold the same content
        if not into.exists():
            raise
        shutil.rmtree(fresh)
    return into


def _entries(code: Any) -> Iterator[tuple[str, bytes]]:
    if isinstance(code, pulumi.FileArchive):
        yield from _file_archive(Path(code.path))
    elif isinstance(code, pulumi.AssetArchive):
        for name, member in code.assets.items():
            yield from _member(name, member)
    else:
        raise PackageError(f"{type(code).__name__} cannot be packed here; use FileArchive or AssetArchive")


def _member(name: str, member: Any) -> Iterator[tuple[str, bytes]]:
    if isinstance(member, pulumi.StringAsset):
        yield name, member.text.encode()
    elif isinstance(member, pulumi.FileAsset):
        yield name, Path(member.path).read_bytes()
    elif isinstance(member, pulumi.FileArchive | pulumi.AssetArchive):
        prefix = "" if name in ("", ".") else f"{name.rstrip('/')}/"
        for inner, content in _entries(member):
            yield prefix + inner, content
    else:
        raise PackageError(f"{name}: {type(member).__name__} cannot be packed here")


def _file_archive(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(path).as_posix(), file.read_bytes()
    elif zipfile.is_zipfile(path):
        yield from _unzipped(path.read_bytes())
    else:
        raise PackageError(f"{path} is neither a directory nor a zip file")


def _unzipped(package: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        for entry in archive.infolist():
            if not entry.is_dir():
                yield entry.filename, archive.read(entry)


def _packed(entries: Iterable[tuple[str, bytes]]) -> bytes:
    """Stored, not compressed: it stays on this machine."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(entries):
            info = zipfile.ZipInfo(name, _TIME)
            info.external_attr = (0o755 if name == "bootstrap" else 0o644) << 16
            archive.writestr(info, content)
    return out.getvalue()
