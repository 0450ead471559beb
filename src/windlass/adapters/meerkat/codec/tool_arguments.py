"""The arguments of a tool call: a JSON object and nothing else. A text that contains JSON is not one."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.errors import CodecError
from windlass.events.values.blocks import JsonObject

KINDS: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
}


def arguments(value: Any) -> JsonObject:
    """Arguments of a JSON value. Raises `CodecError` if it is no object."""
    if isinstance(value, dict):
        return value
    kind = KINDS.get(type(value), type(value).__name__)
    raise CodecError(f"arguments of a tool call must be a JSON object, got {kind}")


def arguments_of_text(raw: bytes | str) -> JsonObject:
    """Arguments of a text. Raises `CodecError` if it is no JSON, or no object."""
    try:
        value = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise CodecError(f"arguments of a tool call must be valid JSON: {error}") from error
    return arguments(value)
