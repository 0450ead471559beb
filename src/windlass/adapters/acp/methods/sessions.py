"""Sessions: begun, loaded with their history, resumed without it, listed, closed, removed."""

from __future__ import annotations

import asyncio
import datetime
import os
import uuid
from typing import TYPE_CHECKING, Any

from windlass.adapters.acp.editor_session import Seat
from windlass.adapters.acp.mcp_servers import servers_of
from windlass.adapters.acp.permission_requests import ACTOR
from windlass.adapters.acp.view.session_forms import config_options, modes_of
from windlass.events.errors import UsageError
from windlass.events.values.blocks import JsonObject
from windlass.runtime.operate.session_removal import remove_session

if TYPE_CHECKING:
    from windlass.adapters.acp.acp_host import AcpHost
    from windlass.protocol.json_rpc.rpc_peer import RpcPeer
    from windlass.store.base import IndexRow

PAGE = 50
STOP_MS = 10_000
"""How long a session that is to be removed may take to stop."""


async def new(host: AcpHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Begins a session in a folder."""
    name = str(uuid.uuid4())
    seat = await _seated(host, peer, name, params, replayed=True)
    return {"sessionId": name, **_told(seat)}


async def load(host: AcpHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Opens a session that exists: all of it is told again, what is open is asked again, and what is owed goes on."""
    return await _again(host, peer, params, replayed=True)


async def resume(host: AcpHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """The same for an editor that has the history."""
    return await _again(host, peer, params, replayed=False)


async def _again(host: AcpHost, peer: RpcPeer, params: dict[str, Any], *, replayed: bool) -> JsonObject:
    name = str(params["sessionId"])
    session = await host.found(name)
    agent = (await session.state()).setup.agent.name
    if agent != host.agent.name:
        raise UsageError(f"session {name!r} is one of the agent {agent!r}, and {host.agent.name!r} is served here")
    await host.leave(name)
    return _told(await _seated(host, peer, name, params, replayed=replayed))


async def _seated(host: AcpHost, peer: RpcPeer, name: str, params: dict[str, Any], *, replayed: bool) -> Seat:
    """Sits down at a session; it is asked what is open once it has its answer."""
    cwd = folder_in(params)
    servers = servers_of(params.get("mcpServers"))
    runtime = await host.runtime(servers)
    session = await runtime.session(host.agent_with(servers), name, workspace=cwd, trusted=host.trusted)
    seat = Seat(peer, session, host.models, forms=host.forms)
    host.seats[name] = seat
    await seat.begin(replayed=replayed)
    asyncio.get_running_loop().call_soon(seat.ask_open)
    return seat


def folder_in(params: dict[str, Any]) -> str:
    """The folder to work in. Raises `UsageError` for what is none."""
    cwd = params["cwd"]
    if not isinstance(cwd, str) or not os.path.isabs(cwd) or not os.path.isdir(cwd):
        raise UsageError(f"cwd: {cwd!r} is no folder of this machine: give the absolute path of one")
    if params.get("additionalDirectories"):
        raise UsageError("additionalDirectories: a session works in one folder here: leave them out")
    return cwd


def _told(seat: Seat) -> JsonObject:
    fold = seat.view.fold
    return {"modes": modes_of(fold), "configOptions": config_options(fold)}


async def listed(host: AcpHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """The agent's sessions that work in a folder, the last changed first; so many are looked at for each page."""
    given, cwd = params.get("cursor"), params.get("cwd")
    if given is not None and not (isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 10):
        raise UsageError("cursor: give back the nextCursor of the page before")
    offset = int(given or 0)
    rows = await host.plain.sessions(limit=PAGE, offset=offset, agent=host.agent.name)
    entries = [await _row(host, row) for row in rows if row.parent is None]
    sessions = [one for one in entries if one is not None and cwd in (None, one["cwd"])]
    more = {"nextCursor": str(offset + PAGE)} if len(rows) == PAGE else {}
    return {"sessions": sessions, **more}


async def _row(host: AcpHost, row: IndexRow) -> JsonObject | None:
    """A session as it is listed; None for one that works in no folder."""
    folder = (await (await host.plain.get(row.session)).state()).workspace.folder
    if folder is None:
        return None
    at = datetime.datetime.fromtimestamp(row.updated_ms / 1000, tz=datetime.UTC)
    made: JsonObject = {"sessionId": row.session, "cwd": folder.cwd, "updatedAt": at.isoformat(timespec="milliseconds")}
    return {**made, "title": row.title} if row.title else made


async def close(host: AcpHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Stops what a session does and lets it go; it can be loaded again."""
    seat = host.seat(params)
    seat.cancel()
    await seat.session.wait_idle(timeout_ms=STOP_MS)
    await host.leave(seat.session.session_id)
    return {}


async def delete(host: AcpHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Removes a session for good; whatever it does is stopped first."""
    name = str(params["sessionId"])
    session = host.seats[name].session if name in host.seats else await host.found(name)
    if (await session.state()).active:
        await session.cancel("removed in the editor", actor=ACTOR)
        await session.wait_idle(timeout_ms=STOP_MS)
    seat = host.seats.pop(name, None)
    if seat is not None:
        await seat.stop()
        await session.close("removed")
    if not await remove_session(host.plain.store, host.place, host.key(name)):
        raise UsageError(f"session {name!r} is open in another process")
    return {}


METHODS = {
    "session/new": new,
    "session/load": load,
    "session/resume": resume,
    "session/list": listed,
    "session/close": close,
    "session/delete": delete,
}
