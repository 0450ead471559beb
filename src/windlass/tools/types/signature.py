"""A callable as a tool sees it: which parameters the model fills, which one is the context, how the call is made.

It is read once, when the tool is defined. Types that are defined only later in the module are resolved on first use.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.blocks import JsonObject
from windlass.tools.context import ToolContext

from . import convert, docstrings
from .annotated_metadata import kinds, noted
from .annotations import NOTHING, Reader
from .field_classes import default_from, default_of
from .resolved_hints import Unresolved, documented, resolve, scope_of, spelled
from .schema import schema_of
from .shapes import Choice, Default, Field, Foreign, Noted, Shape, Shapes, Union

CONTEXT_NAME = "ToolContext"


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What a callable takes: the fields that the model fills, in order, and where the context goes."""

    fields: tuple[Field, ...]
    shapes: Shapes
    schema: JsonObject
    context: str | None = None
    positional: tuple[str, ...] = ()
    """Names that can only be passed by position, the context among them."""

    @property
    def certain(self) -> bool:
        """Whether arguments that fit the schema always convert."""
        return all(convert.certain(field.shape) for field in self.fields)

    def completed(self, args: JsonObject) -> JsonObject:
        """The arguments with the defaults that have a JSON form; a new value."""
        return convert.completed(self.fields, self.shapes, args)

    def values(self, args: JsonObject) -> dict[str, Any]:
        """The Python values by parameter. Raises `Mismatch` with the path for what does not convert."""
        return convert.converted(self.fields, self.shapes, args)

    def bound(self, args: JsonObject, context: ToolContext | None) -> tuple[list[Any], dict[str, Any]]:
        """The positional and keyword arguments of the call. Every value is new; the given ones are not touched."""
        named = self.values(args)
        if self.context is not None:
            named[self.context] = context
        return [named.pop(name) for name in self.positional if name in named], named


def read(function: Callable[..., Any], owner: str, names: Mapping[str, Any]) -> Parameters:
    """Reads a callable's parameters. Raises `Unresolved` for types that are not defined yet, `UsageError` for what
    no model could fill."""
    signature = _signature(function, owner)
    hidden = function.keywords if isinstance(function, functools.partial) else {}
    reader = Reader(owner, names)
    scope = scope_of(function)
    described = docstrings.read(documented(function).__doc__).parameters
    fields: list[Field] = []
    context: str | None = None
    for parameter in signature.parameters.values():
        if parameter.name in hidden:
            continue  # bound by its author; the model must not see or change it
        _check_kind(parameter, owner)
        hint = _hint(parameter, scope, names, owner)
        if hint is ToolContext:
            context = _one_context(context, parameter.name, owner)
        else:
            fields.append(_field(parameter, hint, reader, described))
    positional = [name for name, one in signature.parameters.items() if one.kind is one.POSITIONAL_ONLY]
    all_fields = tuple(fields)
    return Parameters(
        fields=all_fields,
        shapes=reader.shapes,
        schema=schema_of(all_fields, reader.shapes),
        context=context,
        positional=tuple(positional),
    )


def given(schema: JsonObject, function: Callable[..., Any] | None, owner: str) -> Parameters:
    """Parameters whose schema was written by hand: arguments are passed on as they are, by name."""
    context: str | None = None
    for parameter in _signature(function, owner).parameters.values() if function else ():
        if _hint_if_any(parameter, scope_of(function or read), owner) is ToolContext:
            context = parameter.name
    reader = Reader(owner, {})
    required = schema.get("required", ())
    fields = tuple(
        Field(name=name, attribute=name, shape=reader.read(Any, name), required=name in required)
        for name in schema.get("properties", {})
    )
    return Parameters(fields=fields, shapes=Shapes(), schema=schema, context=context)


def _signature(function: Callable[..., Any], owner: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{owner}: its parameters cannot be read: wrap it in a function of your own") from error


def _check_kind(parameter: inspect.Parameter, owner: str) -> None:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    if parameter.kind in stars:
        mark = stars[parameter.kind]
        advice = "a list parameter" if mark == "*" else "a dict parameter, or named ones"
        raise UsageError(f"{owner}: {mark}{parameter.name} cannot be described to a model: use {advice}")
    if parameter.name in ("self", "cls") and parameter.annotation is inspect.Parameter.empty:
        name = owner.split("'")[1] if "'" in owner else owner  # the owner is called "tool 'pay'"
        raise UsageError(f"{owner}: it is a method: take it from an instance, such as `thing.{name}`")


def _hint(parameter: inspect.Parameter, scope: Mapping[str, Any], names: Mapping[str, Any], owner: str) -> Any:
    """The type of a parameter; `ToolContext` also where it is optional or imported for type checkers only."""
    try:
        hint = resolve(parameter.annotation, scope, names, owner, parameter.name)
    except Unresolved as error:
        if error.missing == CONTEXT_NAME or spelled(parameter.annotation).endswith(f".{CONTEXT_NAME}"):
            return ToolContext
        raise
    inner = [hint, *typing.get_args(hint)]
    return ToolContext if any(one is ToolContext for one in inner) else hint


def _hint_if_any(parameter: inspect.Parameter, scope: Mapping[str, Any], owner: str) -> Any:
    try:
        return _hint(parameter, scope, {}, owner)
    except Unresolved:
        return None


def _one_context(before: str | None, name: str, owner: str) -> str:
    if before is not None:
        raise UsageError(f"{owner}: both {before!r} and {name!r} are the tool context: keep one")
    return name


def _field(parameter: inspect.Parameter, hint: Any, reader: Reader, described: Mapping[str, str]) -> Field:
    shape = reader.read(hint, parameter.name)
    default: Default | None = None
    if type(parameter.default).__name__ == "FieldInfo":
        shape = noted(shape, [parameter.default], f"{reader.owner}: {parameter.name!r}")
        default = _pydantic_default(parameter.default)
    elif parameter.default is not inspect.Parameter.empty:
        default = default_of(parameter.default)
    if default is not None and default.known and default.json is None and not nullable(shape):
        shape = Union(arms=(shape, NOTHING))  # `x: str = None` means what its author meant
    return Field(
        name=parameter.name,
        attribute=parameter.name,
        shape=shape,
        required=default is None,
        default=default,
        description=described.get(parameter.name, ""),
    )


def nullable(shape: Shape) -> bool:
    """Whether a shape takes null already."""
    match shape:
        case Noted(shape=inner):
            return nullable(inner)
        case Choice(options=options):
            return any(json is None for json, _ in options)
        case Union(arms=arms):
            return any(nullable(arm) for arm in arms)
        case Foreign(schema=schema):
            return any(arm == {"type": "null"} for arm in schema.get("anyOf", ()))
    return "null" in kinds(shape)


def _pydantic_default(info: Any) -> Default | None:
    if info.is_required():
        return None
    return default_from(info.default_factory) if info.default_factory is not None else default_of(info.default)
