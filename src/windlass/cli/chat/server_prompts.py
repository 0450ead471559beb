"""Prompts of MCP servers in a chat: `/server:prompt` with what it takes, and the list of those that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.cli import identity
from windlass.cli.terminal.text import one_line
from windlass.cli.terminal.visible_text import spelt

if TYPE_CHECKING:
    from windlass.events.values.setup import Behavior

    from .conversation import Chat

SHOWN_CHARS_MAX = 80


async def list_prompts(chat: Chat, rest: str) -> None:
    """Lists what there is."""
    from windlass.runtime.mcp.session_prompts import prompts

    server_prompts = await prompts(chat.session) if chat.agent is not None and chat.agent.mcp_config is not None else []
    for prompt in server_prompts:
        takes = " ".join(f"{each.name}" if each.required else f"[{each.name}]" for each in prompt.arguments)
        words = one_line(prompt.description, SHOWN_CHARS_MAX)
        chat.note(spelt(f"/{prompt.command} {takes}".rstrip()) + (f"  {words}" if words else ""), "")
    if not server_prompts:
        chat.note("no prompts of MCP servers")


async def send(chat: Chat, name: str, rest: str) -> None:
    """Has a server make a prompt, and sends it."""
    from windlass.runtime.mcp.session_prompts import send_prompt

    active = (await chat.session.state()).active
    behavior: Behavior | None = "steer" if active else None
    sent = await send_prompt(
        chat.session, name, rest, behavior=behavior, command_id=identity.fresh_command_id(), actor=identity.actor()
    )
    await sent
