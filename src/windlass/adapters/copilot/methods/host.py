"""What is asked of the server itself: who it is, which models and sessions it has, and that it stops."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from windlass.adapters.copilot.session_setup import model_name
from windlass.adapters.copilot.view.event_ids import iso_time
from windlass.events.values.blocks import JsonObject
from windlass.store.base import IndexRow, Key

if TYPE_CHECKING:
    from windlass.adapters.copilot.copilot_host import CopilotHost
    from windlass.protocol.json_rpc.rpc_peer import RpcPeer

PROTOCOL = 3
"""The one version that the published clients speak."""
LISTED_MAX = 1000
LAST_WORD_S = 0.2
"""How long an answer may take to be sent before the server stops."""


def version() -> str:
    from windlass import __version__

    return f"windlass {__version__}"


async def connect(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    return {"ok": True, "protocolVersion": PROTOCOL, "version": version()}


async def ping(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    now = time.time_ns() // 1_000_000
    return {"message": f"pong: {params.get('message') or ''}", "timestamp": iso_time(now), "protocolVersion": PROTOCOL}


async def status(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    return {"version": version(), "protocolVersion": PROTOCOL}


async def auth(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Nobody is signed in anywhere: models are reached with the keys of whoever runs the server."""
    return {"isAuthenticated": True, "authType": "api-key", "statusMessage": "models of this machine's own"}


async def models(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """The models of the agents that are served."""
    model_forms: dict[str, JsonObject] = {}
    for agent in host.agents.values():
        info = host.runtime.bind(agent).info
        supports = {"vision": bool(getattr(info, "images", False)), "reasoningEffort": False}
        limits = {"max_context_window_tokens": info.window_tokens}
        name = model_name(agent) or info.name
        model_forms[name] = {"id": name, "name": name, "capabilities": {"supports": supports, "limits": limits}}
    return {"models": list(model_forms.values())}


async def stop(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    asyncio.get_running_loop().call_later(LAST_WORD_S, host.stopping.set)
    return {}


# --- the sessions that there are ------------------------------------------------------------------------------------


def metadata(row: IndexRow) -> JsonObject:
    """A session as it is listed."""
    made: JsonObject = {
        "sessionId": row.session,
        "startTime": iso_time(row.created_ms),
        "modifiedTime": iso_time(row.updated_ms),
        "isRemote": False,
    }
    return {**made, "summary": row.title} if row.title else made


async def list_sessions(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """The sessions of this store, the last changed first; those that work for others are not among them."""
    rows = await host.runtime.sessions(limit=LISTED_MAX)
    return {"sessions": [metadata(row) for row in rows if row.parent is None]}


async def get_metadata(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    row = await host.runtime.store.index.get(Key(host.runtime.tenant, str(params["sessionId"])))
    return {"session": metadata(row)} if row is not None else {}


async def last_id(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    rows = [row for row in await host.runtime.sessions(limit=LISTED_MAX) if row.parent is None]
    return {"sessionId": rows[0].session} if rows else {}


METHODS = {
    "connect": connect,
    "ping": ping,
    "status.get": status,
    "auth.getStatus": auth,
    "models.list": models,
    "runtime.shutdown": stop,
    "session.list": list_sessions,
    "session.getMetadata": get_metadata,
    "session.getLastId": last_id,
}
