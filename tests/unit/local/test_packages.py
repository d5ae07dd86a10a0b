"""Packages: what Pulumi names, as the bytes that are uploaded."""

from __future__ import annotations

import io
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pulumi
import pytest

from local.packages import PackageError, unpack, with_runtime, zip_bytes


def names(package: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        return archive.namelist()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name in ("app.py", "inner/part.py", "inner/__pycache__/part.cpython-313.pyc"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name, encoding="utf-8")
    return root


def test_a_directory_is_packed_without_what_python_cached(tree: Path) -> None:
    assert names(zip_bytes(pulumi.FileArchive(str(tree)))) == ["app.py", "inner/part.py"]


def test_an_archive_of_archives_keeps_its_paths(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("1", encoding="utf-8")
    archive = pulumi.AssetArchive(
        {
            ".": pulumi.FileArchive(str(tree)),
            "lib": pulumi.AssetArchive({"deep": pulumi.FileArchive(str(tree))}),
            "one.txt": pulumi.FileAsset(str(tmp_path / "one.txt")),
            "two.txt": pulumi.StringAsset("2"),
        }
    )
    assert names(zip_bytes(archive)) == [
        "app.py",
        "inner/part.py",
        "lib/deep/app.py",
        "lib/deep/inner/part.py",
        "one.txt",
        "two.txt",
    ]


@pytest.mark.parametrize("as_what", [pulumi.FileArchive, pulumi.FileAsset])
def test_a_zip_file_is_taken_as_it_is(as_what: type, tree: Path, tmp_path: Path) -> None:
    packed = tmp_path / "function.zip"
    packed.write_bytes(zip_bytes(pulumi.FileArchive(str(tree))))
    assert names(zip_bytes(as_what(str(packed)))) == ["app.py", "inner/part.py"]


def test_the_same_content_gives_the_same_bytes_whenever_it_was_written(tree: Path) -> None:
    first = zip_bytes(pulumi.FileArchive(str(tree)))
    (tree / "app.py").touch()
    assert zip_bytes(pulumi.FileArchive(str(tree))) == first


@pytest.mark.parametrize(
    "code",
    [
        pulumi.RemoteArchive("https://example.com/a.zip"),
        pulumi.AssetArchive({"a": pulumi.RemoteAsset("https://example.com/a")}),
        pulumi.FileArchive("/nowhere/at/all"),
    ],
    ids=["remote archive", "remote asset", "no such path"],
)
def test_what_cannot_be_packed_here_is_refused(code: object) -> None:
    with pytest.raises(PackageError):
        zip_bytes(code)


def test_a_python_function_gets_a_bootstrap_that_survives_blanks_in_paths() -> None:
    package = with_runtime(
        zip_bytes(pulumi.AssetArchive({"app.py": pulumi.StringAsset("")})), "/my tools/python", [Path("/a layer")]
    )
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        script = archive.read("bootstrap").decode()
        mode = archive.getinfo("bootstrap").external_attr >> 16
    assert script.splitlines() == [
        "#!/bin/sh",
        "exec '/my tools/python' -I -S -u \"$LAMBDA_TASK_ROOT/_local_lambda_runtime.py\" '/a layer'",
    ]
    assert mode & 0o111


def test_a_package_with_a_bootstrap_of_its_own_is_refused() -> None:
    with pytest.raises(PackageError, match="bootstrap"):
        with_runtime(zip_bytes(pulumi.AssetArchive({"bootstrap": pulumi.StringAsset("")})), "python", [])


def test_threads_that_unpack_the_same_package_leave_one_whole_directory(tree: Path, tmp_path: Path) -> None:
    package = zip_bytes(pulumi.FileArchive(str(tree)))
    into = tmp_path / "layers" / "x"
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: unpack(package, into), range(8)))
    assert found == {into}
    assert list(into.parent.iterdir()) == [into]


def test_unpacking_twice_leaves_the_first_one_alone(tree: Path, tmp_path: Path) -> None:
    package = zip_bytes(pulumi.FileArchive(str(tree)))
    into = unpack(package, tmp_path / "layers" / "x")
    (into / "app.py").write_text("kept", encoding="utf-8")
    unpack(package, into)
    assert (into / "app.py").read_text(encoding="utf-8") == "kept"
    assert [path.name for path in into.parent.iterdir()] == ["x"]
