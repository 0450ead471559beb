"""What went wrong when a session was set up: nobody watched it then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.skills import SkillFailed

if TYPE_CHECKING:
    from windlass.cli.screen.live_printer import Narrator
    from windlass.runtime.api.session import Session


async def tell_beginning(session: Session, narrator: Narrator) -> None:
    """Tells which skills a new session was to have and has not. Of one that had a run already, nothing."""
    if (await session.state()).run.run_id:
        return
    async for record in session.records():
        if isinstance(record.event, SkillFailed):
            narrator.tell(record)
