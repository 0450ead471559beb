"""Reads settings off the code: the fields of a class or the parameters of a function, with types, defaults and words.

It only reads; how that looks on a page is decided in `settings_page` and `api_page`.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any, ForwardRef, get_args

import msgspec
from dev import glossary, setting_words, vocabulary

ADDRESS = re.compile(r"<.* at 0x[0-9a-f]+>")
LITERAL = re.compile(r"Literal\[([^\]]*)\]")
NUMBERS = {"Positive": "int > 0", "Nat": "int >= 0", "Fraction": "float, 0 to 1"}
WORDS_SHOWN_MAX = 8
"""A longer set of words is named, not listed."""


@dataclasses.dataclass(frozen=True)
class Declared:
    """One setting: whose it is, its name, what may be given, what holds if nothing is, what it means."""

    owner: str
    name: str
    type: str
    default: str | None
    says: str

    @property
    def place(self) -> str:
        """The name under which words are written down for it."""
        return f"{self.owner}.{self.name}"


def of_class(cls: type[Any], owner: str = "", *, but: tuple[str, ...] = ()) -> list[Declared]:
    """The fields that can be given to a class, as its author declared them; `owner` names it otherwise."""
    types = _annotations(cls)
    written = _notes(cls.__module__)
    found = []
    for name, parameter in inspect.signature(cls).parameters.items():
        if name in but:
            continue
        says = written.get(f"{cls.__name__}.{name}") or words(owner or cls.__name__, name)
        found.append(Declared(owner or cls.__name__, name, types.get(name, ""), _default(parameter), says))
    return found


def of_keys(cls: type[Any]) -> list[Declared]:
    """The keys of a `TypedDict` of which none must be given."""
    written = _notes(cls.__module__)
    return [
        Declared(cls.__name__, name, shown, "", written.get(f"{cls.__name__}.{name}") or words(cls.__name__, name))
        for name, shown in _annotations(cls).items()
    ]


def of_function(function: Callable[..., Any], owner: str, *, but: tuple[str, ...] = ()) -> list[Declared]:
    """The parameters of a function."""
    return [
        Declared(owner, name, _shown(parameter.annotation), _default(parameter), words(owner, name))
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in but
    ]


def words(owner: str, name: str) -> str:
    """What a setting without a sentence in the code means; empty if nobody has said it."""
    return setting_words.WORDS.get(f"{owner}.{name}") or glossary.words(owner, name, shared=False)


@functools.cache
def _notes(module_name: str) -> dict[str, str]:
    return vocabulary.notes_of(importlib.import_module(module_name))


def _annotations(cls: type[Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found |= {name: _shown(annotation) for name, annotation in inspect.get_annotations(base).items()}
    return found


def _shown(annotation: Any) -> str:
    """A type as a reader needs it: the words of a closed set instead of its name."""
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else str(annotation)
    for name, listed in _sets().items():
        text = re.sub(rf"\b{name}\b", listed, text)
    return LITERAL.sub(lambda found: found[1].replace("'", '"').replace(", ", " | "), text)


@functools.cache
def _sets() -> dict[str, str]:
    from windlass.store.base import Durability

    closed = {alias: words for alias, (_, words) in vocabulary.closed_words().items()}
    closed["Durability"] = get_args(Durability)
    short = {name: words for name, words in closed.items() if len(words) <= WORDS_SHOWN_MAX}
    return NUMBERS | {name: " | ".join(f'"{word}"' for word in words) for name, words in short.items()}


def _default(parameter: inspect.Parameter) -> str | None:
    return None if parameter.default is inspect.Parameter.empty else default_text(parameter.default)


def default_text(value: Any) -> str:
    """A default as a reader would write it."""
    if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value):  # ours are empty ones
        return f"{type(value).__name__}()"
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, int):
        return f"{value:_}" if value >= 10_000 else str(value)
    if isinstance(value, frozenset):
        return "frozenset(…)"
    text = repr(value)
    if text == "<factory>":  # how msgspec shows a mutable default; ours are empty
        return "{}"
    if ADDRESS.search(text):
        raise ValueError(f"{text} cannot be shown on a page: give the default a repr")
    return f'"{value}"' if isinstance(value, str) else text
