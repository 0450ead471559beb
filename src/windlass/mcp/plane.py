"""The plane of MCP tools: a call is made of the server that the tool comes from, within its time, and the outcome
follows from the tool's contract if the server is lost meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.events.errors import UsageError
from windlass.events.tools.calls import CallBody
from windlass.tools.context import ToolContext, ToolError
from windlass.tools.planes.outcome import GONE, Outcome, failed, raised, returned, timed_out
from windlass.tools.planes.timeout import Deadline
from windlass.tools.tool import AnyTool

from .connection import Connection, Frozen, Lost, NotConnected, Progressed
from .offered_tools import SOURCE, visible
from .results import tool_result

AGAIN = ("pure", "idempotent")
"""Contracts under which a call whose server was lost is made once more."""
PROGRESS_CHARS_MAX = 500


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

    async def run(self, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome:
        """Makes a call within its time."""
        name = tool.options.source.removeprefix(SOURCE)
        connection = self.connections.get(name)
        if connection is None:
            told = f"the tool {tool.name!r} is not available: this session has no MCP server {name!r}"
            return failed("tool_unavailable", told, "the server is not there")
        context.attach(asyncio.get_running_loop())
        deadline = Deadline(tool.options.timeout_ms, context)
        try:
            outcome = await self._run(connection, tool, call, context)
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

    async def _run(self, connection: Connection, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome:
        """One call; another one if the server was lost and the contract of the tool allows it."""
        again = tool.options.contract in AGAIN
        while True:
            try:
                await connection.connect()
                while not context.holds:
                    if not await context.hold():
                        return failed("tool_cancelled", GONE, GONE)
                answer = await connection.call(tool.name, dict(call.args or {}), progress_of(context))
                return await asyncio.to_thread(returned, tool_result(answer))
            except NotConnected as error:
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

    async def close(self) -> None:
        """Ends every connection, and every process of a server. Safe twice."""
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
