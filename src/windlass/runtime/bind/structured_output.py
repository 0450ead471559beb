"""Structured output: the schema of a type, whether an answer fits it, and the value as that type."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from windlass.events.turns import OutputCheck
from windlass.events.values.blocks import JsonObject
from windlass.tools.types.convert import Mismatch
from windlass.tools.types.signature import given, read

FENCE = re.compile(r"^\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
ERRORS_MAX = 10
WARNINGS_MAX = 5


def _reader(kind: Any) -> Any:
    """The one parameter of a function that would take the type: tools and outputs read types alike."""

    def answer(value: Any) -> None: ...

    answer.__annotations__ = {"value": kind, "return": None}
    return read(answer, f"output {getattr(kind, '__name__', kind)!r}", {})


def schema_of(kind: Any) -> JsonObject:
    """The JSON Schema of an output type."""
    schema = _reader(kind).schema
    inner: JsonObject = dict(schema["properties"]["value"])
    if "$defs" in schema:
        inner["$defs"] = schema["$defs"]
    return inner


def strict(schema: Any) -> bool:
    """Whether a schema obeys the rules of providers' strict modes, so that they hold their models to it."""
    return next(loose(schema), None) is None


def loose(schema: Any, path: str = "$") -> Iterator[str]:
    """Where a schema is looser than strict modes take: there every property of every object is required, and nothing
    else is allowed. Fields with defaults are loose."""
    if isinstance(schema, list):
        for number, part in enumerate(schema):
            yield from loose(part, f"{path}[{number}]")
    if not isinstance(schema, dict):
        return
    if "properties" in schema:
        optional = sorted(set(schema["properties"]) - set(schema.get("required", ())))
        if optional:
            yield f"{path}: {', '.join(optional)} may be absent, so no provider holds its model to the schema"
        if schema.get("additionalProperties") is not False:
            yield f"{path}: further properties are allowed, so no provider holds its model to the schema"
    for name, part in schema.items():
        yield from loose(part, f"{path}.{name}")


class Output:
    """An output type with its validator."""

    def __init__(self, kind: Any, schema: JsonObject) -> None:
        from windlass.tools.validator import Validator

        self._kind = kind
        self._plain = isinstance(kind, Mapping)
        wrapped = {"type": "object", "properties": {"value": {k: v for k, v in schema.items() if k != "$defs"}}}
        wrapped["required"] = ["value"]
        if "$defs" in schema:
            wrapped["$defs"] = schema["$defs"]
        self._validator = Validator(wrapped, "the output schema")
        self._parameters = given(wrapped, None, "output") if self._plain else _reader(kind)
        if self._plain:
            # One that is no schema is refused now, and not when the first answer is paid for.
            self._validator.errors({})
        self._warnings = tuple(itertools.islice(loose(schema), WARNINGS_MAX))

    def check(self, text: str) -> OutputCheck:
        """Whether an answer is JSON that fits; a fence around it is forgiven, nothing else is repaired."""
        fenced = FENCE.match(text)
        try:
            value = msgspec.json.decode((fenced[1] if fenced else text).strip().encode())
        except (msgspec.DecodeError, UnicodeError) as error:
            return OutputCheck(valid=False, errors=(f"the answer is not JSON: {error}",))
        errors = self._validator.errors({"value": value})
        if errors:
            return OutputCheck(valid=False, errors=tuple(errors[:ERRORS_MAX]))
        try:
            # What only the type itself refuses (a date that is none, a validator) does not fit either.
            self.parse(value)
        except Mismatch as error:
            return OutputCheck(valid=False, errors=(str(error),))
        fence = ("$: the answer stood in a fence, which was taken off",) if fenced else ()
        return OutputCheck(valid=True, value=value, warnings=(*self._warnings, *fence))

    def parse(self, value: Any) -> Any:
        """A value as the output type. Raises `Mismatch` if it does not fit."""
        if self._plain:
            return value
        return self._parameters.values({"value": value})["value"]
