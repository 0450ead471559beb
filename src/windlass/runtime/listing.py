"""What the store's index of sessions says of one: made from its state, and told again when it says something else."""

from __future__ import annotations

from windlass.kernel.owed import Overview, overview, waiting_for, word_for
from windlass.kernel.state import State
from windlass.store.base import IndexRow, Key

SUMS_EVERY_MS = 1_000
"""How old the sums and the time of the last change may grow in the index while a session is at work."""


class Listing:
    """One session's row. Whatever sessions are looked for by is always true; tokens, cost and the last change may be
    a second old while a run goes on, and are exact when it rests."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self._told: IndexRow | None = None

    def due(self, state: State) -> IndexRow | None:
        """The row to keep with the next append; none where the one that is kept will do."""
        return None if self._holds(state) else row_of(self._key, state)

    def kept(self, row: IndexRow | None) -> None:
        """The append was kept."""
        if row is not None:
            self._told = row

    def forget(self) -> None:
        """Nobody knows what the store has."""
        self._told = None

    def _holds(self, state: State) -> bool:
        told = self._told
        return (
            told is not None
            and state.active
            and told.owed
            and state.now_ms - told.updated_ms < SUMS_EVERY_MS
            and told.state == word_for(state)
            and told.next_wake_ms == state.next_wake_ms
            and told.title == state.title
            and told.agent == state.agent.name
            and told.waiting_for == waiting_for(state)
            and told.metadata == state.metadata
        )


def row_of(key: Key, state: State) -> IndexRow:
    """What an index keeps about a session as it is now."""
    view: Overview = overview(state)
    return IndexRow(
        session=key.session,
        tenant=key.tenant,
        state=view.state,
        waiting_for=view.waiting_for,
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
        input_tokens=view.input_tokens,
        output_tokens=view.output_tokens,
        cost_nanos=view.cost_nanos,
        metadata=view.metadata,
    )
