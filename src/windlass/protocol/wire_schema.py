"""The JSON Schema of the protocol, made from the types: the commands that clients send, the records and the live events
that they get. Nothing here is written by hand, so it cannot differ from what is read and said."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import msgspec

from windlass.events.live import LIVE_EVENTS
from windlass.events.stored.registry import EVENTS

from .wire_commands import SAID_BY_HOST_WITHIN, UNREAD, WIRE_COMMANDS, client_fields

Schema = dict[str, Any]
PLACE = "#/components/schemas/"
COMMAND = "in."
"""What the name of a schema begins with that says what is taken; those of what is said allow more fields to come."""


@functools.cache
def components() -> Schema:
    """Every schema by its name: `Command`, `Record` and `Live`, and what they are made of."""
    said = _made((*EVENTS, *LIVE_EVENTS), "")
    taken = _made(tuple(WIRE_COMMANDS), COMMAND)
    for kind in WIRE_COMMANDS:
        _narrow(taken, kind.__name__, client_fields(kind))
    for inner in (SAID_BY_HOST_WITHIN, UNREAD):
        for kind_name, (outer, field) in inner.items():
            body = _named_in(taken[COMMAND + kind_name]["properties"][outer])
            taken[body]["properties"].pop(field, None)
    return {
        **said,
        **_reachable(taken, [COMMAND + kind.__name__ for kind in WIRE_COMMANDS]),
        "Command": _one_of("A command of a client.", (COMMAND + kind.__name__ for kind in WIRE_COMMANDS), taken),
        "Event": _one_of("What stands in a log.", (kind.__name__ for kind in EVENTS), said),
        "Record": _record(),
        "Live": _live(said),
    }


def document() -> Schema:
    """The whole protocol as one JSON Schema document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The protocol of Windlass",
        "anyOf": [{"$ref": f"{PLACE}{name}"} for name in ("Command", "Record", "Live")],
        "components": {"schemas": components()},
    }


def _made(kinds: tuple[type[Any], ...], prefix: str) -> Schema:
    _, made = msgspec.json.schema_components(list(kinds), ref_template=PLACE + prefix + "{name}")
    strict = {"additionalProperties": False} if prefix else {}
    return {
        prefix + name: {**schema, **strict} if schema.get("type") == "object" and "properties" in schema else schema
        for name, schema in made.items()
    }


def _narrow(made: Schema, name: str, fields: tuple[str, ...]) -> None:
    """Leaves only the fields that clients send."""
    schema = made[COMMAND + name]
    kept = {"type", *fields}
    properties = {field: inner for field, inner in schema["properties"].items() if field in kept}
    properties["command_id"] = {"type": "string", "description": "The same as the Idempotency-Key, if it is sent."}
    schema["properties"] = properties
    schema["required"] = [field for field in schema.get("required", ()) if field in kept]


def _named_in(schema: Schema) -> str:
    """The name of the schema that a field refers to, null aside."""
    for choice in schema.get("anyOf", [schema]):
        if "$ref" in choice:
            return str(choice["$ref"]).removeprefix(PLACE)
    raise AssertionError(f"no reference in {schema}")


def _reachable(made: Schema, names: list[str]) -> Schema:
    """The schemas that some others are made of, themselves included."""
    schemas: Schema = {}
    while names:
        name = names.pop()
        if name not in schemas and name in made:
            schemas[name] = made[name]
            names += _references(made[name])
    return schemas


def _references(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"].removeprefix(PLACE)] if isinstance(schema.get("$ref"), str) else []
        return own + [name for inner in schema.values() for name in _references(inner)]
    return [name for inner in schema for name in _references(inner)] if isinstance(schema, list) else []


def _one_of(description: str, names: Iterable[str], made: Schema) -> Schema:
    tags = {made[name]["properties"]["type"]["enum"][0]: PLACE + name for name in names}
    return {
        "description": description,
        "anyOf": [{"$ref": place} for place in tags.values()],
        "discriminator": {"propertyName": "type", "mapping": tags},
    }


def _record() -> Schema:
    whole = {"type": "integer", "minimum": 0}
    return {
        "description": "A committed event with its place in the log and the cursor to resume behind it.",
        "type": "object",
        "properties": {
            "seq": whole,
            "at_ms": whole,
            "cause": whole,
            "cursor": {"type": "string"},
            "event": {"$ref": f"{PLACE}Event"},
        },
        "required": ["seq", "at_ms", "cause", "cursor", "event"],
    }


def _live(said: Schema) -> Schema:
    return {
        "description": "Something that is being written. It is kept nowhere and has no cursor; a record follows.",
        "type": "object",
        "properties": {
            "ephemeral": {"const": True},
            "event": _one_of("A live event.", (kind.__name__ for kind in LIVE_EVENTS), said),
        },
        "required": ["ephemeral", "event"],
    }
