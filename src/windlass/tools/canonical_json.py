"""Canonical JSON after RFC 8785, and digests of arguments: the same value has the same bytes in every process.

One deviation, so that no two different arguments share a digest: whole numbers are written exactly, never rounded to
a double, and doubles of 2**53 and more always have an exponent.
"""

from __future__ import annotations

import hashlib
import math
from json.encoder import encode_basestring
from typing import Any

DEPTH_MAX = 100
"""How deep JSON values may nest."""
_EXACT = 2.0**53


class NotCanonical(ValueError):
    """A value that JSON cannot write."""


def canonical(value: Any) -> bytes:
    """The canonical bytes: keys sorted by UTF-16 code units, minimal numbers, no spaces. Lone surrogates are escaped.
    Raises `NotCanonical` for NaN, infinities, too deep nesting and what is not JSON."""
    out: list[str] = []
    _write(value, out, 0)
    return "".join(out).encode("utf-8", "backslashreplace")


def digest(value: Any) -> str:
    """The digest of a value's canonical bytes (`sha256:<hex>`)."""
    return digest_of(canonical(value))


def digest_of(raw: bytes) -> str:
    """The digest of canonical bytes."""
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def _write(value: Any, out: list[str], depth: int) -> None:
    kind = type(value)
    if kind is str:
        out.append(encode_basestring(value))
    elif kind is int:
        out.append(_whole(value))
    elif kind is bool:
        out.append("true" if value else "false")
    elif value is None:
        out.append("null")
    elif kind is float:
        out.append(number(value))
    elif depth >= DEPTH_MAX:
        raise NotCanonical(f"nested deeper than {DEPTH_MAX} levels")
    elif kind is dict:
        _write_object(value, out, depth)
    elif kind is list or kind is tuple:
        _write_array(value, out, depth)
    else:
        raise NotCanonical(f"{kind.__qualname__!r} is not a JSON value")


def _write_object(value: dict[Any, Any], out: list[str], depth: int) -> None:
    mark = "{"
    for key in sorted(value, key=_utf16) if len(value) > 1 else map(_text, value):
        out.append(mark)
        mark = ","
        out.append(encode_basestring(key))
        out.append(":")
        _write(value[key], out, depth + 1)
    out.append("{}" if mark == "{" else "}")


def _write_array(value: list[Any] | tuple[Any, ...], out: list[str], depth: int) -> None:
    mark = "["
    for entry in value:
        out.append(mark)
        mark = ","
        _write(entry, out, depth + 1)
    out.append("[]" if mark == "[" else "]")


def _utf16(key: Any) -> bytes:
    return _text(key).encode("utf-16-be", "surrogatepass")


def _text(key: Any) -> str:
    if type(key) is not str:
        raise NotCanonical(f"a key of type {type(key).__qualname__!r} is not text")
    return key


def _whole(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # beyond the interpreter's limit on digits
        raise NotCanonical(f"a whole number of {value.bit_length()} bits is too large") from None


def number(value: float) -> str:
    """A double in its shortest form, as ECMAScript writes it below 2**53."""
    if not math.isfinite(value):
        raise NotCanonical(f"{value!r} is not a JSON number")
    if value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    digits, _, exponent = f"{value!r}".partition("e")
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    whole, _, fraction = digits.partition(".")
    if fraction == "0":
        fraction = ""
    power = int(exponent or 0) + len(whole) - 1
    significant = (whole + fraction).lstrip("0")
    power -= len(whole + fraction) - len(significant)
    return sign + _scientific(significant.rstrip("0"), power)


def _scientific(digits: str, power: int) -> str:
    """Digits d.ddd times ten to the power, with a plain fraction down to 1e-6."""
    if -7 < power < 0:
        return "0." + "0" * (-power - 1) + digits
    if 0 <= power < len(digits) - 1:
        return f"{digits[: power + 1]}.{digits[power + 1 :]}"
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{mantissa}e{'+' if power >= 0 else '-'}{abs(power)}"
