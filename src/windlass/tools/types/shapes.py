"""The shape of a parameter: a small tree between Python types and JSON, read by `schema` and by `convert` alike.

Nodes are data only. One tree serves both directions, so what the schema promises is what the conversion accepts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

JsonType = Literal["string", "integer", "number", "boolean", "null", "any"]


class Shape(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Base of all shapes. Compared by identity: a recursive one refers to itself by name."""


class Plain(Shape, frozen=True, kw_only=True, eq=False):
    """A JSON scalar that is its own Python value, or anything at all."""

    json: JsonType


class Encoded(Shape, frozen=True, kw_only=True, eq=False):
    """A Python value written as text (dates, ids, paths, bytes); `decode` raises ValueError for what it cannot read."""

    name: str
    decode: Callable[[str], Any]
    keywords: dict[str, Any] = {}
    numbers: bool = False
    """Numbers are taken as well, by their shortest text."""


class Choice(Shape, frozen=True, kw_only=True, eq=False):
    """One of some constants: `options` pairs the JSON form with the Python value (a literal or an enum member)."""

    options: tuple[tuple[Any, Any], ...]


class Items(Shape, frozen=True, kw_only=True, eq=False):
    """Any number of values of one shape, built into a list, set or the like."""

    item: Shape
    build: Callable[[list[Any]], Any]
    unique: bool = False


class Fixed(Shape, frozen=True, kw_only=True, eq=False):
    """A tuple: so many values, each of its own shape."""

    items: tuple[Shape, ...]


class Table(Shape, frozen=True, kw_only=True, eq=False):
    """A dictionary. Keys are texts in JSON; `key` says how they are read."""

    key: Shape
    value: Shape
    build: Callable[[dict[Any, Any]], Any]


class Default(msgspec.Struct, frozen=True, kw_only=True):
    """What stands for a field that is not given. `make` gives a fresh value each time; `known` says that `json` is
    its JSON form, which is then part of the schema."""

    make: Callable[[], Any] | None
    json: Any = None
    known: bool = False


class Field(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One named part of a record or one parameter. `attribute` is its Python name, `name` the one in JSON."""

    name: str
    attribute: str
    shape: Shape
    required: bool = True
    default: Default | None = None
    description: str = ""


class Record(Shape, frozen=True, kw_only=True, eq=False):
    """A dataclass, TypedDict, NamedTuple or struct. An open one ignores fields that it does not know."""

    name: str
    fields: tuple[Field, ...]
    build: Callable[[dict[str, Any]], Any]
    description: str = ""
    open: bool = False
    tag: tuple[str, Any] | None = None
    """A constant field that tells the members of a union apart."""


class Reference(Shape, frozen=True, kw_only=True, eq=False):
    """A record that is defined elsewhere in the tree: recursion, or its second use."""

    name: str


class Union(Shape, frozen=True, kw_only=True, eq=False):
    """Any one of several shapes, tried in this order."""

    arms: tuple[Shape, ...]


class Noted(Shape, frozen=True, kw_only=True, eq=False):
    """A shape with a description and further schema keywords (bounds, patterns, examples)."""

    shape: Shape
    description: str = ""
    keywords: dict[str, Any] = {}


class Foreign(Shape, frozen=True, kw_only=True, eq=False):
    """A type that brings its own schema and its own validation from JSON text, such as a pydantic model."""

    name: str
    schema: dict[str, Any]
    decode: Callable[[bytes], Any]


class Shapes(msgspec.Struct, kw_only=True):
    """The records met while reading one signature, by definition name, with how often each is used."""

    records: dict[str, Record] = {}
    uses: dict[str, int] = {}
    recursive: set[str] = set()
