"""What the store's index of sessions says of one: made from its state, and told again when it says something else."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.events.base import Event
from windlass.events.tools.calls import ToolAllowed, ToolDenied, ToolFinished, ToolPrepared, ToolRequested, ToolStarted
from windlass.events.turns import ModelReplied, ModelRequested, TurnFinished, TurnStarted
from windlass.kernel.owed import Overview, next_wake_ms, opens, overview, stands, waiting_for, waiting_words, word_for
from windlass.kernel.part import Open
from windlass.kernel.parts.budgets import own_use
from windlass.kernel.state import State
from windlass.store.base import IndexRow, Key

SUMS_EVERY_MS = 1_000
"""How old the sums and the time of the last change may grow in the index while a session is at work."""

UNLISTED = frozenset(
    {
        ModelRequested,
        ModelReplied,
        ToolRequested,
        ToolPrepared,
        ToolAllowed,
        ToolDenied,
        ToolStarted,
        ToolFinished,
        TurnStarted,
        TurnFinished,
    }
)
"""What a session at work mostly puts on record: none of them alone has it wait for anybody, or says anything else that
sessions are looked for by."""


class Listing:
    """One session's row. Whatever sessions are looked for by is always true; tokens, cost and the last change may be
    a second old while a run goes on, and are exact when it rests."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self._told: IndexRow | None = None

    def due(self, state: State, events: Iterable[Event], clock_ms: int | None = None) -> IndexRow | None:
        """The row to keep with an append of some events, behind which the state is this; none if the one that is kept
        will do. `clock_ms` is what the clock says if the log is ahead of it."""
        told = self._told
        if told is None or not state.active or state.now_ms - told.updated_ms >= SUMS_EVERY_MS:
            return row_of(self._key, state, clock_ms)
        if _waits_for_nothing(told) and UNLISTED.issuperset(map(type, events)):
            return None
        things = opens(state)
        return None if _holds(told, state, things) else row_of(self._key, state, clock_ms, things)

    def kept(self, row: IndexRow | None) -> None:
        """The append was kept."""
        if row is not None:
            self._told = row

    def forget(self) -> None:
        """Nobody knows what the store has."""
        self._told = None


def _waits_for_nothing(told: IndexRow) -> bool:
    """Whether a session was at work and waited for nobody and no time, without a workflow or machine."""
    waits = told.waiting_for or told.next_wake_ms is not None or told.stands
    return told.owed and told.state == "running" and not waits


def _holds(told: IndexRow, state: State, things: list[Open]) -> bool:
    """Whether what the index says of a session at work is still true."""
    return (
        told.owed
        and told.state == word_for(state)
        and told.next_wake_ms == next_wake_ms(things)
        and told.title == state.setup.title
        and told.agent == state.setup.agent.name
        and told.waiting_for == waiting_for(state, things)
        and told.metadata == state.setup.metadata
        and told.stands == stands(state)
        and told.losses == state.losses.count
    )


def row_of(key: Key, state: State, clock_ms: int | None = None, things: list[Open] | None = None) -> IndexRow:
    """What an index keeps about a session as it is now. `things` is what it has open, if that is known already."""
    things = opens(state) if things is None else things
    view: Overview = overview(state, things)
    own = own_use(state)
    return IndexRow(
        session=key.session,
        tenant=key.tenant,
        state=view.state,
        waiting_for=view.waiting_for,
        waiting_words=waiting_words(state, things),
        stands=view.stands,
        owed=view.owed,
        next_wake_ms=view.next_wake_ms,
        agent=view.agent,
        title=view.title,
        root=view.root,
        parent=view.parent,
        scope=view.scope,
        seq=state.seq,
        created_ms=view.created_ms,
        updated_ms=view.updated_ms,
        clock_ms=clock_ms,
        input_tokens=view.input_tokens,
        output_tokens=view.output_tokens,
        cost_nanos=view.cost_nanos,
        own_input_tokens=own.input_tokens,
        own_output_tokens=own.output_tokens,
        own_cost_nanos=own.cost_nanos,
        metadata=view.metadata,
        losses=state.losses.count,
    )
