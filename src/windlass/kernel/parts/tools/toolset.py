"""The set of tools: which are there, which are loaded, and changes that wait for a boundary.

mount.received, unmount.received ──▶ pending (staged) ─┬─▶ applied   at the boundary of a turn, or at rest
                                                       ├─▶ draining  its calls are still open
                                                       ├─▶ forced    its open calls are given up
                                                       └─▶ failed    it does not fit any more
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, assert_never

import msgspec

from windlass.events.errors import Refused
from windlass.events.sessions import SessionStarted
from windlass.events.tools.toolset import MountReceived, ToolsetChanged, UnmountReceived
from windlass.events.values.tools import ToolSpec
from windlass.kernel import parts
from windlass.kernel.part import Decisions, Part, Row, bounded
from windlass.kernel.parts import queue, runs
from windlass.kernel.parts.context import prefix
from windlass.kernel.parts.tools import gate, open_calls
from windlass.kernel.phases import STARTED

if TYPE_CHECKING:
    from windlass.kernel.state import State


STAGED_MAX = 64
TOOLS_MAX = 2_048


class Staged(msgspec.Struct, kw_only=True, gc=False):
    """A change of the tool set that waits for a turn boundary."""

    operation: Literal["add", "remove", "reload"]
    tools: tuple[ToolSpec, ...] = ()
    names: tuple[str, ...] = ()
    force: bool = False
    target: str = ""
    draining: bool = False


class Toolset(msgspec.Struct, kw_only=True, gc=False):
    """The tools that are there, those of them that were loaded, and changes that wait for a boundary."""

    tools: dict[str, ToolSpec] = {}
    loaded: dict[str, bool] = {}
    revision: int = 0
    staged: list[Staged] = []
    tokens: int = 0
    away: dict[str, str] = {}
    """The tools that a command took away, by the digest that each had: the same code does not bring them back."""


# --- fold ---------------------------------------------------------------------------------------------------------


def session_started(state: State, event: SessionStarted) -> None:
    set_tools(state, {spec.name: spec for spec in event.setup.tools})


def mount_received(state: State, event: MountReceived) -> None:
    known = any(spec.name in state.toolset.tools for spec in event.tools)
    operation: Literal["reload", "add"] = "reload" if known else "add"
    state.toolset.staged.append(Staged(operation=operation, tools=event.tools, target=event.source))


def unmount_received(state: State, event: UnmountReceived) -> None:
    state.toolset.staged.append(Staged(operation="remove", names=event.tools, force=event.force))


def toolset_changed(state: State, event: ToolsetChanged) -> None:
    match event.phase:
        case "applied" | "forced":
            before = state.toolset.tools
            remember_away(state, event)
            apply(state, event)
            gate.tools_changed(state, before, state.toolset.tools)
            state.toolset.revision = event.revision
            unstage(state, event)
            prefix.differs(state, "tools")
        case "failed":
            unstage(state, event)
        case "draining":
            next(change for change in state.toolset.staged if change.names == event.names).draining = True
        case "pending":
            pass
        case _:
            assert_never(event.phase)


def apply(state: State, event: ToolsetChanged) -> None:
    tools = dict(state.toolset.tools)
    match event.operation:
        case "load":
            for name in event.names:
                state.toolset.loaded[name] = True
        case "remove":
            for name in event.names:
                tools.pop(name, None)
                state.toolset.loaded.pop(name, None)
        case "add" | "reload":
            tools.update({spec.name: spec for spec in event.tools})
        case _:
            assert_never(event.operation)
    set_tools(state, tools)


def remember_away(state: State, event: ToolsetChanged) -> None:
    here = state.toolset
    if event.operation == "remove" and was_staged(state, event):
        here.away.update({name: here.tools[name].digest for name in event.names if name in here.tools})
        bounded(here.away, TOOLS_MAX)
    for spec in event.tools:
        here.away.pop(spec.name, None)


def unstage(state: State, event: ToolsetChanged) -> None:
    """Takes the change that is now in force off the list of those that wait."""
    if was_staged(state, event):
        del state.toolset.staged[0]


def was_staged(state: State, event: ToolsetChanged) -> bool:
    """Whether an event is the change that waited longest."""
    staged = state.toolset.staged
    if not staged or staged[0].operation != event.operation:
        return False
    return (staged[0].names or tuple(spec.name for spec in staged[0].tools)) == event.names


def set_tools(state: State, tools: dict[str, ToolSpec]) -> None:
    here = state.toolset
    here.tools = tools
    here.tokens = sum(spec.tokens for spec in tools.values() if not spec.deferred or spec.name in here.loaded)


# --- when, and what follows ---------------------------------------------------------------------------------------


def check_mount(state: State, fact: MountReceived) -> None:
    here = state.toolset
    if len(here.staged) >= STAGED_MAX:
        raise Refused("too_many", f"{STAGED_MAX} changes of the tool set wait already")
    if len(here.tools) + len(fact.tools) > TOOLS_MAX:
        raise Refused("too_many_tools", f"at most {TOOLS_MAX} tools")
    mounted = {spec.name for spec in fact.tools}
    taken = {spec.alias or spec.name: spec.name for spec in here.tools.values() if spec.name not in mounted}
    for spec in fact.tools:
        if spec.alias is not None and taken.get(spec.alias, spec.name) != spec.name:
            raise Refused("collision", f"the model-side name {spec.alias!r} is taken by {taken[spec.alias]!r}")


def check_unmount(state: State, fact: UnmountReceived) -> None:
    if len(state.toolset.staged) >= STAGED_MAX:
        raise Refused("too_many", f"{STAGED_MAX} changes of the tool set wait already")
    missing = [name for name in fact.tools if name not in state.toolset.tools]
    if missing:
        raise Refused("unknown_tool", f"not mounted: {', '.join(missing)}")


def on_mount(state: State, fact: MountReceived) -> Decisions:
    staged = state.toolset.staged[-1]
    names = tuple(spec.name for spec in fact.tools)
    yield ToolsetChanged(operation=staged.operation, phase="pending", target=fact.source, names=names)
    if not state.active and not parts.awaits_somebody(state):
        yield from apply_staged(state)
    yield queue.done(fact.command_id)


def on_unmount(state: State, fact: UnmountReceived) -> Decisions:
    yield ToolsetChanged(operation="remove", phase="pending", names=fact.tools)
    if fact.force and not state.active and open_calls.of_tools(state, fact.tools):
        # Its calls are given up, and the turn that waited for them goes on.
        yield from runs.begin(state, "unmount", continues=True)
    if fact.force or (not state.active and not parts.awaits_somebody(state)):
        yield from apply_staged(state)
    elif open_calls.of_tools(state, fact.tools):
        yield ToolsetChanged(operation="remove", phase="draining", names=fact.tools)
    yield queue.done(fact.command_id)


def apply_staged(state: State) -> Decisions:
    """Puts staged changes of the tool set in force, in order. A turn boundary is the place for that; only a forced
    removal does not wait for one, and gives up the calls that are open."""
    while state.toolset.staged:
        change = state.toolset.staged[0]
        problem = problem_with(state, change)
        if problem:
            names = tuple(spec.name for spec in change.tools)
            yield ToolsetChanged(
                operation=change.operation, phase="failed", target=change.target, names=names, error=problem
            )
            continue
        busy = open_calls.of_tools(state, change.names)
        if busy:
            yield from open_calls.take_away(state, busy)
        yield applied(state, change, "forced" if busy else "applied")


def problem_with(state: State, change: Staged) -> str:
    """Why staged tools cannot be offered after all, by now; empty if they can."""
    tools = state.toolset.tools
    mounted = {spec.name: spec for spec in change.tools}
    if len(tools.keys() | mounted.keys()) > TOOLS_MAX:
        return f"at most {TOOLS_MAX} tools"
    taken = {spec.alias or spec.name: spec.name for spec in tools.values() if spec.name not in mounted}
    for spec in change.tools:
        shown = spec.alias or spec.name
        if shown in taken:
            return f"the model-side name {shown!r} is taken by {taken[shown]!r}"
        taken[shown] = spec.name
    return ""


def applied(state: State, change: Staged, phase: Literal["applied", "forced"]) -> ToolsetChanged:
    return ToolsetChanged(
        operation=change.operation,
        phase=phase,
        target=change.target,
        tools=change.tools,
        names=change.names or tuple(spec.name for spec in change.tools),
        revision=state.toolset.revision + 1,
        hidden=sum(spec.deferred for spec in change.tools),
    )


def reloaded(state: State, fresh: tuple[ToolSpec, ...]) -> ToolsetChanged:
    """The code that is bound now has other tools."""
    names = tuple(spec.name for spec in fresh)
    revision = state.toolset.revision + 1
    return ToolsetChanged(operation="reload", phase="applied", tools=fresh, names=names, revision=revision)


def removed(state: State, names: tuple[str, ...]) -> ToolsetChanged:
    """The code that is bound now lacks some tools."""
    return ToolsetChanged(operation="remove", phase="applied", names=names, revision=state.toolset.revision + 1)


PART = Part(
    name="toolset",
    facts={
        MountReceived: Row(when=STARTED, check=check_mount, fold=mount_received, then=on_mount),
        UnmountReceived: Row(when=STARTED, check=check_unmount, fold=unmount_received, then=on_unmount),
    },
    decisions={ToolsetChanged: toolset_changed},
    hears={SessionStarted: session_started},
)
