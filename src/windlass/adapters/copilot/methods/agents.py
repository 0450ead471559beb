"""The specialists of a session's agent, and which of them runs the session: listed, selected, deselected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.adapters.copilot.open_questions import ACTOR
from windlass.adapters.copilot.session_setup import model_name
from windlass.events.errors import UsageError
from windlass.events.values.blocks import JsonObject

if TYPE_CHECKING:
    from windlass.adapters.copilot.copilot_host import CopilotHost
    from windlass.protocol.json_rpc.rpc_peer import RpcPeer
    from windlass.runtime.api.agent import Agent


async def list_agents(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    return {"agents": [info(agent) for agent in await _specialists(host, params)]}


async def current(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    selected = await (await host.session(str(params["sessionId"]))).selected()
    specialist = next((agent for agent in await _specialists(host, params) if agent.name == selected), None)
    return {"agent": info(specialist) if specialist is not None else None}


async def select(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    session = await host.session(str(params["sessionId"]))
    await session.select(str(params["name"]), actor=ACTOR)
    return await current(host, peer, params)


async def deselect(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    session = await host.session(str(params["sessionId"]))
    await session.select(None, actor=ACTOR)
    return {}


async def _specialists(host: CopilotHost, params: dict[str, Any]) -> tuple[Agent, ...]:
    session = await host.session(str(params["sessionId"]))
    name = (await session.state()).setup.agent.name
    if name not in host.agents:
        raise UsageError(f"the agent {name!r} of this session is not served here: there are {', '.join(host.agents)}")
    return tuple(host.agents[name].agents)


def info(agent: Agent) -> JsonObject:
    """A specialist as it is listed."""
    made: JsonObject = {
        "id": agent.name,
        "name": agent.name,
        "displayName": agent.display_name or agent.name,
        "description": agent.description,
        "tools": [tool.name for tool in agent.toolset],
    }
    return {**made, "model": model_name(agent)} if agent.model is not None else made


METHODS = {
    "session.agent.list": list_agents,
    "session.agent.getCurrent": current,
    "session.agent.select": select,
    "session.agent.deselect": deselect,
}
"""What clients may ask for."""
