"""Checks the arguments of a call against the tool's schema, before anybody judges or runs it.

Errors are written for the model that made the call: the path first, then what was expected.
"""

from __future__ import annotations

from typing import Any

from windlass.events.errors import UsageError
from windlass.events.values.blocks import JsonObject
from windlass.tools.types.convert import kind_of, step_text

from .canonical_json import NotCanonical, canonical, digest
from .schema_size import is_too_large

__all__ = ["NotCanonical", "Validator", "canonical", "digest"]

ERRORS_MAX = 8
ERROR_CHARS_MAX = 300
OPTIONS_SHOWN_MAX = 20


class Validator:
    """A schema, compiled when it is first needed. It never fetches anything that the schema refers to."""

    def __init__(self, schema: JsonObject, owner: str) -> None:
        self.schema = schema
        self.owner = owner
        self._compiled: Any = None

    def errors(self, args: JsonObject) -> tuple[str, ...]:
        """What is wrong with the arguments; empty if nothing is."""
        compiled = self._compiled or self._compile()
        try:
            if compiled.is_valid(args):
                return ()
            lines = [line for error in compiled.iter_errors(args) for line in self._lines(error)]
        except UnicodeError:
            return ("the arguments hold text that is not valid Unicode (a lone surrogate)",)
        except ValueError as error:
            return (_short(f"the arguments cannot be checked: {error}"),)
        return tuple(dict.fromkeys(lines))[:ERRORS_MAX]

    def _compile(self) -> Any:
        import jsonschema_rs

        if is_too_large(self.schema):
            raise UsageError(f"{self.owner}: its parameters refer to each other so often that nobody can check them")
        try:
            canonical(self.schema)  # a tool is known by the digest of this
            self._compiled = jsonschema_rs.validator_for(self.schema, retriever=_fetch_nothing)
        except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
            reason = str(error).partition("\n")[0]
            raise UsageError(f"{self.owner}: its parameters are no valid JSON Schema: {reason}") from error
        return self._compiled

    def _lines(self, error: Any, depth: int = 0) -> list[str]:
        kind = error.kind
        path = path_text(error.instance_path)
        match type(kind).__name__:
            case "Required":
                return [_at([*error.instance_path, kind.property], "is required")]
            case "AdditionalProperties":
                known = self._properties(error.schema_path)
                return [_at([*error.instance_path, name], _unknown(name, known)) for name in kind.unexpected]
            case "Type":
                return [_line(path, f"must be {_expected(kind)}, got {_got(error.instance)}")]
            case "Enum":
                return [_line(path, f"must be one of {_options(kind.options)}, got {_got(error.instance)}")]
            case "AnyOf" | "OneOfNotValid" if depth < ERRORS_MAX:
                return self._alternatives(error, depth)
        return [_line(path, error.message)]

    def _alternatives(self, error: Any, depth: int) -> list[str]:
        """Of several alternatives, the one that was nearly met: its error is not just a wrong type."""
        flat = [inner for branch in getattr(error.kind, "context", None) or () for inner in branch]
        here = len(error.instance_path)
        meant = [inner for inner in flat if type(inner.kind).__name__ != "Type" or len(inner.instance_path) > here]
        if meant:
            return self._lines(max(meant, key=lambda inner: len(inner.instance_path)), depth + 1)
        if not flat:
            return [_line(path_text(error.instance_path), error.message)]
        wanted = " or ".join(dict.fromkeys(_expected(inner.kind) for inner in flat))
        return [_line(path_text(error.instance_path), f"must be {wanted}, got {_got(error.instance)}")]

    def _properties(self, path: list[str | int]) -> list[str]:
        """The names that the object at a place of the schema knows."""
        place: Any = self.schema
        for step in path[:-1]:
            place = place.get(step) if isinstance(place, dict) else place[int(step)]
        return list(place.get("properties", ())) if isinstance(place, dict) else []


def _fetch_nothing(uri: str) -> Any:
    raise ValueError(f"{uri} lies outside of the schema")


def path_text(path: list[str | int]) -> str:
    """A path as people write it: `orders[2].item`."""
    return "".join(step_text(step) for step in path).removeprefix(".")


def _at(path: list[str | int], message: str) -> str:
    return _line(path_text(path), message)


def _line(path: str, message: str) -> str:
    return _short(f"{path}: {message}" if path else f"the arguments: {message}")


def _expected(kind: Any) -> str:
    return " or ".join(kind.types)


def _got(value: Any) -> str:
    if value is None or isinstance(value, str | int | float):
        return f"{kind_of(value)} {_short(repr(value), 80)}" if value is not None else "null"
    return kind_of(value)


def _options(options: Any) -> str:
    shown = [repr(option) for option in list(options)[:OPTIONS_SHOWN_MAX]]
    return ", ".join(shown) + (", …" if len(list(options)) > OPTIONS_SHOWN_MAX else "")


def _unknown(name: str, known: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"is not known; did you mean {close[0]!r}?"
    return f"is not known; known are {', '.join(map(repr, known[:OPTIONS_SHOWN_MAX]))}" if known else "is not known"


def _short(text: str, limit: int = ERROR_CHARS_MAX) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
