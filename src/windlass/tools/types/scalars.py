"""Types that JSON writes as text: dates, ids, decimals, paths, bytes; and how each is read back."""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import functools
import sys
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from .shapes import Encoded

FORMATS: dict[type, str] = {
    datetime.datetime: "date-time",
    datetime.date: "date",
    datetime.time: "time",
    datetime.timedelta: "duration",
    uuid.UUID: "uuid",
}
ADDRESSES = {
    "IPv4Address": "ipv4",
    "IPv6Address": "ipv6",
}


def encoded(hint: type) -> Encoded | None:
    """The shape of a type that is written as text, or none if it is no such type."""
    if hint in FORMATS:
        return Encoded(name=hint.__name__, decode=_converter(hint), keywords={"format": FORMATS[hint]})
    if hint is decimal.Decimal:
        return Encoded(name="Decimal", decode=_decimal, numbers=True)
    if hint in (bytes, bytearray):
        return Encoded(name=hint.__name__, decode=_bytes(hint), keywords={"contentEncoding": "base64"})
    if is_path(hint):
        return Encoded(name="path", decode=hint, keywords={"format": "path"})
    if hint.__module__ == "ipaddress" and hint.__name__ in ADDRESSES:
        return Encoded(name=hint.__name__, decode=hint, keywords={"format": ADDRESSES[hint.__name__]})
    if issubclass(hint, str) and hint is not str:
        return Encoded(name=hint.__name__, decode=hint)
    return None


def is_path(cls: type) -> bool:
    """Whether a class is a path; if nobody has imported paths, none is."""
    pathlib = sys.modules.get("pathlib")
    return pathlib is not None and issubclass(cls, pathlib.PurePath)


def _converter(hint: type) -> Callable[[str], Any]:
    return functools.partial(msgspec.convert, type=hint)


def _decimal(text: str) -> decimal.Decimal:
    value = decimal.Decimal(text)
    if not value.is_finite():
        raise ValueError("not a finite number")
    return value


def _bytes(build: Callable[[bytes], Any]) -> Callable[[str], Any]:
    def decode(text: str) -> Any:
        try:
            return build(base64.b64decode(text.encode("ascii"), validate=True))
        except (binascii.Error, UnicodeEncodeError):
            raise ValueError("not valid base64") from None

    return decode
