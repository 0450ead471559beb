"""What other systems' vocabularies become here: reads the lists and the mapping under `tests/coverage/`.

A mapping is a place (see `places`), several places joined by ` + `, or one of
    view: …       computed on reading; names in backticks the places that it is computed from
    planned: …    a planned event or part, then what it will carry
    drop: …       left out, and why
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import re
from typing import Any

from dev import places

from windlass.events.registry import PLANNED

FOLDER = pathlib.Path(__file__).parents[1] / "tests" / "coverage"
SYSTEMS = ("copilot", "meerkat", "duet", "deepstrike", "zidane")
PARTS = frozenset({note.partition(":")[0] for note in PLANNED.values()})
"""The later parts that planned events belong to."""

NOTICE = "notice.given"
NOTICES_MAX = 5
REASON_WORDS_MIN = 3
QUOTED = re.compile(r"`([^`]+)`")


@dataclasses.dataclass(frozen=True)
class Row:
    """One name of another system, its fields, and what carries them here."""

    system: str
    kind: str
    name: str
    fields: tuple[str, ...]
    to: str
    mapped: dict[str, str]

    @property
    def at(self) -> str:
        return f"{self.system} {self.kind} {self.name}"


@functools.cache
def source(system: str) -> dict[str, Any]:
    """The list of a system as extracted from its own publication."""
    return _read(f"{system}.json")


@functools.cache
def mapping(system: str) -> dict[str, Any]:
    """The mapping of a system: kind, name, then a place or {to, fields}."""
    return _read(f"{system}.map.json")


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return found


def rows(system: str) -> list[Row]:
    """Every row of a system with its mapping; what is not mapped is empty, and `complaints` says so."""
    found = []
    for row in source(system)["rows"]:
        entry = mapping(system).get(row["kind"], {}).get(row["name"], "")
        to, mapped = (entry, {}) if isinstance(entry, str) else (entry["to"], entry.get("fields", {}))
        if isinstance(mapped, str):
            mapped = dict.fromkeys(row["fields"], mapped)
        found.append(Row(system, row["kind"], row["name"], tuple(row["fields"]), to, mapped))
    return found


def complaints(row: Row) -> list[str]:
    """Everything that is wrong with the mapping of a row."""
    found = [f"{row.at}: {wrong}" for wrong in wrong_with(row.to)]
    for field in row.fields:
        found += [f"{row.at}.{field}: {wrong}" for wrong in wrong_with(row.mapped.get(field, ""))]
    return found + [f"{row.at}: maps {field!r}, which it does not have" for field in set(row.mapped) - set(row.fields)]


def wrong_with(text: str) -> list[str]:
    """What is wrong with one mapping; nothing where it holds."""
    if not text:
        return ["not mapped"]
    verb, _, rest = text.partition(": ")
    if verb == "drop":
        return [] if len(rest.split()) >= REASON_WORDS_MIN else ["dropped without a reason"]
    if verb == "planned":
        what = rest.partition(":")[0].strip()
        return [] if what in PLANNED or what in PARTS else [f"{what!r} is not planned: see registry.PLANNED"]
    if verb == "view":
        quoted = QUOTED.findall(rest)
        return _unknown(quoted) if quoted else ["a view names in backticks what it is computed from"]
    return _unknown(text.split(" + "))


def _unknown(targets: list[str]) -> list[str]:
    found = []
    for target in targets:
        try:
            places.find(target)
        except places.NoSuchPlace as error:
            found.append(str(error))
    return found


def is_notice(row: Row) -> bool:
    """Whether a row has nothing better than the general notice."""
    return row.to.partition("#")[0].partition(" ")[0] == NOTICE
