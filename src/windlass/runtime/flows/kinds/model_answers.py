"""Answers of models, read: JSON that must fit a schema, and the one word out of a few. Nothing is repaired."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.events.values.blocks import JsonObject
from windlass.runtime.flows.references import text_of

ERRORS_SHOWN_MAX = 5


class Misread(ValueError):
    """An answer that is not what was asked for."""


@functools.lru_cache(maxsize=256)
def _output_of(schema: bytes) -> Any:
    from windlass.runtime.bind.structured_output import Output

    kind = msgspec.json.decode(schema)
    return Output(kind, kind)


def fitted(value: Any, schema: JsonObject) -> Any:
    """An answer as the value that its schema asks for. Raises `Misread` that says what does not fit."""
    checked = _output_of(msgspec.json.encode(schema, order="deterministic")).check(text_of(value))
    if not checked.valid:
        raise Misread("; ".join(checked.errors[:ERRORS_SHOWN_MAX]))
    return checked.value


def asked_for(schema: JsonObject) -> str:
    """What a model is told about the form of its answer."""
    return f"Answer with JSON alone that fits this JSON Schema:\n{msgspec.json.encode(schema).decode()}"


def one_of(value: Any, field: str, words: Sequence[str]) -> str:
    """Which of some words an answer names: in a field of its JSON, as all that it says, or as the only one of them in
    it. Raises `Misread` if it names none, or several."""
    text = text_of(value)
    if isinstance(value, dict):
        text = str(value.get(field, ""))
    elif (json_object := _object_in(text)) is not None:
        text = str(json_object.get(field, ""))
    if text.strip() in words:
        return text.strip()
    there = [word for word in words if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)]
    if len(there) == 1:
        return there[0]
    raise Misread(f"it must name one of {', '.join(words)}")


def _object_in(text: str) -> dict[str, Any] | None:
    from windlass.runtime.bind.structured_output import FENCE

    fenced = FENCE.match(text)
    try:
        value = msgspec.json.decode((fenced[1] if fenced else text).strip().encode())
    except (msgspec.DecodeError, UnicodeError):
        return None
    return value if isinstance(value, dict) else None
