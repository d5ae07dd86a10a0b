"""`python -m infra.build` (make build): unpacks the wheels of infra/layer.lock into .build/layer.zip.

The same lock gives the same bytes on every machine: pip only downloads, by hash; this module unpacks, in sorted order,
with fixed times and modes, uncompressed (two versions of zlib compress differently; the layer stays below the 50 MB
that Lambda takes in one upload). Wheels are kept in .build/wheels; with all of them there no network is needed.
"""

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from infra.errors import BuildError
from infra.packaging import (
    ARCHITECTURE,
    FORMAT,
    MEND,
    PLATFORM,
    PYTHON_VERSION,
    ROOT,
    RUNTIME,
    Manifest,
    digest_of,
    layer_path,
    load_build,
    lock_path,
    manifest_path,
    wheel_cache,
)

MAX_LAYER_BYTES: Final = 50_000_000
"""https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html: one upload without S3."""
_FIXED_TIME: Final = (1980, 1, 1, 0, 0, 0)
_FILE_MODE: Final = 0o100644 << 16
_REQUIREMENT: Final = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;]+) +--hash=sha256:(?P<digest>[0-9a-f]{64})"
)
_DROPPED_FILES: Final = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "zip-safe"})
"""Written by an installer, or different from machine to machine; nothing reads them in Lambda."""
_DROPPED_DIRECTORIES: Final = frozenset({"tests", "test", "__pycache__"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One line of the lock: one wheel."""

    name: str
    """The distribution's name."""
    version: str
    """Its exact version."""
    digest: str
    """SHA-256 of the one wheel that may be used."""


def main() -> int:
    """Build, and say what was built."""
    try:
        manifest = build(ROOT)
        load_build(ROOT)
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    size = layer_path(ROOT).stat().st_size
    sys.stdout.write(f"layer {manifest.layer[:12]}: {size / 1e6:.1f} MB, {len(manifest.modules)} modules\n")
    return 0


def build(root: Path) -> Manifest:
    """Make layer.zip and its manifest from the lock below `root`."""
    lock = lock_path(root)
    requirements = read_lock(lock.read_text(encoding="utf-8"))
    wheels = _fetch(requirements, lock, wheel_cache(root))
    files = dict(sorted(_layer_files(wheels)))
    layer = layer_path(root)
    _write_zip(layer, files)
    manifest = Manifest(
        format=FORMAT,
        runtime=RUNTIME,
        architecture=ARCHITECTURE,
        lock=digest_of(lock),
        layer=digest_of(layer),
        modules=_modules(files),
    )
    _replace(manifest_path(root), manifest.to_json().encode())
    return manifest


def read_lock(text: str) -> list[Requirement]:
    """The lock's lines; one that is not `name==version --hash=sha256:...` is refused."""
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines()]
    requirements = []
    for line in lines:
        if not line or line.startswith("#"):
            continue
        match = _REQUIREMENT.fullmatch(line)
        if match is None:
            raise BuildError(f"infra/layer.lock: {line!r}", "write name==version --hash=sha256:<of one wheel>")
        requirements.append(Requirement(**match.groupdict()))
    return requirements


def _fetch(requirements: list[Requirement], lock: Path, cache: Path) -> list[Path]:
    """The wheels in the lock's order; pip runs only when one of them is not in the cache."""
    cache.mkdir(parents=True, exist_ok=True)
    wheels = _cached(cache)
    if any(requirement.digest not in wheels for requirement in requirements):
        _download(lock, cache)
        wheels = _cached(cache)
    missing = [f"{one.name}=={one.version}" for one in requirements if one.digest not in wheels]
    if missing:
        raise BuildError(f"no wheel with the pinned hash for {', '.join(missing)}", "correct infra/layer.lock")
    return [wheels[requirement.digest] for requirement in requirements]


def _cached(cache: Path) -> Mapping[str, Path]:
    return {digest_of(path): path for path in sorted(cache.glob("*.whl"))}


def _download(lock: Path, cache: Path) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    target = ["--platform", PLATFORM, "--python-version", PYTHON_VERSION, "--implementation", "cp"]
    command = [sys.executable, "-m", "pip", "download", *options, *target, "-r", str(lock), "-d", str(cache)]
    if subprocess.run(command, check=False).returncode:  # noqa: S603 - a fixed command, nothing of a user's input
        raise BuildError("pip could not download the wheels of infra/layer.lock (its message is above)", f"then {MEND}")


def _layer_files(wheels: list[Path]) -> Iterator[tuple[str, bytes]]:
    """Path in the layer -> bytes, for each file of each wheel; a path that two wheels bring is refused."""
    owner: dict[str, str] = {}
    for wheel in wheels:
        _check_platform(wheel)
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                path = _placed(PurePosixPath(name), wheel.name)
                if path is None or name.endswith("/"):
                    continue
                if path in owner:
                    problem = f"{owner[path]} and {wheel.name} both hold {path}"
                    raise BuildError(problem, "drop one from infra/layer.lock")
                owner[path] = wheel.name
                yield path, archive.read(name)


def _check_platform(wheel: Path) -> None:
    python, abi, platform = wheel.stem.split("-")[-3:]
    wanted_python = {"py3", "cp313"} & set(python.split(".")) or abi == "abi3"
    if not wanted_python or not (platform == "any" or platform.endswith("aarch64")):
        raise BuildError(f"{wheel.name} does not run on {RUNTIME} {ARCHITECTURE}", "pin the wheel that does")


def _placed(path: PurePosixPath, wheel: str) -> str | None:
    """Where a wheel's file goes in the layer, or None when it stays out."""
    if path.is_absolute() or ".." in path.parts:
        raise BuildError(f"{wheel} holds the path {path}", "do not use this wheel")
    if path.parts[0].endswith(".data"):
        # <name>.data/purelib|platlib belong beside the packages; scripts and headers have no use in Lambda.
        if path.parts[1] not in {"purelib", "platlib"}:
            return None
        path = PurePosixPath(*path.parts[2:])
    dropped = path.suffix == ".pyc" or path.name in _DROPPED_FILES or _DROPPED_DIRECTORIES & set(path.parts[:-1])
    return None if dropped else str(PurePosixPath("python", path))


def _modules(files: Mapping[str, bytes]) -> tuple[str, ...]:
    tops = {PurePosixPath(path).parts[1] for path in files}
    return tuple(sorted(top.partition(".")[0] for top in tops if not top.endswith(".dist-info")))


def _write_zip(path: Path, files: Mapping[str, bytes]) -> None:
    partial = path.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _FIXED_TIME)
            entry.create_system = 3  # Unix, also on another system: else the modes below mean nothing
            entry.external_attr = _FILE_MODE
            archive.writestr(entry, content)
    size = partial.stat().st_size
    if size > MAX_LAYER_BYTES:
        partial.unlink()
        raise BuildError(f"the layer has {size} bytes, Lambda takes {MAX_LAYER_BYTES}", "shorten infra/layer.lock")
    partial.replace(path)


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_suffix(".partial")
    partial.write_bytes(content)
    partial.replace(path)


if __name__ == "__main__":
    sys.exit(main())
