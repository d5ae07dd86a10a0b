"""Key templates: nobody's place can be taken for another's."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from handlers.core.errors import SettingsError
from handlers.core.person import Person
from handlers.core.templates import Template, is_name

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.@+=:|~-]{0,20}", fullmatch=True)


@pytest.mark.parametrize("name", ["a", "0", "ann@example.com", "u-1", "a" * 128, "auth0|5f7c", "urn:x:y", "A~b=c+d_e"])
def test_a_name_begins_with_a_letter_or_digit(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "/", "..", ".", "*", "-a", " a", "a ", "a/b", "a#b", "a\n", "a\x00", "ä", "a{b}", "a" * 129, None, 1, b"a"],
)
def test_what_could_reach_beyond_its_place_is_no_name(name: object) -> None:
    assert not is_name(name)


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        ("users/{user_id}/", True),
        ("USER#{user_id}", False),
        ("{user_id}", False),
        ("t/{customer_id}/u/{user_id}/", True),
        ("{customer_id}#{user_id}", False),
        ("order#{user_id}#", True),
    ],
)
def test_a_template_whose_places_end_is_accepted(text: str, prefix: bool) -> None:
    assert Template(text).problems({"customer_id"}, prefix=prefix) == ()


@pytest.mark.parametrize(
    ("text", "prefix", "said"),
    [
        ("users/{user_id}", True, "nothing ends {user_id}"),
        ("users/{user_id}-x/", True, "nothing ends {user_id}"),
        ("{customer_id}{user_id}", False, "nothing ends {customer_id}"),
        ("users/", True, "would match every user"),
        ("", True, "would match every user"),
        ("users/{email}/", True, "uses {email}, which is not declared"),
        ("users/{user_id", True, "unbalanced braces"),
        ("users/{user_id:>9}/", True, "unbalanced braces or a format"),
        ("users/{user_id!r}/", True, "unbalanced braces or a format"),
        ("users/{}/", True, "unbalanced braces or a format"),
    ],
)
def test_a_template_that_could_mean_somebody_else_is_refused_with_the_mend(text: str, prefix: bool, said: str) -> None:
    problems = Template(text).problems({"customer_id"}, prefix=prefix)

    assert any(said in problem for problem in problems), problems


@pytest.mark.invariant("I1")
@given(one=names, other=names, text=st.sampled_from(["u/{user_id}/", "{user_id}#", "x/{user_id}/y/"]))
def test_no_prefix_of_one_user_begins_another_users(one: str, other: str, text: str) -> None:
    assume(one != other)

    assert not Template(text).fill({"user_id": other}).startswith(Template(text).fill({"user_id": one}))


def test_u_1_is_not_u_10() -> None:
    template = Template("u/{user_id}/")

    assert not "u/10/file".startswith(template.fill({"user_id": "1"}))


def test_an_identifier_that_a_request_lacks_is_a_mistake_of_the_settings() -> None:
    with pytest.raises(SettingsError) as raised:
        Person(user_id="ann").fill("t/{customer_id}/")

    assert str(raised.value) == "'t/{customer_id}/' names an identifier that this request lacks"


def test_the_repr_of_a_person_shows_nothing_personal() -> None:
    person = Person(user_id="ann", identifiers={"customer_id": "1001"})

    assert "ann" not in repr(person)
    assert "1001" not in repr(person)
