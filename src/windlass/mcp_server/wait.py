"""A call that waits for a session: it tells how the run gets on, and has its client ask a person what the run asks.

Waiting owns nothing. A call that is cancelled, or whose client dies, stops waiting; the run goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.base import name_of
from windlass.events.live import Live, ToolProgressed
from windlass.runtime.api.open_things import held_up
from windlass.runtime.api.result import Result
from windlass.runtime.api.session import Session
from windlass.runtime.streams.subscribers import Told

from .caller import Caller
from .desk import Ask, Desk, ask_id
from .elicitation import Form, answer, form_of
from .outcome import Outcome, outcome_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import ElicitResult, InputRequiredResult

ASK_S = 600.0
"""How long a client is given to ask its person, beyond the time that the call waits."""
LOOK_S = 1.0
"""How often it is looked whether somebody else has answered meanwhile."""
ASKED_AT_ONCE = 5
MESSAGE_CHARS_MAX = 200
HELD = ("asked", "sleeping")


class RoundTrip(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client of the newer protocol sends back with a person's answers. It is the client's word, and no right
    comes from it: the session is looked up as any other, and the digest is held against what is open."""

    session_id: str
    command_id: str = ""
    digests: dict[str, str] = {}


class Wait:
    """One call that waits for one session."""

    def __init__(
        self,
        desk: Desk,
        caller: Caller,
        ctx: ServerRequestContext[Any, Any],
        session: Session,
        after: str | None = None,
    ) -> None:
        """`after` is the place in the log from which on the client is told how the run gets on: its end, if none."""
        self._desk = desk
        self._caller = caller
        self._ctx = ctx
        self._session = session
        self._after = after
        self._put: set[str] = set()
        """What was put before the person in this call: nobody is asked the same thing twice by it."""
        self._seq = 0
        self._told_count = 0
        self._reporting = asyncio.Lock()

    async def run(self, seconds: float, command_id: str = "") -> Outcome | InputRequiredResult:
        """How the session stands when its run has ended, or after that time; or what its client must ask first."""
        until = time.monotonic() + seconds
        async with self._told():
            while True:
                result = await self._ended(until - time.monotonic(), command_id)
                waits = result.status == "asked" if result is not None else await self._is_held()
                asks = await self._askable() if waits else {}
                if not asks:
                    return await outcome_of(self._session, result, self._desk.words, command_id)
                if self._is_newer:
                    return self._round_trip(asks, command_id)
                if not await self._ask_in_turn(asks):
                    return await outcome_of(self._session, result, self._desk.words, command_id)

    async def answered(self, trip: RoundTrip, said: dict[str, Any]) -> None:
        """Takes what a client of the newer protocol brings back from its person."""
        from mcp_types import ElicitResult

        asks = await self._askable()
        self._put |= said.keys()
        for name, (ask, _) in asks.items():
            reply = said.get(name)
            if isinstance(reply, ElicitResult) and trip.digests.get(name) == _digest(ask):
                await answer(self._session, ask, reply, self._caller)

    # --- waiting ---

    async def _ended(self, seconds: float, command_id: str) -> Result | None:
        """How the run ended; None if it goes on: after that time, or since a tool of it waits for a person."""
        if seconds <= 0 and (await self._session.state()).active:
            return None
        ending = asyncio.ensure_future(self._result(command_id))
        holding = asyncio.ensure_future(self._held())
        try:
            await asyncio.wait((ending, holding), timeout=max(seconds, LOOK_S), return_when=asyncio.FIRST_COMPLETED)
            return ending.result() if ending.done() else None
        finally:
            for task in (ending, holding):
                task.cancel()
            await asyncio.gather(ending, holding, return_exceptions=True)

    async def _result(self, command_id: str) -> Result:
        result = await self._session.result(command_id or None)
        # A command ends with the run that asked; what came of the answer is the session's newest run.
        return await self._session.result() if command_id and result.status in HELD else result

    async def _held(self) -> None:
        while not await self._is_held():
            await asyncio.sleep(LOOK_S)

    async def _is_held(self) -> bool:
        return held_up(await self._session.state())

    @contextlib.asynccontextmanager
    async def _told(self) -> AsyncIterator[None]:
        """Tells the client how the run gets on while the block is open, and at its end what it has not heard yet."""
        if self._ctx.meta is None or self._ctx.meta.get("progress_token") is None:
            yield
            return
        after = self._after if self._after is not None else await self._session.cursor()
        self._seq = await self._session.runtime.host.cursors.seq_of(self._session.key, after)
        task = asyncio.ensure_future(self._tell())
        try:
            yield
        finally:
            async with self._reporting:  # a record counts as told once its report has begun: none is cut off
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        async for record in self._session.records(after=self._seq):
            await self._report(record)

    async def _tell(self) -> None:
        async for one in self._session.tail(after=self._seq):
            async with self._reporting:
                await self._report(one)

    async def _report(self, one: Told) -> None:
        if isinstance(one, ToolProgressed):
            message = one.message[:MESSAGE_CHARS_MAX]
        elif isinstance(one, Live):
            return
        else:
            self._seq = one.seq
            tool = getattr(one.event, "tool", None)
            message = f"{name_of(one.event)} {tool}" if isinstance(tool, str) else name_of(one.event)
        self._told_count += 1
        await self._ctx.session.report_progress(float(self._told_count), None, message)

    # --- asking ---

    @property
    def _is_newer(self) -> bool:
        """Whether its client takes no requests, and is given what to ask as the result of its call instead."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        return self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def _askable(self) -> dict[str, tuple[Ask, Form]]:
        """What is open that the client may put before its person. One that cannot, or may not, is only told of it."""
        able = self._ctx.session.client_capabilities
        if able is None or able.elicitation is None or not self._caller.may("approve"):
            return {}
        if able.elicitation.form is None and able.elicitation.url is not None:
            return {}
        asks = await self._session.runtime.host.views.asked(self._session.key)
        left = [ask for ask in asks if ask_id(ask) not in self._put]
        forms = [(ask, form_of(ask, self._desk.words)) for ask in left[:ASKED_AT_ONCE]]
        return {ask_id(ask): (ask, form) for ask, form in forms if form is not None}

    async def _ask_in_turn(self, asks: dict[str, tuple[Ask, Form]]) -> bool:
        """Has the client ask its person one thing after the other. Whether any was answered."""
        answered = False
        for ask, form in asks.values():
            self._put.add(ask_id(ask))
            said = await self._elicited(ask, form)
            if said is None:
                answered = answered or not await self._is_open(ask)
            elif await answer(self._session, ask, said, self._caller):
                answered = True
        return answered

    async def _elicited(self, ask: Ask, form: Form) -> ElicitResult | None:
        """What the client's person said; None if it took too long, the client failed or somebody else has answered."""
        from mcp.shared.exceptions import MCPError

        asking = asyncio.ensure_future(
            self._ctx.session.elicit_form(form.message, form.schema, related_request_id=self._ctx.request_id)
        )
        closing = asyncio.ensure_future(self._closed(ask))
        try:
            await asyncio.wait((asking, closing), timeout=ASK_S, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else None
        except (MCPError, ValueError):  # it cannot ask after all, or sent what is no answer
            return None
        finally:
            for task in (asking, closing):
                task.cancel()
            await asyncio.gather(asking, closing, return_exceptions=True)

    async def _closed(self, ask: Ask) -> None:
        while await self._is_open(ask):
            await asyncio.sleep(LOOK_S)

    async def _is_open(self, ask: Ask) -> bool:
        asks = await self._session.runtime.host.views.asked(self._session.key)
        return any(ask_id(one) == ask_id(ask) for one in asks)

    def _round_trip(self, asks: dict[str, tuple[Ask, Form]], command_id: str) -> InputRequiredResult:
        from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

        trip = RoundTrip(
            session_id=self._session.session_id,
            command_id=command_id,
            digests={name: _digest(ask) for name, (ask, _) in asks.items()},
        )
        requests: dict[str, Any] = {
            name: ElicitRequest(params=ElicitRequestFormParams(message=form.message, requested_schema=form.schema))
            for name, (_, form) in asks.items()
        }
        return InputRequiredResult(input_requests=requests, request_state=msgspec.json.encode(trip).decode())


def _digest(ask: Ask) -> str:
    return getattr(ask, "digest", "")
