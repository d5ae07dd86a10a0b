"""`python -m infra.build`: the same lock gives the same bytes, and nothing of an installer, a test or a cache.

Real processes in real virtual environments; the wheels are made here and lie in the cache, so no network is needed.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.build import build, read_lock
from infra.errors import BuildError
from infra.packaging import ROOT, layer_path, load_build, lock_path, manifest_path, wheel_cache

PLAIN = {
    "plain/__init__.py": "VALUE = 1\n",
    "plain/tests/test_plain.py": "assert False\n",
    "plain/__pycache__/__init__.cpython-313.pyc": "cache",
    "plain/data/model.json": "{}",
    "plain-1.0.dist-info/METADATA": "Name: plain\n",
    "plain-1.0.dist-info/RECORD": "differs\n",
    "plain-1.0.data/scripts/plain": "#!python\n",
    "plain-1.0.data/purelib/plain_extra.py": "VALUE = 2\n",
}
OTHER = {"other.py": "VALUE = 3\n", "other-2.0.dist-info/METADATA": "Name: other\n"}
PLAIN_IN_LAYER = [
    "python/plain-1.0.dist-info/METADATA",
    "python/plain/__init__.py",
    "python/plain/data/model.json",
    "python/plain_extra.py",
]


@dataclass(frozen=True)
class Checkout:
    """A copy of the project's own files with a small lock."""

    root: Path

    def add_wheel(self, name: str, files: dict[str, str]) -> str:
        """Put a wheel into the cache; its digest."""
        path = wheel_cache(self.root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            for file, content in files.items():
                # A fixed time: the wheel itself must be the same file in every checkout.
                archive.writestr(zipfile.ZipInfo(file), content)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def write_lock(self, **digests: str) -> None:
        """Pin `name_version=digest` pairs."""
        pins = ([*pin.split("_"), digest] for pin, digest in digests.items())
        lines = [f"{name}=={version[1:]}.0 \\\n    --hash=sha256:{digest}" for name, version, digest in pins]
        lock_path(self.root).write_text("# a comment\n" + "\n".join(lines) + "\n")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return make_checkout(tmp_path / "checkout")


def make_checkout(root: Path) -> Checkout:
    shutil.copytree(ROOT / "infra", root / "infra", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "handlers").mkdir()
    (root / "handlers" / "step.py").write_text("import json\nimport plain\n")
    made = Checkout(root)
    made.write_lock(
        plain_v1=made.add_wheel("plain-1.0-py3-none-any.whl", PLAIN),
        other_v2=made.add_wheel("other-2.0-py3-none-any.whl", OTHER),
    )
    return made


def run_build(root: Path, python: Path | str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-m", "infra.build"]
    env = {"PATH": os.environ["PATH"], "PIP_NO_INDEX": "1", **environment}
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False, timeout=60)


def names(layer: Path) -> list[str]:
    with zipfile.ZipFile(layer) as archive:
        return archive.namelist()


def test_same_sources_give_the_same_bytes_in_two_environments_and_two_paths(tmp_path: Path) -> None:
    results = []
    for place, hash_seed, zone in (("one", "1", "UTC"), ("a/much/longer/path", "2", "Asia/Tokyo")):
        venv.create(tmp_path / place / "venv", with_pip=False)
        checkout = make_checkout(tmp_path / place / "checkout")
        python = tmp_path / place / "venv" / "bin" / "python"
        umask = os.umask(0o077 if place == "one" else 0o022)
        try:
            done = run_build(checkout.root, python, PYTHONHASHSEED=hash_seed, TZ=zone)
        finally:
            os.umask(umask)
        assert (done.returncode, done.stderr) == (0, "")
        # What an interpreter or an editor leaves behind in one of them.
        (checkout.root / "handlers" / "__pycache__").mkdir()
        (checkout.root / "handlers" / "__pycache__" / f"step.{place[0]}.pyc").write_text(place)
        code = {name: path.read_bytes() for name, path in load_build(checkout.root).code.items()}
        layer = layer_path(checkout.root).read_bytes()
        results.append((layer, manifest_path(checkout.root).read_bytes(), code, done.stdout))

    assert results[0] == results[1]


def test_layer_holds_packages_and_metadata_only(checkout: Checkout) -> None:
    build(checkout.root)

    assert names(layer_path(checkout.root)) == [
        "python/other-2.0.dist-info/METADATA",
        "python/other.py",
        *PLAIN_IN_LAYER,
    ]


def test_layers_files_are_readable_by_everybody_and_of_no_time(checkout: Checkout) -> None:
    build(checkout.root)

    with zipfile.ZipFile(layer_path(checkout.root)) as archive:
        entries = {
            (oct(entry.external_attr >> 16), entry.date_time, entry.create_system) for entry in archive.infolist()
        }
    assert entries == {("0o100644", (1980, 1, 1, 0, 0, 0), 3)}


def test_manifest_names_the_modules_that_code_may_import(checkout: Checkout) -> None:
    assert build(checkout.root).modules == ("other", "plain", "plain_extra")


def test_building_needs_no_pulumi() -> None:
    script = "import infra.build, sys; print([name for name in sys.modules if 'pulumi' in name])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_wheel_with_another_hash_is_never_unpacked(checkout: Checkout) -> None:
    checkout.write_lock(plain_v1="0" * 64)

    done = run_build(checkout.root, sys.executable)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "pip could not download the wheels of infra/layer.lock (its message is above); then run: make build"
    )
    assert not layer_path(checkout.root).exists()


