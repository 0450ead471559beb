"""Small checks that the rules of several formats share. Each raises WireRefused, naming the rule (see `citations`), or
returns what it found."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from windlass.events.values.blocks import JsonObject
from windlass.testing.model_server.wires.wire import WireRefused

DATA_URL = re.compile(r"^data:(?P<media>[a-z0-9.+-]+/[a-z0-9.+-]+);base64,(?P<data>.*)$", re.DOTALL)


def words(text: str) -> frozenset[str]:
    """The words of a text, for long lists of names."""
    return frozenset(text.split())


KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "flag": (bool,),
    "whole": (int,),
    "number": (int, float),
    "list": (list,),
    "object": (dict,),
    "text|list": (str, list),
    "text|object": (str, dict),
    "any": (object,),
}
"""What a table of fields may say about a value."""


def fields(**kinds: str) -> dict[str, str]:
    """A table from fields to their kinds, written the other way round: `text="model user"`."""
    table: dict[str, str] = {}
    for kind, names in kinds.items():
        table.update(dict.fromkeys(names.split(), kind.replace("_or_", "|")))
    return table


class Checks:
    """The checks of one format. The first argument of each is the name of the rule, by which a refusal is cited."""

    def __init__(self, part: str) -> None:
        self._part = part

    def need(
        self, rule: str, condition: object, message: str, *, code: str | None = None, param: str | None = None
    ) -> None:
        """Refuses unless the condition holds."""
        if not condition:
            raise WireRefused(message, code=code, param=param, rule=f"{self._part}.{rule}")

    def typed(self, rule: str, value: JsonObject, table: dict[str, str], where: str, unknown: str, wrong: str) -> None:
        """Refuses fields that a table does not know and values of another kind than it says; null stands for absent.
        `unknown` and `wrong` are the vendor's sentences, with the field and its kind."""
        for name, given in value.items():
            kind, param = table.get(name), f"{where}{name}"
            if kind is None:
                self.need(rule, False, unknown.format(param), code="unknown_parameter", param=param)
                continue
            fine = given is None or isinstance(given, KINDS[kind])
            if isinstance(given, bool) and kind in ("whole", "number"):
                fine = False
            self.need(rule, fine, wrong.format(param, kind), code="invalid_type", param=param)

    def known(self, rule: str, value: JsonObject, allowed: frozenset[str], where: str, form: str) -> None:
        """Refuses fields that are not allowed; `form` is the vendor's sentence with `{}` for the field."""
        for name in value:
            param = f"{where}{name}"
            self.need(rule, name in allowed, form.format(param), code="unknown_parameter", param=param)


def is_schema(schema: Any) -> bool:
    """Whether this is a JSON Schema at all."""
    import jsonschema_rs

    return isinstance(schema, dict) and jsonschema_rs.meta.is_valid(schema)


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
        reason = strict_schema(child, f"{path}/{name}" if path else name)
        if reason:
            return reason
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
