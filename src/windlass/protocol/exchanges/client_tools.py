"""The tools that a client runs itself, offered to a session."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.events.tools.toolset import MountReceived, ToolBody
from windlass.runtime.api.sent_command import Sent
from windlass.runtime.api.session import Session
from windlass.runtime.bind.local_code import weighed
from windlass.tools.tool import AnyTool


async def offer(session: Session, tools: Sequence[AnyTool], actor: str) -> None:
    """Has a session know the tools of its client, unless it knows them as they are. The policy judges their calls as
    it does all others. Raises `Refused` for one that may not be offered."""
    known = (await session.state()).toolset.tools
    new = [tool for tool in tools if tool.name not in known or known[tool.name].digest != weighed(tool).digest]
    if new:
        command = MountReceived(
            command_id=session.runtime.ports.fresh_id(),
            actor=actor,
            auth="token",
            tools=tuple(weighed(tool) for tool in new),
            body=ToolBody(tools=tuple(tool.text for tool in new)),
        )
        await Sent(session, command)
