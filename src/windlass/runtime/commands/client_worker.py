"""A client at work: runs the calls of external tools in this process, wherever their session is driven.

It finds the calls in the log and answers by `tool_result`; it never writes anything else. A call that is cut off with
its client stays open, and the next client that serves the tool gets it, under the same key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from windlass.events.base import Event
from windlass.events.errors import NotFound, Refused, StoreError, UsageError
from windlass.events.live import StreamTruncated
from windlass.events.tools.calls import ResultReceived, ToolCancelled, ToolDelegated, ToolOutcomeUnknown
from windlass.kernel.parts.runs import traced
from windlass.kernel.state import State
from windlass.runtime.bind.mounted_tools import tools_of
from windlass.runtime.drive.tool_calls import ERASED, arguments_of
from windlass.runtime.streams.record import Record
from windlass.tools.context import ToolContext
from windlass.tools.planes.local import LocalPlane
from windlass.tools.planes.outcome import Outcome, failed
from windlass.tools.planes.task_stops import ended, stop
from windlass.tools.tool import AnyTool

if TYPE_CHECKING:
    from windlass.runtime.api.session import Session

CALLS_AT_ONCE = 8
RETRY_MS = 200

T = TypeVar("T")


class Serving:
    """`async with session.serve(open_tab): ...` runs each call of that tool until the block is left."""

    def __init__(self, session: Session, tools: Sequence[Any], actor: str) -> None:
        self._session = session
        self._tools: dict[str, AnyTool] = {tool.name: tool for tool in tools_of(tools)}
        if not self._tools:
            raise UsageError("serve() needs at least one tool")
        self._actor = actor
        self._plane = LocalPlane()
        self._places = asyncio.Semaphore(CALLS_AT_ONCE)
        self._working: dict[str, asyncio.Task[None]] = {}
        self._reporting: set[str] = set()
        """The calls whose result is on its way: nothing stops that any more."""
        self._seen: set[str] = set()
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Serving:
        runtime = self._session.runtime
        runtime.host.mounts.clients_came(self._session.key, self._tools)
        self._watching = runtime.ports.spawn(self._watch(), f"windlass:serve:{self._session.session_id}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._session.runtime.host.mounts.clients_went(self._session.key, self._tools)
        tasks = list(self._working.values())
        for name, task in self._working.items():
            if name not in self._reporting:
                stop(task)
        if self._watching is not None:
            stop(self._watching)
            tasks.append(self._watching)
        await ended(tasks)
        await self._plane.close()

    async def wait(self) -> None:
        """Serves for ever: until cancelled, or until the runtime is closed."""
        if self._watching is not None:
            await self._watching

    # --- finding calls ---

    async def _watch(self) -> None:
        session = self._session
        while True:
            try:
                state = await session.state()
                for call in state.open_calls():
                    if call.status == "delegated":
                        self._begin(call.call_id, call.tool)
                if not await self._follow(state.seq):
                    return
            except StoreError:
                if session.runtime.closed:
                    return
                await session.runtime.ports.sleep_ms(RETRY_MS)  # it may answer the next time

    async def _follow(self, seq: int) -> bool:
        """Takes up calls as they come; True if the log must be looked at again from a new place."""
        async for told in self._session.tail(after=seq):
            if isinstance(told, StreamTruncated) and told.reason == "disconnected":
                return True
            if isinstance(told, Record):
                await self._notice(told.event)
        return False

    async def _notice(self, event: Event) -> None:
        if isinstance(event, ToolDelegated):
            call = (await self._session.state()).calls.by_id.get(event.call_id)
            if call is not None and call.status == "delegated":
                self._begin(event.call_id, call.tool)
        elif isinstance(event, ToolCancelled | ToolOutcomeUnknown | ResultReceived):
            # Given up, or answered by somebody else: whatever is done about it here is for nothing.
            self._seen.discard(event.call_id)
            working = self._working.get(event.call_id)
            if working is not None and event.call_id not in self._reporting:
                stop(working)

    def _begin(self, call_id: str, tool: str) -> None:
        if tool in self._tools and call_id not in self._seen:
            self._seen.add(call_id)
            name = f"windlass:serve:{call_id}"
            task = self._working[call_id] = self._session.runtime.ports.spawn(self._perform(call_id), name)
            task.add_done_callback(lambda _: self._done(call_id))

    def _done(self, call_id: str) -> None:
        self._working.pop(call_id, None)
        self._reporting.discard(call_id)

    # --- performing them ---

    async def _perform(self, call_id: str) -> None:
        try:
            await self._serve(call_id)
        except (StoreError, UsageError):
            if not self._session.runtime.closed:
                raise  # else nobody hears it here: the call stays open, and the next client gets it

    async def _serve(self, call_id: str) -> None:
        async with self._places:
            state = await self._insist(self._session.state)
            call = state.calls.by_id.get(call_id)
            if call is None or call.status != "delegated":
                return
            body = await self._insist(lambda: arguments_of(call, self._event_at))
            if self._session.runtime.closed:
                return  # its result would reach nobody: the call stays open, and the next client gets it
            if body is None:
                outcome = failed("tool_arguments", ERASED, ERASED)
            else:
                context = self._context(state, call_id, call.tool)
                outcome = await self._plane.run(self._tools[call.tool], body, context)
                outcome = msgspec.structs.replace(outcome, labels=(*outcome.labels, *context.labels))
            self._reporting.add(call_id)
            if outcome.status == "suspended":  # whoever the tool handed it to will give the result
                self._session.runtime.host.mounts.handed_on(self._session.key, call_id)
            else:
                await self._report(call_id, outcome)

    async def _insist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Does what may be done twice, until the store answers."""
        while True:
            try:
                return await work()
            except NotFound:
                raise
            except StoreError:
                if self._session.runtime.closed:
                    raise
                await self._session.runtime.ports.sleep_ms(RETRY_MS)

    def _context(self, state: State, call_id: str, tool: str) -> ToolContext:
        run_id = state.run.run_id
        return ToolContext(
            session=state.session_id,
            call_id=call_id,
            tool=tool,
            run_id=run_id,
            agent=state.setup.agent.name,
            epoch=state.epoch,
            depth=state.depth,
            traceparent=traced(state, call_id).traceparent,
        )

    async def _event_at(self, seq: int) -> Event:
        event = await self._session.runtime.host.log.event_at(self._session.key, seq)
        if event is None:
            raise NotFound(f"session {self._session.session_id!r} has no event {seq}")
        return event

    async def _report(self, call_id: str, outcome: Outcome) -> None:
        runtime, key = self._session.runtime, self._session.key
        for blob in outcome.blobs:
            data, kind = blob.read(), blob.ref.media_type
            await self._insist(lambda data=data, kind=kind: runtime.store.blobs.put(key.tenant, data, media_type=kind))  # type: ignore[misc]
            blob.close()
        command = ResultReceived(
            command_id=runtime.ports.fresh_id(),
            actor=self._actor,
            call_id=call_id,
            ok=outcome.ok,
            error_code=outcome.error_code,
            labels=outcome.labels,
            changes=outcome.changes,
            body=outcome.body,
        )
        try:
            await self._insist(lambda: runtime.send(key, command))
        except Refused as refusal:
            if refusal.code == "not_open":
                return  # given up meanwhile, or somebody else was quicker
            told = f"the tool ran, but its result cannot be kept: {refusal}"
            await self._session.tool_result(call_id, told, ok=False, error_code=refusal.code, actor=self._actor)
