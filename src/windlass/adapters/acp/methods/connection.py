"""What is agreed on first: the version, what each side can do, and that nobody needs to sign in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.events.errors import UsageError
from windlass.events.values.blocks import JsonObject

if TYPE_CHECKING:
    from windlass.adapters.acp.acp_host import AcpHost
    from windlass.protocol.json_rpc.rpc_peer import RpcPeer

PROTOCOL = 1
"""The one version that there is. Whoever wants another is told this one, and may leave."""


async def initialize(host: AcpHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Says what there is here, whatever was asked for."""
    from windlass import __version__

    version = params["protocolVersion"]
    if not isinstance(version, int) or isinstance(version, bool):
        raise UsageError("protocolVersion is a whole number")
    given = params.get("clientCapabilities")
    host.client = given if isinstance(given, dict) else {}
    return {
        "protocolVersion": PROTOCOL,
        "agentInfo": {"name": "windlass", "title": host.agent.display_name or host.agent.name, "version": __version__},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
        },
        "authMethods": [],
    }


async def authenticate(host: AcpHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    raise UsageError("nobody signs in here: models are reached with the keys of whoever runs this program")


METHODS = {"initialize": initialize, "authenticate": authenticate}
