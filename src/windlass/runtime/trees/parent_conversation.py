"""The tool `read_parent`: a child session reads the conversation of its parent, as it is now. Nothing is copied when
the child begins, and nothing can be changed: what was read is a result in the child's own log, with its parent's
labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from windlass.events.errors import NotFound
from windlass.events.tools.calls import ResultBody
from windlass.events.values.blocks import JsonObject, Text
from windlass.events.values.setup import ItemRef
from windlass.kernel import log
from windlass.kernel.parts.tools import labels
from windlass.runtime.bind.builtin_tools import READ_PARENT
from windlass.runtime.context.archive_page import in_words, shortened
from windlass.runtime.owner.event_memory import EventMemory
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key
from windlass.tools.planes.outcome import Outcome, failed

if TYPE_CHECKING:
    from windlass.kernel.state import State
    from windlass.runtime.owner.owner import Owner
    from windlass.store.base import Store

CHARS = 16_000
CHARS_MAX = 64_000
ITEM_CHARS_MAX = 8_000
"""How much of one item is shown: its head and its tail."""
DESCRIPTION = (
    "Read the conversation of the session that gave you your task, as it is now: what was said, called and found "
    "there, the oldest first, each behind its place. It goes on while you work. You can change nothing in it."
)
PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "after": {"type": "integer", "minimum": 0, "description": "The place behind which to begin; 0 is the start."},
        "query": {"type": "string", "description": "Words that must all stand in what is shown."},
        "chars": {"type": "integer", "minimum": 1, "maximum": CHARS_MAX, "description": "How much at the most."},
    },
    "additionalProperties": False,
}
READ_PARENT_TOOLS = {READ_PARENT: (DESCRIPTION, PARAMETERS)}


class ParentConversation:
    """Carries out the tool for one session."""

    def __init__(self, owner: Owner, store: Store) -> None:
        self._owner = owner
        self._log = LogReader(store)

    async def perform(self, args: JsonObject) -> Outcome:
        """A part of the parent's conversation. Only a session that was begun to read it may: its own log says so."""
        state = self._owner.state
        if state.parent_id is None or READ_PARENT not in state.setup.options.tools:
            return failed("tool_unavailable", "this session was not begun to read its parent", "nothing was read")
        key = Key(self._owner.key.tenant, state.parent_id)
        try:
            parent = (await self._log.fold(key)).state
            told = await self._told(key, parent, **args)
        except NotFound:
            return failed("tool_unavailable", "the log of the parent is not there any more", "nothing was read")
        body = ResultBody(content=(Text(text=told),))
        return Outcome(body=body, size=len(told), labels=labels.told(parent))

    async def _told(self, key: Key, parent: State, after: int = 0, query: str = "", chars: int = CHARS) -> str:
        refs = list(log.visible(parent))
        memory = EventMemory(key, self._log)  # none is kept: what was erased is not told again
        while missing := memory.missing(refs):
            await memory.fetch(missing)
        items = memory.rendered(refs)
        words = query.casefold().split()
        told: list[str] = []
        room, last = chars, after
        for ref, text in _behind(refs, [in_words(item) for item in items], after):
            if not all(word in text.casefold() for word in words):
                continue
            part = f"[{ref.seq}] {shortened(text, min(ITEM_CHARS_MAX, chars))}"
            if told and len(part) > room:
                return "\n".join([*told, f"[there is more: read on with after={last}]"])
            told.append(part)
            room -= len(part)
            last = ref.seq
        end = "[this is all there is now]" if told else "[nothing there, as it is now]"
        return "\n".join([*told, end])


def _behind(refs: list[ItemRef], texts: list[str], after: int) -> Iterator[tuple[ItemRef, str]]:
    """The items behind a place that say something. Those of one place are shown together or not at all."""
    together: dict[int, tuple[ItemRef, list[str]]] = {}
    for ref, text in zip(refs, texts, strict=True):
        if ref.seq > after and text.strip():
            together.setdefault(ref.seq, (ref, []))[1].append(text)
    for ref, parts in together.values():
        yield ref, "\n".join(parts)
