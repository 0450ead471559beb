"""A message that a program has a session send to another one of its tree: a call of `tell`, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.base import Event
from windlass.events.commands import CommandRefused
from windlass.events.errors import Refused
from windlass.events.tools.calls import ToolCancelled, ToolDenied, ToolFinished
from windlass.events.values.blocks import JsonObject, Text
from windlass.runtime.bind.builtin_tools import TELL
from windlass.runtime.streams.log_reader import LogReader

if TYPE_CHECKING:
    from windlass.runtime.api.session import Session

LOOK_MS = 20
WAIT_MS = 60_000
"""How long the session has to say it."""


async def said(session: Session, args: JsonObject, command_id: str, actor: str) -> str:
    """Who was told. Raises `Refused` with the reason if nobody was."""
    await session.call_tool(TELL, args, command_id=command_id, actor=actor)
    for _ in range(WAIT_MS // LOOK_MS):
        taken = await LogReader(session.runtime.store).taken_at(session.key, command_id)
        if taken is not None:
            async for record in session.records(after=taken - 1):
                told = _told(record.event, f"c{taken}.0", command_id)
                if told is not None:
                    return told
        await session.runtime.ports.sleep_ms(LOOK_MS)
    late = f"session {session.session_id!r} has not sent the message yet: is it asked about, or no process at work?"
    raise Refused("not_sent", late)


def _told(event: Event, call: str, command_id: str) -> str | None:
    """What became of the call, if this event says it."""
    match event:
        case CommandRefused() if event.command_id == command_id:
            raise Refused(event.code, event.message)
        case ToolDenied() | ToolCancelled() if event.call_id == call:
            raise Refused("not_sent", getattr(event, "detail", "") or "the call was given up")
        case ToolFinished() if event.call_id == call:
            content = event.body.content if event.body is not None else ()
            text = "".join(block.text for block in content if isinstance(block, Text))
            if not event.ok:
                raise Refused("not_sent", text)
            return text
    return None
