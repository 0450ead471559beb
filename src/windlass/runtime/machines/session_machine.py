"""The machine of one session, as a user of the package holds it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from windlass.events.errors import UsageError
from windlass.events.runs import Terminal
from windlass.events.trees.machines import (
    MachineBody,
    MachineEnded,
    MachineInterrupted,
    MachineLeft,
    MachineMoved,
    MachineReceived,
    MachineSlept,
)
from windlass.events.values.blocks import JsonObject
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.streams.record import Record

from .machine_view import MachineView, Step, view_at
from .turn_state import turn_state

if TYPE_CHECKING:
    from windlass.runtime.api.session import Session

MachineEvent = MachineMoved | MachineSlept | MachineLeft | MachineInterrupted | MachineEnded


class SessionMachine:
    """The machine of a session: begun or moved by code, and looked at."""

    def __init__(self, session: Session) -> None:
        self.session = session

    async def start(self, input: JsonObject | None = None, *, command_id: str | None = None) -> str:
        """Has it begin with its first state. Returns the command's id; `session.result(id)` waits for the run. Raises
        `Refused` if it is at work: `select` sends it to any state, its first one too."""
        return await self.select("", input, command_id=command_id)

    async def select(self, state: str, input: JsonObject | None = None, *, command_id: str | None = None) -> str:
        """Has it go to a state, whatever it is doing; one that has ended begins again there. Without an input the last
        one is kept. Raises `Refused` for a state that is not there and for an input that does not fit."""
        runtime = self.session.runtime
        command = MachineReceived(
            command_id=command_id or runtime.ports.fresh_id(),
            actor="user",
            auth="none",
            state=state,
            body=MachineBody(input=input) if input is not None else None,
        )
        await runtime.send(self.session.key, command)
        return command.command_id

    async def view(self) -> MachineView:
        """Where it stands. Raises `UsageError` if the session has none."""
        view = await view_at(LogReader(self.session.runtime.store), self.session.key, await self.session.state())
        if view is None:
            raise UsageError(f"session {self.session.session_id!r} has no state machine")
        return view

    async def history(self) -> tuple[Step, ...]:
        """Every step that it took."""
        return (await self.view()).history

    async def turn_state(self, at: int | None = None) -> dict[str, Any]:
        """All that the next turn goes on from, as Duet's protocol lists it; as it was at a record if one is named."""
        return await turn_state(self.session, at)

    async def progress(self) -> AsyncIterator[MachineEvent]:
        """What becomes of it, from the beginning, live, until the run that it is in ends or rests."""
        async for told in self.session.runtime.tail(self.session.key, after=0):
            event = told.event if isinstance(told, Record) else None
            if isinstance(event, MachineMoved | MachineSlept | MachineLeft | MachineInterrupted | MachineEnded):
                yield event
            elif isinstance(event, Terminal) and await self._is_last(event):
                return

    async def _is_last(self, ended: Terminal) -> bool:
        state = await self.session.state()
        return not state.active and state.run.run_id == ended.run_id
