"""Looks for fields that a type does not have in plain data. The codec passes them over, as readers of a log must; what
a client sends is held to its type instead."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import inspect


class UnknownField(msgspec.Struct, frozen=True):
    """A field that is not there: where it stands, and what to write instead."""

    path: str
    advice: str


def unknown_field(value: Any, kind: Any) -> UnknownField | None:
    """The first field in plain data that a type does not have; None if there is none. Wrong types are not its matter:
    the codec names them."""
    return _within(value, _shape(kind), "$")


@functools.cache
def _shape(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _within(value: Any, shape: inspect.Type, path: str) -> UnknownField | None:
    match shape:
        case inspect.Metadata():
            return _within(value, shape.type, path)
        case inspect.UnionType():
            chosen = _chosen(value, shape.types)
            return _within(value, chosen, path) if chosen is not None else None
        case inspect.StructType() if isinstance(value, dict):
            return _within_struct(value, shape, path)
        case inspect.DictType() if isinstance(value, dict):
            return _first(_within(inner, shape.value_type, f"{path}.{key}") for key, inner in value.items())
        case inspect.ListType() | inspect.VarTupleType() if isinstance(value, list):
            return _first(_within(inner, shape.item_type, f"{path}[{at}]") for at, inner in enumerate(value))
        case _:
            return None


def _within_struct(value: dict[str, Any], shape: inspect.StructType, path: str) -> UnknownField | None:
    fields = {field.encode_name: field.type for field in shape.fields}
    for name, inner in value.items():
        if name == shape.tag_field:
            continue
        if name not in fields:
            return UnknownField(f"{path}.{name}", _advice(name, fields))
        unknown = _within(inner, fields[name], f"{path}.{name}")
        if unknown is not None:
            return unknown
    return None


def _advice(name: str, fields: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(fields), n=1)
    return "there is no such field" + (f": did you mean {near[0]!r}?" if near else ": leave it out")


def _chosen(value: Any, shapes: Iterable[inspect.Type]) -> inspect.Type | None:
    """The member of a union that plain data is meant to be: by its tag, else the one that has its form."""
    for shape in shapes:
        bare = shape.type if isinstance(shape, inspect.Metadata) else shape
        match bare:
            case inspect.StructType() if isinstance(value, dict):
                if bare.tag_field is None or value.get(bare.tag_field) == bare.tag:
                    return bare
            case inspect.DictType() if isinstance(value, dict):
                return bare
            case inspect.ListType() | inspect.VarTupleType() if isinstance(value, list):
                return bare
    return None


def _first(candidates: Iterable[UnknownField | None]) -> UnknownField | None:
    return next((one for one in candidates if one is not None), None)
