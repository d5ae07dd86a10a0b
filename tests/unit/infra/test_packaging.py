"""What a preview finds in .build, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.errors import BuildError
from infra.packaging import (
    ROOT,
    Build,
    Manifest,
    check_imports,
    code_files,
    digest_of,
    layer_path,
    load_build,
    lock_path,
    manifest_path,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout as `make build` leaves it."""
    for directory in ("infra", "handlers/steps", ".build"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "handlers" / "step.py").write_text("import boto3\nfrom handlers.steps import purge\n")
    (tmp_path / "handlers" / "steps" / "purge.py").write_text("")
    lock_path(tmp_path).write_text("boto3==1\n")
    layer_path(tmp_path).write_bytes(b"layer")
    manifest = Manifest(
        format=1,
        runtime="python3.13",
        architecture="arm64",
        lock=digest_of(lock_path(tmp_path)),
        layer=digest_of(layer_path(tmp_path)),
        modules=("boto3",),
    )
    manifest_path(tmp_path).write_text(manifest.to_json())
    return tmp_path


def test_complete_build_is_loaded(root: Path) -> None:
    assert load_build(root) == Build(
        layer=root / ".build" / "layer.zip",
        layer_digest=digest_of(layer_path(root)),
        code={
            "handlers/step.py": root / "handlers" / "step.py",
            "handlers/steps/purge.py": root / "handlers" / "steps" / "purge.py",
        },
    )


def change_manifest(root: Path, **changes: object) -> None:
    path = manifest_path(root)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


STALE = "the layer in .build is older than infra/layer.lock or than the builder; run: make build"
FOREIGN = "the layer in .build is not the one that its manifest describes; run: make build"
UNREADABLE = "the manifest in .build cannot be read; run: make build"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda root: manifest_path(root).unlink(), "the packages for Lambda are not built; run: make build"),
        (lambda root: manifest_path(root).write_text("{"), UNREADABLE),
        (lambda root: manifest_path(root).write_text("{}"), UNREADABLE),
        (lambda root: change_manifest(root, other=1), UNREADABLE),
        (lambda root: lock_path(root).write_text("boto3==2\n"), STALE),
        (lambda root: change_manifest(root, format=0), STALE),
        (lambda root: change_manifest(root, runtime="python3.12"), STALE),
        (lambda root: change_manifest(root, architecture="x86_64"), STALE),
        (lambda root: layer_path(root).unlink(), FOREIGN),
        (lambda root: layer_path(root).write_bytes(b"other"), FOREIGN),
        (
            lambda root: (root / "handlers" / "test_step.py").write_text(""),
            "handlers/test_step.py would be deployed; move tests to tests/",
        ),
        (
            lambda root: (root / "handlers" / "big.py").write_text("#" * 500_001),
            "handlers/ holds 500047 bytes of code, at most 500000 are deployed; "
            "move data out of handlers/ or libraries into infra/layer.lock",
        ),
        (
            lambda root: (root / "handlers" / "late.py").write_text("def f():\n    from pulumi import Output\n"),
            "handlers/late.py:2 imports pulumi; import only handlers, or add the package to infra/layer.lock and run: "
            "make build",
        ),
    ],
    ids=[
        "no manifest",
        "no JSON",
        "no fields",
        "unknown field",
        "changed lock",
        "older builder",
        "other runtime",
        "other architecture",
        "no layer",
        "other layer",
        "a test",
        "too large",
        "an import that is not there",
    ],
)
def test_preview_refuses_with_the_mend(root: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(root)

    with pytest.raises(BuildError) as caught:
        load_build(root)

    assert str(caught.value) == message


def test_only_modules_of_handlers_are_packed(root: Path) -> None:
    for stray in ("handlers/__pycache__/step.cpython-313.pyc", "handlers/notes.md", "infra/iam.py"):
        (root / stray).parent.mkdir(exist_ok=True)
        (root / stray).write_text("")

    assert list(code_files(root)) == ["handlers/step.py", "handlers/steps/purge.py"]


def test_checkout_without_handlers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        code_files(tmp_path)

    assert str(caught.value) == "no code found in handlers/; run the program from a complete checkout"


def test_import_that_only_a_type_checker_sees_is_no_dependency(tmp_path: Path) -> None:
    module = tmp_path / "step.py"
    module.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from mypy_boto3_s3 import S3Client\n"
        "else:\n    import boto3\n"
        "from . import sibling\n"
    )

    check_imports({"handlers/step.py": module}, ("boto3",))


def test_our_own_code_can_be_packed() -> None:
    modules = ("aws_lambda_powertools", "boto3", "botocore", "urllib3")

    check_imports(code_files(ROOT), modules)
