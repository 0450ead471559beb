"""The plane of MCP tools: a call is made of the server that the tool comes from, within its time, and the outcome
follows from the tool's contract if the server is lost meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

import msgspec

from windlass.events.errors import UsageError
from windlass.events.hooks import HookRuling
from windlass.events.tools.calls import CallBody
from windlass.tools.context import ToolContext, ToolError
from windlass.tools.planes.outcome import GONE, Outcome, failed, raised, returned, timed_out
from windlass.tools.planes.timeout import Deadline
from windlass.tools.tool import AnyTool

from . import resources
from .connection import Connection, Forgotten, Frozen, LoginWanted, Lost, NotConnected, Progressed
from .foreign_words import visible
from .offered_tools import SOURCE, about
from .results import tool_result

AGAIN = ("pure", "idempotent")
"""Contracts under which a call whose server was lost is made once more."""
PROGRESS_CHARS_MAX = 500


class Asked(NamedTuple):
    """A call that is about to be sent: to which server, its tool, what models call that, and with what."""

    server: str
    tool: str
    display_name: str
    args: dict[str, Any]


class RuledCall(NamedTuple):
    """What hooks made of it: what is sent beside the arguments (`_meta`), or why nothing is."""

    meta: dict[str, Any] | None = None
    denied: str | None = None
    rulings: tuple[HookRuling, ...] = ()


BeforeCall = Callable[[Asked, str], Awaitable[RuledCall]]


async def _unruled(asked: Asked, call_id: str) -> RuledCall:
    return RuledCall()


class McpPlanes:
    """What a runtime is opened with: nothing, until a session has a server."""

    own_tools = True
    """Whether nobody else's tools run here."""

    def check(self, tool: AnyTool) -> None:
        """Raises `UsageError` for a tool that no server has."""
        if not tool.options.source.startswith(SOURCE):
            raise UsageError(
                f"tool {tool.name!r} runs on plane 'mcp', which is for tools of MCP servers: leave plane= out"
            )

    async def open(self, session: str) -> McpPlane:
        """A session's plane."""
        return McpPlane()

    async def close(self) -> None:
        """Nothing is shared."""


class McpPlane:
    """The servers of one session."""

    def __init__(self) -> None:
        self.connections: dict[str, Connection] = {}
        self.before_call: BeforeCall = _unruled
        """Asks the hooks of the session about a call that is about to be sent."""
        self.opening: dict[str, asyncio.Future[Any]] = {}
        """What is being found out about each server: whether it is there, and what was agreed to."""
        self._working: set[asyncio.Task[None]] = set()

    def looks_at(self, name: str) -> bool:
        """Whether it is being found out about a server at this moment."""
        return (opening := self.opening.get(name)) is not None and not opening.done()

    def work(self, doing: Coroutine[Any, Any, None]) -> None:
        """Has something done in the background, until the session is let go."""
        task = asyncio.ensure_future(doing)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def run(self, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome:
        """Makes a call within its time."""
        name = tool.options.source.removeprefix(SOURCE)
        context.attach(asyncio.get_running_loop())
        deadline = Deadline(tool.options.timeout_ms, context)
        try:
            outcome = await self._opened(name, tool, call, context)
        except asyncio.CancelledError:
            if not deadline.settle():
                raise
            return timed_out(tool.options.timeout_ms)
        finally:
            deadline.close()
        if deadline.settle():
            for blob in outcome.blobs:
                blob.close()
            return timed_out(tool.options.timeout_ms)
        return outcome

    async def _opened(self, name: str, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome:
        """Makes a call once it is known how its server stands."""
        if (opening := self.opening.get(name)) is not None and not opening.done():
            await asyncio.wait([opening])
        connection = self.connections.get(name)
        if connection is None:
            told = f"the tool {tool.name!r} is not available: this session has no MCP server {name!r}"
            return failed("tool_unavailable", told, "the server is not there")
        with connection.requests.during(context):
            return await self._run(connection, tool, call, context)

    async def _run(self, connection: Connection, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome:
        """One call; another one if the server was lost and the contract of the tool allows it."""
        again, unknown = tool.options.contract in AGAIN, False
        while True:
            try:
                await connection.connect()
                while not context.holds:
                    if not await context.hold():
                        return failed("tool_cancelled", GONE, GONE)
                return await self._made(connection, tool, dict(call.args or {}), context)
            except NotConnected as error:
                if isinstance(error, Forgotten) and not unknown:
                    unknown = True  # it did nothing: it is asked once more, over a new connection
                    continue
                if isinstance(error, LoginWanted):
                    context.notice("mcp_login", f"MCP server {connection.server.name!r}: {visible(str(error))}")
                told = f"the MCP server {connection.server.name!r} cannot be had now: {visible(str(error))}"
                return failed("tool_unavailable", told, "the server cannot be had", code="mcp_unavailable")
            except Frozen as error:
                told = f"{error}: its tools are frozen until a person agrees to the change"
                return failed("tool_unavailable", told, "the server has changed", code="mcp_frozen")
            except Lost as lost:
                context.notice("mcp_lost", f"{tool.name!r}: {visible(str(lost))}")
                if again and not context.cancelled:
                    again = False
                    continue
                return _lost(tool, lost)
            except ToolError as error:
                return raised(error)

    async def _made(self, connection: Connection, tool: AnyTool, args: dict[str, Any], context: ToolContext) -> Outcome:
        """The call itself, once the server is there."""
        asked = about(tool)
        ruled = await self.before_call(Asked(connection.server.name, asked.tool, tool.name, args), context.call_id)
        if ruled.denied is not None:
            told = f"a hook did not let this call go to the server: {ruled.denied}"
            return msgspec.structs.replace(failed("hook_denied", told, "denied by a hook"), hooks=ruled.rulings)
        listing = await connection.agreed_listing()
        own = resources.names(listing).get(tool.name)
        if own is not None:
            result = await resources.result(connection, own, args)
        else:
            result = tool_result(await connection.call(tool.name, args, progress_of(context), ruled.meta))
        outcome = await asyncio.to_thread(returned, result)
        return msgspec.structs.replace(outcome, hooks=ruled.rulings) if ruled.rulings else outcome

    async def close(self) -> None:
        """Ends every connection, and every process of a server. Safe twice."""
        under_way = [*self._working, *self.opening.values()]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        self.opening.clear()
        gone = tuple(self.connections.values())
        self.connections.clear()
        await asyncio.gather(*(connection.close() for connection in gone))


def progress_of(context: ToolContext) -> Progressed:
    """What a server's reports go to."""

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        share = done / total if total else None
        context.progress(visible(message or "")[:PROGRESS_CHARS_MAX], fraction=share)

    return progressed


def _lost(tool: AnyTool, lost: Lost) -> Outcome:
    effects = "it changes nothing" if tool.options.contract == "pure" else "the call may have had effects"
    told = f"the MCP server of {tool.name!r} was lost during the call: {visible(str(lost))}; {effects}"
    private: Any = str(lost)
    return failed("tool_raised", told, "the server was lost during the call", code="mcp_lost", private=private)
