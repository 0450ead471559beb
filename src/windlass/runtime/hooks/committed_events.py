"""Tells observers what was committed: which events are heard of at which points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.base import Event, name_of
from windlass.events.commands import QueueChanged
from windlass.events.context import CompactionFailed, CompactionFinished, CompactionStarted
from windlass.events.hooks import HookPoint
from windlass.events.runs import RunFailed, RunStarted, Terminal
from windlass.events.sessions import (
    SessionForked,
    SessionImported,
    SessionResumed,
    SessionShutDown,
    SessionStarted,
)
from windlass.events.tools.mcp import McpConnected, McpStatus
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.turns import ModelFailed, TurnFinished, TurnStarted

if TYPE_CHECKING:
    from .session_hooks import SessionHooks

OBSERVED: dict[type[Event], HookPoint] = {
    SessionStarted: "session_start",
    SessionResumed: "session_start",
    SessionForked: "session_start",
    SessionImported: "session_start",
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


OF_SERVERS: dict[McpStatus, HookPoint] = {
    "connected": "mcp_connect",
    "failed": "mcp_error",
    "frozen": "mcp_error",
    "lost": "mcp_close",
}
"""Where observers hear how an MCP server stands."""


class CommittedEvents:
    """Tells the observers of a session what was committed. Never waits and never fails."""

    def __init__(self, hooks: SessionHooks) -> None:
        self._hooks = hooks

    def tell(self, events: list[Event]) -> None:
        """Called after each append."""
        for event in events:
            for point in points_of(event):
                if self._hooks.current.at(point):
                    self._hooks.current.tell(self._hooks.moment(point, _shown(event), **_call_of(event)))
        if self._hooks.current.at("session_save"):
            shown = {"events": [name_of(event) for event in events], "seq": self._hooks.seq}
            self._hooks.current.tell(self._hooks.moment("session_save", shown))


def points_of(event: Event) -> list[HookPoint]:
    """The points at which an event is heard of."""
    found: list[HookPoint] = []
    point = OBSERVED.get(type(event))
    if point is not None:
        found.append(point)
    if isinstance(event, Terminal):
        found.append("run_end")
    if isinstance(event, McpConnected):
        found.append(OF_SERVERS[event.status])
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
