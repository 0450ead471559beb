"""Hooks before a command is taken: they may change a prompt or deny it, and see a person's own call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.base import Command
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.tools.calls import CallReceived, UserCallBody
from windlass.events.values.blocks import Text
from windlass.models.tokens import estimate_text

if TYPE_CHECKING:
    from .session_hooks import SessionHooks


async def hooked(command: Command, hooks: SessionHooks) -> Command:
    """A prompt after its hooks: perhaps with another text, always with their rulings. A person's own call is left to be
    prepared later if hooks must see it, like any other call."""
    if isinstance(command, CallReceived) and hooks.current.at("before_tool", command.tool):
        args = command.body.args if command.body is not None else {}
        return msgspec.structs.replace(command, body=UserCallBody(args=args))
    if not isinstance(command, PromptReceived) or command.body is None:
        return command
    brought = hooks.for_command(command.command_id)
    if not brought.at("prompt"):
        return command
    text = "\n".join(block.text for block in command.body.content if isinstance(block, Text))
    attachments = tuple(msgspec.to_builtins(attachment) for attachment in command.body.attachments)
    ruled = await brought.run(hooks.moment("prompt", text, attachments=attachments))
    body, tokens = command.body, command.tokens
    if ruled.changed:
        sent = str(ruled.value)
        rest = tuple(block for block in command.body.content if not isinstance(block, Text))
        shown = command.body.displayed if command.body.displayed is not None else text
        body = PromptBody(content=(Text(text=sent), *rest), displayed=shown, attachments=command.body.attachments)
        tokens = command.tokens + estimate_text(sent) - estimate_text(text)
    return msgspec.structs.replace(command, hooks=tuple(ruled.rulings), body=body, tokens=max(0, tokens))
