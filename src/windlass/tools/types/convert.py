"""Turns the JSON arguments of a call into Python values by the shapes of the parameters.

Everything is built anew, so nothing that a tool does to its arguments reaches the caller's. It assumes that the
schema was checked and still raises `Mismatch` with the path for whatever does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from windlass.events.values.blocks import JsonObject
from windlass.tools.canonical_json import canonical, number

from .pydantic_types import ForeignError
from .shapes import (
    Choice,
    Encoded,
    Field,
    Fixed,
    Foreign,
    Items,
    Noted,
    Plain,
    Record,
    Reference,
    Shape,
    Shapes,
    Table,
    Union,
)

JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


class Mismatch(ValueError):
    """A value that does not fit its parameter; `path` says where in the arguments."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


def copied(value: Any) -> Any:
    """A JSON value built anew, all the way down."""
    if isinstance(value, dict):
        return {key: copied(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [copied(entry) for entry in value]
    return value


def converted(fields: tuple[Field, ...], shapes: Shapes, args: JsonObject, path: str = "") -> dict[str, Any]:
    """The Python values by attribute name, defaults applied. A field whose default cannot be made is left out."""
    values: dict[str, Any] = {}
    for field in fields:
        if field.name in args:
            where = f"{path}.{field.name}" if path else field.name
            values[field.attribute] = _value(field.shape, args[field.name], where, shapes)
        elif field.default is not None and field.default.make is not None:
            values[field.attribute] = field.default.make()
        elif field.required:
            raise Mismatch(f"{path}.{field.name}" if path else field.name, "is required")
    return values


def _value(shape: Shape, value: Any, path: str, shapes: Shapes) -> Any:
    return _CONVERTERS[type(shape)](shape, value, path, shapes)


def _plain(shape: Plain, value: Any, path: str, shapes: Shapes) -> Any:
    if shape.json == "any":
        return copied(value)
    if shape.json == "integer" and type(value) is float and value.is_integer():
        return int(value)  # JSON has one kind of number: 3.0 is a whole one
    if not isinstance(value, JSON_TYPES[shape.json]) or (isinstance(value, bool) and shape.json != "boolean"):
        raise Mismatch(path, f"must be {shape.json}, got {kind_of(value)}")
    return _as_float(value, path) if shape.json == "number" else value


def _as_float(value: Any, path: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise Mismatch(path, "is too large a number") from None


def _encoded(shape: Encoded, value: Any, path: str, shapes: Shapes) -> Any:
    if shape.numbers and type(value) in (int, float):
        value = number(value) if type(value) is float else str(value)
    if type(value) is not str:
        raise Mismatch(path, f"must be text, got {kind_of(value)}")
    try:
        return shape.decode(value)
    except (ValueError, ArithmeticError, msgspec.MsgspecError, TypeError) as error:
        reason = f": {error}" if type(error) in (ValueError, msgspec.ValidationError) else ""
        raise Mismatch(path, f"is not a valid {shape.name}{reason}") from None


def _choice(shape: Choice, value: Any, path: str, shapes: Shapes) -> Any:
    for json, python in shape.options:
        if json == value and isinstance(json, bool) == isinstance(value, bool):
            return python
    options = ", ".join(repr(json) for json, _ in shape.options)
    raise Mismatch(path, f"must be one of {options}")


def _items(shape: Items, value: Any, path: str, shapes: Shapes) -> Any:
    if not isinstance(value, list | tuple):
        raise Mismatch(path, f"must be an array, got {kind_of(value)}")
    items = [_value(shape.item, entry, f"{path}[{index}]", shapes) for index, entry in enumerate(value)]
    return _built(shape.build, items, path)


def _fixed(shape: Fixed, value: Any, path: str, shapes: Shapes) -> Any:
    if not isinstance(value, list | tuple) or len(value) != len(shape.items):
        raise Mismatch(path, f"must be an array of {len(shape.items)}")
    pairs = zip(shape.items, value, strict=True)
    return tuple(_value(item, entry, f"{path}[{index}]", shapes) for index, (item, entry) in enumerate(pairs))


def _table(shape: Table, value: Any, path: str, shapes: Shapes) -> Any:
    if not isinstance(value, dict):
        raise Mismatch(path, f"must be an object, got {kind_of(value)}")
    table = {
        _key(shape.key, key, f"{path}.{key}", shapes): _value(shape.value, entry, f"{path}.{key}", shapes)
        for key, entry in value.items()
    }
    if len(table) != len(value):
        raise Mismatch(path, "has two keys that mean the same")
    return _built(shape.build, table, path)


def _key(shape: Shape, key: str, path: str, shapes: Shapes) -> Any:
    if isinstance(shape, Plain) and shape.json == "integer":
        try:
            return int(key)
        except ValueError:
            raise Mismatch(path, f"the key {key!r} must be a whole number") from None
    return _value(shape, key, path, shapes)


def _record(shape: Record, value: Any, path: str, shapes: Shapes) -> Any:
    if not isinstance(value, dict):
        raise Mismatch(path, f"must be an object, got {kind_of(value)}")
    known = {field.name for field in shape.fields}
    if shape.tag is not None:
        known.add(shape.tag[0])
        if value.get(shape.tag[0]) != shape.tag[1]:
            raise Mismatch(f"{path}.{shape.tag[0]}", f"must be {shape.tag[1]!r}")
    if not shape.open:
        for name in value.keys() - known:
            raise Mismatch(f"{path}.{name}", f"is not a field of {shape.name}")
    return _built(shape.build, converted(shape.fields, shapes, value, path), path)


def _built(build: Callable[[Any], Any], parts: Any, path: str) -> Any:
    """Runs an author's constructor; what it refuses is the model's mistake and told as such."""
    try:
        return build(parts)
    except Mismatch:
        raise
    except (ValueError, TypeError, ArithmeticError, LookupError, AssertionError) as error:
        raise Mismatch(
            path, f"is not acceptable: {error}" if isinstance(error, ValueError) else "is not acceptable"
        ) from (error)


def _reference(shape: Reference, value: Any, path: str, shapes: Shapes) -> Any:
    return _record(shapes.records[shape.name], value, path, shapes)


def _union(shape: Union, value: Any, path: str, shapes: Shapes) -> Any:
    arms = shape.arms
    if type(value) is int:  # so that `float | int` keeps whole numbers whole
        arms = tuple(sorted(arms, key=lambda arm: not (isinstance(arm, Plain) and arm.json == "integer")))
    deepest: Mismatch | None = None
    for arm in arms:
        try:
            return _value(arm, value, path, shapes)
        except Mismatch as mismatch:
            if deepest is None or len(mismatch.path) > len(deepest.path):
                deepest = mismatch
    assert deepest is not None, "a union has arms"
    raise deepest


def _noted(shape: Noted, value: Any, path: str, shapes: Shapes) -> Any:
    return _value(shape.shape, value, path, shapes)


def _foreign(shape: Foreign, value: Any, path: str, shapes: Shapes) -> Any:
    try:
        return shape.decode(canonical(value))
    except ForeignError as error:
        where, why = error.found[0]
        raise Mismatch(path + "".join(step_text(step) for step in where), why) from None


def step_text(step: str | int) -> str:
    """One step of a path, as it is appended to the path before it."""
    return f"[{step}]" if isinstance(step, int) else f".{step}"


def kind_of(value: Any) -> str:
    """What JSON calls this value."""
    if isinstance(value, bool):
        return "boolean"
    for name, types in JSON_TYPES.items():
        if isinstance(value, types):
            return name
    return "array" if isinstance(value, list | tuple) else "object"


_CONVERTERS: dict[type[Shape], Callable[[Any, Any, str, Shapes], Any]] = {
    Plain: _plain,
    Encoded: _encoded,
    Choice: _choice,
    Items: _items,
    Fixed: _fixed,
    Table: _table,
    Record: _record,
    Reference: _reference,
    Union: _union,
    Noted: _noted,
    Foreign: _foreign,
}


# --- defaults and certainty --------------------------------------------------------------------------------------


def completed(fields: tuple[Field, ...], shapes: Shapes, args: JsonObject) -> JsonObject:
    """The arguments with every default that has a JSON form, also inside records: what policies judge and digests
    cover. Members of a union, other than None, are left as they are."""
    arguments = {name: copied(value) for name, value in args.items()}
    for field in fields:
        if field.name in arguments:
            arguments[field.name] = _completed(field.shape, arguments[field.name], shapes)
        elif field.default is not None and field.default.known:
            arguments[field.name] = copied(field.default.json)
    return arguments


def _completed(shape: Shape, value: Any, shapes: Shapes) -> Any:
    match shape:
        case Noted(shape=inner):
            return _completed(inner, value, shapes)
        case Reference(name=name):
            return _completed(shapes.records[name], value, shapes)
        case Record(fields=fields) if isinstance(value, dict):
            return completed(fields, shapes, value)
        case Items(item=item) if isinstance(value, list):
            return [_completed(item, entry, shapes) for entry in value]
        case Table(value=inner) if isinstance(value, dict):
            return {key: _completed(inner, entry, shapes) for key, entry in value.items()}
        case Union(arms=(first, Plain(json="null"))) if value is not None:
            return _completed(first, value, shapes)
    return value


def certain(shape: Shape) -> bool:
    """Whether every value that fits the schema converts: then the check before the gate need not try it."""
    match shape:
        case Plain() | Choice():
            return True
        case Noted(shape=inner):
            return certain(inner)
        case Items(item=inner, unique=False):
            return certain(inner)
        case Fixed(items=items) | Union(arms=items):
            return all(certain(item) for item in items)
        case Table(key=Plain(json="string"), value=inner):
            return certain(inner)
    return False
