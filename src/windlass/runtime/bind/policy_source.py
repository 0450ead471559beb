"""TOML and YAML as plain values, with the line of each: what a policy file is read into.

YAML is parsed event by event and never constructed: no tags, no aliases, no merging, no key twice."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import msgspec

from windlass.events.errors import UsageError

DEPTH_MAX = 8
VALUES_MAX = 20_000
KEY_LINE = re.compile(r"""\s*(?:"([^"\n]*)"|'([^'\n]*)'|([A-Za-z0-9_-]+))\s*(?:=|\.)""")
TABLE_LINE = re.compile(r"\s*\[(\[)?\s*([A-Za-z0-9_.-]+)\s*\]")
AT_LINE = re.compile(r"\(at line (\d+), column \d+\)")

Place = tuple[str | int, ...]


class Source(msgspec.Struct):
    """What a file says, and where."""

    name: str
    values: dict[str, Any]
    lines: dict[Place, int]

    def told(self, place: Place, what: str) -> str:
        """Something about a place in the file, with its line: that of what it stands in, if it is not known itself."""
        while place and place not in self.lines:
            place = place[:-1]
        return f"{self.name}:{self.lines.get(place, 1)}: {what}"


# --- TOML ---------------------------------------------------------------------------------------------------------


def toml_source(text: str, name: str) -> Source:
    """A TOML text. Raises `UsageError` with the line at which it is none."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = AT_LINE.search(str(error))
        line = match[1] if match else text.count("\n") + 1
        said = AT_LINE.sub("", str(error)).strip()
        raise UsageError(f"{name}:{line}: not TOML: {said[:1].lower()}{said[1:]}") from None
    except RecursionError:
        raise UsageError(f"{name}:1: nested too deeply") from None
    lines = _toml_lines(text)
    _check_shape(values, name)
    return Source(name, values, lines)


def _toml_lines(text: str) -> dict[Place, int]:
    """Where the tables and keys of a sound TOML text begin. Lines inside texts and lists of several lines are none."""
    lines: dict[Place, int] = {}
    counts: dict[str, int] = {}
    table: Place = ()
    inside = _Inside()
    for number, line in enumerate(text.split("\n"), start=1):
        if not inside.open:
            header = TABLE_LINE.match(line)
            key = KEY_LINE.match(line)
            if header is not None:
                table = _table(header, counts)
                lines.setdefault(table, number)
                continue
            if key is not None:
                lines.setdefault((*table, key[1] or key[2] or key[3] or ""), number)
        inside.read(line)
    return lines


def _table(header: re.Match[str], counts: dict[str, int]) -> Place:
    named = header[2]
    if not header[1]:
        return tuple(named.split("."))
    counts[named] = counts.get(named, -1) + 1
    return (named, counts[named])


class _Inside:
    """Whether a line of TOML begins inside of a text or a list that began earlier."""

    def __init__(self) -> None:
        self._quote = ""
        self._depth = 0

    @property
    def open(self) -> bool:
        return bool(self._quote) or self._depth > 0

    def read(self, line: str) -> None:
        at = 0
        while at < len(line):
            if self._quote:
                at = self._to_end_of_text(line, at)
                continue
            three, one = line[at : at + 3], line[at]
            if three in ('"""', "'''"):
                self._quote, at = three, at + 3
            elif one in "\"'":
                self._quote, at = one, at + 1
            elif one == "#":
                return
            else:
                self._depth += (one in "[{") - (one in "]}")
                at += 1
        if len(self._quote) == 1:
            self._quote = ""

    def _to_end_of_text(self, line: str, at: int) -> int:
        while at < len(line):
            if line[at] == "\\" and self._quote[0] == '"':
                at += 2
            elif line.startswith(self._quote, at):
                at += len(self._quote)
                self._quote = ""
                return at
            else:
                at += 1
        return at


# --- YAML ---------------------------------------------------------------------------------------------------------


def yaml_source(text: str, name: str) -> Source:
    """A YAML text. Raises `UsageError` with the line at which it is none, or is more than plain data."""
    import yaml

    lines: dict[Place, int] = {}
    try:
        reader = _YamlReader(yaml.parse(text, Loader=yaml.SafeLoader), name, lines)
        values = reader.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UsageError(f"{name}:{mark.line + 1 if mark else 1}: not YAML: {error.problem or error}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{name}:1: not YAML: {error}") from None
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise UsageError(f"{name}:1: a policy file is a table of keys: default, rules, exclude")
    return Source(name, values, lines)


class _YamlReader:
    """Values out of the events of a YAML text."""

    def __init__(self, events: Any, name: str, lines: dict[Place, int]) -> None:
        self._events = events
        self._name = name
        self._lines = lines
        self._seen = 0

    def _next(self) -> Any:
        self._seen += 1
        event = next(self._events)
        if self._seen > VALUES_MAX:
            raise self._wrong(event, f"more than {VALUES_MAX} values")
        return event

    def _wrong(self, event: Any, told: str) -> UsageError:
        return UsageError(f"{self._name}:{self._line(event)}: {told}")

    def document(self) -> Any:
        """The one document of the text; None if it is empty."""
        import yaml

        value = None
        documents = 0
        while not isinstance(event := self._next(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._wrong(event, "a second document: a policy file is one")
                value = self._value(self._next(), ())
        return value

    def _line(self, event: Any) -> int:
        line: int = event.start_mark.line + 1
        return line

    def _value(self, event: Any, place: Place, *, line: int | None = None) -> Any:
        import yaml

        if len(place) > DEPTH_MAX:
            raise self._wrong(event, f"nested more than {DEPTH_MAX} deep")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise self._wrong(event, "anchors and aliases are not taken: write it out")
        self._lines.setdefault(place, line or self._line(event))
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(event, place)
        if event.tag is not None:
            raise self._wrong(event, f"tags such as {event.tag!r} are not taken")
        if isinstance(event, yaml.SequenceStartEvent):
            elements: list[Any] = []
            while not isinstance(inner := self._next(), yaml.SequenceEndEvent):
                elements.append(self._value(inner, (*place, len(elements))))
            return elements
        return _scalar(event)

    def _mapping(self, event: Any, place: Place) -> dict[str, Any]:
        import yaml

        if event.tag is not None:
            raise self._wrong(event, f"tags such as {event.tag!r} are not taken")
        mapping: dict[str, Any] = {}
        while not isinstance(key := self._next(), yaml.MappingEndEvent):
            name: str = getattr(key, "value", "")
            if not isinstance(key, yaml.ScalarEvent) or key.anchor or key.tag is not None:
                raise self._wrong(key, "keys are plain words")
            if name in mapping:
                raise self._wrong(key, f"the key {name!r} stands here twice")
            value = self._next()
            mapping[name] = self._value(value, (*place, name), line=self._line(key))
        return mapping


WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}
NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,15})")


def _scalar(event: Any) -> Any:
    """A plain value: true, false, null and whole numbers as such, everything else a text."""
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    return int(text) if NUMBER.fullmatch(text) else text


def _check_shape(values: Any, name: str) -> None:
    """Raises `UsageError` for what is nested too deeply or is too much."""
    count, waiting = 0, [(values, 0)]
    while waiting:
        value, depth = waiting.pop()
        count += 1
        if depth > DEPTH_MAX or count > VALUES_MAX:
            raise UsageError(f"{name}:1: nested more than {DEPTH_MAX} deep, or more than {VALUES_MAX} values")
        if isinstance(value, dict | list):
            waiting += [(inner, depth + 1) for inner in (value.values() if isinstance(value, dict) else value)]
