"""What clients ask for, by its name, as commands to sessions: a closed list; whatever is not in it is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from . import agents, answers, changes, commands, host, sessions

if TYPE_CHECKING:
    from windlass.adapters.copilot.copilot_host import CopilotHost
    from windlass.protocol.json_rpc.rpc_peer import RpcPeer

Method = Callable[["CopilotHost", "RpcPeer", dict[str, Any]], Awaitable[Any]]

METHODS: dict[str, Method] = {
    **host.METHODS,
    **sessions.METHODS,
    **answers.METHODS,
    **changes.METHODS,
    **agents.METHODS,
    **commands.METHODS,
}
