"""The MCP servers of one session that is driven here: connected side by side and in the background when it is opened,
looked at again before it works, and when one of them says that it has changed. Nothing that a server does can stop the
session, and none holds up its opening."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from windlass.events.errors import WindlassError
from windlass.events.tools.mcp import McpStatus
from windlass.mcp.config import Mcp
from windlass.mcp.connection import Connection, NotConnected
from windlass.mcp.offered_tools import PLANE, visible
from windlass.mcp.plane import McpPlane
from windlass.mcp.server import McpServer
from windlass.mcp.server_logs import LogLine
from windlass.mcp.tool_list import Listing
from windlass.mcp.trust import UNASKED, TrustRecords, key_of, sight_of

from . import asking_rules
from .configured_servers import configured
from .server_record import Seen, ServerRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from windlass.runtime.bind.bound_agent import Bound
    from windlass.runtime.drive.tool_runner import ToolRunner
    from windlass.runtime.owner.owner import Owner
    from windlass.runtime.workspace.folder import Place
    from windlass.tools.sandboxes.sandbox import Launch, Process

LOG = logging.getLogger("windlass.mcp")


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
        self._on_record = ServerRecord(owner, bound)
        self._starting = asyncio.Lock()
        self._recording = asyncio.Lock()
        self._changed: set[str] = set()
        self._lost: dict[str, McpServer] = {}
        self._said: list[LogLine] = []
        self._looks: set[asyncio.Event] = set()
        """Looks that are under way, by what their first end is known by."""
        self._settled: dict[str, tuple[Seen, bool]] = {}
        """What was on record of each server after the last look: most looks find nothing else."""
        self.wake: Callable[[], None] = lambda: None
        """Called when a server has something to say: whoever drives the session has `catch_up` done."""

    # --- looks ---

    async def look(self, only: Container[str] | None = None) -> None:
        """Connects what is not connected, and records and mounts what is other than before; of some servers only, or of
        all. One that failed a moment ago is left alone, unless the session is being opened. One that takes longer than
        the session waits is recorded when it is there. One that was being looked at already, and came out frozen, is
        looked at once more: a person may have agreed to it meanwhile."""
        joined = await self.start(only)
        await self._first_ends()
        if any(self._is_frozen(name) for name in joined):
            await self.start(only)
            await self._first_ends()

    async def _first_ends(self) -> None:
        for first in tuple(self._looks):
            await first.wait()

    async def start(self, only: Container[str] | None = None) -> list[str]:
        """Begins a look in the background. Gives those that are being looked at already, and are left to that."""
        async with self._starting:
            servers, problems = await asyncio.to_thread(configured, self._config, self._place())
            plane = await self.plane()
            async with self._recording:
                await self._record_said()
                for problem in problems:
                    await self._on_record.tell("mcp_config", problem)
                await self._forget(plane, servers)
            self._changed.intersection_update(servers)
            joined = [name for name in servers if plane.looks_at(name)]
            looked_at = [server for name, server in servers.items() if self._is_looked_at(plane, name, only)]
            for server in looked_at:
                plane.opening[server.name] = asyncio.ensure_future(self._look_at(plane, server))
            first = asyncio.Event()
            self._looks.add(first)
            plane.work(self._collect(plane, [server.name for server in looked_at], first))
            return joined

    def _is_looked_at(self, plane: McpPlane, name: str, only: Container[str] | None) -> bool:
        """Whether a look is for a server: one that is being connected still is waited for by whoever began that."""
        if plane.looks_at(name):
            return False
        return only is None or (name in only and not self._is_frozen(name))

    async def _collect(self, plane: McpPlane, names: list[str], first: asyncio.Event) -> None:
        """Records what came of a look: of all servers at once in their order, and later of each that took longer."""
        try:
            waiting = {name: plane.opening[name] for name in names}
            wait_s = self._config.wait_ms / 1000
            if waiting:
                if any(not connection.connected for connection in plane.connections.values()):
                    await asyncio.to_thread(importlib.import_module, "mcp")  # takes long, which is no server's fault
                await asyncio.wait(waiting.values(), timeout=wait_s)
            await self._record_done(plane, waiting)
            first.set()
            self._looks.discard(first)
            while waiting:
                await asyncio.wait(waiting.values(), return_when=asyncio.FIRST_COMPLETED)
                await self._record_done(plane, waiting)
        except (WindlassError, RuntimeError) as error:
            LOG.warning("what became of the MCP servers of a session cannot be put on record: %s", error)
        finally:
            first.set()
            self._looks.discard(first)

    async def _record_done(self, plane: McpPlane, waiting: dict[str, asyncio.Future[Seen]]) -> None:
        async with self._recording:
            listings = [each.listing for each in plane.connections.values() if each.listing is not None]
            defers = sum(len(listing.tools) for listing in listings) > self._config.defer_above
            for name in [name for name, task in waiting.items() if task.done()]:
                seen = waiting.pop(name).result()
                if self._settled.get(name) != (seen, defers):
                    await self._on_record.put(seen, defers=defers)
                    self._settled[name] = (seen, defers)
            self._changed = {name for name in self._changed if not self._is_frozen(name)}

    async def before_prompt(self) -> None:
        """Looks before a session at rest works again: what a person agreed to meanwhile is there for this prompt, and
        what is frozen is asked once what it lists by now. Servers that are still being connected are waited for, for a
        while."""
        if not self._owner.state.active:
            await self.look()

    async def catch_up(self) -> None:
        """Looks at servers as long as they say that they were lost, are back or have changed."""
        while self._changed or self._lost or self._said:
            await self.look(frozenset(self._changed))

    async def plane(self) -> McpPlane:
        """Where the session's servers are."""
        plane = await self._tools.plane(PLANE)
        assert isinstance(plane, McpPlane), "every runtime has the plane of MCP tools"
        return plane

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

    def _logged(self, line: LogLine) -> None:
        self._said.append(line)
        self.wake()

    async def _record_said(self) -> None:
        """Records who was lost, and what servers had to say."""
        lost, self._lost = list(self._lost.values()), {}
        said, self._said = self._said, []
        for server in lost:
            await self._on_record.put(Seen(server=server, status="lost"), defers=False)
            self._settled.pop(server.name, None)
        for line in said:
            await self._on_record.log(line)

    async def _forget(self, plane: McpPlane, servers: dict[str, McpServer]) -> None:
        """Ends the connections to what is not configured any more, or otherwise."""
        for name, connection in list(plane.connections.items()):
            if servers.get(name) != connection.server:
                del plane.connections[name]
                plane.opening.pop(name, None)
                await connection.close()
                await self._on_record.unmount(name, keep=())

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
            try:
                standing = await asyncio.to_thread(self._records.launch_standing, server, key)
            except OSError as error:
                return Seen(server=server, status="frozen", why=_unknown(error))
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
        made = Connection(
            server,
            folder,
            self._tools.secrets,
            noticed=lambda what: self._noticed(server, what),
            logged=self._logged,
            launcher=self._launch,
        )
        made.requests.ruled = lambda what, args: asking_rules.ruled(self._owner.state, server, what, args)
        return made

    async def _launch(self, process: Process) -> Launch:
        """How a server's process is started inside of the session's sandbox. Raises `ToolError` if it cannot be."""
        sandbox: Any = self._tools.sandbox
        launched: Launch = await sandbox.launch(process)
        return launched

    async def _judged(self, connection: Connection, key: str, listing: Listing) -> Seen:
        """Whether what a server lists is what was trusted; the first sight of one makes it so, unless a record is
        wanted."""
        server = connection.server
        standing = "trusted"
        if server.trust != "source":
            try:
                standing = await asyncio.to_thread(self._records.standing, server, key, listing)
            except OSError as error:
                connection.agreed = None
                return Seen(server=server, status="frozen", listing=listing, why=_unknown(error))
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


def _unknown(error: OSError) -> str:
    return f"what was trusted of it cannot be read ({error}); without that file it is new"


def _untrusted(server: McpServer, standing: str, what: str) -> str:
    if standing == "new":
        return f"nobody has trusted it yet: run 'windlass mcp trust {server.name}'"
    return f"{what} changed since it was trusted: run 'windlass mcp trust {server.name}' to see how, and to agree"
