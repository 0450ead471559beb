"""Reads Python types into shapes: everything people annotate tool parameters with, and a clear refusal for the rest."""

from __future__ import annotations

import enum
import inspect
import sys
import types
import typing
from collections import OrderedDict, deque
from collections import abc as collections_abc
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from windlass.events.errors import UsageError

from . import field_classes
from .annotated_metadata import noted
from .pydantic_types import foreign, is_foreign
from .resolved_hints import resolve, spelled
from .scalars import encoded
from .shapes import Choice, Encoded, Fixed, Items, Noted, Plain, Record, Reference, Shape, Shapes, Table, Union

ANYTHING = Plain(json="any")
NOTHING = Plain(json="null")
PLAIN: dict[Any, Plain] = {
    str: Plain(json="string"),
    int: Plain(json="integer"),
    float: Plain(json="number"),
    bool: Plain(json="boolean"),
    None: NOTHING,
    type(None): NOTHING,
    Any: ANYTHING,
    object: ANYTHING,
    inspect.Parameter.empty: ANYTHING,
    typing.LiteralString: Plain(json="string"),
}
LISTS: dict[Any, Callable[[list[Any]], Any]] = {
    list: list,
    collections_abc.Sequence: list,
    collections_abc.MutableSequence: list,
    collections_abc.Iterable: list,
    collections_abc.Collection: list,
    deque: deque,
    set: set,
    collections_abc.Set: set,
    collections_abc.MutableSet: set,
    frozenset: frozenset,
}
TABLES: dict[Any, Callable[[dict[Any, Any]], Any]] = {
    dict: dict,
    collections_abc.Mapping: dict,
    collections_abc.MutableMapping: dict,
    OrderedDict: OrderedDict,
}
WRAPPERS = {typing.Required, typing.NotRequired, typing.Final}
NESTING_MAX = 64
"""How deep a type may nest before it is taken for an endless one."""


