"""What a node's texts say of other nodes: `{input}`, `{name}`, `{name.field}`; `{{` and `}}` are braces themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

REFERENCE = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)((?:\.\w+)*)\}")
ITEM = "item"
"""What a map goes over, in the task for one of them."""
PREVIOUS = "previous"
"""What a loop gave the last time."""


def named_in(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names that a text speaks of, each with the fields behind it."""
    for match in REFERENCE.finditer(text):
        if match[1]:
            yield match[1], tuple(match[2].split(".")[1:])


def texts_in(value: Any) -> Iterator[str]:
    """The texts anywhere in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner)


def text_of(value: Any) -> str:
    """An output as a model or a person reads it."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def looked_up(values: Mapping[str, Any], name: str, fields: tuple[str, ...]) -> Any:
    """What a reference stands for; None for a field that is not there."""
    referent = values.get(name)
    for field in fields:
        if isinstance(referent, Mapping):
            referent = referent.get(field)
        elif isinstance(referent, list | tuple) and field.isdigit() and int(field) < len(referent):
            referent = referent[int(field)]
        else:
            return None
    return referent


def filled(text: str, values: Mapping[str, Any]) -> str:
    """A text with what it speaks of in place; a name that is not known stays as it is. What is put in is not looked at
    again."""

    def put(match: re.Match[str]) -> str:
        if match[0] in ("{{", "}}"):
            return match[0][0]
        if match[1] not in values:
            return match[0]
        value = looked_up(values, match[1], tuple(match[2].split(".")[1:]))
        return "" if value is None else text_of(value)

    return REFERENCE.sub(put, text)


def filled_in(value: Any, values: Mapping[str, Any]) -> Any:
    """A value with what its texts speak of in place; a text that is nothing but one reference becomes that value."""
    if isinstance(value, str):
        whole = REFERENCE.fullmatch(value)
        if whole is not None and whole[1] in values:
            return looked_up(values, whole[1], tuple(whole[2].split(".")[1:]))
        return filled(value, values)
    if isinstance(value, Mapping):
        return {name: filled_in(inner, values) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [filled_in(inner, values) for inner in value]
    return value
