"""One thread at a time makes a type known to msgspec.

msgspec learns what a struct holds when a decoder of it is made, or when something is first converted to it, and while
it does another thread that uses the struct finds it half learned: the process crashes. Programs that run agents in
several threads begin with all of that at once. What was learned is used without a lock.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

BUILDING = threading.RLock()
"""Held by whoever makes a decoder that may be the first of its types."""
_built: set[Any] = set()


@overload
def convert(value: Any, kind: type[T], **more: Any) -> T: ...
@overload
def convert(value: Any, kind: Any, **more: Any) -> Any: ...
def convert(value: Any, kind: Any, **more: Any) -> Any:
    """`msgspec.convert`, from any thread."""
    if kind in _built:
        return msgspec.convert(value, kind, **more)
    with BUILDING:
        try:
            return msgspec.convert(value, kind, **more)
        finally:
            _built.add(kind)


def decode(data: bytes | bytearray | str, kind: type[T]) -> T:
    """`msgspec.json.decode`, from any thread."""
    if kind in _built:
        return msgspec.json.decode(data, type=kind)
    with BUILDING:
        try:
            return msgspec.json.decode(data, type=kind)
        finally:
            _built.add(kind)


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """A decoder of JSON, made from any thread."""
    with BUILDING:
        return msgspec.json.Decoder(kind)
