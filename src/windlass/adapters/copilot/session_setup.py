"""What a client says of a session when it begins or resumes one, as ours: agent, options, folder, tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.events.errors import UsageError
from windlass.events.tools.toolset import MountReceived, ToolBody
from windlass.events.values.setup import SessionOptions
from windlass.runtime.api.agent import Agent
from windlass.runtime.api.sent_command import Sent
from windlass.runtime.api.session import Session
from windlass.runtime.bind.local_code import weighed
from windlass.tools.tool import AnyTool, external_tool

from .client_session import Seat
from .open_questions import ACTOR

ANY_OBJECT = {"type": "object", "properties": {}}


def agent_for(agents: Mapping[str, Agent], params: dict[str, Any]) -> Agent:
    """The agent that a client names, else the first. Raises `UsageError` for one that is not here."""
    name = params.get("agent")
    if name is None:
        return next(iter(agents.values()))
    if name not in agents:
        raise UsageError(f"there is no agent {name!r} here: there are {', '.join(agents)}")
    return agents[name]


def model_name(agent: Agent) -> str:
    """What an agent's own model is called."""
    if agent.model is None:
        return ""
    return agent.model if isinstance(agent.model, str) else agent.model.info.name


def options_of(agent: Agent, params: dict[str, Any]) -> SessionOptions:
    """What the session has otherwise than its agent says. Who answers questions is asked some."""
    wanted = params.get("model")
    asks = (("requestUserInput", "ask_user"), ("requestExitPlanMode", "plan"))
    return SessionOptions(
        model=wanted if wanted and wanted != model_name(agent) else None,
        instructions=instructions_of(agent, params.get("systemMessage") or {}),
        tools=tuple(tool for flag, tool in asks if params.get(flag) and tool not in agent.toolset),
    )


def instructions_of(agent: Agent, given: dict[str, Any]) -> str | None:
    """The agent's instructions with the client's behind them, or the client's alone; None if it gives none."""
    content = given.get("content")
    if not content:
        return None
    if given.get("mode") == "replace":
        return str(content)
    return f"{agent.instructions}\n\n{content}" if agent.instructions else str(content)


async def mount(session: Session, seat: Seat, tools: list[dict[str, Any]]) -> None:
    """Offers the tools of a client to the session. One that is to pass unasked is mounted as the host's own; the others
    are a client's, and the policy says whether somebody is asked about them."""
    known = (await session.state()).toolset.tools
    asked: list[AnyTool] = []
    for given in tools:
        tool = external_tool(given["name"], given.get("description") or "", given.get("parameters") or ANY_OBJECT)
        seat.tools.add(tool.name)
        if not given.get("skipPermission"):
            asked.append(tool)
        elif tool.name not in known or known[tool.name].digest != tool.spec.digest:
            await session.mount(tool, actor=ACTOR)
    if asked:
        body = ToolBody(tools=tuple(tool.text for tool in asked))
        specs = tuple(weighed(tool) for tool in asked)
        command_id = session.runtime.ports.fresh_id()
        await Sent(session, MountReceived(command_id=command_id, actor=ACTOR, tools=specs, body=body))
