"""What a child session may use: its share of what its parent has left, why it gets none, and what is set aside for all
that are open. The sum over the tree stays below the root's budget, since each gives only what it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.trees.children import Used
from windlass.events.values.ids import ID_CHARS_MAX, child_id
from windlass.events.values.setup import Limits
from windlass.events.values.usage import Usage
from windlass.kernel.part import Reserved
from windlass.kernel.parts import budgets

if TYPE_CHECKING:
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State


def full(slice: Limits) -> Used:
    """All that was set aside for a child."""
    return Used(
        usage=Usage(input_tokens=slice.tokens or 0),
        cost_nanos=slice.cost_nanos or 0,
        turns=slice.turns or 0,
        calls=slice.calls or 0,
        children=slice.children or 0,
    )


def share_for(state: State, call: Call) -> Limits:
    """What a child may use: its share of what is left, with one for each spawn that waits and one for the session
    itself; or less, if less was asked for. It goes no deeper than a budget here lets its children go, however deep its
    own agent says."""
    waiting = sum(other.status == "allowed" and _spawns(state, other) for other in state.calls.by_id.values())
    asked = call.spawning.limits if call.spawning is not None else None
    others = 1 if state.flow.graph is None else state.flow.unbegun
    if asked is None:
        share = budgets.share_of(state, waiting + others)
    else:
        share = narrower(budgets.share_of(state, 1), asked)
    return narrower(share, Limits(depth=min(_depths(state), default=None)))


def _depths(state: State) -> list[int]:
    """How deep the budgets let child sessions go, counted from the root of the tree."""
    return [limits.depth for _, limits, _ in budgets.scopes(state) if limits.depth is not None]


def narrower(one: Limits, other: Limits) -> Limits:
    """The lower of each limit."""
    limits = {}
    for name in Limits.__struct_fields__:
        given = [most for most in (getattr(one, name), getattr(other, name)) if most is not None]
        limits[name] = min(given, default=None)
    return Limits(**limits)


def _spawns(state: State, call: Call) -> bool:
    spec = state.toolset.tools.get(call.tool)
    return spec is not None and spec.runs == "child"


def is_full(state: State) -> bool:
    """Whether as many children are open as may be."""
    return len(state.children.open) >= state.setup.settings.children_open_max


def makes_room(state: State) -> bool:
    """Whether a place will be free by itself: a child was told to stop, and has not ended yet."""
    return any(child.stopping for child in state.children.open.values())


def refusal(state: State, call: Call, slice: Limits) -> str:
    """Why no child may be started now; empty if one may."""
    settings, here = state.setup.settings, state.children
    deepest = min([settings.children_depth_max, *_depths(state)])
    if state.depth + 1 > deepest:
        return f"child sessions may go {deepest} deep, and this one would be at depth {state.depth + 1}"
    if is_full(state):
        return f"{len(here.open)} child sessions are open already; wait for one of them"
    if here.count >= settings.children_max:
        return f"this session has started {here.count} child sessions, and may start no more"
    if len(child_id(state.session_id, call.call_id)) > ID_CHARS_MAX:
        return f"the ids of sessions have {ID_CHARS_MAX} characters at the most, and a child's would have more"
    for _, limits, spent in budgets.scopes(state):
        if limits.children is not None and limits.children - spent.children - budgets.held(state).children < 1:
            return "no child sessions are left in the budget"
    for name in ("tokens", "cost_nanos", "turns", "calls", "time_ms"):
        if getattr(slice, name) == 0:
            return f"nothing is left of the budget to give to a child ({name})"
    return ""


def reserves(state: State) -> Reserved:
    """What the open children may still use, and those below children that have ended."""
    here = state.children
    if not here.open and not here.unsettled:
        return Reserved()
    slices = [child.slice for child in here.open.values() if child.mode != "detached"]
    below = [child.held for child in here.unsettled.values()]
    return Reserved(
        tokens=sum(slice.tokens or 0 for slice in slices) + sum(held.usage.total_tokens for held in below),
        cost_nanos=sum(slice.cost_nanos or 0 for slice in slices) + sum(held.cost_nanos for held in below),
        calls=sum(slice.calls or 0 for slice in slices) + sum(held.calls for held in below),
        turns=sum(slice.turns or 0 for slice in slices) + sum(held.turns for held in below),
        children=sum(slice.children or 0 for slice in slices) + sum(held.children for held in below),
    )
