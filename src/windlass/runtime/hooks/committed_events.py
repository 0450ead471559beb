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
from windlass.events.tools.calls import ToolFinished, ToolStarted
from windlass.events.tools.mcp import McpConnected, McpStatus
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.trees.children import ChildFinished, ChildStarted
from windlass.events.turns import ModelFailed, ModelReplied, TurnFinished, TurnStarted
from windlass.store.base import Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from windlass.runtime.owner.owner import Owner

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
    ChildStarted: "spawn_start",
}
"""Which observers hear of which events. Terminals are `run_end` as well; a steering prompt is `steer`; the end of a
child is `spawn_end` or `spawn_error`."""


BELOW: dict[type[Event], HookPoint] = {
    TurnFinished: "child_turn_end",
    ModelReplied: "child_reply",
    ToolStarted: "child_tool_start",
    ToolFinished: "child_tool_end",
}
"""What the observers of a session hear of those below it; a tool that failed is `child_tool_error`."""
POINTS_BELOW = frozenset[HookPoint]({*BELOW.values(), "child_tool_error"})


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
                    self._hooks.current.tell(self._hooks.moment(point, _shown(event), **_about(event)))
        if self._hooks.current.at("session_save"):
            shown = {"events": [name_of(event) for event in events], "seq": self._hooks.seq}
            self._hooks.current.tell(self._hooks.moment("session_save", shown))


class EventsBelow:
    """Tells the observers of the sessions above one, as far as they are driven here, what was committed in it."""

    def __init__(self, owner: Owner, above: Callable[[Key], SessionHooks | None]) -> None:
        self._owner = owner
        self._above = above
        self._tools: dict[str, str] = {}
        """What the calls run that have begun; a call that has ended is not known to the session any more."""

    def tell(self, events: list[Event]) -> None:
        """Called after each append of a child session."""
        heard = [(point, event, self._call_of(event)) for event in events if (point := point_below(event)) is not None]
        key = self._owner.key
        pieces = key.session.split("~")
        for depth in range(1, len(pieces) if heard else 0):
            hooks = self._above(Key(key.tenant, "~".join(pieces[:-depth])))
            if hooks is None:
                continue
            for point, event, more in heard:
                if hooks.current.at(point):
                    hooks.current.tell(hooks.moment(point, _shown(event), child=key.session, depth=depth, **more))

    def _call_of(self, event: Event) -> dict[str, str]:
        if not isinstance(event, ToolStarted | ToolFinished):
            return {}
        call = self._owner.state.calls.by_id.get(event.call_id)
        if isinstance(event, ToolStarted) and call is not None:
            self._tools[event.call_id] = call.tool
        known = (
            self._tools.get(event.call_id) if isinstance(event, ToolStarted) else self._tools.pop(event.call_id, None)
        )
        return {"call_id": event.call_id} if known is None else {"call_id": event.call_id, "tool": known}


def point_below(event: Event) -> HookPoint | None:
    """Where those above a session hear of an event of it."""
    if isinstance(event, ToolFinished) and not event.ok:
        return "child_tool_error"
    return BELOW.get(type(event))


def points_of(event: Event) -> list[HookPoint]:
    """The points at which an event is heard of."""
    points: list[HookPoint] = []
    point = OBSERVED.get(type(event))
    if point is not None:
        points.append(point)
    if isinstance(event, Terminal):
        points.append("run_end")
    if isinstance(event, McpConnected):
        points.append(OF_SERVERS[event.status])
    if isinstance(event, ChildFinished):
        points.append("spawn_end" if event.ok else "spawn_error")
    if isinstance(event, QueueChanged) and event.operation == "steering":
        points.append("steer")
    return points


def _about(event: Event) -> dict[str, object]:
    """Which call and tool an event is about, so that only those observers hear of it that stand there for the tool; or
    which child."""
    if isinstance(event, ChildStarted | ChildFinished):
        return {"call_id": event.call_id, "child": event.child_id, "depth": 1}
    return {"call_id": event.call_id, "tool": event.tool} if isinstance(event, PermissionRequested) else {}


def _shown(event: Event) -> dict[str, object]:
    if isinstance(event, SessionStarted | SessionResumed):
        # The body holds every schema and all instructions: more than a hook is given.
        event = msgspec.structs.replace(event, body=None)
    plain = msgspec.to_builtins(event)
    return dict(plain) if isinstance(plain, dict) else {"event": plain}
