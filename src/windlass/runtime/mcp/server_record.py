"""What a session's log is told of its MCP servers: how each stands, its tools as they come and go, and what it says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import CommandTaken, Refused
from windlass.events.sessions import NoticeGiven
from windlass.events.tools.mcp import McpBody, McpConnected, McpStatus
from windlass.events.tools.toolset import MountReceived, ToolBody, UnmountReceived
from windlass.mcp.offered_tools import SOURCE, about, offered, visible
from windlass.mcp.server import McpServer
from windlass.mcp.tool_list import Listing
from windlass.runtime.bind.builtin_tools import CATALOGUE_TOOLS, builtin
from windlass.runtime.bind.local_code import weighed

if TYPE_CHECKING:
    from windlass.mcp.server_logs import LogLine
    from windlass.runtime.bind.bound_agent import Bound
    from windlass.runtime.owner.owner import Owner
    from windlass.tools.tool import AnyTool

MOUNT_BYTES_MAX = 256 * 1024
"""How much is told of tools in one event."""
LEFT_OUT_SHOWN = 5


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a look at one server."""

    server: McpServer
    status: McpStatus
    listing: Listing | None = None
    why: str = ""


class ServerRecord:
    """Puts on record what became of the servers of one session."""

    def __init__(self, owner: Owner, bound: Bound) -> None:
        self._owner = owner
        self._bound = bound
        self._told: set[str] = set()
        self._mounts = 0

    async def put(self, seen: Seen, *, defers: bool) -> None:
        server, listing = seen.server, seen.listing
        deferred = defers if server.deferred is None else server.deferred
        tools, wrong = offered(server, listing, deferred=deferred) if listing is not None else ({}, [])
        tools, shadowed = self._apart(server, tools)
        fact = self._fact(seen, tools)
        if not self._is_on_record(fact):
            await self.take(fact)
            if seen.why:
                await self.tell(f"mcp_{seen.status}", f"MCP server {server.name!r}: {seen.why}")
        left_out = [*(listing.left_out if listing is not None else ()), *wrong, *shadowed]
        if left_out:
            shown = "; ".join(left_out[:LEFT_OUT_SHOWN])
            await self.tell("mcp_left_out", f"MCP server {server.name!r}: left out: {visible(shown)[:1000]}")
        if seen.status == "connected":
            await self._mount(server.name, tools.values())
        if seen.status in ("connected", "frozen"):
            await self.unmount(server.name, keep=tools if seen.status == "connected" else ())

    def _is_on_record(self, fact: McpConnected) -> bool:
        """Whether the log says this already. Of a list that is frozen it says so once, whatever it changes to."""
        before = self._owner.state.mcp.servers.get(fact.server)
        if before is None or (before.status, before.launch, before.tools) != (fact.status, fact.launch, fact.tools):
            return False
        if fact.status == "frozen":
            return bool(before.listing) == bool(fact.listing)
        return before.listing == fact.listing

    def _fact(self, seen: Seen, tools: dict[str, AnyTool]) -> McpConnected:
        server, listing = seen.server, seen.listing
        return McpConnected(
            server=server.name,
            status=seen.status,
            transport=server.transport,
            launch=server.launch_digest,
            listing=listing.digest if listing is not None else "",
            tools=len(tools) if seen.status == "connected" else 0,
            protocol=listing.protocol if listing is not None else "",
            body=McpBody(
                about=visible(listing.about) if listing is not None else "",
                tools=tuple(about(tool) for tool in tools.values()),
                why=seen.why,
            ),
        )

    def _apart(self, server: McpServer, tools: dict[str, AnyTool]) -> tuple[dict[str, AnyTool], list[str]]:
        """The tools whose names are nobody else's: no server takes the place of a tool that the session has."""
        known, source = self._owner.state.toolset.tools, f"{SOURCE}{server.name}"
        taken = {spec.alias or name for name, spec in known.items() if spec.source != source}
        shadowed = [f"{name}: there is a tool of that name" for name in tools if name in taken]
        return {name: tool for name, tool in tools.items() if name not in taken}, shadowed

    async def _mount(self, server: str, tools: Iterable[AnyTool]) -> None:
        """Offers what is new or otherwise, in pieces that fit an event."""
        here = self._owner.state.toolset
        known = {spec.name: spec.digest for spec in here.tools.values()}
        known.update({spec.name: spec.digest for change in here.staged for spec in change.tools})
        given = list(tools)
        self._bound.local_code.bring(given)
        fresh = [tool for tool in given if known.get(tool.name) != tool.spec.digest]
        if any(tool.options.deferred for tool in fresh):
            fresh += [builtin(name) for name in CATALOGUE_TOOLS if name not in known]
        for piece in _pieces(fresh):
            self._mounts += 1
            await self.take(
                MountReceived(
                    command_id=f"mcp:{server}:{self._owner.epoch}:{self._mounts}",
                    actor=f"{SOURCE}{server}",
                    source=f"{SOURCE}{server}",
                    tools=self._bound.local_code.bring(piece),
                    body=ToolBody(tools=tuple(tool.text for tool in piece)),
                )
            )

    async def unmount(self, server: str, *, keep: Iterable[str]) -> None:
        """Takes away what is not there any more. Calls that run are waited for."""
        here, kept = self._owner.state.toolset, set(keep)
        leaving = {name for change in here.staged for name in change.names}
        gone = tuple(
            name
            for name, spec in here.tools.items()
            if spec.source == f"{SOURCE}{server}" and name not in kept and name not in leaving
        )
        if gone:
            self._mounts += 1
            command_id = f"mcp:{server}:{self._owner.epoch}:{self._mounts}"
            await self.take(UnmountReceived(command_id=command_id, actor=f"{SOURCE}{server}", tools=gone))

    async def tell(self, code: str, message: str) -> None:
        """Says something once."""
        if message not in self._told:
            self._told.add(message)
            await self.take(NoticeGiven(level="warning", code=code, message=message))

    async def log(self, line: LogLine) -> None:
        """Puts on record what a server said by itself."""
        await self.take(NoticeGiven(level=line.level, code="mcp_log", message=line.message))

    async def take(self, fact: McpConnected | MountReceived | UnmountReceived | NoticeGiven) -> None:
        """Has the log take something, unless it does not fit any more."""
        takes = (fact.command_id,) if isinstance(fact, MountReceived | UnmountReceived) else ()
        with contextlib.suppress(Refused, CommandTaken):
            await self._owner.take(fact, takes=takes)


def _pieces(tools: list[AnyTool]) -> Iterable[list[AnyTool]]:
    piece: list[AnyTool] = []
    size = 0
    for tool in tools:
        weight = len(msgspec.json.encode(tool.text)) + len(msgspec.json.encode(weighed(tool)))
        if piece and size + weight > MOUNT_BYTES_MAX:
            yield piece
            piece, size = [], 0
        piece.append(tool)
        size += weight
    if piece:
        yield piece
