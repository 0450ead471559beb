"""Small checks that the rules of several formats share. Each raises WireRefused or returns what it found."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from windlass.events.blocks import JsonObject

from .rendering import WireRefused

DATA_URL = re.compile(r"^data:(?P<media>[a-z0-9.+-]+/[a-z0-9.+-]+);base64,(?P<data>.*)$", re.DOTALL)


def words(text: str) -> frozenset[str]:
    """The words of a text, for long lists of names."""
    return frozenset(text.split())


def need(condition: object, message: str, *, code: str | None = None, param: str | None = None) -> None:
    """Refuses unless the condition holds."""
    if not condition:
        raise WireRefused(message, code=code, param=param)


def known(value: JsonObject, allowed: frozenset[str], where: str, form: str) -> None:
    """Refuses fields that are not allowed; `form` is the vendor's sentence with `{}` for the field."""
    for name in value:
        if name not in allowed:
            raise WireRefused(form.format(f"{where}{name}"), code="unknown_parameter", param=f"{where}{name}")


def object_text(text: Any) -> str | None:
    """Why this is not the text of a JSON object, or None when it is."""
    if not isinstance(text, str):
        return "must be a string"
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return "must be valid JSON"
    return None if isinstance(value, dict) else "must be a JSON object"


def is_base64(data: Any) -> bool:
    """Whether this is base64 with something in it."""
    if not isinstance(data, str) or not data:
        return False
    try:
        base64.b64decode(data, validate=True)
    except (ValueError, binascii.Error):
        return False
    return True


def strict_schema(schema: Any, path: str = "") -> str | None:
    """Why a schema may not be marked strict, or None. Strict schemas close every object and require every property.

    docs: platform.openai.com/docs/guides/structured-outputs (supported schemas)."""
    if not isinstance(schema, dict):
        return None
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, dict):
        if schema.get("additionalProperties") is not False:
            return f"in context=({path}), 'additionalProperties' is required to be supplied and to be false"
        missing = set(properties or {}) - set(schema.get("required") or [])
        if missing:
            return f"in context=({path}), 'required' must include every property; missing {sorted(missing)[0]!r}"
    for name, child in inner_schemas(schema):
        found = strict_schema(child, f"{path}/{name}" if path else name)
        if found:
            return found
    return None


def inner_schemas(schema: JsonObject) -> Iterable[tuple[str, Any]]:
    """The schemas inside a schema, with where they stand."""
    for field in ("properties", "$defs", "definitions"):
        inner = schema.get(field)
        if isinstance(inner, dict):
            yield from inner.items()
    if isinstance(schema.get("items"), dict):
        yield "items", schema["items"]
    for field in ("anyOf", "allOf", "oneOf", "prefixItems"):
        inner = schema.get(field)
        if isinstance(inner, list):
            yield from ((f"{field}/{at}", child) for at, child in enumerate(inner))
