"""What a part is: one machine of the kernel, with all that the rest asks of it.

A part owns a slice of the state, its events, and what follows from them. It answers the questions below for its slice
alone; whoever wants the answer for the whole session goes over the list in `windlass.kernel.parts`. Another part's
slice is changed by a verb of that part, or by the part itself when it hears of the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from windlass.events.base import Command, Decision, Event, Fact
from windlass.events.sessions import SessionResumed
from windlass.events.values.blocks import Value
from windlass.kernel.effects import AnyEffect
from windlass.kernel.phases import Phases

if TYPE_CHECKING:
    from windlass.kernel.state import State

Decisions = Iterator[Decision]
Arm = Callable[["State", Any], None]
"""Folds one event into the state. Raises `Misfit` or a lookup error for an event that cannot stand where it is."""
Check = Callable[["State", Any], None]
"""Raises `Refused` unless the fact may come now. Changes nothing."""
Then = Callable[["State", Any], Decisions]
"""The decisions that follow from a fact; each is folded before the next is asked for."""

Kept = Callable[["State"], Any]
"""What a part keeps in the state; as good as false if that is nothing."""

Why = Literal["interrupted", "cancelled", "superseded", "not_carried_over"]
"""Why all that is open is closed."""


class Misfit(ValueError):
    """An event that the state has no place for."""


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What a fact answers: one open thing of some kind, by the id that stands in one of its fields."""

    field: str
    kind: str
    """The `kind` of the `Open` that may be answered so."""
    word: str
    """What people call it."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of fact: when it may come, how it is folded, and what follows."""

    when: Phases
    """The phases in which it may come; in every other it is refused."""
    check: Check | None = None
    answers: Answers | None = None
    """What it answers, if it is an answer. Whoever sends it too late is told what became of that, not of the phase."""
    fold: Arm | None = None
    then: Then | None = None


class Open(Value, frozen=True, kw_only=True, gc=False):
    """One thing that is open: what it is, who must do something, and since which record."""

    kind: str
    """What people call it: `model`, `tool`, `client` (a result that comes from outside), `permission`, `question`,
    `settle` (an outcome that somebody must tell), `timer`, `child`, or the word of a later part."""
    open_id: str
    by: Literal["us", "people", "time", "child", "below"]
    """`below`: a child in the background, which holds up nothing here."""
    seq: int
    tool: str = ""
    model: str = ""
    attempt: int = 1
    at_ms: int | None = None
    """When it ends by itself, if it does."""


class Send(NamedTuple):
    """A message to another session, which goes out with the append that it follows from."""

    session: str
    command: Command
    content_seq: int | None = None
    """The record whose content belongs into it; whoever sends it fills that in."""
    creates: bool = False
    """Whether the other session is made if there is none."""


class Reserved(NamedTuple):
    """What is set aside of the budgets for work under way; nobody else may count on it."""

    tokens: int = 0
    cost_nanos: int = 0
    calls: int = 0
    turns: int = 0
    children: int = 0


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One machine of the kernel."""

    name: str
    facts: Mapping[type[Fact], Row] = {}
    decisions: Mapping[type[Decision], Arm | None] = {}
    """How each of its decisions is folded; None for those that are for readers only."""
    hears: Mapping[type[Event], Arm] = {}
    """How its slice changes with another part's event, after that part has folded it. For rare events only."""
    keeps: Kept | None = None
    """The things in the state that it owes something for or has open: while there are none it is asked for neither.
    Without this it is asked each time."""
    owes: Callable[[State], Iterable[AnyEffect]] | None = None
    """The effects that should be under way now."""
    opens: Callable[[State], Iterable[Open]] | None = None
    """What it has open or waits for."""
    stop: Callable[[State, Why], Decisions] | None = None
    """Closes what it has open. A fork stops what was open at its origin too."""
    taken_over: Callable[[State, SessionResumed], Decisions] | None = None
    """What a new owner does with the intents of the one before."""
    forked: Callable[[State], Decisions] | None = None
    """What is dropped at the beginning of a fork, before all that is open is stopped."""
    needs: Callable[[State], Iterable[int]] | None = None
    """The seqs whose content a request or an effect may need."""
    works: Callable[[State], bool] | None = None
    """Whether the session's own time passes: something is at work for it."""
    reserves: Callable[[State], Reserved] | None = None
    """What it has set aside of the budgets."""
    tells: Callable[[State, int, list[Event]], Iterable[Send]] | None = None
    """What an append says to other sessions: the state behind it, its first seq, its events."""
    behind: Callable[[State], Iterable[str]] | None = None
    """What it has begun that would go on here if the session went elsewhere: each in words that name it and say how it
    ends."""
    stands: Callable[[State], str] | None = None
    """Where its machine stands, in a few words for lists of sessions; empty if there is none. Asked at each append, so
    it costs the same however much the machine holds, unless nothing will change any more."""


