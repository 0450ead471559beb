"""What other systems' vocabularies become here: reads the lists and the mapping under `tests/coverage/`.

A mapping is a place (see `places`), several places joined by ` + `, or one of
    view: …       computed on reading; names in backticks the places that it is computed from
    planned: …    a planned event or part, then what it will carry
    drop: …       left out, and why

A name counts as produced only if the committed runs prove every place that its mapping names (see `evidence`).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import re
from collections import Counter
from typing import Any, Literal

from dev import evidence, places

from windlass.events.stored.registry import PLANNED

FOLDER = pathlib.Path(__file__).parents[1] / "tests" / "coverage"
SYSTEMS = ("copilot", "meerkat", "duet", "deepstrike", "zidane")
PARTS: dict[str, str] = {
    "memory": "facts that are kept beyond a session",
    "models": "credentials that are refreshed, on record",
}
"""The later parts that planned names come with."""

Standing = Literal["produced", "planned", "dropped"]
STANDINGS: tuple[Standing, ...] = ("produced", "planned", "dropped")

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


@dataclasses.dataclass(frozen=True)
class Claim:
    """What is claimed of one name, with the records that prove it and the places that nothing proves."""

    text: str
    standing: Standing
    proofs: tuple[evidence.Proof, ...] = ()
    unproved: tuple[str, ...] = ()


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
    """What is wrong with one mapping; nothing if it holds."""
    if not text:
        return ["not mapped"]
    verb, _, rest = text.partition(": ")
    if verb == "drop":
        return [] if len(rest.split()) >= REASON_WORDS_MIN else ["dropped without a reason"]
    if verb == "planned":
        what = planned(text)
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


def places_of(text: str) -> list[str]:
    """The places that a mapping rests on."""
    verb, _, rest = text.partition(": ")
    if verb in ("drop", "planned"):
        return []
    return QUOTED.findall(rest) if verb == "view" else text.split(" + ")


def claim(text: str, runs: evidence.Evidence | None = None) -> Claim:
    """What a mapping claims, held against the committed runs."""
    verb = text.partition(": ")[0]
    if verb in ("drop", "planned"):
        return Claim(text, "dropped" if verb == "drop" else "planned")
    found = {place: (runs or evidence.committed()).proof(place) for place in places_of(text)}
    proofs = dict.fromkeys(proof for proof in found.values() if proof is not None)
    return Claim(text, "produced", tuple(proofs), tuple(place for place, proof in found.items() if proof is None))


def claims(row: Row) -> list[tuple[str, Claim]]:
    """The claims of a row: of its name, then of each of its fields."""
    named = [(row.name, claim(row.to))]
    return named + [(f"{row.name}.{field}", claim(row.mapped.get(field, ""))) for field in row.fields]


def counts(system: str) -> Counter[str]:
    """How many names of a system, rows and fields, are produced, planned and dropped."""
    return Counter(found.standing for row in rows(system) for _, found in claims(row))


def parts_planned() -> list[str]:
    """The parts that a planned name of any system comes with."""
    names = {
        what for system in SYSTEMS for row in rows(system) for what in map(planned, (row.to, *row.mapped.values()))
    }
    brought = {PLANNED[name].partition(":")[0] for name in names if name in PLANNED}
    return [part for part in PARTS if part in names | brought]


def planned(text: str) -> str:
    """The event or part that a mapping is planned with; empty if it is not planned."""
    verb, _, rest = text.partition(": ")
    return rest.partition(":")[0].strip() if verb == "planned" else ""


def is_notice(row: Row) -> bool:
    """Whether a row has nothing better than the general notice."""
    return row.to.partition("#")[0].partition(" ")[0] == NOTICE
