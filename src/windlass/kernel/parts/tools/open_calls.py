"""The calls that are open: who must do something about each, what a new owner does with them, how they are given up.

Reads the calls of a session; whatever becomes of one is an event, which `calls` folds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, assert_never

from windlass.events.sessions import SessionResumed
from windlass.events.tools.calls import ToolCancelled, ToolOutcomeUnknown
from windlass.events.values.ids import idempotency_key
from windlass.events.values.tools import ToolSpec
from windlass.kernel.effects import AnyEffect, AwaitClient, PrepareCall, RunTool
from windlass.kernel.part import Decisions, Open, Reserved, Why
from windlass.kernel.parts import asks, budgets, children
from windlass.kernel.parts.tools import dispatch, verdicts
from windlass.kernel.parts.trees import child_shares
from windlass.kernel.phases import AwaitingTools, BackingOff

if TYPE_CHECKING:
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State

RAN = ("started", "suspended", "unknown", "delegated", "child")
"""Where a call may have had effects already."""
WORKED_ON = ("requested", "allowed", "started", "child")
"""Where the session's own time passes."""
FROM_OUTSIDE: dict[str, str] = {"delegated": "client", "suspended": "client", "unknown": "settle"}
"""What calls wait for from people and clients; asked-about ones are listed as what was asked, those of a child
as the child."""


def of_tools(state: State, names: tuple[str, ...]) -> list[Call]:
    """The open calls of some tools."""
    return [call for call in state.open_calls() if call.tool in names]


def take_away(state: State, gone: list[Call]) -> Decisions:
    """Gives up calls whose tool is no longer there, and what was asked about them."""
    yield from asks.withdraw_unmounted(state, {call.call_id for call in gone})
    for call in gone:
        yield given_up(state, call, "forced")


def to_be_judged(state: State) -> bool:
    """Whether a call waits whose verdict does not hold any more. A request about a tool that is gone waits on."""
    there = state.toolset.tools
    return any(
        (call.status == "allowed" or (call.status == "asked" and call.tool in there)) and verdicts.outdated(state, call)
        for call in state.open_calls()
    )


def owed_by_people(state: State) -> bool:
    """Whether every open call waits for a person or a client, and nobody is there now."""
    waiting = state.open_calls()
    return bool(waiting) and all(_parked(state, call) for call in waiting)


def _parked(state: State, call: Call) -> bool:
    match call.status:
        case "asked" | "answering":
            return call.ask_id is None or state.asks.open[call.ask_id].missed
        case "suspended" | "unknown":
            return True
        case "delegated":
            return call.missed
        case "allowed":
            # Waits in line behind a call that is itself parked (tools run one by one), or for the place of a child.
            return not dispatch.running(state) and not (call.node and child_shares.makes_room(state))
        case "started":
            return dispatch.cut_off(state, call) and not dispatch.running(state)
        case "child":
            return children.rests(state, call.call_id)
        case "requested" | "prepared" | "closed":
            return False
        case _:
            assert_never(call.status)


def taken_over(state: State, fact: SessionResumed) -> Decisions:
    """Calls that the owner before was running are run again or closed, by their contract."""
    for call in [call for call in state.calls.by_id.values() if dispatch.cut_off(state, call)]:
        spec = state.toolset.tools.get(call.tool)
        yield from asks.withdraw_inside(state, call.call_id, "unknown_outcome")
        contract, settle = dispatch.terms(call, spec)
        if contract == "at_most_once" or spec is None:
            yield ToolOutcomeUnknown(call_id=call.call_id, settle=settle)
        # The others start again with the rest of what may start: when there is a place, if they still may.


def stop(state: State, why: Why) -> Decisions:
    carried = asks.carried_calls(state) if why == "not_carried_over" else ()
    for call in state.open_calls():
        if call.call_id not in carried:
            yield given_up(state, call, why)


def given_up(state: State, call: Call, why: Why | Literal["forced"]) -> ToolOutcomeUnknown | ToolCancelled:
    """What becomes of an open call that is stopped. One that was running and may run once has an unknown outcome,
    however it was stopped; a fork did not run what its origin runs. Whether a client has begun a call is not known
    here: a person is asked if the tool says so, and the model is told that it may have had effects."""
    if why != "not_carried_over" and call.status != "unknown" and dispatch.is_once(state, call):
        _, settle = dispatch.terms(call, state.toolset.tools.get(call.tool))
        return ToolOutcomeUnknown(call_id=call.call_id, settle=settle)
    return ToolCancelled(call_id=call.call_id, reason=why, started=call.status in RAN)


def unsettled(state: State) -> bool:
    """Whether a person must say what became of a call before its turn can end."""
    return any(call.status == "unknown" for call in state.calls.by_id.values())


def owes(state: State) -> Iterator[AnyEffect]:
    if not state.active:
        return
    left = budgets.time_left_ms(state)
    for call in state.calls.by_id.values():
        match call.status:
            case "requested":
                yield PrepareCall(effect_id=f"{call.call_id}/prepare", call_id=call.call_id, tool=call.tool)
            case "started" if call.epoch == state.epoch:
                spec = state.toolset.tools.get(call.tool) or ToolSpec(name=call.tool)
                yield RunTool(
                    effect_id=f"{call.call_id}/{call.attempt}",
                    call_id=call.call_id,
                    tool=call.tool,
                    attempt=call.attempt,
                    key=idempotency_key(state.session_id, call.call_id),
                    timeout_ms=spec.timeout_ms if left is None else max(0, min(spec.timeout_ms, left)),
                )
            case "delegated" if not call.missed:
                yield AwaitClient(effect_id=f"{call.call_id}/client", call_id=call.call_id, tool=call.tool)
            case "closed" | "started" | "delegated" | "child" | "prepared" | "asked" | "allowed" | "answering":
                pass
            case "suspended" | "unknown":
                pass
            case _:
                assert_never(call.status)


def opens(state: State) -> Iterator[Open]:
    for call in state.calls.by_id.values():
        asked = call.status in ("asked", "answering") and call.ask_id is not None
        if asked or call.status in ("child", "closed"):
            continue
        kind = FROM_OUTSIDE.get(call.status, "tool")
        yield Open(
            kind=kind,
            open_id=call.call_id,
            by="us" if kind == "tool" else "people",
            seq=call.source_seq,
            tool=call.tool,
            attempt=max(1, call.attempt),
        )


def needs(state: State) -> Iterator[int]:
    for call in state.calls.by_id.values():
        yield call.source_seq
        for seq in (call.closed_seq, call.changed_seq, call.prepared_seq):
            if seq is not None:
                yield seq


def works(state: State) -> bool:
    phase = type(state.phase)
    if phase is AwaitingTools or phase is BackingOff:
        for call in state.calls.by_id.values():
            if call.status in WORKED_ON:
                return True
    return False


def reserves(state: State) -> Reserved:
    """What a person may yet allow."""
    return Reserved(calls=sum(call.status == "asked" for call in state.calls.by_id.values()))
