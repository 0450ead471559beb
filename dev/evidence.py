"""Proves that a place of the vocabulary is really produced: finds a record of a committed run that holds it.

The runs lie under `tests/runs/`: the exported log of each session (`NAME.jsonl`), what its readers were streamed
(`NAME.live.jsonl`), and what callers were refused with (`raised.jsonl`). A proof is a file and a number: the seq of
a record, or the number of a line (always so behind `@line`: what is exported beside the log).

    python dev/evidence.py approvals 12     shows the record that a proof names
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

ROOT = pathlib.Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from dev import places  # noqa: E402

from windlass.events.base import Event, name_of  # noqa: E402
from windlass.events.live import LIVE_EVENTS, Live  # noqa: E402
from windlass.events.stored import codec  # noqa: E402
from windlass.events.stored.record import Line  # noqa: E402
from windlass.events.values import items  # noqa: E402
from windlass.events.values.failures import Failure, FailureClass  # noqa: E402
from windlass.store.transfer.format import decode_entry  # noqa: E402

FOLDER = ROOT / "tests" / "runs"
RAISED = "raised"
LIVE = ".live"
LINE = "@line"
"""Marks a line of an export that is no append: an index row, a command that waits."""
ERRORS = "windlass.events.errors."
decode_live = msgspec.json.Decoder(Union[LIVE_EVENTS]).decode  # noqa: UP007


class Raised(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller tried, and the error that it got."""

    did: str
    error: str
    message: str


@dataclasses.dataclass(frozen=True, order=True)
class Proof:
    """Where to look: a file of `tests/runs/` without its ending, and a seq or a line number."""

    log: str
    number: int

    def __str__(self) -> str:
        return f"{self.log}:{self.number}"


@dataclasses.dataclass(frozen=True)
class Spoken:
    """One struct of a record, with where the record is."""

    proof: Proof
    value: msgspec.Struct


class Evidence:
    """Everything that a folder of runs holds, ready to be asked."""

    def __init__(self, folder: pathlib.Path = FOLDER, only: Collection[str] | None = None) -> None:
        """`only` names the sessions whose logs are read; all if none are named."""
        self.by_tag: dict[str, list[Spoken]] = {}
        self._by_class: dict[type[msgspec.Struct], list[Spoken]] = {}
        self._words: dict[tuple[Any, str], Proof] = {}
        self._raised: list[Spoken] = []
        self._entries: dict[str, Proof] = {}
        self._found: dict[str, Proof | None] = {}
        self._spoken: dict[tuple[str, str, str], Proof] = {}
        for path in sorted(folder.glob("*.jsonl")):
            if only is None or path.stem.removesuffix(LIVE) in only:
                self._read(path)

    def _read(self, path: pathlib.Path) -> None:
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            if path.stem == RAISED:
                self._raised.append(Spoken(Proof(path.stem, number), msgspec.json.decode(line, type=Raised)))
            elif path.stem.endswith(LIVE):
                self._add(Proof(path.stem, number), decode_live(line))
            else:
                self._read_line(path.stem, number, line)

    def _read_line(self, log: str, number: int, line: bytes) -> None:
        if not line.startswith(b'{"seq":'):
            entry = decode_entry(line)
            for name in entry.__struct_fields__:
                if getattr(entry, name):
                    self._entries.setdefault(name, Proof(log + LINE, number))
            return
        append = codec.decode(line)
        for seq, event in enumerate(append.events, start=append.first_seq):
            assert isinstance(event, Event), event
            self._add(Proof(log, seq), event)

    def _add(self, proof: Proof, event: Event | Live) -> None:
        tag = name_of(event) if isinstance(event, Event) else str(event.__struct_config__.tag)
        self.by_tag.setdefault(tag, []).append(Spoken(proof, event))
        self._add_struct(proof, event)

    def _add_struct(self, proof: Proof, value: msgspec.Struct) -> None:
        self._by_class.setdefault(type(value), []).append(Spoken(proof, value))
        if isinstance(value, Failure):
            self._words.setdefault((FailureClass, value.failure_class), proof)
        hints = hints_of(type(value))
        for name in value.__struct_fields__:
            inner = getattr(value, name)
            for word in words_in(inner):
                for literal in literals_in(hints[name]):
                    self._words.setdefault((literal, word), proof)
                    self._spoken.setdefault((type(value).__name__, name, word), proof)
            for struct in structs_in(inner):
                self._add_struct(proof, struct)

    # --- asking ---

    def proof(self, place: str) -> Proof | None:
        """A record that holds the place with a value other than its default; None if no run produced it."""
        if place not in self._found:
            self._found[place] = self._proof(place)
        return self._found[place]

    def _proof(self, place: str) -> Proof | None:
        places.find(place)
        where, condition, word = places.parts(place)
        head, _, path = where.partition("#")
        if head in places.tags():
            return self._among(meeting(condition, self.by_tag.get(head, ())), path, word)
        if where.startswith(ERRORS):
            return self._among(meeting(condition, self._raised), "error", where.removeprefix(ERRORS))
        if where.startswith("windlass."):
            return self._stored(where.rpartition(".")[2])
        first, _, path = where.partition(".")
        named = places.names().get(first)
        if named is Line:
            return self._any()  # every append is a line
        if isinstance(named, type) and issubclass(named, msgspec.Struct) and named.__module__ != items.__name__:
            return self._among(meeting(condition, self._instances(named)), path, word)
        if get_origin(named) is Literal and word:
            return self._words.get((named, word))
        return self._any()

    def _among(self, candidates: Iterable[Spoken], path: str, word: str) -> Proof | None:
        steps = path.split(".") if path else []
        return next((spoken.proof for spoken in candidates if holds(spoken.value, steps, word)), None)

    def _instances(self, cls: type[msgspec.Struct]) -> Iterator[Spoken]:
        for found, spoken in self._by_class.items():
            if issubclass(found, cls):
                yield from spoken

    def _stored(self, name: str) -> Proof | None:
        """What lies in a store beside the log and is exported with it; snapshots are not, being disposable."""
        entry = {"IndexRow": "index", "InboxCommand": "waiting"}.get(name)
        return self._entries.get(entry) if entry else self._any()

    def _any(self) -> Proof | None:
        """What is computed from any record at all."""
        return next((spoken.proof for spoken in self.by_tag.get("session.started", ())), None)

    def spoken(self, cls: type[msgspec.Struct], field: str, word: str) -> Proof | None:
        """A record in which this field of this value holds this word."""
        return self._spoken.get((cls.__name__, field, word))


