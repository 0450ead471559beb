"""What is owed and what is open, read off the state: recovery after a crash is to fold the log and perform what this
returns. Each question goes over the list of parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

import msgspec

from windlass.kernel import parts
from windlass.kernel.effects import AnyEffect, SetTimer
from windlass.kernel.part import Open
from windlass.kernel.parts.trees import child_side
from windlass.kernel.phases import (
    Asked,
    Asleep,
    AwaitingModel,
    AwaitingTools,
    BackingOff,
    Between,
    Compacting,
    Idle,
    Left,
    New,
)
from windlass.kernel.state import State


def owed(state: State) -> tuple[AnyEffect, ...]:
    """The effects that should be under way now. Only intents of the current epoch are among them."""
    if type(state.phase) is Left:
        return ()
    return tuple([effect for keeps, owes in parts.TABLES.owes if keeps(state) for effect in owes(state)])


def owed_at_rest(state: State) -> bool:
    """Whether something is to be done although no run is active; a time to come is only waited for."""
    return any(not isinstance(effect, SetTimer) for effect in owed(state))


def opens(state: State) -> list[Open]:
    """All that is open, in the order of the parts; nothing is in a session that goes on elsewhere."""
    if type(state.phase) is Left:
        return []
    return [thing for keeps, of_part in parts.TABLES.opens if keeps(state) for thing in of_part(state)]


def needs(state: State) -> Iterator[int]:
    """The seqs whose content a request or an effect may need; some more than once."""
    for of_part in parts.TABLES.needs:
        yield from of_part(state)


def next_wake_ms(things: list[Open]) -> int | None:
    """When the first of the open things ends by itself."""
    return min([thing.at_ms for thing in things if thing.at_ms is not None], default=None)


def waiting_for(state: State, things: list[Open] | None = None) -> tuple[str, ...]:
    """What a person or client would have to give, by the ids that answers name."""
    things = opens(state) if things is None else things
    if type(state.phase) is Asked and all(thing.by in ("time", "below") for thing in things):
        return ("credentials",)
    return tuple([thing.open_id for thing in _asked(things)])


def _asked(things: list[Open]) -> list[Open]:
    """What people or clients owe, then what is asked of people by children in the background."""
    others = [thing for thing in things if thing.by == "people" or thing.by == "below"]
    if not others:
        return others
    return [*parts.owed_by_people(others), *(thing for thing in others if thing.by == "below" and "/" in thing.open_id)]


def waiting_words(state: State, things: list[Open] | None = None) -> tuple[str, ...]:
    """The same for people: what each of them is, with the tool that it is about."""
    things = opens(state) if things is None else things
    return tuple(_said_of(thing) for thing in _asked(things))


def stands(state: State) -> str:
    """Where the workflow or the state machine of a session stands, in a few words; empty if it has none."""
    said = ""
    for of_part in parts.TABLES.stands:  # asked at each append, and nearly always of sessions that have neither
        words = of_part(state)
        if words:
            said = f"{said}; {words}" if said else words
    return said


GIVEN = {"client": "result"}
"""What is given to an open thing, if that is not its own word."""
BELOW = {"p": "permission", "q": "question"}
"""What a child waits for, by how its id begins."""


def _said_of(thing: Open) -> str:
    path, slash, own = thing.open_id.rpartition("/")
    if slash and path:
        return f"{BELOW.get(own[:1], 'child')} {thing.open_id} (below)"
    return f"{GIVEN.get(thing.kind, thing.kind)} {thing.open_id} ({thing.tool})"


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """A session in one line: what it does, what it waits for, when it wakes, what it has used."""

    state: str
    waiting_for: tuple[str, ...]
    """The ids that answers name."""
    stands: str
    """Where its workflow or its state machine stands; empty if it has none."""
    owed: bool
    next_wake_ms: int | None
    agent: str
    title: str
    root: str
    parent: str | None
    scope: str
    created_ms: int
    updated_ms: int
    input_tokens: int
    output_tokens: int
    cost_nanos: int
    metadata: dict[str, str]


def overview(state: State, things: list[Open] | None = None) -> Overview:
    """What an index of sessions keeps about this one. `things` is what it has open, if that is known already."""
    things = opens(state) if things is None else things
    setup, spent = state.setup, state.budget.spent
    return Overview(
        state=word_for(state),
        waiting_for=waiting_for(state, things),
        stands=stands(state),
        owed=state.active or owed_at_rest(state),
        next_wake_ms=next_wake_ms(things),
        agent=setup.agent.name,
        title=setup.title,
        root=state.root_id or state.session_id,
        parent=state.parent_id,
        scope=state.scope,
        created_ms=state.started_ms,
        updated_ms=state.now_ms,
        input_tokens=spent.tally.input_tokens,
        output_tokens=spent.tally.output_tokens,
        cost_nanos=spent.cost_nanos,
        metadata=dict(setup.metadata),
    )


def word_for(state: State) -> str:
    """What it does, in a word."""
    if state.active:
        return "running"
    match state.phase:
        case New():
            return "new"
        case Idle():
            if state.schedule.next_ms is not None:
                return "sleeping"
            # A parked child has told its end: nobody can have it try again.
            return "parked" if state.losses.parked and not child_side.has_ended(state) else "idle"
        case Asked():
            return "asked"
        case Asleep():
            return "sleeping"
        case Left():
            return "left"
        case Between() | AwaitingModel() | BackingOff() | AwaitingTools() | Compacting():
            return "running"
        case _:
            assert_never(state.phase)
