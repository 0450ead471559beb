"""Reads the vocabulary off the code: families, events, values, closed words, and what their authors wrote about them.

It only reads; how that looks on a page is decided in `events_page`.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import itertools
import json
from types import ModuleType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from windlass.events.base import Command, Event
from windlass.events.live import LIVE_EVENTS
from windlass.events.stored.registry import EVENTS, MODULES

FAMILIES = tuple(module.__name__.removeprefix("windlass.events.") for module in MODULES)
"""The modules that declare durable events, in the order in which a reader meets them."""

VALUES = (
    "values.setup",
    "values.settings",
    "values.policy",
    "values.tools",
    "values.models",
    "values.access",
    "values.attention",
    "values.plans",
    "values.graphs",
    "values.isolation",
    "values.machines",
    "values.blocks",
    "values.items",
    "values.usage",
    "values.failures",
    "base",
)
"""The modules that declare only what events are made of."""

HIDDEN_FIELDS = frozenset({"erased"})
"""Set on reading, never stored in an event."""


@dataclasses.dataclass(frozen=True)
class FieldWords:
    """One field as a reader needs it."""

    owner: str
    name: str
    type: str
    default: str | None
    note: str

    @property
    def required(self) -> bool:
        return self.default is None


def module(name: str) -> ModuleType:
    """A module of `windlass.events`."""
    return importlib.import_module(f"windlass.events.{name}")


def event_classes(family: str) -> list[type[Event]]:
    """The durable events of a family, in the order of the file."""
    found = [cls for cls in EVENTS if cls.__module__ == f"windlass.events.{family}"]
    order = list(vars(module(family)))
    return sorted(found, key=lambda cls: order.index(cls.__name__))


def role(cls: type[Event]) -> str:
    """Who says it: a client (`command`), the world (`fact`) or the kernel (`decision`)."""
    return "command" if issubclass(cls, Command) else cls.ROLE


def meaning(thing: Any) -> str:
    """The docstring as one paragraph."""
    return " ".join((inspect.getdoc(thing) or "").split())


@functools.cache
def notes(module_name: str) -> dict[str, str]:
    """The strings that stand right below fields (`Class.field`) and aliases (`Alias`) of a module of `events`."""
    return notes_of(module(module_name))


def notes_of(source: ModuleType) -> dict[str, str]:
    """The same of any module."""
    tree = ast.parse(inspect.getsource(source))
    found = notes_in(tree.body, "")
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found |= notes_in(node.body, f"{node.name}.")
    return found


def notes_in(body: list[ast.stmt], prefix: str) -> dict[str, str]:
    """The strings right below what is assigned in a body."""
    found = {}
    for statement, below in itertools.pairwise(body):
        match below:
            case ast.Expr(value=ast.Constant(value=str(text))):
                name = _assigned(statement)
                if name:
                    found[prefix + name] = " ".join(text.split())
    return found


def _assigned(statement: ast.stmt) -> str:
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""


def fields(cls: type[msgspec.Struct]) -> list[FieldWords]:
    """The fields of a struct, inherited ones first, as their authors wrote the types."""
    info = {field.name: field for field in msgspec.structs.fields(cls)}
    found = []
    for base in reversed(cls.__mro__):
        if not (issubclass(base, msgspec.Struct) and base is not msgspec.Struct):
            continue
        written = notes(base.__module__.removeprefix("windlass.events."))
        for name, annotation in inspect.get_annotations(base).items():
            if name not in info or name in HIDDEN_FIELDS:
                continue
            note = written.get(f"{base.__name__}.{name}", "")
            found.append(FieldWords(base.__name__, name, str(annotation), _default(info[name]), note))
    return found


def _default(field: msgspec.structs.FieldInfo) -> str | None:
    if field.required:
        return None
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}()"
    return json.dumps(msgspec.to_builtins(value))


def body_class(cls: type[Event]) -> type[msgspec.Struct] | None:
    """The struct of the erasable content of an event, where it has one."""
    if "body" not in cls.__struct_fields__:
        return None
    hint = get_type_hints(cls)["body"]
    found: type[msgspec.Struct] = next(arg for arg in get_args(hint) if arg is not type(None))
    return found


def structs_in(hint: Any) -> list[type[msgspec.Struct]]:
    """The structs that a type hint may hold, containers and options seen through."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return [hint]
    args = get_args(hint)
    if get_origin(hint) is Annotated:
        args = args[:1]
    if get_origin(hint) is dict:
        args = args[1:]
    if get_origin(hint) is Literal:
        return []
    return [found for arg in args for found in structs_in(arg)]


def is_union(hint: Any) -> bool:
    """Whether a hint is a union, however it is written."""
    return get_origin(hint) in (Union, UnionType)


def reachable() -> list[type[msgspec.Struct]]:
    """Every value that a durable or live event can hold, in the order of the files that declare them."""
    seen: set[type[msgspec.Struct]] = set()
    todo: list[type[msgspec.Struct]] = [*EVENTS, *LIVE_EVENTS]
    roots = set(todo)
    while todo:
        cls = todo.pop()
        for hint in get_type_hints(cls, include_extras=True).values():
            for inner in structs_in(hint):
                if inner not in seen:
                    seen.add(inner)
                    todo.append(inner)
    return sorted(seen - roots, key=_place_in_files)


def _place_in_files(cls: type[msgspec.Struct]) -> tuple[int, int]:
    name = cls.__module__.removeprefix("windlass.events.")
    order = [*FAMILIES, *VALUES, "stored.record"]
    return order.index(name), list(vars(module(name))).index(cls.__name__)


def closed_words() -> dict[str, tuple[str, tuple[str, ...]]]:
    """The named sets of words (`FailureKind`, …): what their author says of them, and the words."""
    found = {}
    for name in (*FAMILIES, *VALUES):
        for alias, value in vars(module(name)).items():
            if get_origin(value) is Literal and alias not in found:
                found[alias] = (notes(name).get(alias, ""), tuple(str(word) for word in get_args(value)))
    return found
