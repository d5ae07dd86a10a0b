"""python -m statemachine render | diagram | describe | refresh | validate FILE

Reads the list in statemachine/deletion.py; validate reads any definition.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from statemachine import asl, diagram, tables, validate
from statemachine.checks import WorkflowError
from statemachine.deletion import workflow
from statemachine.describe import describe
from statemachine.plan import Plan
from statemachine.workflow import example_deployment

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "statemachine" / "golden"
DOCUMENTS = ("README.md", "docs/architecture.md")
"""What holds tables made from the code."""


def _render(plan: Plan) -> str:
    return asl.to_json(asl.render(plan, example_deployment(plan)))


GENERATED: Mapping[str, Callable[[Plan], str]] = {
    "deletion.asl.json": _render,
    "deletion.mmd": diagram.mermaid,
}
"""Committed file -> what makes it."""


def main(arguments: Sequence[str]) -> int:
    """Run one command; its exit code."""
    if arguments[:1] == ["validate"]:
        return validate.main(list(arguments[1:]))
    parser = argparse.ArgumentParser(prog="python -m statemachine", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["render", "diagram", "describe", "refresh", "validate"])
    parser.add_argument("--without-identity", action="store_true", help="the list of a deployment without a user pool")
    chosen = parser.parse_args(arguments)
    try:
        plan = workflow(identity=not chosen.without_identity)
    except WorkflowError as error:
        print(error, file=sys.stderr)
        return 1
    if chosen.command == "refresh":
        return _refresh()
    print({"render": _render, "diagram": diagram.mermaid, "describe": describe}[chosen.command](plan), end="")
    return 0


def _refresh() -> int:
    plan = workflow(identity=True)
    for document in DOCUMENTS:
        path = ROOT / document
        path.write_text(tables.refreshed(path.read_text(encoding="utf-8"), plan), encoding="utf-8")
        print(f"refreshed {document}")
    GOLDEN.mkdir(exist_ok=True)
    for name, make in GENERATED.items():
        (GOLDEN / name).write_text(make(plan), encoding="utf-8")
        print(f"wrote statemachine/golden/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
