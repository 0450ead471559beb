"""What a person asked of a summary, read from the log: the command that asked for the compaction holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.context import CompactReceived

if TYPE_CHECKING:
    from windlass.runtime.owner.owner import Owner

WANTED_CHARS_MAX = 8_000
"""How much of it the summariser is told."""


async def asked_of_summary(owner: Owner) -> str:
    """The instructions of the command that the compaction under way follows; empty if none asked for it."""
    if owner.state.compaction.trigger != "command":
        return ""
    seq = owner.state.seq
    newest = await owner.insist(lambda: owner.log.newest(owner.key, CompactReceived, until=seq, bodies=False))
    return newest.instructions[:WANTED_CHARS_MAX].strip() if newest is not None else ""
