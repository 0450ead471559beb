"""A script out of a JSON file: a list of answers and faults. What is wrong with it is said with its place."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any, get_args

import msgspec

from windlass.events.errors import UsageError
from windlass.testing.model_server.faults.fault import Fault, fault

from .answers import Answer, AnyPart, Tokens, Turn, answer_of

PARTS = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyPart)}
"""What an answer may be made of, by the `type` that names it."""


def read_script(path: Path) -> list[Turn | Fault]:
    """The entries of a script. Raises `UsageError` with the place of whatever is wrong."""
    try:
        entries = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{path.name} is not JSON: {error}") from None
    if not isinstance(entries, list):
        raise UsageError(f"{path.name}: a script is a list of answers, not {_kind(entries)}")
    return [entry_of(entry, f"{path.name}[{index}]") for index, entry in enumerate(entries)]


def entry_of(entry: Any, place: str) -> Turn | Fault:
    """One entry: a text, an answer with its parts, or a fault by name."""
    if isinstance(entry, str):
        return entry
    if not isinstance(entry, dict):
        raise UsageError(f"{place}: an answer is a text or an object, not {_kind(entry)}")
    if "fault" in entry:
        return _fault(entry, place)
    _check_keys(entry, Answer, place)
    for index, part in enumerate(entry["parts"] if isinstance(entry.get("parts"), list) else ()):
        _check_part(part, f"{place}.parts[{index}]")
    if isinstance(entry.get("tokens"), dict):
        _check_keys(entry["tokens"], Tokens, f"{place}.tokens")
    try:
        return answer_of(entry)
    except msgspec.ValidationError as error:
        raise _wrong(error, place) from None


def _check_part(part: Any, place: str) -> None:
    if not isinstance(part, dict):
        raise UsageError(f"{place}: a part is an object with a 'type', not {_kind(part)}")
    kind = PARTS.get(part.get("type", ""))
    if kind is None:
        raise UsageError(f"{place}: no part of type {part.get('type')!r}: there are {', '.join(PARTS)}")
    _check_keys({name: value for name, value in part.items() if name != "type"}, kind, place)


def _fault(entry: dict[str, Any], place: str) -> Fault:
    changes = {name: value for name, value in entry.items() if name != "fault"}
    _check_keys(changes, Fault, place)
    try:
        named_fault = fault(str(entry["fault"]))
        return msgspec.convert({**msgspec.to_builtins(named_fault), **changes}, Fault)
    except KeyError as error:
        raise UsageError(f"{place}: {error.args[0]}") from None
    except msgspec.ValidationError as error:
        raise _wrong(error, place) from None


def _check_keys(given: dict[str, Any], kind: type[msgspec.Struct], place: str) -> None:
    known = kind.__struct_fields__
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f": did you mean {near[0]!r}?" if near else f": there are {', '.join(known)}"
            raise UsageError(f"{place}: no key {name!r}{hint}")


def _wrong(error: msgspec.ValidationError, place: str) -> UsageError:
    """A value of the wrong kind, with its place in the file."""
    said, _, path = str(error).partition(" - at `$")
    return UsageError(f"{place}{path.rstrip('`')}: {said[:1].lower()}{said[1:]}")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