def test_import_that_no_package_brings_fails_the_build(checkout: Checkout) -> None:
    (checkout.root / "handlers" / "step.py").write_text("import requests\n")

    done = run_build(checkout.root, sys.executable)

    assert (done.returncode, done.stderr) == (
        1,
        "handlers/step.py:1 imports requests; import only handlers, or add the package to infra/layer.lock and run: "
        "make build\n",
    )


@pytest.mark.parametrize(
    ("wheel", "files", "message"),
    [
        (
            "plain-1.0-cp313-cp313-manylinux2014_x86_64.whl",
            PLAIN,
            "plain-1.0-cp313-cp313-manylinux2014_x86_64.whl does not run on python3.13 arm64; pin the wheel that does",
        ),
        (
            "plain-1.0-cp312-cp312-manylinux2014_aarch64.whl",
            PLAIN,
            "plain-1.0-cp312-cp312-manylinux2014_aarch64.whl does not run on python3.13 arm64; pin the wheel that does",
        ),
        (
            "plain-1.0-py3-none-any.whl",
            {"../escape.py": ""},
            "plain-1.0-py3-none-any.whl holds the path ../escape.py; do not use this wheel",
        ),
    ],
    ids=["other architecture", "other Python", "path outside"],
)
def test_wheel_that_cannot_run_is_refused(checkout: Checkout, wheel: str, files: dict[str, str], message: str) -> None:
    shutil.rmtree(wheel_cache(checkout.root))
    checkout.write_lock(plain_v1=checkout.add_wheel(wheel, files))

    with pytest.raises(BuildError) as caught:
        build(checkout.root)

    assert str(caught.value) == message


def test_two_wheels_with_one_path_are_refused(checkout: Checkout) -> None:
    first = checkout.add_wheel("plain-1.0-py3-none-any.whl", OTHER)
    second = checkout.add_wheel("other-2.0-py3-none-any.whl", {**OTHER, "more.py": ""})
    checkout.write_lock(plain_v1=first, other_v2=second)

    with pytest.raises(BuildError) as caught:
        build(checkout.root)

    assert str(caught.value) == (
        "plain-1.0-py3-none-any.whl and other-2.0-py3-none-any.whl both hold python/other.py; "
        "drop one from infra/layer.lock"
    )


def test_lock_line_without_a_hash_is_refused() -> None:
    with pytest.raises(BuildError) as caught:
        read_lock("boto3==1.44.8\n")

    assert str(caught.value) == ("infra/layer.lock: 'boto3==1.44.8'; write name==version --hash=sha256:<of one wheel>")


def test_lock_pins_the_versions_that_the_handlers_are_tested_with() -> None:
    locked = {(one.name, one.version) for one in read_lock(lock_path(ROOT).read_text())}
    tested = {
        tuple(line.split("=="))
        for line in (ROOT / "requirements.txt").read_text().splitlines()
        if line.startswith(("boto3==", "aws-lambda-powertools=="))
    }

    assert tested <= locked
    assert len(tested) == 2
