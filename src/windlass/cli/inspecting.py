"""`windlass inspect`: what the model sees at a point of the log, item by item, with its weight by slot."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import msgspec

from windlass.events.blocks import Text
from windlass.events.errors import UsageError
from windlass.events.items import AssistantItem, CallPart, HistoryItem, ResultItem
from windlass.events.sessions import InstructionsRendered, SessionResumed, SessionStarted
from windlass.kernel.render import render
from windlass.models.tokens import estimate_text
from windlass.runtime.taskstate import task_state

from . import asking, stores, words
from .render import in_words
from .text import Paint, visible


def run(args: argparse.Namespace) -> int:
    """Does it."""
    return asyncio.run(inspect(args))


async def inspect(args: argparse.Namespace) -> int:
    async with stores.opened(args) as store:
        key = await stores.session_key(store, args)
        if args.at is not None and args.at < 1:
            raise UsageError(f"--at {args.at}: records are counted from 1")
        found = await stores.folded(store, key, until=args.at)
    if args.at is not None and found.at_seq < args.at:
        raise UsageError(f"session {key.session!r} ends at record {found.at_seq}: --at {args.at} is behind its end")
    seen = Seen(found)
    print(seen.as_json() if args.json else "\n".join(seen.lines()))
    return 0


class Seen:
    """Everything that a request would carry at one point of a log."""

    def __init__(self, found: stores.Folded) -> None:
        self.found = found
        self.state = found.state
        self.items: list[HistoryItem] = render(found.state, found.event)
        self.instructions = self._instructions()
        self.tools, self.knowledge = self._setup()
        self.task = task_state(found.state)

    def _instructions(self) -> str:
        event = self.found.events.get(self.state.instructions_seq)
        return event.body.text if isinstance(event, InstructionsRendered) and event.body is not None else ""

    def _setup(self) -> tuple[list[str], tuple[str, ...]]:
        event = self.found.events.get(self.state.setup_seq)
        if not isinstance(event, SessionStarted | SessionResumed) or event.body is None:
            return list(self.state.tools), ()
        told = [f"{text.name}: {text.description}" for text in event.body.tools if text.name in self.state.tools]
        return told, event.body.knowledge

    def slots(self) -> dict[str, int]:
        """Tokens by slot, as the kernel counts them."""
        state = self.state
        return {
            "instructions": state.instructions_tokens,
            "tools": state.tool_tokens,
            "knowledge": state.knowledge_tokens,
            "history": state.history_tokens,
            "task state": estimate_text(self.task) if self.task else 0,
        }

    def as_json(self) -> str:
        plain = {
            "session": self.found.key.session,
            "at": self.found.at_seq,
            "model": self.state.current_model.name,
            "window_tokens": self.state.current_model.window_tokens,
            "tokens": self.slots(),
            "instructions": self.instructions,
            "knowledge": self.knowledge,
            "tools": self.tools,
            "items": self.items,
            "task_state": self.task,
        }
        import json

        return json.dumps(msgspec.to_builtins(plain), indent=2)

    def lines(self) -> list[str]:
        paint = Paint()
        model = self.state.current_model
        name = visible(self.found.key.session)
        found = [f"session {name} behind record {self.found.at_seq}, for {visible(model.name)}", ""]
        slots = self.slots()
        rows = [(name, f"{count:,}") for name, count in slots.items()]
        used = sum(slots.values())
        rows.append(("all", f"{used:,}"))
        found += words.table(rows, right=(1,))
        share = f"{used / model.window_tokens:.0%}" if used * 100 >= model.window_tokens else "less than 1%"
        found[-1] += f" of {model.window_tokens:,} tokens ({share})"
        for head, text in (("instructions", self.instructions), ("tools", "\n".join(self.tools))):
            if text:
                found += ["", paint(head, "bold"), *asking.barred(text)]
        for text in self.knowledge:
            found += ["", paint("knowledge", "bold"), *asking.barred(text)]
        for item in self.items:
            found += ["", paint(head_of(item), "bold"), *asking.barred(item_text(item))]
        if not self.items:
            found += ["", "the history is empty: the model has been told nothing yet"]
        if self.task:
            found += ["", paint("task state (behind the history, never kept in it)", "bold"), *asking.barred(self.task)]
        return found


def head_of(item: HistoryItem) -> str:
    """Who says it, and from which record it comes."""
    if isinstance(item, ResultItem):
        return f"[{item.key}] {'error' if item.is_error else 'result'} of {visible(item.tool)}"
    if isinstance(item, AssistantItem):
        return f"[{item.key}] assistant"
    return f"[{item.key}] user{f' ({item.origin})' if item.origin != 'person' else ''}"


def item_text(item: HistoryItem) -> str:
    """An item, whole."""
    if not isinstance(item, AssistantItem):
        content: Any = item.content
        return in_words(content)
    parts = []
    for part in item.content:
        if isinstance(part, CallPart):
            given = part.args if part.args is not None else part.text
            parts.append(f"→ {words.called(part.tool, given)}")
        elif isinstance(part, Text):
            parts.append(part.text)
        else:
            parts.append(f"[{type(part).__name__.lower()}] {getattr(part, 'text', '')}".rstrip())
    return "\n".join(parts)
