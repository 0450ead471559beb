"""The tools by which a session reaches others of its tree: it tells them something, or reads its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.values.blocks import JsonObject
from windlass.runtime.bind.builtin_tools import READ_PARENT, TELL

if TYPE_CHECKING:
    from windlass.tools.planes.outcome import Outcome

    from .messages import Messages
    from .parent_conversation import ParentConversation

TREE_TOOLS = (TELL, READ_PARENT)


class TreeTools:
    """Carries out these tools for one session."""

    def __init__(self, messages: Messages, parent: ParentConversation) -> None:
        self.messages = messages
        self._parent = parent

    async def perform(self, tool: str, call_id: str, args: JsonObject) -> Outcome:
        if tool == READ_PARENT:
            return await self._parent.perform(args)
        return await self.messages.perform(call_id, args)
