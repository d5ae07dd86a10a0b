"""The readers of the three small languages within definitions: paths, intrinsic functions, JSONata."""

import pytest

from statemachine.rules.intrinsics import IntrinsicError, parse_intrinsic
from statemachine.rules.jsonata import read_expression
from statemachine.rules.jsonpath import PathError, parse_path


@pytest.mark.parametrize(
    ("text", "root", "names"),
    [
        ("$", "$", ()),
        ("$$", "$$", ()),
        ("$.a.b", "$", ("a", "b")),
        ("$$.Map.Item.Value.id", "$$", ("Map", "Item", "Value", "id")),
        ("$order['a b'][0]", "order", ("a b", "0")),
        ("$.a\\.b.c ", "$", ("a.b", "c")),
        ("$.store.größe-1", "$", ("store", "größe-1")),
    ],
)
def test_a_path_tells_its_root_and_the_fields_it_names(text: str, root: str, names: tuple[str, ...]) -> None:
    path = parse_path(text)

    assert (path.root, path.names, path.several) == (root, names, "")


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("$.a[*].b", "[*]"),
        ("$..b", "..b"),
        ("$.a[1:2]", "[1:2]"),
        ("$.a[0,1]", "[0,1]"),
        ("$.a[?(@.b == ']')]", "[?(@.b == ']')]"),
        ("$.*", "*"),
        ("$.a.length()", "length()"),
    ],
)
def test_a_path_that_may_select_several_nodes_says_by_which_piece(text: str, piece: str) -> None:
    assert parse_path(text).several == piece


@pytest.mark.parametrize(
    "text", ["", "a.b", ".a", "$.", "$..", "$...", "$a b", "$.a b", "$.a[", "$.a[]", "$.a[x]", "$$1"]
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(PathError):
        parse_path(text)


def test_an_intrinsic_function_tells_the_paths_among_its_arguments() -> None:
    call = parse_intrinsic("States.Format('{}, {}', $.a[?(@.x == 'y,z')], States.ArrayLength($list))")

    assert (call.function, [path.root for path in call.paths]) == ("States.Format", ["$", "list"])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("States.UUID", "A604"),
        ("States.UUID() x", "A604"),
        ("States.Array(1 2)", "A604"),
        ("States.Array($.a,)", "A604"),
        ("States.Uuid()", "A605"),
        ("States.ArrayLength()", "A606"),
        ("States.Format('\\{}', 1)", "A606"),
        ("States.ArrayRange(1, 5, 0)", "A606"),
        ("States.StringSplit($.a, 5)", "A606"),
        ("States.Array($.a[)", "A601"),
        ("States.Array(" * 11 + ")" * 11, "A606"),
    ],
)
def test_a_wrong_call_is_refused_by_the_rule_it_breaks(text: str, code: str) -> None:
    with pytest.raises(IntrinsicError) as refused:
        parse_intrinsic(text)

    assert refused.value.code == code


def test_an_expression_tells_the_variables_it_reads_but_not_those_it_binds() -> None:
    found = read_expression("($f := function($x) { $x + $rate }; $items@$i#$n.{ 'a': $f($i.a), 'n': $n })")

    assert found.variables == {"rate", "items"}


def test_an_expression_tells_what_it_reads_of_states_as_far_as_it_is_named() -> None:
    found = read_expression("$states.input.a[b > $states.result.c] & $lookup($states, 'x')")

    assert found.states == {("input", "a"), ("result", "c"), ()}


@pytest.mark.parametrize(
    "text",
    [
        "$states.input.items[price > 5].name",
        "$map($states.input, function($v) { $v.a })",
        "$states.input.(a + b)",
        "$states.input^(>a, b)",
        "$states.input{a: $sum(b)}",
        "$states.input ~> |a|{'b': c}|",
        "$states.input.$string($)",
        "{'a': $states.input.a}",
    ],
)
def test_fields_and_the_dollar_are_read_from_an_item_where_there_is_one(text: str) -> None:
    assert read_expression(text).top == set()


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a", {"a"}),
        ("a.b + c", {"a", "c"}),
        ("$.a", {"$"}),
        ("$$", {"$$"}),
        ("*", {"*"}),
        ("{'x': y}", {"y"}),
        ("$sum(prices)", {"prices"}),
        ("$map($states.input, function($v) { price })", {"price"}),
    ],
)
def test_what_is_read_from_the_top_level_is_found(text: str, read: set[str]) -> None:
    assert read_expression(text).top == read


@pytest.mark.parametrize(
    ("text", "operators"),
    [("$a ?? 1", {"??"}), ("$a ?: 1", {"?:"}), ("'??' & '?:'", set()), ("$a ? 1 : 2", set())],
)
def test_newer_operators_are_found_outside_of_texts(text: str, operators: set[str]) -> None:
    assert read_expression(text).newer == operators


def test_an_expression_nested_beyond_reason_is_refused_and_not_fatal() -> None:
    assert read_expression("(" * 20_000).error
