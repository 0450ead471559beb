"""What an append says to other sessions, read off the state behind it and its events: the same again at any time."""

from __future__ import annotations

from windlass.events.base import Event
from windlass.kernel import parts
from windlass.kernel.part import Send
from windlass.kernel.state import State


def messages(state: State, first_seq: int, events: list[Event]) -> list[Send]:
    """The messages of one append. Only a session with a parent or with children has any."""
    if state.parent_id is None and not state.children.open:
        return []
    return [send for tells in parts.TABLES.tells for send in tells(state, first_seq, events)]
