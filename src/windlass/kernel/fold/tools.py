"""The set of tools: how its events change the state."""

from __future__ import annotations

from windlass.events import calls
from windlass.events.specs import ToolSpec
from windlass.kernel import state as st
from windlass.kernel.state import State

from .history import dirty


def mount_received(state: State, event: calls.MountReceived) -> None:
    known = any(spec.name in state.tools for spec in event.tools)
    state.staged.append(st.Staged(operation="reload" if known else "add", tools=event.tools, target=event.source))


def unmount_received(state: State, event: calls.UnmountReceived) -> None:
    state.staged.append(st.Staged(operation="remove", names=event.tools, force=event.force))


def toolset_changed(state: State, event: calls.ToolsetChanged) -> None:
    match event.phase:
        case "applied" | "forced":
            tools = dict(state.tools)
            if event.operation == "load":
                for name in event.names:
                    state.loaded[name] = True
            elif event.operation == "remove":
                for name in event.names:
                    tools.pop(name, None)
                    state.loaded.pop(name, None)
            else:
                tools.update({spec.name: spec for spec in event.tools})
            set_tools(state, tools)
            state.revision = event.revision
            unstage(state, event)
            dirty(state, "tools")
        case "failed":
            unstage(state, event)
        case "draining":
            next(change for change in state.staged if change.names == event.names).draining = True
        case "pending":
            pass


def unstage(state: State, event: calls.ToolsetChanged) -> None:
    """Takes the change that is now in force off the list of those that wait."""
    if not state.staged or state.staged[0].operation != event.operation:
        return
    first = state.staged[0]
    if (first.names or tuple(spec.name for spec in first.tools)) == event.names:
        del state.staged[0]


def set_tools(state: State, tools: dict[str, ToolSpec]) -> None:
    state.tools = tools
    state.tool_tokens = sum(spec.tokens for spec in tools.values() if not spec.deferred or spec.name in state.loaded)
