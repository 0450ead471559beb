"""Types that bring their own schema: pydantic models, dataclasses and special types, as far as pydantic is loaded.

pydantic is never imported unless an annotation already is one of its types.
"""

from __future__ import annotations

import functools
import typing
from typing import Any

from windlass.events.errors import UsageError

from .shapes import Foreign

VALIDATORS = ("pydantic.functional_validators", "pydantic.functional_serializers", "pydantic.types")
"""Where metadata comes from that changes what pydantic accepts."""
NAMED = ("properties", "$defs", "patternProperties", "dependentSchemas")
"""Keywords whose value is a mapping from names to schemas."""


def is_foreign(hint: Any) -> bool:
    """Whether pydantic must read this type: its models, its dataclasses, its own types, types with its validators."""
    if typing.get_origin(hint) is typing.Annotated:
        return any(type(entry).__module__ in VALIDATORS for entry in hint.__metadata__)
    origin = typing.get_origin(hint) or hint
    if not isinstance(origin, type):
        return False
    return "__pydantic_validator__" in dir(origin) or origin.__module__.split(".")[0] == "pydantic"


def foreign(hint: Any, where: str) -> Foreign:
    """The shape of a pydantic type. Raises `UsageError` if pydantic has no schema for it."""
    import pydantic

    adapter = pydantic.TypeAdapter(hint)
    try:
        schema = adapter.json_schema(mode="validation", ref_template="#/$defs/{model}")
    except pydantic.errors.PydanticUserError as error:
        raise UsageError(f"{where}: pydantic has no schema for {hint!r}: {error.message}") from error
    name = getattr(hint, "__name__", "Model")
    return Foreign(name=name, schema=without_titles(schema), decode=functools.partial(_decode, adapter))


def _decode(adapter: Any, text: bytes) -> Any:
    """JSON mode, so that strict models still take dates and the like as text."""
    import pydantic

    try:
        return adapter.validate_json(text)
    except pydantic.ValidationError as error:
        raise ForeignError([(tuple(problem["loc"]), str(problem["msg"])) for problem in error.errors()]) from None


class ForeignError(ValueError):
    """What a foreign type found wrong: paths within the value, with a message for each."""

    def __init__(self, problems: list[tuple[tuple[Any, ...], str]]) -> None:
        super().__init__("; ".join(message for _, message in problems))
        self.found = problems


def without_titles(schema: Any) -> Any:
    """A schema without the generated titles; a property that is called `title` stays."""
    if isinstance(schema, list):
        return [without_titles(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: without_titles(inner) for name, inner in value.items()}
        if key in NAMED and isinstance(value, dict)
        else (value if key in ("default", "const", "enum", "examples") else without_titles(value))
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
