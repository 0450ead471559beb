"""The routes that A2A clients ask: the card of an agent, and its methods."""

from __future__ import annotations

from windlass.server.mount import Mount
from windlass.server.route import Route

from .agent_card import PREFIX, get_card
from .methods import ask_agent
from .rpc import RpcRequest

ROUTES = (
    Route(
        method="GET",
        path=PREFIX + "/{agent_name}/.well-known/agent-card.json",
        name="a2aGetCard",
        role="read",
        words="The card of an agent, as A2A has it.",
        handler=get_card,
        gives="A2aObject",
    ),
    Route(
        method="POST",
        path=PREFIX + "/{agent_name}",
        name="a2aAskAgent",
        role="drive",
        words="A method of A2A, as JSON-RPC: messages and tasks. Answers to what a task asks need the role `approve`.",
        handler=ask_agent,
        takes=RpcRequest,
        gives="A2aObject",
        fails=(507,),
        while_draining=False,
    ),
)

MOUNT = Mount(
    name="a2a",
    routes=ROUTES,
    names={"agent_name": {"type": "string", "minLength": 1, "maxLength": 200}},
    schemas={"A2aObject": {"type": "object"}},
)
