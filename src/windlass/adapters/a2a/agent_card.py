"""The card of an agent: what it is called, what it is for, and where and how it is asked."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from windlass.runtime.api.agent import Agent
from windlass.server.http_answer import Answer, told
from windlass.server.http_call import Call, no_agent

PROTOCOL = "1.0"
MODES = ["text/plain", "application/json"]
PREFIX = "/v1/a2a"


def agent_of(call: Call) -> Agent:
    """The agent that the path names. Raises `Problem` if it is not served."""
    agent = call.server.tenants.agents.get(call.names["agent_name"])
    if agent is None:
        raise no_agent(call, call.names["agent_name"])
    return agent


async def get_card(call: Call) -> Answer:
    """The card of an agent."""
    agent = agent_of(call)
    words = agent.description or f"The agent {agent.name}."
    card: dict[str, Any] = {
        "name": agent.name,
        "description": words,
        "version": version("windlass"),
        "supportedInterfaces": [
            {"url": _address(call, agent.name), "protocolBinding": "JSONRPC", "protocolVersion": PROTOCOL}
        ],
        "capabilities": {"streaming": True, "pushNotifications": False},
        "securitySchemes": {"token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"token": {"list": []}}}],
        "defaultInputModes": [*MODES, "image/*"],
        "defaultOutputModes": MODES,
        "skills": [{"id": agent.name, "name": agent.name, "description": words, "tags": ["agent"]}],
    }
    return told(card)


def _address(call: Call, name: str) -> str:
    """Where the agent is asked: by the name of the server that this request was sent to, which the gate has checked."""
    from urllib.parse import quote

    return f"{call.scope['scheme']}://{call.headers['host']}{PREFIX}/{quote(name, safe='')}"
