"""Hooks around the log: prompts before they are taken, and what is committed told to observers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.base import Command, Event, name_of
from windlass.events.blocks import Text
from windlass.events.calls import CallReceived, UserCallBody
from windlass.events.context import CompactionFailed, CompactionFinished, CompactionStarted
from windlass.events.failures import HookPoint
from windlass.events.permissions import PermissionRequested
from windlass.events.runs import (
    PromptBody,
    PromptReceived,
    QueueChanged,
    RunFailed,
    RunStarted,
    Terminal,
    TurnFinished,
    TurnStarted,
)
from windlass.events.sessions import SessionForked, SessionResumed, SessionShutDown, SessionStarted
from windlass.events.turns import ModelFailed
from windlass.models.tokens import estimate_text

if TYPE_CHECKING:
    from .performer import Performer

OBSERVED: dict[type[Event], HookPoint] = {
    SessionStarted: "session_start",
    SessionResumed: "session_start",
    SessionForked: "session_start",
    SessionShutDown: "session_end",
    RunStarted: "run_start",
    TurnStarted: "turn_start",
    TurnFinished: "turn_end",
    CompactionStarted: "before_compaction",
    CompactionFinished: "after_compaction",
    CompactionFailed: "after_compaction",
    PermissionRequested: "permission",
    RunFailed: "error",
    ModelFailed: "error",
}
"""Which observers hear of which events. Terminals are `run_end` as well; a steering prompt is `steer`."""


class Watching:
    """Tells the observers of a session what was committed. Never waits and never fails."""

    def __init__(self, performer: Performer) -> None:
        self._performer = performer

    def committed(self, events: list[Event]) -> None:
        """Called after each append."""
        for event in events:
            for point in points_of(event):
                if self._performer.hooks.at(point):
                    self._performer.hooks.tell(self._performer.moment(point, _shown(event), **_call_of(event)))
        if self._performer.hooks.at("session_save"):
            shown = {"events": [name_of(event) for event in events], "seq": self._performer.owner.state.seq}
            self._performer.hooks.tell(self._performer.moment("session_save", shown))


def points_of(event: Event) -> list[HookPoint]:
    """The points at which an event is heard of."""
    found: list[HookPoint] = []
    point = OBSERVED.get(type(event))
    if point is not None:
        found.append(point)
    if isinstance(event, Terminal):
        found.append("run_end")
    if isinstance(event, QueueChanged) and event.operation == "steering":
        found.append("steer")
    return found


def _call_of(event: Event) -> dict[str, str]:
    """Which call and tool an event is about, so that only those observers hear of it that stand there for the tool."""
    return {"call_id": event.call_id, "tool": event.tool} if isinstance(event, PermissionRequested) else {}


def _shown(event: Event) -> dict[str, object]:
    if isinstance(event, SessionStarted | SessionResumed):
        # The body holds every schema and all instructions: more than a hook is given.
        event = msgspec.structs.replace(event, body=None)
    plain = msgspec.to_builtins(event)
    return dict(plain) if isinstance(plain, dict) else {"event": plain}


async def hooked(command: Command, performer: Performer) -> Command:
    """A prompt after its hooks: perhaps with another text, always with their rulings. A person's own call is left to be
    prepared later where hooks must see it, like any other call."""
    if isinstance(command, CallReceived) and performer.hooks.at("before_tool", command.tool):
        args = command.body.args if command.body is not None else {}
        return msgspec.structs.replace(command, body=UserCallBody(args=args))
    if not isinstance(command, PromptReceived) or command.body is None:
        return command
    hooks = performer.hooks_for(command.command_id)
    if not hooks.at("prompt"):
        return command
    text = "\n".join(block.text for block in command.body.content if isinstance(block, Text))
    ruled = await hooks.run(performer.moment("prompt", text))
    body, tokens = command.body, command.tokens
    if ruled.changed:
        sent = str(ruled.value)
        rest = tuple(block for block in command.body.content if not isinstance(block, Text))
        shown = command.body.displayed if command.body.displayed is not None else text
        body = PromptBody(content=(Text(text=sent), *rest), displayed=shown, attachments=command.body.attachments)
        tokens = command.tokens + estimate_text(sent) - estimate_text(text)
    return msgspec.structs.replace(command, hooks=tuple(ruled.rulings), body=body, tokens=max(0, tokens))
