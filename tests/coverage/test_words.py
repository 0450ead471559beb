"""Every word that a field may hold is said in a committed run, or known not to be: a word that nothing says is not
declared."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

import pytest
from dev import coverage, evidence, places, unsaid, vocabulary

from windlass.events.live import LIVE_EVENTS
from windlass.events.stored.registry import EVENTS
from windlass.events.values import items

ALIASES = {name: value for name, value in places.names().items() if get_origin(value) is Literal}
SPEAKING = [
    cls for cls in (*EVENTS, *LIVE_EVENTS, *vocabulary.reachable()) if cls.__module__ != items.__name__
]  # items are rendered, and stand in a log only if a history was imported


def closed_fields() -> list[tuple[type[Any], str, Any]]:
    """Every field that holds words of a closed set, with the set."""
    return [
        (cls, field, literal)
        for cls in SPEAKING
        for field, hint in evidence.hints_of(cls).items()
        if field in cls.__struct_fields__
        for literal in evidence.literals_in(hint)
    ]


def names_of(cls: type[Any], field: str, literal: Any) -> tuple[str, ...]:
    return (f"{cls.__name__}.{field}", *(name for name, value in ALIASES.items() if value == literal))


def is_said(cls: type[Any], field: str, literal: Any, word: str) -> bool:
    """Whether a run says a word: somewhere, if its set has a name, else in this very field."""
    runs = evidence.committed()
    shared = [name for name, value in ALIASES.items() if value == literal]
    if shared:
        return runs.proof(f"{shared[0]}={word}") is not None
    return runs.spoken(cls, field, word) is not None


@pytest.mark.parametrize("name", sorted({cls.__name__ for cls, _, _ in closed_fields()}))
def test_every_word_that_a_field_may_hold_is_said_in_a_run_or_known_not_to_be(name):
    silent = [
        f"{name}.{field}={word}"
        for cls, field, literal in closed_fields()
        if cls.__name__ == name
        for word in map(str, get_args(literal))
        if not is_said(cls, field, literal, word) and not unsaid.excused(names_of(cls, field, literal), word)
    ]
    assert silent == [], "produce it in dev/runs, undeclare it, or say in dev/unsaid.py why no run says it"


def test_what_is_said_by_no_run_is_declared_and_really_not_said():
    found: dict[str, bool] = {}
    for cls, field, literal in closed_fields():
        for word in map(str, get_args(literal)):
            for name in names_of(cls, field, literal):
                said = is_said(cls, field, literal, word)
                found[f"{name}={word}"] = found.get(f"{name}={word}", False) or said
                found[name] = found.get(name, True) and said
    assert [name for name in unsaid.UNSAID if found.get(name, True)] == [], "nothing to excuse any more"


def test_what_is_planned_comes_with_a_part_that_is_known():
    planned = [why.split(": ")[1] for why in unsaid.UNSAID.values() if why.startswith("planned: ")]
    assert set(planned) <= set(coverage.PARTS)
