"""Answers to sessions below one that was handed over: that one began their work anew elsewhere. Only reads."""

from __future__ import annotations

from windlass.events.base import Command
from windlass.events.errors import Refused
from windlass.kernel.phases import Left
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.trees.tree_rows import root_of
from windlass.store.base import Key, Store

from .stale_answers import answered


async def has_left(store: Store, key: Key) -> Left | None:
    """Where the root of a child's tree goes on; None if it is here, or the session is a root itself."""
    root = Key(key.tenant, root_of(key.session))
    if root == key:
        return None
    row = await store.index.get(root)
    if row is None or row.state != "left":
        return None
    phase = (await LogReader(store).fold(root)).state.phase
    return phase if isinstance(phase, Left) else None


async def check_is_here(command: Command, store: Store, key: Key) -> None:
    """Raises `Refused` for an answer to something below a session that was handed over. Whoever stops what is left of
    it is heard."""
    if answered(command) is None or await LogReader(store).taken_at(key, command.command_id) is not None:
        return
    left = await has_left(store, key)
    if left is not None:
        root = root_of(key.session)
        raise Refused(
            "handed_over",
            f"session {root!r}, which began this one, was handed over: it goes on as {left.session!r} at {left.to}, "
            f"and nothing is answered here. Cancel {key.session!r}",
        )
