"""One turn: the store is open and the session driven for as long as it lasts, and no longer. Its terminal is told when
everything is closed, so that whoever reads it may go on in another process at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from windlass.events.base import Event
from windlass.events.commands import CommandCompleted, CommandRefused
from windlass.events.errors import WindlassError
from windlass.events.runs import RunStarted
from windlass.events.values.blocks import JsonObject
from windlass.kernel.owed import waiting_words
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.api.session import Session
from windlass.runtime.streams.event_streams import closed_meanwhile
from windlass.runtime.streams.record import Record

from .question_forms import open_asks, put
from .turn_setup import Seat, catch_up
from .view.event_view import TERMINALS
from .view.fold import system

Tell = Callable[[JsonObject], Awaitable[None]]
Sending = Callable[[Session, str], Awaitable[object]]
"""Sends a command under an id."""
PARKED_LOOK_MS = 500
"""How often it is looked whether the session is parked."""


class Turn:
    """A turn that is going on."""

    def __init__(self, seat: Seat, runtime: Runtime, tell: Tell) -> None:
        self._seat = seat
        self._view = seat.view
        self._runtime = runtime
        self._tell = tell
        self._sending = 0
        self._own: set[str] = set()
        """The commands of which the turn waits to hear."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._refusal: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._opened: Session | None = None
        self._task: asyncio.Task[None] | None = None
        self.ending = False
        """Whether its terminal is certain: what comes now belongs to the next turn."""

    @property
    def over(self) -> bool:
        """Whether its terminal was told."""
        return self._task is not None and self._task.done()

    @property
    def session(self) -> Session:
        """The session, driven here."""
        assert self._opened is not None, "a turn is begun before it is used"
        return self._opened

    async def begin(self, first: Sending | None, command_id: str = "") -> None:
        """Opens the store and sends the first command; without one, what was cut off goes on. Nothing is left open if
        that fails."""
        try:
            await self._runtime.start()
            self._opened = await self._runtime.get(self._seat.session_id)
            await catch_up(self._view, self._opened)
            again = first is not None and await self._was_taken(command_id)
        except BaseException:
            await self._runtime.close()
            raise
        told_again = again and not self._view.fold.open
        self._task = asyncio.get_running_loop().create_task(self._run(told_again), name="windlass:duet:turn")
        try:
            await self._runtime.session(self._seat.agent, self._seat.session_id, options=self._seat.options)
            if first is not None and not again:
                await self.send(first, command_id)
        except WindlassError as error:
            if not self._refusal.done():
                self._refusal.set_result(str(error))

    async def _was_taken(self, command_id: str) -> bool:
        """Whether the log has a command already: its caller did not hear of it, and sends it again."""
        return await self._runtime.host.log.taken_at(self.session.key, command_id) is not None

    async def send(self, sending: Sending, command_id: str) -> None:
        """Sends a command that belongs to the turn. Raises `Refused`."""
        self._sending += 1
        self._idle.clear()
        self._own.add(command_id)
        try:
            await sending(self.session, command_id)
        except BaseException:
            self._own.discard(command_id)
            raise
        finally:
            self._sending -= 1
            if not self._sending:
                self._idle.set()

    async def wait(self) -> None:
        """Waits until the terminal is told."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """Leaves the turn without a terminal: what is under way is owed to whoever opens the store next."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._runtime.close()

    # --- reading ---

    async def _run(self, told_again: bool) -> None:
        try:
            end = self._view.terminal() if told_again else await self._end()
        except Exception as error:  # a caller must not wait for ever for a turn that a fault of ours has ended
            end = self._view.complete("failed", error=f"{type(error).__name__}: {error}")
        self.ending = True
        try:
            await self._runtime.close()
        finally:
            await self._tell(end)

    async def _end(self) -> JsonObject:
        """The terminal: of what happens, or of a first command that was refused, or of a session that is parked."""
        loop = asyncio.get_running_loop()
        followed = loop.create_task(self._followed(), name="windlass:duet:follow")
        parked = loop.create_task(self._parked(), name="windlass:duet:parked")
        try:
            waits: list[asyncio.Future[Any]] = [followed, parked, self._refusal]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if followed.done():
                return followed.result()
            why = self._refusal.result() if self._refusal.done() else parked.result()
            return self._view.idle("failed", why)
        finally:
            for task in (followed, parked):
                task.cancel()
            await asyncio.gather(followed, parked, return_exceptions=True)

    async def _parked(self) -> str:
        """Waits until nothing here can drive the session any more, and says why."""
        while not (reason := self._runtime.slots.why_parked(self.session.key)):
            await self._runtime.ports.sleep_ms(PARKED_LOOK_MS)
        return f"the session is parked: {reason}"

    async def _followed(self) -> JsonObject:
        """Tells what happens, until the end of the turn, and gives its terminal."""
        while not self._runtime.closed:
            async for told in self.session.tail(after=self._view.seq):
                for event in self._view.feed(told):
                    if event["type"] not in TERMINALS:
                        await self._tell(event)
                    elif await self._is_last():
                        return await self._asking(event)
                    else:
                        self._view.reopen()
                if isinstance(told, Record) and (end := await self._without_run(told.event)) is not None:
                    return end
        raise closed_meanwhile(self.session.key)

    async def _is_last(self) -> bool:
        """Whether nothing else that was said belongs to this turn."""
        while True:
            await self._idle.wait()
            async for record in self.session.records(after=self._view.seq):
                if isinstance(record.event, RunStarted):
                    return False
            if not self._sending:
                self.ending = True
                return True

    async def _without_run(self, event: Event) -> JsonObject | None:
        """The terminal of a turn whose command led to no run; None if it goes on."""
        if not isinstance(event, CommandCompleted | CommandRefused) or event.command_id not in self._own:
            return None
        self._own.discard(event.command_id)
        if self._view.fold.open or not await self._is_last():
            return None
        if isinstance(event, CommandRefused):
            return self._view.idle("failed", event.message)
        if event.note:
            await self._tell(system("info", event.note))
        return self._view.idle("completed")

    async def _asking(self, event: JsonObject) -> JsonObject:
        """A terminal that asks something, with what is asked below the session as well."""
        if event["type"] != "ask":
            return event
        questions = [one.form for one in put(await open_asks(self.session)).values()]
        if not questions:  # a result of a client, the outcome of a call, a key: no answer of the protocol gives those
            waited_for = ", ".join(waiting_words(self._view.fold.state)) or "credentials"
            how = f"'windlass show {self.session.session_id}' says how to give it"
            await self._tell(system("warn", f"waited for: {waited_for}; {how}"))
        return {**event, "questions": questions}
