"""What authors add to a type with `Annotated`: descriptions, bounds and patterns, as JSON Schema keywords.

Plain strings, `msgspec.Meta`, annotated-types and pydantic fields are understood; the last two are never imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from windlass.events.errors import UsageError

from .shapes import Choice, Encoded, Fixed, Foreign, Items, Noted, Plain, Record, Reference, Shape, Table, Union

KNOWN_ROOTS = frozenset({"msgspec", "annotated_types", "pydantic", "typing_extensions", "typing"})
"""Packages whose metadata objects are understood by their attributes; what others attach is their own affair."""
BOUNDS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
}
LENGTHS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


def noted(shape: Shape, metadata: Iterable[Any], where: str) -> Shape:
    """The shape with what the metadata says. Raises if a bound has no form in JSON and would go unchecked."""
    description = ""
    keywords: dict[str, Any] = {}
    for entry in metadata:
        note, more = _read(entry, kinds(shape), where)
        description = note or description
        keywords |= more
    if not (description or keywords):
        return shape
    return Noted(shape=shape, description=description, keywords=keywords)


def _read(entry: Any, of: frozenset[str], where: str) -> tuple[str, dict[str, Any]]:
    if isinstance(entry, str):
        return entry.strip(), {}
    if type(entry).__module__.partition(".")[0] not in KNOWN_ROOTS:
        return "", {}
    description = str(getattr(entry, "description", None) or getattr(entry, "documentation", None) or "").strip()
    keywords = _bounds(entry, of, where) | _examples(entry)
    nested = getattr(entry, "metadata", None)
    for inner in nested if isinstance(nested, list | tuple) else ():
        keywords |= _read(inner, of, where)[1]
    return description, keywords


def _bounds(entry: Any, of: frozenset[str], where: str) -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    for attribute, keyword in BOUNDS.items():
        limit = getattr(entry, attribute, None)
        if limit is None:
            continue
        if not (of & {"integer", "number"}) or "text" in of or not isinstance(limit, int | float):
            raise UsageError(f"{where}: {attribute}={limit!r} has no form in JSON Schema here: check it in the tool")
        bounds[keyword] = limit
    for kind, (least, most) in LENGTHS.items():
        if kind in of:
            pairs = ((least, getattr(entry, "min_length", None)), (most, getattr(entry, "max_length", None)))
            bounds |= {keyword: limit for keyword, limit in pairs if limit}
    pattern = getattr(entry, "pattern", None)
    if pattern is not None:
        bounds["pattern"] = getattr(pattern, "pattern", pattern)
    return bounds


def _examples(entry: Any) -> dict[str, Any]:
    examples = getattr(entry, "examples", None)
    keywords: dict[str, Any] = {"examples": list(examples)} if examples else {}
    extra = getattr(entry, "extra_json_schema", None) or getattr(entry, "json_schema_extra", None)
    return keywords | (msgspec.to_builtins(extra) if isinstance(extra, dict) else {})


def kinds(shape: Shape) -> frozenset[str]:
    """The JSON types that a shape may be written as; `text` marks values that are texts only in JSON."""
    match shape:
        case Plain(json="any"):
            return frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
        case Plain(json=json):
            return frozenset({json})
        case Encoded(numbers=numbers):
            return frozenset({"text", "number"} if numbers else {"text"})
        case Choice(options=options):
            return frozenset({"string"}) if all(isinstance(option, str) for option, _ in options) else frozenset()
        case Items() | Fixed():
            return frozenset({"array"})
        case Table() | Record() | Reference():
            return frozenset({"object"})
        case Union(arms=arms):
            return frozenset().union(*(kinds(arm) for arm in arms))
        case Noted(shape=inner):
            return kinds(inner)
        case Foreign():
            return frozenset()
    raise AssertionError(f"no such shape: {shape!r}")
