"""What a person asked of a summary, read from the log: the command that asked for the compaction holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events import codec
from windlass.events.context import CompactReceived
from windlass.store.chain import history

if TYPE_CHECKING:
    from .owner import Owner

WANTED_CHARS_MAX = 8_000
"""How much of it the summariser is told."""
NEAR_RECORDS = 256
"""How far back it is looked for first: a command is acted on at the next turn."""


async def asked_of_summary(owner: Owner) -> str:
    """The instructions of the command that the compaction under way follows; empty where none asked for it."""
    if owner.state.compaction.trigger != "command":
        return ""
    seq = owner.state.seq
    for after in (max(0, seq - NEAR_RECORDS), max(0, seq - 16 * NEAR_RECORDS), 0):
        found = await owner.insist(lambda after=after: _newest(owner, after))  # type: ignore[misc]
        if found is not None:
            return found.instructions[:WANTED_CHARS_MAX].strip()
    return ""


async def _newest(owner: Owner, after: int) -> CompactReceived | None:
    found = None
    async for sealed in history(owner.store, owner.key, after=after):
        for event in codec.decode(sealed.data, bodies=False).events:
            if isinstance(event, CompactReceived):
                found = event
    return found
