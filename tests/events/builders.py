"""Builds values of any event type from its declaration, and finds every place inside them that a rule speaks about.

Driven by the types alone, so that a new event, field or word is covered the moment it is declared.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect as mi

from windlass.events.base import Event
from windlass.events.stored import record
from windlass.events.values import blocks, items

TEXTS = st.text(max_size=12)
INT_MAX = 2**53
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-INT_MAX, INT_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)

SOURCES: dict[type, tuple[str, ...]] = {
    blocks.Image: ("data", "blob"),
    blocks.Audio: ("data", "blob"),
    blocks.Document: ("data", "blob"),
    blocks.Resource: ("text", "data", "blob"),
    items.ProposedCall: ("args", "text", "malformed"),
}
"""Values that hold exactly one of these."""

SALT = record.stored_text(bytes(record.SALT_BYTES))


def salt() -> str:
    return SALT


# --- values ------------------------------------------------------------------------------------------------------


def info(cls: type[msgspec.Struct]) -> mi.StructType:
    """What a struct declares."""
    return _info(cls)


@functools.cache
def _info(cls: type[msgspec.Struct]) -> mi.StructType:
    found = mi.type_info(cls)
    assert isinstance(found, mi.StructType)
    return found


def _values(kind: mi.Type) -> st.SearchStrategy[Any]:
    match kind:
        case mi.AnyType() | mi.CustomType():
            return JSON_VALUES
        case mi.NoneType():
            return st.none()
        case mi.BoolType():
            return st.booleans()
        case mi.IntType(gt=gt, ge=ge, le=le):
            low = ge if ge is not None else gt + 1 if gt is not None else -INT_MAX
            return st.integers(low, INT_MAX if le is None else le)
        case mi.FloatType(ge=ge, le=le):
            return st.floats(ge, le, allow_nan=False, allow_infinity=False)
        case mi.StrType():
            return TEXTS
        case mi.LiteralType(values=words):
            return st.sampled_from(words)
        case mi.UnionType(types=types):
            return st.one_of(*(_values(inner) for inner in types))
        case mi.VarTupleType(item_type=item):
            return st.lists(_values(item), max_size=2).map(tuple)
        case mi.DictType(key_type=key, value_type=value):
            return st.dictionaries(_values(key), _values(value), max_size=2)
        case mi.StructType(cls=cls):
            return events(cls)
    raise AssertionError(f"no builder for {kind}: add an arm")


@functools.cache
def events(cls: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Events (or other structs) of a type, each optional field present or absent; never erased ones."""
    optional = {field.name: _values(field.type) for field in info(cls).fields if not field.required}
    required = {field.name: _values(field.type) for field in info(cls).fields if field.required}
    optional.pop("erased", None)
    drawn = st.fixed_dictionaries(required, optional=optional)
    if cls in SOURCES:
        drawn = st.tuples(drawn, st.sampled_from(SOURCES[cls]), TEXTS).map(lambda found: _one_source(cls, *found))
    return drawn.map(lambda found: cls(**found))


def _one_source(cls: type, drawn: dict[str, Any], source: str, text: str) -> dict[str, Any]:
    kept = {name: value for name, value in drawn.items() if name not in SOURCES[cls]}
    made: dict[str, Any] = {"blob": blocks.BlobRef(digest=text, size=0), "args": {"x": text}}
    return kept | {source: made.get(source, text)}


def minimal(cls: type[msgspec.Struct]) -> Any:
    """A value with nothing but what its type requires."""
    return msgspec.convert(_minimal(info(cls)), cls)


def _minimal(kind: mi.Type) -> Any:
    match kind:
        case mi.StructType(fields=fields, tag=tag, tag_field=tag_field, array_like=array_like):
            found = {field.name: _minimal(field.type) for field in fields if field.required}
            if array_like:
                return list(found.values())
            return found if tag is None else {str(tag_field): tag} | found
        case mi.UnionType(types=types):
            return _minimal(types[0])
        case mi.LiteralType(values=words):
            return words[0]
        case mi.VarTupleType():
            return []
        case mi.DictType():
            return {}
        case mi.BoolType():
            return False
        case mi.IntType(gt=gt):
            return 0 if gt is None else gt + 1
        case mi.StrType():
            return "x"
    raise AssertionError(f"no smallest value of {kind}: add an arm")


# --- stored form -------------------------------------------------------------------------------------------------


def parts(event: Event) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The skeleton and the body of an event as plain JSON, in which tests may change what they like."""
    body = getattr(event, "body", None)
    bare = msgspec.structs.replace(event, body=None) if body is not None else event
    stored = None if body is None else msgspec.json.decode(msgspec.json.encode(body))
    return msgspec.json.decode(msgspec.json.encode(bare)), stored


def line(skeleton: Any, body: Any = None, *, seq: int = 1, prev_hash: str = record.GENESIS) -> bytes:
    """A sealed line with one event that need not be a good one."""
    stored = b"" if body is None else msgspec.json.encode(body)
    entry = (msgspec.json.encode(skeleton), stored, SALT if stored else "")
    return record.seal(prev_hash, seq, 1_000, 1, [entry]).data


# --- places inside a value ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Place:
    """One field inside plain JSON: where it is, of which type, and how to set it."""

    path: str
    owner: Any
    key: Any
    type: mi.Type
    required: bool

    @property
    def free(self) -> bool:
        """Whether any JSON may stand there."""
        return any(isinstance(inner, mi.AnyType | mi.CustomType) for inner in members(self.type))

    @property
    def optional(self) -> bool:
        """Whether null may stand there."""
        return self.free or any(isinstance(inner, mi.NoneType) for inner in members(self.type))

    @property
    def only(self) -> mi.Type:
        """The one type that the field has besides None."""
        found = [inner for inner in members(self.type) if not isinstance(inner, mi.NoneType)]
        return found[0] if len(found) == 1 else mi.AnyType()


def members(kind: mi.Type) -> tuple[mi.Type, ...]:
    return kind.types if isinstance(kind, mi.UnionType) else (kind,)


def fields_in(data: Any, kind: mi.Type, path: str = "$") -> Iterator[Place]:
    """Every field of every struct in the data, present or not, with its path as the codec names it."""
    match _chosen(data, kind):
        case mi.StructType(fields=fields, array_like=True):
            for index, field in enumerate(fields[: len(data)]):
                yield Place(f"{path}[{index}]", data, index, field.type, field.required)
        case mi.StructType(fields=fields):
            for field in fields:
                where = f"{path}.{field.name}"
                yield Place(where, data, field.name, field.type, field.required)
                if data.get(field.name) is not None:
                    yield from fields_in(data[field.name], field.type, where)
        case mi.VarTupleType(item_type=item):
            for index, inner in enumerate(data):
                yield from fields_in(inner, item, f"{path}[{index}]")
        case mi.DictType(value_type=value):
            for inner in data.values():
                yield from fields_in(inner, value, f"{path}[...]")


def _chosen(data: Any, kind: mi.Type) -> mi.Type | None:
    """The member of a union that plain data stands for."""
    for inner in members(kind):
        match inner:
            case mi.StructType(tag=None, array_like=array_like):
                if isinstance(data, list if array_like else dict):
                    return inner
            case mi.StructType(tag=tag, tag_field=tag_field):
                if isinstance(data, dict) and data.get(tag_field) == tag:
                    return inner
            case mi.VarTupleType() if isinstance(data, list):
                return inner
            case mi.DictType() if isinstance(data, dict):
                return inner
    return None
