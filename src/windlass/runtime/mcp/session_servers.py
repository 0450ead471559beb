"""The MCP servers of one session that is driven here: connected side by side when it is opened, looked at again
before it works, and when one of them says that it has changed. Nothing that a server does can stop the session."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import CommandTaken, Refused
from windlass.events.sessions import NoticeGiven
from windlass.events.tools.mcp import McpBody, McpConnected, McpStatus
from windlass.events.tools.toolset import MountReceived, ToolBody, UnmountReceived
from windlass.mcp.config import Mcp
from windlass.mcp.connection import Connection, NotConnected
from windlass.mcp.offered_tools import PLANE, SOURCE, about_of, offered, visible
from windlass.mcp.plane import McpPlane
from windlass.mcp.server import McpServer
from windlass.mcp.tool_list import Listing
from windlass.mcp.trust import UNASKED, TrustRecords, key_of, sight_of
from windlass.runtime.bind.builtin_tools import CATALOGUE_TOOLS, builtin
from windlass.runtime.bind.local_code import weighed

from .configured_servers import configured

if TYPE_CHECKING:
    from collections.abc import Callable

    from windlass.runtime.bind.bound_agent import Bound
    from windlass.runtime.drive.tool_runner import ToolRunner
    from windlass.runtime.owner.owner import Owner
    from windlass.runtime.workspace.folder import Place
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


class SessionServers:
    """What a session has of MCP servers."""

    def __init__(
        self, config: Mcp, owner: Owner, bound: Bound, tools: ToolRunner, place: Callable[[], Place | None]
    ) -> None:
        self._config = config
        self._owner = owner
        self._bound = bound
        self._tools = tools
        self._place = place
        self._records = TrustRecords()
        self._lock = asyncio.Lock()
        self._changed: set[str] = set()
        self._lost: dict[str, McpServer] = {}
        self._settled: dict[str, tuple[Seen, bool]] = {}
        """What was on record of each server after the last look: most looks find nothing else."""
        self._told: set[str] = set()
        self._mounts = 0
        self.wake: Callable[[], None] = lambda: None
        """Called when a server has something to say: whoever drives the session has `catch_up` done."""

    async def look(self, only: Container[str] | None = None) -> None:
        """Connects what is not connected, and records and mounts what is other than before; of some servers only, or of
        all. One that failed a moment ago is left alone, unless the session is being opened."""
        async with self._lock:
            await self._record_lost()
            servers, problems = await asyncio.to_thread(configured, self._config, self._place())
            for problem in problems:
                await self._tell("mcp_config", problem)
            plane = await self._tools.plane(PLANE)
            assert isinstance(plane, McpPlane), "every runtime has the plane of MCP tools"
            await self._forget(plane, servers)
            self._changed.intersection_update(servers)
            looked_at = [
                server
                for name, server in servers.items()
                if only is None or (name in only and not self._is_frozen(name))
            ]
            seen = await asyncio.gather(*(self._look_at(plane, server) for server in looked_at))
            listings = [each.listing for each in plane.connections.values() if each.listing is not None]
            defers = sum(len(listing.tools) for listing in listings) > self._config.defer_above
            for each in seen:
                now = (each, defers)
                if self._settled.get(each.server.name) != now:
                    await self._record(each, defers=defers)
                    self._settled[each.server.name] = now
            self._changed = {name for name in self._changed if not self._is_frozen(name)}

    async def before_prompt(self) -> None:
        """Looks before a session at rest works again: what a person agreed to meanwhile is there for this prompt, and
        what is frozen is asked once what it lists by now."""
        if not self._owner.state.active:
            await self.look()

    async def catch_up(self) -> None:
        """Looks at servers as long as they say that they were lost, are back or have changed."""
        while self._changed or self._lost:
            await self.look(frozenset(self._changed))

    def _noticed(self, server: McpServer, what: str) -> None:
        """One that was lost is connected again when it is called, or before the session works again. One that is frozen
        may change as it likes until then: each change on record would let it write the log full."""
        if what == "lost":
            self._lost[server.name] = server
        elif self._is_frozen(server.name):
            return
        else:
            self._changed.add(server.name)
        self.wake()

    def _is_frozen(self, name: str) -> bool:
        settled = self._settled.get(name)
        return settled is not None and settled[0].status == "frozen"

    async def _record_lost(self) -> None:
        lost, self._lost = list(self._lost.values()), {}
        for server in lost:
            await self._record(Seen(server=server, status="lost"), defers=False)
            self._settled.pop(server.name, None)

    async def _forget(self, plane: McpPlane, servers: dict[str, McpServer]) -> None:
        """Ends the connections to what is not configured any more, or otherwise."""
        for name, connection in list(plane.connections.items()):
            if servers.get(name) != connection.server:
                del plane.connections[name]
                await connection.close()
                await self._unmount(name, keep=())

    # --- one of them ---

    async def _look_at(self, plane: McpPlane, server: McpServer) -> Seen:
        """What there is of a server now. Never raises for what a server does."""
        key = key_of(server, self._bound.agent.name)
        changed = server.name in self._changed
        self._changed.discard(server.name)
        connection = plane.connections.get(server.name)
        if connection is not None and connection.as_agreed and not changed and connection.server == server:
            return Seen(server=server, status="connected", listing=connection.listing)
        if server.trust != "source":
            standing = await asyncio.to_thread(self._records.launch_standing, server, key)
            if standing == "changed" or (standing == "new" and server.trust == "record"):
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(self._records.saw, server, key, sight_of(server))
                return Seen(server=server, status="frozen", why=_untrusted(server, standing, "how it is reached"))
        if connection is None:
            connection = plane.connections[server.name] = self._connection(server)
        was = connection.connected
        try:
            asks = was and (changed or connection.stale)
            listing = await (connection.relist() if asks else connection.connect(patient=False))
        except NotConnected as error:
            status: McpStatus = "lost" if connection.listing is not None else "failed"
            return Seen(server=server, status=status, why=visible(str(error)))
        return await self._judged(connection, key, listing)

    def _connection(self, server: McpServer) -> Connection:
        place = self._place()
        folder = place.folder.path if place is not None else None
        return Connection(server, folder, self._tools.secrets, noticed=lambda what: self._noticed(server, what))

    async def _judged(self, connection: Connection, key: str, listing: Listing) -> Seen:
        """Whether what a server lists is what was trusted; the first sight of one makes it so, unless a record is
        wanted."""
        server = connection.server
        standing = "trusted"
        if server.trust != "source":
            standing = await asyncio.to_thread(self._records.standing, server, key, listing)
        if standing == "new" and server.trust == "first_sight":
            with contextlib.suppress(OSError):  # a machine that keeps nothing sees each server for the first time
                await asyncio.to_thread(self._records.trust, server, key, sight_of(server, listing), UNASKED)
            standing = "trusted"
        if standing == "trusted":
            connection.agreed = listing.digest
            return Seen(server=server, status="connected", listing=listing)
        connection.agreed = None
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self._records.saw, server, key, sight_of(server, listing))
        return Seen(server=server, status="frozen", listing=listing, why=_untrusted(server, "changed", "its tools"))

    # --- on record ---

    async def _record(self, seen: Seen, *, defers: bool) -> None:
        server, listing = seen.server, seen.listing
        deferred = defers if server.deferred is None else server.deferred
        tools, wrong = offered(server, listing, deferred=deferred) if listing is not None else ({}, [])
        tools, shadowed = self._apart(server, tools)
        fact = self._fact(seen, tools)
        if not self._is_on_record(fact):
            await self._take(fact)
            if seen.why:
                await self._tell(f"mcp_{seen.status}", f"MCP server {server.name!r}: {seen.why}")
        left_out = [*(listing.left_out if listing is not None else ()), *wrong, *shadowed]
        if left_out:
            shown = "; ".join(left_out[:LEFT_OUT_SHOWN])
            await self._tell("mcp_left_out", f"MCP server {server.name!r}: left out: {visible(shown)[:1000]}")
        if seen.status == "connected":
            await self._mount(server.name, tools.values())
        if seen.status in ("connected", "frozen"):
            await self._unmount(server.name, keep=tools if seen.status == "connected" else ())

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
        known = listing.by_name if listing is not None else {}
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
                tools=tuple(about_of(name, known[name]) for name in tools),
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
            await self._take(
                MountReceived(
                    command_id=f"mcp:{server}:{self._owner.epoch}:{self._mounts}",
                    actor=f"{SOURCE}{server}",
                    source=f"{SOURCE}{server}",
                    tools=self._bound.local_code.bring(piece),
                    body=ToolBody(tools=tuple(tool.text for tool in piece)),
                )
            )

    async def _unmount(self, server: str, *, keep: Iterable[str]) -> None:
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
            await self._take(UnmountReceived(command_id=command_id, actor=f"{SOURCE}{server}", tools=gone))

    async def _tell(self, code: str, message: str) -> None:
        """Says something once."""
        if message not in self._told:
            self._told.add(message)
            await self._take(NoticeGiven(level="warning", code=code, message=message))

    async def _take(self, fact: McpConnected | MountReceived | UnmountReceived | NoticeGiven) -> None:
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


def _untrusted(server: McpServer, standing: str, what: str) -> str:
    if standing == "new":
        return f"nobody has trusted it yet: run 'windlass mcp trust {server.name}'"
    return f"{what} changed since it was trusted: run 'windlass mcp trust {server.name}' to see how, and to agree"
