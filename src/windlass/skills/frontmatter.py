"""The frontmatter of a SKILL.md: the plain part of YAML that the format takes, read within bounds, each value with its
line. Every scalar is a text; flow collections, tags, anchors and keys that stand twice are refused, so that nothing is
built, shared or guessed while reading."""

from __future__ import annotations

from typing import Any

import msgspec

FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""The fields that the format has; others stand beneath `metadata`."""
FENCE = "---"
FRONTMATTER_CHARS_MAX = 64 * 1024
VALUES_MAX = 1_000
DEPTH_MAX = 8

Plain = str | list[Any] | dict[str, Any]


class NotFrontmatter(ValueError):
    """A text that is no SKILL.md: what is wrong, where, and how to mend it."""

    def __init__(self, code: str, message: str, fix: str, line: int = 1) -> None:
        super().__init__(message)
        self.code = code
        self.fix = fix
        self.line = line


class Frontmatter(msgspec.Struct, frozen=True, kw_only=True):
    """What stands between the fences, with the line of each field, and the text behind them."""

    fields: dict[str, Plain]
    lines: dict[str, int]
    body: str


def frontmatter(text: str) -> Frontmatter:
    """Reads a SKILL.md. Raises `NotFrontmatter`."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[0].startswith(FENCE) or lines[0].strip() != FENCE:
        raise NotFrontmatter("frontmatter-missing", "it does not begin with frontmatter", "let '---' be its first line")
    end = next((i for i, line in enumerate(lines[1:], 1) if line.startswith(FENCE) and line.strip() == FENCE), None)
    if end is None:
        raise NotFrontmatter("frontmatter-open", "the frontmatter does not end", "put a line '---' behind it")
    inner = "\n".join(lines[1:end])
    if len(inner) > FRONTMATTER_CHARS_MAX:
        told = f"the frontmatter is longer than {FRONTMATTER_CHARS_MAX} characters"
        raise NotFrontmatter("frontmatter-large", told, "keep the details in the body, or in files beside it")
    fields, places = _read(inner)
    return Frontmatter(fields=fields, lines=places, body="\n".join(lines[end + 1 :]).strip())


def _read(text: str) -> tuple[dict[str, Plain], dict[str, int]]:
    import yaml

    try:
        reader = _Reader(yaml.parse(text, Loader=yaml.BaseLoader))
        fields = reader.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _invalid(str(error.problem or error), mark.line + 2 if mark else 2) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, NotFrontmatter):
            raise
        raise _invalid(str(error).splitlines()[0], 2) from None
    if not isinstance(fields, dict):
        raise NotFrontmatter(
            "frontmatter-no-mapping", "the frontmatter is no mapping", "write lines such as 'name: my-skill'", 2
        )
    return fields, reader.lines


def _invalid(problem: str, line: int) -> NotFrontmatter:
    fix = "put a value that holds ': ' or begins with a special character in quotes"
    return NotFrontmatter("yaml-invalid", f"the frontmatter is not YAML: {problem}", fix, line)


class _Reader:
    """Plain values out of the events of a YAML text."""

    def __init__(self, events: Any) -> None:
        self.lines: dict[str, int] = {}
        self._events = events
        self._seen = 0
        self._columns: dict[int, int] = {}
        """The indentation of mappings by their depth."""

    def _next(self) -> Any:
        self._seen += 1
        event = next(self._events)
        if self._seen > VALUES_MAX:
            raise self._refused(event, "frontmatter-large", f"more than {VALUES_MAX} values", "keep less in it")
        return event

    def _refused(self, event: Any, code: str, message: str, fix: str) -> NotFrontmatter:
        return NotFrontmatter(code, message, fix, _line(event))

    def document(self) -> Plain | None:
        """The one document of the text; None if it is empty."""
        import yaml

        value: Plain | None = None
        documents = 0
        while not isinstance(event := self._next(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._refused(event, "yaml-invalid", "a second document", "write one")
                value = self._value(self._next(), 0)
        return value

    def _value(self, event: Any, depth: int) -> Plain:
        import yaml

        if depth > DEPTH_MAX:
            raise self._refused(event, "frontmatter-large", f"nested more than {DEPTH_MAX} deep", "flatten it")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise self._refused(event, "yaml-anchor", "anchors and aliases are not taken", "write the value out")
        if event.tag is not None:
            raise self._refused(event, "yaml-tag", f"the tag {event.tag!r} is not taken", "leave it out")
        if getattr(event, "flow_style", False):
            fix = "write it in lines of its own: 'key: value', or '- value'"
            raise self._refused(event, "yaml-flow", "collections in brackets are not taken", fix)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(event, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            entries: list[Any] = []
            while not isinstance(inner := self._next(), yaml.SequenceEndEvent):
                entries.append(self._value(inner, depth + 1))
            return entries
        return str(event.value)

    def _mapping(self, event: Any, depth: int) -> dict[str, Any]:
        import yaml

        column: int = event.start_mark.column
        if self._columns.setdefault(depth, column) != column:
            raise self._refused(event, "yaml-indentation", "it is indented otherwise than the rest", "indent it alike")
        mapping: dict[str, Any] = {}
        while not isinstance(key := self._next(), yaml.MappingEndEvent):
            name: str = getattr(key, "value", "")
            if not isinstance(key, yaml.ScalarEvent) or key.anchor or key.tag is not None or name == "<<":
                raise self._refused(key, "yaml-key", "keys are plain words", "write 'key: value'")
            if name in mapping:
                raise self._refused(key, "yaml-duplicate", f"the key {name!r} stands twice", "keep one of them")
            if depth == 0:
                self.lines[name] = _line(key)
            mapping[name] = self._value(self._next(), depth + 1)
        return mapping


def _line(event: Any) -> int:
    """The line of the file: the fence is its first one, and marks count from 0."""
    line: int = event.start_mark.line
    return line + 2
