"""What code and chats ask of a session's MCP servers: whether they are there, which prompts they have, and one of
these sent to the session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from windlass.events.errors import UsageError
from windlass.mcp.connection import Connection, Frozen, Lost, NotConnected
from windlass.mcp.prompts import ServerPrompt, listed_prompts, made
from windlass.tools.context import ToolError

from .session_servers import SessionServers

if TYPE_CHECKING:
    from windlass.events.values.setup import Behavior
    from windlass.runtime.api.sent_command import Sent
    from windlass.runtime.api.session import Session

LABEL = "untrusted:mcp"
"""What the words of a server are marked with."""


async def ready(session: Session) -> None:
    """Waits until each MCP server of a session is connected or was waited for long enough (`Mcp(wait_ms=…)`), and its
    log says so. A prompt does that by itself."""
    await (await _servers(session)).look()


async def prompts(session: Session) -> list[ServerPrompt]:
    """The prompts of all the servers that a session has now, by server. One that cannot be asked has none."""
    server_prompts: list[ServerPrompt] = []
    for connection in (await (await _servers(session)).plane()).connections.values():
        try:
            server_prompts += await listed_prompts(connection) if connection.agreed is not None else []
        except (NotConnected, Frozen, Lost, ToolError):
            continue
    return server_prompts


async def send_prompt(
    session: Session,
    name: str,
    arguments: Mapping[str, str] | str = "",
    *,
    behavior: Behavior | None = None,
    command_id: str | None = None,
    actor: str = "user",
) -> Sent:
    """Has a server make a prompt (`server:prompt`) and gives it ready to be sent: await it, or iterate it. Its words
    are marked as untrusted. Raises `UsageError` for a prompt that there is not, arguments that do not fit, and a server
    that cannot be had."""
    server, sign, _ = name.partition(":")
    connection = (await (await _servers(session)).plane()).connections.get(server) if sign else None
    if connection is None:
        there = ", ".join((await (await _servers(session)).plane()).connections) or "none"
        raise UsageError(f"no prompt {name!r}: write server:prompt; the servers are {there}")
    try:
        known = {prompt.command: prompt for prompt in await listed_prompts(await _connected(connection))}
        if name not in known:
            raise UsageError(f"no prompt {name!r}: there are {', '.join(known) or 'none'}")
        wanted = known[name]
        args = wanted.filled(arguments) if isinstance(arguments, str) else wanted.checked(arguments)
        blocks = await made(connection, wanted, args)
    except (NotConnected, Frozen, Lost, ToolError) as error:
        raise UsageError(f"the prompt {name!r} cannot be had: {error}") from None
    return session.prompt(blocks, labels=(LABEL,), behavior=behavior, command_id=command_id, actor=actor)


async def _connected(connection: Connection) -> Connection:
    await connection.agreed_listing()
    return connection


async def _servers(session: Session) -> SessionServers:
    """A session's servers. Raises `UsageError` if it has none, or another process has it."""
    driven = await session.runtime.host.opener.ensure_driven(session.key)
    if driven is None or driven.mcp is None:
        why = "its agent has none" if driven is not None else "another process drives it"
        raise UsageError(f"session {session.session_id!r} has no MCP servers here: {why}")
    return driven.mcp
