"""Finds the place in the vocabulary that a coverage row names, or says why there is none.

    tool.finished                      an event, durable or live
    tool.finished#failure.kind         a field, through values, lists and options
    model.replied#body.blocks[text]    one kind of a union, by its tag
    tool.denied#reason=rules           a word that a field can hold
    model.replied[lane=compact]#usage  only where a field of it holds a word: at the beginning, or at any step
    Failure.status, FailureKind=auth   a value's field, a word of a closed set
    ids.event_id, windlass.store.base.Snapshot   a name in a module

A place may end in a remark in brackets: `prompt.received#origin (who it is from)`.
"""

from __future__ import annotations

import functools
import importlib
import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from dev import vocabulary

from windlass.events.base import name_of
from windlass.events.live import LIVE_EVENTS
from windlass.events.stored.registry import EVENTS

MODULES = {
    name.rpartition(".")[2]: name
    for name in (
        *(*vocabulary.FAMILIES, *vocabulary.VALUES, "live", "values.ids"),
        *("stored.record", "stored.registry", "stored.codec"),
    )
}
"""The modules of `windlass.events` by their own names."""
STEP = re.compile(r"(?P<field>\w+)(?:\[(?:(?P<by>\w+)=)?(?P<kind>\w+)\])?")
CONDITION = re.compile(r"(?P<name>[\w.]+)\[(?P<by>\w+)=(?P<word>[^\]]+)\]")
Condition = tuple[str, str]
"""A field, and the word that it holds."""


class NoSuchPlace(LookupError):
    """A coverage row names something that the vocabulary does not have."""


@functools.cache
def tags() -> dict[str, type[msgspec.Struct]]:
    """Every event by the name that readers see."""
    durable: dict[str, type[msgspec.Struct]] = {name_of(cls): cls for cls in EVENTS}
    return durable | {str(cls.__struct_config__.tag): cls for cls in LIVE_EVENTS}


@functools.cache
def names() -> dict[str, Any]:
    """Every struct, class and alias of `windlass.events` by its own name; the first module that has it wins."""
    found: dict[str, Any] = {}
    for module in MODULES.values():
        for name, value in vars(vocabulary.module(module)).items():
            if name[0].isupper():
                found.setdefault(name, value)
    return found


def find(place: str) -> Any:
    """What a place holds: a class or a type hint. Raises `NoSuchPlace` and says at which step it ends."""
    where, condition, word = parts(place)
    cls, path = _root(where)
    if condition is not None:
        _check(condition, cls, place)
    hint = _walk(cls, path, where)
    if word and word not in _words(hint):
        raise NoSuchPlace(f"{place!r}: {where} cannot be {word!r}; it can be {', '.join(sorted(_words(hint)))}")
    return hint


def parts(place: str) -> tuple[str, Condition | None, str]:
    """A place without its remark: where it is, the condition on what it begins with, and the word at its end."""
    text = place.partition(" (")[0].strip()
    where, sign, word = text.rpartition("=")
    if not sign or "]" in word:
        where, word = text, ""
    found = CONDITION.match(where)
    if found is None:
        return where, None, word
    return found["name"] + where[found.end() :], (found["by"], found["word"]), word


def _check(condition: Condition, cls: Any, where: str) -> None:
    by, word = condition
    if where.startswith("windlass."):
        return  # what was raised: the runs say what was tried
    words = _words(_field(cls, by, where))
    if word not in words:
        raise NoSuchPlace(f"{where!r}: {by} cannot be {word!r}; it can be {', '.join(sorted(words))}")


def _root(where: str) -> tuple[Any, str]:
    head, _, path = where.partition("#")
    if head in tags():
        return tags()[head], path
    if path:
        raise NoSuchPlace(f"{where!r}: there is no event {head!r}")
    if where.startswith("windlass."):
        return _import(where), ""
    first, _, rest = where.partition(".")
    if first[:1].isupper():
        if first not in names():
            raise NoSuchPlace(f"{where!r}: windlass.events has no {first!r}")
        return names()[first], rest
    if first in MODULES and rest:
        name, _, rest = rest.partition(".")
        return _import(f"windlass.events.{MODULES[first]}.{name}"), rest
    raise NoSuchPlace(f"{where!r}: not an event, a value or a module of windlass.events")


def _import(where: str) -> Any:
    module, _, name = where.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise NoSuchPlace(f"{where!r}: {error}") from error


def _walk(hint: Any, path: str, where: str) -> Any:
    for step in path.split(".") if path else ():
        found = STEP.fullmatch(step)
        if found is None:
            raise NoSuchPlace(f"{where!r}: {step!r} is not a step")
        hint = _field(hint, found["field"], where)
        if found["by"]:
            _check((found["by"], found["kind"]), hint, where)
        elif found["kind"]:
            hint = _kind(hint, found["kind"], where)
    return hint


def _field(hint: Any, name: str, where: str) -> Any:
    owners = vocabulary.structs_in(hint)
    if not owners:
        raise NoSuchPlace(f"{where!r}: there is nothing below, so no {name!r}")
    found = [_hint_of(cls, name) for cls in owners]
    if None in found:
        lacking = owners[found.index(None)]
        raise NoSuchPlace(f"{where!r}: {lacking.__name__} has no {name!r}")
    return found[0]


def _hint_of(cls: type[msgspec.Struct], name: str) -> Any:
    if name in cls.__struct_fields__:
        return get_type_hints(cls, include_extras=True)[name]
    return getattr(cls, name, None)


def _kind(hint: Any, tag: str, where: str) -> Any:
    for cls in vocabulary.structs_in(hint):
        if cls.__struct_config__.tag == tag:
            return cls
    raise NoSuchPlace(f"{where!r}: no kind {tag!r} there")


def _words(hint: Any) -> set[str]:
    if get_origin(hint) is Literal:
        return {str(word) for word in get_args(hint)}
    if hint is bool:
        return {"true", "false"}
    return {word for arg in get_args(hint) for word in _words(arg)}
