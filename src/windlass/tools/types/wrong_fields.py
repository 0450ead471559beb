"""What is wrong with a declared value, in the words of whoever declared it: the field first, then what it may be."""

from __future__ import annotations

import difflib
import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

PLACE = re.compile(r"(?P<what>.*?) - at `\$\.(?P<field>\w+)(?P<rest>.*)`\Z", re.DOTALL)
ENUM = "Invalid enum value "


def wrong_field(error: msgspec.ValidationError, kind: type) -> str:
    """A complaint about a value of a type, such as "contract 'idempotant' is none of pure, idempotent"."""
    complaint = PLACE.match(str(error))
    if complaint is None:
        return _lower(str(error))
    field, what = complaint["field"], complaint["what"]
    choices = _choices(get_type_hints(kind).get(field))
    if what.startswith(ENUM) and choices:
        given = what.removeprefix(ENUM)
        near = difflib.get_close_matches(given.strip("'"), choices, n=1)
        meant = f": did you mean {near[0]!r}?" if near else ""
        return f"{field} {given} is none of {', '.join(choices)}{meant}"
    return f"{field}{complaint['rest'].replace('[...]', '')}: {_lower(what)}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _choices(hint: Any) -> list[str]:
    """The words that a field may have; those of its members if it is a list."""
    if get_origin(hint) is Literal:
        return [str(choice) for choice in get_args(hint)]
    return [choice for inner in get_args(hint) if inner is not hint for choice in _choices(inner)]
