"""Classes with named fields (dataclass, TypedDict, NamedTuple, msgspec struct, attrs), laid out alike.

It knows how each kind names, requires and defaults its fields and how a value is built; it reads no field types.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from . import docstrings
from .plain_values import NotPlain, to_plain
from .resolved_hints import class_hints
from .shapes import Default, Field, Shape

PLAIN_FACTORIES = (list, dict, set, tuple, frozenset)
"""Factories whose value is known without calling anybody's code."""
MISSING: Any = dataclasses.MISSING


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One field before its type is read."""

    name: str
    attribute: str
    hint: Any
    required: bool
    default: Default | None = None
    description: str = ""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """A class with named fields."""

    cls: type
    parts: list[Part]
    build: Callable[[dict[str, Any]], Any]
    description: str = ""
    open: bool = False
    tag: tuple[str, Any] | None = None


def field(part: Part, shape: Shape) -> Field:
    """A field with its shape."""
    return Field(
        name=part.name,
        attribute=part.attribute,
        shape=shape,
        required=part.required,
        default=part.default,
        description=part.description,
    )


def layout(cls: type, args: tuple[Any, ...], names: Mapping[str, Any], owner: str) -> Layout | None:
    """The fields of a class, type variables filled in; none if it is not one with named fields."""
    for is_kind, parts_of in KINDS:
        if is_kind(cls):
            hints = class_hints(cls, names, owner)
            filled = {name: fill(hint, typevars(cls, args)) for name, hint in hints.items()}
            return _layout(cls, parts_of(cls, filled))
    return None


def _layout(cls: type, parts: list[Part]) -> Layout:
    doc = docstrings.read(own_doc(cls))
    described = [
        part if part.description or part.attribute not in doc.parameters
        else msgspec.structs.replace(part, description=doc.parameters[part.attribute])
        for part in parts
    ]  # fmt: skip
    config = getattr(cls, "__struct_config__", None)
    tagged = config is not None and config.tag is not None
    return Layout(
        cls=cls,
        parts=described,
        build=functools.partial(_build, cls),
        description=doc.description,
        open=config is not None and not config.forbid_unknown_fields,
        tag=(config.tag_field, config.tag) if config is not None and tagged else None,
    )


def _build(cls: Callable[..., Any], values: dict[str, Any]) -> Any:
    return cls(**values)


def own_doc(cls: type) -> str:
    """The docstring that an author wrote for a class, not one that was generated or inherited."""
    text = cls.__dict__.get("__doc__") or ""
    return "" if text.startswith(f"{cls.__name__}(") else text.strip()


def typevars(cls: type, args: tuple[Any, ...]) -> dict[Any, Any]:
    """What the type variables of a generic class stand for."""
    return dict(zip(getattr(cls, "__parameters__", ()), args, strict=False))


def fill(hint: Any, variables: Mapping[Any, Any]) -> Any:
    """A type with its type variables replaced."""
    if not variables:
        return hint
    if isinstance(hint, typing.TypeVar):
        return variables.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or isinstance(hint, type):
        return hint
    return hint[tuple(variables.get(parameter, parameter) for parameter in parameters)]


# --- defaults ----------------------------------------------------------------------------------------------------


def default_of(value: Any) -> Default:
    """A default value: fresh for each call, and in the schema where it has a JSON form."""
    try:
        json, known = to_plain(value), True
    except NotPlain:
        json, known = None, False
    if value is None or type(value) in (str, int, float, bool):
        return Default(make=lambda: value, json=json, known=known)
    return Default(make=_copier(value), json=json, known=known)


def default_from(factory: Callable[[], Any]) -> Default:
    """A default that a factory makes. Only plain containers are known beforehand; other factories are never called
    for the schema, since their value may differ each time."""
    if factory in PLAIN_FACTORIES:
        return Default(make=factory, json=to_plain(factory()), known=True)
    return Default(make=factory)


def _copier(value: Any) -> Callable[[], Any]:
    def fresh() -> Any:
        try:
            return copy.deepcopy(value)
        except Exception:
            return value  # locks, sentinels and the like are shared, as in any Python call

    return fresh


# --- the kinds ---------------------------------------------------------------------------------------------------


def _dataclass_parts(cls: Any, hints: dict[str, Any]) -> list[Part]:
    parts = []
    for entry in cls.__dataclass_fields__.values():
        hint = hints.get(entry.name, Any)
        if not entry.init or typing.get_origin(hint) is typing.ClassVar or hint is typing.ClassVar:
            continue
        if isinstance(hint, dataclasses.InitVar):
            hint = hint.type
        default: Default | None = None
        if entry.default is not MISSING:
            default = default_of(entry.default)
        elif entry.default_factory is not MISSING:
            default = default_from(entry.default_factory)
        described = str(entry.metadata.get("description", ""))
        parts.append(_part(entry.name, hint, default, description=described))
    return parts


def _typed_dict_parts(cls: Any, hints: dict[str, Any]) -> list[Part]:
    parts = []
    for name, hint in hints.items():
        bare = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
        # Written as text, the markers are not yet counted in `__required_keys__`.
        marker = getattr(typing.get_origin(bare), "__name__", None) or str(typing.get_origin(bare))
        required = name in cls.__required_keys__
        if marker.endswith("NotRequired"):
            required = False
        elif marker.endswith("Required"):
            required = True
        parts.append(Part(name=name, attribute=name, hint=hint, required=required))
    return parts


def _named_tuple_parts(cls: Any, hints: dict[str, Any]) -> list[Part]:
    defaults = {name: default_of(value) for name, value in cls._field_defaults.items()}
    return [_part(name, hints.get(name, Any), defaults.get(name)) for name in cls._fields]


def _struct_parts(cls: Any, hints: dict[str, Any]) -> list[Part]:
    fields, encoded = cls.__struct_fields__, cls.__struct_encode_fields__
    given = (msgspec.NODEFAULT,) * (len(fields) - len(cls.__struct_defaults__)) + cls.__struct_defaults__
    parts = []
    for attribute, name, value in zip(fields, encoded, given, strict=True):
        default: Default | None = None
        if hasattr(value, "factory") and type(value).__module__.startswith("msgspec"):
            default = default_from(value.factory)
        elif value is not msgspec.NODEFAULT:
            default = default_of(value)
        parts.append(_part(attribute, hints[attribute], default, name=name))
    return parts


def _attrs_parts(cls: Any, hints: dict[str, Any]) -> list[Part]:
    parts = []
    for entry in cls.__attrs_attrs__:
        if not entry.init:
            continue
        default: Default | None = None
        if hasattr(entry.default, "factory"):
            default = Default(make=None) if entry.default.takes_self else default_from(entry.default.factory)
        elif getattr(entry.default, "name", "") != "NOTHING":
            default = default_of(entry.default)
        alias = getattr(entry, "alias", None) or entry.name.lstrip("_")
        parts.append(_part(alias, hints.get(entry.name, Any), default))
    return parts


def _part(
    attribute: str, hint: Any, default: Default | None, *, name: str | None = None, description: str = ""
) -> Part:
    return Part(
        name=name or attribute,
        attribute=attribute,
        hint=hint,
        required=default is None,
        default=default,
        description=description,
    )


def _is_typed_dict(cls: type) -> bool:
    return issubclass(cls, dict) and hasattr(cls, "__required_keys__") and hasattr(cls, "__total__")


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_field_defaults")


def _is_struct(cls: type) -> bool:
    return issubclass(cls, msgspec.Struct) and cls is not msgspec.Struct


def _is_attrs(cls: type) -> bool:
    return hasattr(cls, "__attrs_attrs__")


KINDS: tuple[tuple[Callable[[type], bool], Callable[[Any, dict[str, Any]], list[Part]]], ...] = (
    (dataclasses.is_dataclass, _dataclass_parts),
    (_is_typed_dict, _typed_dict_parts),
    (_is_named_tuple, _named_tuple_parts),
    (_is_struct, _struct_parts),
    (_is_attrs, _attrs_parts),
)
