"""Python values as plain JSON values: what a tool returns, and defaults in schemas. Never pickled, never guessed.

What has no exact JSON form is refused with the path to it.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import math
import uuid
from collections.abc import Mapping, Set
from typing import Any

import msgspec

from windlass.tools.canonical_json import DEPTH_MAX, NotCanonical, canonical

from .scalars import is_path

INT_BITS_MAX = 4096
"""Whole numbers beyond this are no data that a model or a JSON reader could use."""
NODES_MAX = 1_000_000
"""How many values one result may hold."""
TEXTUAL = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, uuid.UUID)


class NotPlain(ValueError):
    """A value without a JSON form; `path` says where."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path or 'value'}: {why}")
        self.path = path
        self.why = why


def to_plain(value: Any) -> Any:
    """The JSON form: dataclasses, structs, models and named tuples become objects, enums their values, sets sorted
    lists, dates and ids texts. Raises `NotPlain` for NaN, cycles, bytes, too large numbers and other objects."""
    return _Walk().plain(value, "")


class _Walk:
    def __init__(self) -> None:
        self._open: set[int] = set()
        self._nodes = 0

    def plain(self, value: Any, path: str) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return scalar_text(value)
        if isinstance(value, enum.Enum):
            return self.plain(value.value, path)
        if isinstance(value, int):
            return _whole(int(value), path)
        if isinstance(value, float):
            return _real(float(value), path)
        if isinstance(value, str):
            return scalar_text(str(value))
        return self._nested(value, path)

    def _nested(self, value: Any, path: str) -> Any:
        self._nodes += 1
        if id(value) in self._open:
            raise NotPlain(path, "it contains itself")
        if len(self._open) >= DEPTH_MAX:
            raise NotPlain(path, f"it is nested deeper than {DEPTH_MAX} levels")
        if self._nodes > NODES_MAX:
            raise NotPlain(path, f"it holds more than {NODES_MAX} values")
        self._open.add(id(value))
        try:
            return self._composite(value, path)
        finally:
            self._open.discard(id(value))

    def _composite(self, value: Any, path: str) -> Any:
        if isinstance(value, Mapping):
            return self._object(value, path)
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return self._object(value._asdict(), path)
        if isinstance(value, list | tuple) or type(value).__name__ == "deque":
            return [self.plain(entry, f"{path}[{index}]") for index, entry in enumerate(value)]
        if isinstance(value, Set):
            return _sorted([self.plain(entry, f"{path}[]") for entry in value], path)
        if isinstance(value, TEXTUAL):
            return msgspec.to_builtins(value)
        if isinstance(value, decimal.Decimal) or is_path(type(value)):
            return scalar_text(str(value))
        return self._structured(value, path)

    def _structured(self, value: Any, path: str) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            entries = {entry.name: getattr(value, entry.name) for entry in dataclasses.fields(value)}
            return self._object(entries, path)
        if isinstance(value, msgspec.Struct):
            return self._struct(value, path)
        dump = getattr(type(value), "model_dump", None)
        if dump is not None:
            return self.plain(dump(value, mode="json"), path)
        if hasattr(type(value), "__attrs_attrs__"):
            return self._object({entry.name: getattr(value, entry.name) for entry in value.__attrs_attrs__}, path)
        if isinstance(value, bytes | bytearray | memoryview):
            raise NotPlain(path, "bytes have no JSON form: return them alone, or as base64 text")
        if type(value).__module__ == "ipaddress":
            return str(value)
        raise NotPlain(path, f"{type(value).__qualname__!r} has no JSON form: return text, JSON values or a dataclass")

    def _struct(self, value: msgspec.Struct, path: str) -> dict[str, Any]:
        config = value.__struct_config__
        fields: dict[str, Any] = {str(config.tag_field): config.tag} if config.tag is not None else {}
        for attribute, name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
            entry = getattr(value, attribute)
            if entry is not msgspec.UNSET:
                fields[name] = self.plain(entry, f"{path}.{name}" if path else name)
        return fields

    def _object(self, entries: Mapping[Any, Any], path: str) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key, entry in entries.items():
            name = _key(key, path)
            if name in members:
                raise NotPlain(path, f"two keys are both written {name!r}")
            members[name] = self.plain(entry, f"{path}.{name}" if path else name)
        return members


def _key(key: Any, path: str) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return scalar_text(str(key))
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, int):
        return str(_whole(key, path))
    if isinstance(key, uuid.UUID | datetime.date) or is_path(type(key)):
        return str(msgspec.to_builtins(key, enc_hook=str))
    raise NotPlain(path, f"a key of type {type(key).__qualname__!r} has no JSON form: use text")


def _whole(value: int, path: str) -> int:
    if value.bit_length() > INT_BITS_MAX:
        raise NotPlain(path, f"a whole number of {value.bit_length()} bits is too large: return it as text")
    return value


def _real(value: float, path: str) -> float:
    if not math.isfinite(value):
        raise NotPlain(path, f"{value!r} has no JSON form: return None or a text instead")
    return value


def _sorted(entries: list[Any], path: str) -> list[Any]:
    """The order of a set differs between processes; its JSON form must not."""
    try:
        return sorted(entries, key=canonical)
    except NotCanonical as error:
        raise NotPlain(path, str(error)) from None


def scalar_text(text: str) -> str:
    """A text that UTF-8 can carry: lone surrogates become the replacement character."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def base64_text(data: bytes) -> str:
    """Bytes as base64 text."""
    return base64.b64encode(data).decode("ascii")
