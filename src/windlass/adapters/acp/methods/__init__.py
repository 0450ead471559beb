"""What an editor asks for, by its name, as commands to sessions: a closed list; whatever is not in it is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from . import connection, sessions, turns

if TYPE_CHECKING:
    from windlass.adapters.acp.acp_host import AcpHost
    from windlass.protocol.json_rpc.rpc_peer import RpcPeer

Method = Callable[["AcpHost", "RpcPeer", dict[str, Any]], Awaitable[Any]]

METHODS: dict[str, Method] = {**connection.METHODS, **sessions.METHODS, **turns.METHODS}
NOTICES = turns.NOTICES