class Reader:
    """One pass over the types of one signature. `names` are local types that annotations may refer to."""

    def __init__(self, owner: str, names: Mapping[str, Any]) -> None:
        self.owner = owner
        self.names = names
        self.shapes = Shapes()
        self._defined: dict[Any, str] = {}
        self._depth = 0

    def read(self, hint: Any, where: str) -> Shape:
        """The shape of a type. Raises `UsageError` naming the function and the parameter if it has no JSON form."""
        self._depth += 1
        try:
            if self._depth > NESTING_MAX:
                raise self._refusal(
                    hint, where, "it refers to itself without a class in between: use a dataclass, or Any"
                )
            return self._read(hint, where)
        finally:
            self._depth -= 1

    def _read(self, hint: Any, where: str) -> Shape:
        plain = plain_shape(hint)
        if plain is not None:
            return plain
        if is_foreign(hint):
            return foreign(hint, f"{self.owner}: {where!r}")
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return noted(self.read(args[0], where), args[1:], f"{self.owner}: {where!r}")
        if origin is typing.Literal:
            return self._literal(args, where)
        if origin in (typing.Union, types.UnionType):
            return self._union(args, where)
        if origin in WRAPPERS or getattr(origin, "__name__", "") == "ReadOnly":
            return self.read(args[0], where)
        alias = self._alias(hint, where)
        if alias is not None:
            return self.read(alias, where)
        return self._generic(hint, origin or hint, args, where)

    def _alias(self, hint: Any, where: str) -> Any:
        """What a `NewType`, a type alias or a type variable stands for; none if it is none of these."""
        if isinstance(hint, typing.NewType):
            return hint.__supertype__
        if type(hint).__name__ == "TypeAliasType":
            scope = vars(sys.modules.get(hint.__module__, types))
            return resolve(hint.__value__, scope, self.names, self.owner, where)
        if isinstance(hint, typing.TypeVar):
            if hint.__constraints__:
                return typing.Union[hint.__constraints__]  # noqa: UP007 - the operator takes no tuple
            return Any if hint.__bound__ is None else hint.__bound__
        return None

    def _generic(self, hint: Any, origin: Any, args: tuple[Any, ...], where: str) -> Shape:
        if origin in LISTS:
            build = LISTS[origin]
            item = self.read(args[0] if args else Any, where)
            return Items(item=item, build=build, unique=build in (set, frozenset))
        if origin is tuple:
            return self._tuple(hint, args, where)
        if origin in TABLES:
            key, value = args or (str, Any)
            return Table(key=self._key(key, where), value=self.read(value, where), build=TABLES[origin])
        if isinstance(origin, type):
            return self._class(hint, origin, args, where)
        raise self._refusal(hint, where)

    def _class(self, hint: Any, origin: type, args: tuple[Any, ...], where: str) -> Shape:
        if issubclass(origin, enum.Enum):
            return self._enum(origin, where)
        layout = field_classes.layout(origin, args, self.names, self.owner)
        if layout is not None:
            return self._record(layout, hint)
        text = encoded(origin)
        if text is None:
            raise self._refusal(hint, where)
        return text

    def _record(self, layout: field_classes.Layout, hint: Any) -> Shape:
        if hint in self._defined:
            name = self._defined[hint]
            self.shapes.uses[name] += 1
            if name not in self.shapes.records:
                self.shapes.recursive.add(name)
            return Reference(name=name)
        name = self._new_name(hint)
        self._defined[hint] = name
        self.shapes.uses[name] = 1
        fields = tuple(
            field_classes.field(part, self.read(part.hint, f"{layout.cls.__name__}.{part.attribute}"))
            for part in layout.parts
        )
        record = Record(
            name=name,
            fields=fields,
            build=layout.build,
            description=layout.description,
            open=layout.open,
            tag=layout.tag,
        )
        self.shapes.records[name] = record
        return record

    def _new_name(self, hint: Any) -> str:
        wanted = "_".join([getattr(hint, "__name__", "Record"), *(spelled(arg) for arg in typing.get_args(hint))])
        wanted = "".join(char if char.isalnum() or char == "_" else "_" for char in wanted)
        name, number = wanted, 1
        while name in self.shapes.uses:
            number += 1
            name = f"{wanted}_{number}"
        return name

    def _enum(self, cls: type[enum.Enum], where: str) -> Shape:
        if issubclass(cls, enum.Flag):
            raise self._refusal(cls, where, "flags combine: use a set of an ordinary enum")
        plain = all(is_constant(member.value) for member in cls)
        shape = Choice(options=tuple((member.value if plain else member.name, member) for member in cls))
        if not shape.options:
            raise self._refusal(cls, where, "it has no members")
        description = field_classes.own_doc(cls)
        return Noted(shape=shape, description=description) if description else shape

    def _literal(self, values: tuple[Any, ...], where: str) -> Shape:
        options = []
        for value in values:
            json = value.value if isinstance(value, enum.Enum) else value
            if not is_constant(json):
                raise self._refusal(typing.Literal[value], where, "a literal must be text, a number, a bool or None")
            options.append((json, value))
        return Choice(options=tuple(options))

    def _union(self, args: tuple[Any, ...], where: str) -> Shape:
        arms = tuple(self.read(arg, where) for arg in args if arg is not msgspec.UnsetType)
        return arms[0] if len(arms) == 1 else Union(arms=arms)

    def _tuple(self, hint: Any, args: tuple[Any, ...], where: str) -> Shape:
        if len(args) == 2 and args[1] is Ellipsis:
            return Items(item=self.read(args[0], where), build=tuple)
        if hint in (tuple, typing.Tuple):  # noqa: UP006 - people still write it
            return Items(item=ANYTHING, build=tuple)
        return Fixed(items=tuple(self.read(arg, where) for arg in args))

    def _key(self, hint: Any, where: str) -> Shape:
        key = self.read(hint, where)
        inner = key.shape if isinstance(key, Noted) else key
        is_text = isinstance(inner, Choice) and all(isinstance(json, str) for json, _ in inner.options)
        if is_text or inner in (PLAIN[str], PLAIN[int], ANYTHING) or isinstance(inner, Encoded):
            return key
        raise self._refusal(hint, where, "the keys of a JSON object are texts: use str keys, or a list of pairs")

    def _refusal(self, hint: Any, where: str, why: str = "") -> UsageError:
        advice = why or "use JSON types, a dataclass, TypedDict, NamedTuple, msgspec struct or pydantic model"
        return UsageError(f"{self.owner}: the type {spelled(hint)!r} of {where!r} has no JSON form: {advice}")


def is_constant(value: object) -> bool:
    """Whether JSON has this very value as a scalar."""
    return value is None or type(value) in (str, int, bool) or (type(value) is float and value - value == 0.0)


def plain_shape(hint: Any) -> Plain | None:
    """The shape of a type that JSON has itself."""
    try:
        return PLAIN.get(hint)
    except TypeError:
        return None  # Annotated with metadata that cannot be hashed
