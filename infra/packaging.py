"""What goes to Lambda: our own code file by file, and one shared layer with everything it imports.

`make build` (infra/build.py) makes the layer; a preview only reads what the build left in .build, runs no pip, touches
no network, and refuses a build that is missing or older than infra/layer.lock. Imports no pulumi.
"""

import ast
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from infra.errors import BuildError

ROOT: Final = Path(__file__).resolve().parent.parent
RUNTIME: Final = "python3.13"
PYTHON_VERSION: Final = "3.13"
ARCHITECTURE: Final = "arm64"
PLATFORM: Final = "manylinux2014_aarch64"
FORMAT: Final = 1
"""Grows when infra/build.py packs differently, so that an older build counts as stale."""
MAX_CODE_BYTES: Final = 500_000
"""Our own code, unpacked: published versions are kept for ever and share 75 GB an account."""
MEND: Final = "run: make build"

_LOCK: Final = Path("infra/layer.lock")
_BUILD: Final = Path(".build")
_CODE: Final = "handlers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a build says about itself; committed nowhere, written beside the layer."""

    format: int
    """FORMAT of the builder."""
    runtime: str
    """The Lambda runtime that the wheels were chosen for."""
    architecture: str
    """The Lambda architecture that the wheels were chosen for."""
    lock: str
    """SHA-256 of the lock file that the layer was made from."""
    layer: str
    """SHA-256 of layer.zip."""
    modules: tuple[str, ...]
    """The top-level modules in the layer, sorted: what our code may import beside the standard library."""

    def to_json(self) -> str:
        """The manifest as the file's text."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        """The manifest in a file's text; KeyError, TypeError or ValueError for anything else."""
        fields: dict[str, Any] = json.loads(text)
        return cls(**{**fields, "modules": tuple(fields["modules"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What the functions are made of; `load_build` is the way to get one."""

    layer: Path
    """The layer's zip file."""
    layer_digest: str
    """SHA-256 of that file: part of the layer's name, so a changed layer is a new one."""
    code: Mapping[str, Path]
    """Our own code: path in the function's archive -> file, sorted. All functions share it."""


def lock_path(root: Path) -> Path:
    """The hash-pinned list of the layer's wheels."""
    return root / _LOCK


def layer_path(root: Path) -> Path:
    """The layer, as built."""
    return root / _BUILD / "layer.zip"


def manifest_path(root: Path) -> Path:
    """The build's description of itself."""
    return root / _BUILD / "manifest.json"


def wheel_cache(root: Path) -> Path:
    """Where the build keeps the wheels it downloaded."""
    return root / _BUILD / "wheels"


def digest_of(path: Path) -> str:
    """SHA-256 of a file, as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_build(root: Path = ROOT) -> Build:
    """The packages that the program deploys.

    Raises:
        BuildError: .build is missing or stale, or our code imports what will not be there in Lambda.
    """
    manifest = _load_manifest(root)
    expected = (FORMAT, RUNTIME, ARCHITECTURE, digest_of(lock_path(root)))
    if (manifest.format, manifest.runtime, manifest.architecture, manifest.lock) != expected:
        raise BuildError("the layer in .build is older than infra/layer.lock or than the builder", MEND)
    layer = layer_path(root)
    if not layer.is_file() or digest_of(layer) != manifest.layer:
        raise BuildError("the layer in .build is not the one that its manifest describes", MEND)
    code = code_files(root)
    check_imports(code, manifest.modules)
    return Build(layer=layer, layer_digest=manifest.layer, code=code)


def code_files(root: Path) -> dict[str, Path]:
    """Our own code as path in the archive -> file: modules of handlers/ only, never tests, data or caches."""
    files = {path.relative_to(root).as_posix(): path for path in sorted((root / _CODE).rglob("*.py"))}
    if not files:
        raise BuildError(f"no code found in {_CODE}/", "run the program from a complete checkout")
    tests = [name for name in files if _is_test(Path(name))]
    if tests:
        raise BuildError(f"{', '.join(tests)} would be deployed", "move tests to tests/")
    size = sum(path.stat().st_size for path in files.values())
    if size > MAX_CODE_BYTES:
        mend = "move data out of handlers/ or libraries into infra/layer.lock"
        raise BuildError(f"handlers/ holds {size} bytes of code, at most {MAX_CODE_BYTES} are deployed", mend)
    return files


def check_imports(code: Mapping[str, Path], layer_modules: tuple[str, ...]) -> None:
    """Refuse code that imports what neither the runtime, the layer nor the archive holds.

    An emulator that shares this machine's site-packages would run such code; Lambda answers Runtime.ImportModuleError.
    """
    available = sys.stdlib_module_names | {*layer_modules, _CODE}
    foreign = sorted(
        f"{name}:{line} imports {module}"
        for name, path in code.items()
        for module, line in _imported(ast.parse(path.read_bytes(), filename=str(path)))
        if module not in available
    )
    if foreign:
        raise BuildError("; ".join(foreign), f"import only handlers, or add the package to {_LOCK} and {MEND}")


def _load_manifest(root: Path) -> Manifest:
    try:
        return Manifest.from_json(manifest_path(root).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BuildError("the packages for Lambda are not built", MEND) from None
    except (KeyError, TypeError, ValueError):
        raise BuildError("the manifest in .build cannot be read", MEND) from None


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_") or path.name == "conftest.py" or "tests" in path.parts


def _imported(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Top-level names of absolute imports with their lines, without those that only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for statement in child.orelse:
                yield from _imported(ast.Module(body=[statement], type_ignores=[]))
        elif isinstance(child, ast.Import):
            yield from ((alias.name.partition(".")[0], child.lineno) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.level == 0 and child.module:
            yield child.module.partition(".")[0], child.lineno
        else:
            yield from _imported(child)
