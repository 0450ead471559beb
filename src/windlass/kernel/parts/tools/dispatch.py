"""Which allowed calls may start now: all at once, one by one in call order, or alone if a tool is exclusive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.tools.calls import ToolDelegated, ToolReconsidered, ToolStarted
from windlass.events.tools.permissions import Changed
from windlass.events.values.tools import Contract, ToolSpec
from windlass.kernel.part import Decisions
from windlass.kernel.parts import asks, children
from windlass.kernel.parts.tools import calls, labels, verdicts
from windlass.kernel.parts.trees import child_shares

if TYPE_CHECKING:
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State


STRICTEST: tuple[Contract, ...] = ("at_most_once", "idempotent", "pure")
"""Contracts, the one that promises most to the world outside first."""


def start_calls(state: State) -> Decisions:
    """Starts allowed calls while there are places: all at once, one by one, or alone if a tool is exclusive. A call
    whose verdict does not hold any more is judged again instead, also one that a person is asked about."""
    if not state.calls.by_id:
        return
    for call in [call for call in state.calls.by_id.values() if _waits(state, call)]:
        yield from labels.joined(state)
        spec = state.toolset.tools.get(call.tool)
        if call.status == "asked" and spec is None:
            continue  # whoever brings the tool again finds the request as it was
        if spec is None:
            yield calls.denied(call, "unavailable_tool", f"{call.tool!r} was taken away before it could run")
        elif changed := verdicts.outdated(state, call):
            yield from judge_again(state, call, changed)
        elif call.status == "asked":
            continue
        elif spec.runs == "client":
            yield ToolDelegated(call_id=call.call_id)
        elif call.node and spec.runs == "child" and child_shares.is_full(state):
            continue  # a workflow waits for a place
        elif spec.runs == "child":
            yield from children.start(state, call)
        elif has_place(state, call, spec):
            yield ToolStarted(call_id=call.call_id, epoch=state.epoch, attempt=call.attempt + 1)


def judge_again(state: State, call: Call, changed: tuple[Changed, ...]) -> Decisions:
    """Has a call judged again; what was asked about it is withdrawn, and asked anew if a person must still say so."""
    yield from asks.withdraw_changed(state, call)
    yield ToolReconsidered(call_id=call.call_id, changed=changed)


def _waits(state: State, call: Call) -> bool:
    return call.status in ("asked", "allowed") or cut_off(state, call)


def terms(call: Call, spec: ToolSpec | None) -> tuple[Contract, bool]:
    """The contract of a call that has begun, and whether an unknown outcome is settled: what it was started under and
    what the tool says now, whichever is stricter."""
    before = call.contract
    if spec is None:
        return before or "at_most_once", call.settle
    contract = spec.contract
    if before is not None and STRICTEST.index(before) < STRICTEST.index(contract):
        contract = before
    return contract, call.settle or spec.settle


def is_once(state: State, call: Call) -> bool:
    """Whether an open call may have done what it may do once, and nobody knows."""
    if call.status == "unknown":
        return True
    contract, settle = terms(call, state.toolset.tools.get(call.tool))
    ran = call.status == "started" or (call.status == "delegated" and settle)
    return ran and contract == "at_most_once"


def is_to_be_settled(state: State, call: Call) -> bool:
    """Whether a person says what became of a call that is stopped while it runs. One that waits for their word already
    is given up."""
    _, settle = terms(call, state.toolset.tools.get(call.tool))
    return settle and call.status != "unknown" and is_once(state, call)


def cut_off(state: State, call: Call) -> bool:
    """Whether a call ran under an earlier owner, and is to run again when there is a place for it."""
    return call.status == "started" and call.epoch < state.epoch


def running(state: State) -> list[Call]:
    """The calls that this owner runs."""
    return [call for call in state.calls.by_id.values() if call.status == "started" and call.epoch == state.epoch]


def has_place(state: State, call: Call, spec: ToolSpec) -> bool:
    others, settings = running(state), state.setup.settings
    if not others:
        return _first_in_line(state, call, spec)
    if spec.exclusive or any(_exclusive(state, other) for other in others):
        return False
    if settings.tool_order == "sequential":
        return False
    return len(others) < settings.parallel_tools_max and _first_in_line(state, call, spec)


def _first_in_line(state: State, call: Call, spec: ToolSpec) -> bool:
    """One by one means in call order: a call waits for earlier ones that are not closed, asked-about ones included."""
    order = state.setup.settings.tool_order
    if order == "parallel" and not spec.exclusive:
        return True
    earlier = [c for c in state.calls.by_id.values() if c.ordinal < call.ordinal and c.source_seq == call.source_seq]
    return all(c.status == "closed" for c in earlier) or order == "parallel"


def _exclusive(state: State, call: Call) -> bool:
    spec = state.toolset.tools.get(call.tool)
    return spec is not None and spec.exclusive
