"""What is owed is a function of the state: recovery after a crash is to fold the log and perform what this returns."""

from __future__ import annotations

import msgspec

from windlass.events.ids import idempotency_key
from windlass.events.specs import ToolSpec

from . import requests
from . import state as st
from .effects import AnyEffect, AskPerson, AwaitClient, CallModel, PageOut, PrepareCall, RunTool, SetTimer
from .state import Call, State


def owed(state: State) -> tuple[AnyEffect, ...]:
    """The effects that should be under way now. Only intents of the current epoch are among them."""
    effects: list[AnyEffect] = [
        SetTimer(effect_id=timer.timer_id, timer_id=timer.timer_id, at_ms=timer.at_ms, kind=timer.kind)
        for timer in state.timers.values()
    ]
    effects += [PageOut(effect_id=f"page/{seq}", paged_seq=seq) for seq in state.paged]
    if not state.active:
        return tuple(effects)
    left = requests.time_left_ms(state)
    for request in state.requests.values():
        if request.epoch == state.epoch:
            effects.append(
                CallModel(
                    effect_id=request.request_id,
                    request_id=request.request_id,
                    lane=request.lane,
                    attempt=request.attempt,
                    model=request.model,
                    output_tokens=request.output_tokens,
                    timeout_ms=left,
                    asked_seq=request.asked_seq,
                )
            )
    for call in state.calls.values():
        effect = _of_call(state, call, left)
        if effect is not None:
            effects.append(effect)
    for ask in state.asks.values():
        if not ask.missed:
            effects.append(AskPerson(effect_id=ask.ask_id, ask_id=ask.ask_id, kind=ask.kind, call_id=ask.call_id))
    return tuple(effects)


def _of_call(state: State, call: Call, left_ms: int | None) -> AnyEffect | None:
    match call.status:
        case "requested":
            return PrepareCall(effect_id=f"{call.call_id}/prepare", call_id=call.call_id, tool=call.tool)
        case "started" if call.epoch == state.epoch:
            spec = state.tools.get(call.tool) or ToolSpec(name=call.tool)
            return RunTool(
                effect_id=f"{call.call_id}/{call.attempt}",
                call_id=call.call_id,
                tool=call.tool,
                attempt=call.attempt,
                key=idempotency_key(state.session_id, call.call_id),
                timeout_ms=spec.timeout_ms if left_ms is None else max(0, min(spec.timeout_ms, left_ms)),
            )
        case "delegated" if not call.missed:
            return AwaitClient(effect_id=f"{call.call_id}/client", call_id=call.call_id, tool=call.tool)
        case _:
            return None


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """A session in one line: what it does, what it waits for, when it wakes, what it has used."""

    state: str
    waiting_for: tuple[str, ...]
    owed: bool
    next_wake_ms: int | None
    agent: str
    title: str
    root: str
    parent: str | None
    scope: str
    created_ms: int
    updated_ms: int
    input_tokens: int
    output_tokens: int
    cost_nanos: int
    metadata: dict[str, str]


def overview(state: State) -> Overview:
    """What an index of sessions keeps about this one."""
    return Overview(
        state=word_for(state),
        waiting_for=waiting_for(state),
        owed=state.active or bool(state.paged),
        next_wake_ms=state.next_wake_ms,
        agent=state.agent.name,
        title=state.title,
        root=state.root_id or state.session_id,
        parent=state.parent_id,
        scope=state.scope,
        created_ms=state.started_ms,
        updated_ms=state.now_ms,
        input_tokens=state.spent.tally.input_tokens,
        output_tokens=state.spent.tally.output_tokens,
        cost_nanos=state.spent.cost_nanos,
        metadata=dict(state.metadata),
    )


def word_for(state: State) -> str:
    """What it does, in a word."""
    match state.phase:
        case st.New():
            return "new"
        case st.Idle():
            return "idle"
        case st.Asked():
            return "asked"
        case st.Asleep():
            return "sleeping"
        case _:
            return "running"


def waiting_for(state: State) -> tuple[str, ...]:
    """What a person or client would have to give, by id."""
    if isinstance(state.phase, st.Asked) and not state.calls:
        return ("credentials",)
    asks = [f"{ask.kind} {ask.ask_id} ({ask.tool})" for ask in state.asks.values()]
    for call in state.calls.values():
        if call.status in ("delegated", "suspended"):
            asks.append(f"result {call.call_id} ({call.tool})")
        elif call.status == "unknown":
            asks.append(f"settle {call.call_id} ({call.tool})")
    return tuple(asks)
