"""One session as its clients hear of it: its log is read once, and told to all who sit at it.

Whoever comes late is told what is open. The first answer to a question counts; the others are not waited for any more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from windlass.events.live import Live
from windlass.events.values.blocks import JsonObject
from windlass.protocol.session_feed import fed
from windlass.runtime.api.session import Session

from . import open_questions
from .client_session import Seat
from .completion import Completion
from .view.event_types import STREAMED
from .view.event_view import CopilotView
from .view.fold import Said


class SessionFeed:
    """Tells the clients at a session what happens there."""

    def __init__(self, session: Session, known: int) -> None:
        """Clients are told what comes after the record `known`."""
        self.session = session
        self.view = CopilotView(session.session_id)
        self.seats: list[Seat] = []
        self.completions: list[Completion] = []
        """Messages whose answers clients wait for."""
        self._known = known
        self._fed = 0
        self._waiting: list[Seat] = []
        self._asking: dict[str, list[asyncio.Task[None]]] = {}
        self.up_to_date = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to read the log."""
        name = f"windlass:copilot:{self.session.session_id}"
        self._task = asyncio.get_running_loop().create_task(self._read(), name=name)

    async def stop(self) -> None:
        """Tells nobody anything any more."""
        for completion in self.completions:
            completion.give_up()
        tasks = [task for asked in self._asking.values() for task in asked]
        if self._task is not None:
            tasks.append(self._task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def sit_down(self, seat: Seat) -> None:
        """From here on a client is told what happens; what is open comes first."""
        if not self.up_to_date.is_set():
            self._waiting.append(seat)
            return
        self.seats.append(seat)
        for opened, event in self.view.opened():
            seat.tell(event)
            self._ask(seat, opened.said)

    def stand_up(self, seat: Seat) -> None:
        """A client has left."""
        for seats in (self.seats, self._waiting):
            if seat in seats:
                seats.remove(seat)

    @property
    def all_seats(self) -> list[Seat]:
        """Those who sit here, and those who are about to."""
        return [*self.seats, *self._waiting]

    @contextlib.contextmanager
    def awaited(self, message_id: str) -> Iterator[Completion]:
        """What a message will have come to; from before it is sent."""
        completion = Completion(message_id)
        self.completions.append(completion)
        try:
            yield completion
        finally:
            self.completions.remove(completion)

    # --- reading ---

    async def _read(self) -> None:
        self._catch_up()
        async for told in fed(self.session, after=self._fed):
            self._take(told)

    def _take(self, told: Any) -> None:
        events = self.view.feed(told)
        if not isinstance(told, Live):
            self._fed = told.seq
        if self.up_to_date.is_set():
            for event in events:
                self._tell(event)
        else:
            self._catch_up()

    def _catch_up(self) -> None:
        if self._fed >= self._known:
            self.up_to_date.set()
            waiting, self._waiting = self._waiting, []
            for seat in waiting:
                self.sit_down(seat)

    def _tell(self, event: JsonObject) -> None:
        kind = event["type"]
        for seat in self.seats:
            if seat.streaming or kind not in STREAMED:
                seat.tell(event)
        for completion in self.completions:
            completion.hear(event)
        if kind in open_questions.ASKED:
            for seat in self.seats:
                self._ask(seat, Said(kind, event["data"]))
        elif kind in open_questions.ANSWERED:
            for task in self._asking.pop(event["data"]["requestId"], []):
                task.cancel()

    def tell(self, kind: str, data: JsonObject) -> None:
        """Tells the clients of something that stands in no log."""
        event = self.view.ephemeral_of(kind, data)
        for seat in self.seats:
            seat.tell(event)

    def _ask(self, seat: Seat, said: Said) -> None:
        if not open_questions.is_for(seat, said):
            return
        task = asyncio.get_running_loop().create_task(open_questions.ask(self.session, seat, said))
        self._asking.setdefault(said.data["requestId"], []).append(task)
