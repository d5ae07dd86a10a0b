"""As much of CloudWatch's metric math as the alarms use, for single periods: no test engine evaluates it
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html)."""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_OPERATORS: Final[Mapping[type[ast.AST], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.GtE: operator.ge,
    ast.Gt: operator.gt,
}


def value_of(queries: Sequence[Mapping[str, Any]], data: Mapping[str, float]) -> float | None:
    """What an alarm on these metric queries compares with its threshold.

    Args:
        queries: as PutMetricAlarm takes them, in Pulumi's spelling; each uses those before it only.
        data: metric name -> its value in the period; a name that is absent has no data.

    Returns:
        None: no data, as when a metric is missing and not filled, or something is divided by 0.
    """
    known: dict[str, float | None] = {}
    returned = []
    for query in queries:
        if "expression" in query:
            known[query["id"]] = _evaluate(ast.parse(query["expression"], mode="eval").body, known)
        else:
            known[query["id"]] = data.get(query["metric"]["metricName"])
        if query.get("returnData"):
            returned.append(known[query["id"]])
    (value,) = returned
    return value


def _evaluate(node: ast.expr, known: Mapping[str, float | None]) -> float | None:
    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return known[node.id]
    if isinstance(node, ast.BinOp):
        return _apply(type(node.op), _evaluate(node.left, known), _evaluate(node.right, known))
    if isinstance(node, ast.Compare):
        return _apply(type(node.ops[0]), _evaluate(node.left, known), _evaluate(node.comparators[0], known))
    if isinstance(node, ast.Call):
        return _call(ast.unparse(node.func), node.args, known)
    raise AssertionError(f"metric math has no {ast.unparse(node)}")


def _apply(kind: type[ast.AST], left: float | None, right: float | None) -> float | None:
    if left is None or right is None or (kind is ast.Div and right == 0):
        return None
    return float(_OPERATORS[kind](left, right))


def _call(name: str, arguments: Sequence[ast.expr], known: Mapping[str, float | None]) -> float | None:
    if name == "SUM":
        (items,) = arguments
        assert isinstance(items, ast.List)
        values = [value for item in items.elts if (value := _evaluate(item, known)) is not None]
        return sum(values) if values else None
    first = _evaluate(arguments[0], known)
    if name == "FILL":
        return _evaluate(arguments[1], known) if first is None else first
    if name == "IF":
        return None if first is None else _evaluate(arguments[1 if first else 2], known)
    raise AssertionError(f"{name} is not in tests/metric_math.py")
