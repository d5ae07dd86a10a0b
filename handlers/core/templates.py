"""Key templates: how a store's key or prefix follows from the names that it knows a user by.

A template that could mean another user's data as well is refused when it is made, and so is a name that could reach
beyond its own place: ``u/1`` must never take ``u/10``, nor ``1/2`` what belongs to ``1``.
"""

import re
import string
from collections.abc import Collection, Mapping
from dataclasses import dataclass

USER_ID = "user_id"

DELIMITERS = frozenset("/#")
"""What may end a placeholder's place; no name holds one of them, so no name can be the beginning of another's place."""

NAME_RULE = "1 to 128 characters: the first a letter or a digit, the others also _ . @ + = : | ~ -"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+=:|~-]{0,127}")


def is_name(value: object) -> bool:
    """Whether a value may be a user id or another identifier (NAME_RULE)."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class Template:
    """A text with placeholders, e.g. ``USER#{user_id}``."""

    text: str

    def placeholders(self) -> tuple[str, ...]:
        """The names in braces, in their order."""
        return tuple(name for _, name in self._parts() if name is not None)

    def fill(self, names: Mapping[str, str]) -> str:
        """The text for one user.

        Raises:
            KeyError: a placeholder has no name.
        """
        return "".join(literal + (names[name] if name is not None else "") for literal, name in self._parts())

    def problems(self, declared: Collection[str], *, prefix: bool) -> tuple[str, ...]:
        """What is wrong with the template, with the mend; empty if nothing is.

        Args:
            declared: the identifiers that requests carry besides user_id.
            prefix: whether it is the beginning of many keys, not a whole key.
        """
        try:
            parts = self._parts()
        except ValueError:
            return (f"{self.text!r} has unbalanced braces or a format; write {{user_id}} and nothing more",)
        known = {USER_ID, *declared}
        names = [name for _, name in parts if name is not None]
        found = [
            f"{self.text!r} uses {{{name}}}, which is not declared; declare it in identifiers or use one of "
            f"{', '.join(sorted(known))}"
            for name in names
            if name not in known
        ]
        if not names:
            found.append(f"{self.text!r} would match every user; put {{user_id}} or a declared identifier into it")
        return (*found, *self._ambiguities(parts, prefix=prefix))

    def _ambiguities(self, parts: tuple[tuple[str, str | None], ...], *, prefix: bool) -> tuple[str, ...]:
        found = []
        for (_, name), (after, follower) in zip(parts, (*parts, ("", None))[1:], strict=True):
            if name is None:
                continue
            is_last = follower is None
            if (prefix or not is_last) and after[:1] not in DELIMITERS:
                found.append(
                    f"{self.text!r}: nothing ends {{{name}}}, so one user's place could begin like another's; "
                    f"write {{{name}}}/ or {{{name}}}#"
                )
        return tuple(found)

    def _parts(self) -> tuple[tuple[str, str | None], ...]:
        parts = []
        for literal, name, form, conversion in string.Formatter().parse(self.text):
            if form or conversion or name == "":
                raise ValueError(self.text)
            parts.append((literal, name))
        return tuple(parts)