class Tables(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of all parts by question: a dict by event type, or a tuple in the order of the list."""

    fold: dict[type[Event], Arm]
    facts: dict[type[Fact], Row]
    owner: dict[type[Event], str]
    """The part that each event belongs to."""
    owes: tuple[tuple[Kept, Callable[[State], Iterable[AnyEffect]]], ...]
    """Each with what says whether there is anything to ask about; so are `opens`."""
    opens: tuple[tuple[Kept, Callable[[State], Iterable[Open]]], ...]
    stop: tuple[Callable[[State, Why], Decisions], ...]
    """In the opposite order: what rests on another thing is closed before it."""
    taken_over: tuple[Callable[[State, SessionResumed], Decisions], ...]
    forked: tuple[Callable[[State], Decisions], ...]
    needs: tuple[Callable[[State], Iterable[int]], ...]
    works: tuple[Callable[[State], bool], ...]
    reserves: tuple[Callable[[State], Reserved], ...]
    tells: tuple[Callable[[State, int, list[Event]], Iterable[Send]], ...]
    behind: tuple[Callable[[State], Iterable[str]], ...]
    stands: tuple[Callable[[State], str], ...]


def for_readers(state: State, event: Event) -> None:
    """Folds an event that changes nothing here."""


def assemble(parts: tuple[Part, ...]) -> Tables:
    """The tables of some parts. Raises `ValueError` if two of them claim one event."""
    owner: dict[type[Event], str] = {}
    arms: dict[type[Event], list[Arm]] = {}
    for part in parts:
        rows: dict[type[Event], Arm | None] = {kind: row.fold for kind, row in part.facts.items()}
        for kind, arm in (rows | dict(part.decisions)).items():
            if kind in owner:
                raise ValueError(f"{kind.__name__} belongs to {owner[kind]} and to {part.name}")
            owner[kind] = part.name
            arms[kind] = [arm] if arm is not None else []
    for part in parts:
        for kind, arm in part.hears.items():
            arms[kind].append(arm)
    return Tables(
        fold={kind: _one(own_arms) for kind, own_arms in arms.items()},
        facts={kind: row for part in parts for kind, row in part.facts.items()},
        owner=owner,
        owes=tuple((_kept(part), part.owes) for part in parts if part.owes is not None),
        opens=tuple((_kept(part), part.opens) for part in parts if part.opens is not None),
        stop=tuple(part.stop for part in reversed(parts) if part.stop is not None),
        taken_over=tuple(part.taken_over for part in parts if part.taken_over is not None),
        forked=tuple(part.forked for part in parts if part.forked is not None),
        needs=tuple(part.needs for part in parts if part.needs is not None),
        works=tuple(part.works for part in parts if part.works is not None),
        reserves=tuple(part.reserves for part in parts if part.reserves is not None),
        tells=tuple(part.tells for part in parts if part.tells is not None),
        behind=tuple(part.behind for part in parts if part.behind is not None),
        stands=tuple(part.stands for part in parts if part.stands is not None),
    )


def _kept(part: Part) -> Kept:
    return part.keeps if part.keeps is not None else lambda state: True


def _one(arms: list[Arm]) -> Arm:
    """One arm for an event that several parts hear of."""
    if len(arms) <= 1:
        return arms[0] if arms else for_readers

    def each(state: State, event: Any) -> None:
        for arm in arms:
            arm(state, event)

    return each


def bounded(values: dict[str, bool] | dict[str, str] | dict[str, int], most: int) -> None:
    """Drops the oldest entries past the bound."""
    while len(values) > most:
        del values[next(iter(values))]
