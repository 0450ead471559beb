"""What is done about MCP servers when a session is opened: its tools are found in its log, then its servers are
connected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from .call_hooks import CallHooks
from .configured_servers import configured
from .recalled_tools import recall
from .session_servers import SessionServers

if TYPE_CHECKING:
    from windlass.runtime.bind.bound_agent import Bound
    from windlass.runtime.bind.local_code import LocalCode
    from windlass.runtime.host.slot import Driven
    from windlass.runtime.owner.owner import Owner
    from windlass.runtime.workspace.folder import Place


async def recall_tools(bound: Bound, owner: Owner, local_code: LocalCode, place: Place | None) -> None:
    """Brings what the log has of the tools of servers that the session is still to have."""
    config = bound.agent.mcp_config
    if config is not None and owner.state.mcp.servers:
        servers, _ = await asyncio.to_thread(configured, config, place)
        await recall(servers, owner.state, local_code, owner.log, owner.key)


async def begin(driven: Driven, bound: Bound, closed: Callable[[], bool]) -> None:
    """Begins to connect the servers of a session that is about to be driven, and waits for none. Nothing of them is
    left if that is cut off, or the runtime was closed meanwhile."""
    config = bound.agent.mcp_config
    assert config is not None, "the agent has servers"
    servers = SessionServers(config, driven.owner, bound, driven.tools, lambda: driven.instructions.place)
    try:
        plane = await servers.plane()
        plane.before_call = CallHooks(driven.driver.performer.hooks).ruled
        await servers.start()
    except BaseException:
        await driven.tools.close()
        raise
    if closed():
        await driven.tools.close()
    driven.mcp = bound.mcp = servers

    def wake() -> None:
        if driven.at_work:  # a session at rest looks before it works again
            driven.driver.flights.do("mcp", servers.catch_up)

    servers.wake = wake