@functools.cache
def committed() -> Evidence:
    """What the committed runs hold."""
    return Evidence()


@functools.cache
def hints_of(cls: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(cls)


def literals_in(hint: Any) -> list[Any]:
    """The closed sets of words in a hint, seen through options, lists and maps."""
    if get_origin(hint) is Literal:
        return [hint]
    return [found for arg in get_args(hint) for found in literals_in(arg)]


def words_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [word for word in value if isinstance(word, str)] if isinstance(value, tuple | list) else []


def structs_in(value: Any) -> Iterator[msgspec.Struct]:
    """The structs directly inside a value."""
    if isinstance(value, msgspec.Struct):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from structs_in(inner)
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from structs_in(inner)


def meeting(condition: places.Condition | None, candidates: Iterable[Spoken]) -> Iterator[Spoken]:
    """Those of which a condition holds; all if there is none."""
    return (spoken for spoken in candidates if condition is None or meets(condition, spoken.value))


def meets(condition: places.Condition, value: msgspec.Struct) -> bool:
    """Whether a field of a struct holds the word that a condition names."""
    by, word = condition
    inner = getattr(value, by, None)
    return word in words_in(inner) or str(inner).lower() == word


def holds(value: msgspec.Struct, steps: list[str], word: str) -> bool:
    """Whether a struct holds something other than the default at a path, or this very word."""
    if not steps:
        return True
    found = places.STEP.fullmatch(steps[0])
    assert found is not None, steps
    name, by, kind = found["field"], found["by"], found["kind"]
    if name not in value.__struct_fields__:
        return hasattr(value, name)  # computed from the rest
    inner = getattr(value, name)
    below = [struct for struct in structs_in(inner) if not kind or is_kind(struct, by, kind)]
    if len(steps) > 1:
        return any(holds(struct, steps[1:], word) for struct in below)
    if word:
        return word in words_in(inner) or str(inner).lower() == word
    return bool(below) if kind else says(type(value), name, inner)


def is_kind(struct: msgspec.Struct, by: str | None, kind: str) -> bool:
    """Whether a struct is the one of its union that a step names, by its tag or by what a field of it holds."""
    return meets((by, kind), struct) if by else struct.__struct_config__.tag == kind


def says(cls: type[msgspec.Struct], name: str, value: Any) -> bool:
    """Whether a field was really given: another value than its default, or something at all if it has none."""
    field = next(field for field in msgspec.structs.fields(cls) if field.name == name)
    if field.required:
        return value not in ("", (), [], {}, None)
    default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return bool(value != default)


def record_at(proof: Proof, folder: pathlib.Path = FOLDER) -> Any:
    """What a proof points at: an event, a live event, what was raised, or an entry of the export. Raises `LookupError`
    if nothing is there."""
    lines = (folder / f"{proof.log.removesuffix(LINE)}.jsonl").read_bytes().splitlines()
    if proof.log.endswith(LINE):
        return decode_entry(lines[proof.number - 1])
    for at, line in enumerate(lines, start=1):
        if line.startswith(b'{"seq":'):
            append = codec.decode(line)
            if append.first_seq <= proof.number <= append.last_seq:
                return append.events[proof.number - append.first_seq]
        elif at == proof.number and proof.log == RAISED:
            return msgspec.json.decode(line, type=Raised)
        elif at == proof.number and proof.log.endswith(LIVE):
            return decode_live(line)
    raise LookupError(f"{proof.log} has no {proof.number}")


def main(log: str, number: int) -> int:
    found = record_at(Proof(log, number))
    print(msgspec.json.format(msgspec.json.encode(found), indent=1).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
