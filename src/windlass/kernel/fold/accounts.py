"""The accounts: time that passed at work, tokens and money that requests used. Nothing here gives budget back."""

from __future__ import annotations

import msgspec

from windlass.events import sessions
from windlass.events.usage import Usage
from windlass.kernel import state as st
from windlass.kernel.state import OpenRequest, State


def tick(state: State, at_ms: int, fact: type) -> None:
    """Moves the session's clock, which never goes back, and counts the stretch that ends now where it was work.
    Waiting for people or timers is no work; nor is the time in which nobody owned the session."""
    elapsed = at_ms - state.now_ms
    if elapsed <= 0:
        return
    state.now_ms = at_ms
    run = state.run
    if run is not None and fact is not sessions.SessionResumed and working(state):
        run.spent.active_ms += elapsed
        state.spent.active_ms += elapsed


WORKED_ON = ("requested", "allowed", "started")


def working(state: State) -> bool:
    """Whether the session's own time passes: a model or a tool is at work for it."""
    phase = type(state.phase)
    if phase is st.AwaitingModel or phase is st.Compacting:
        return True
    if phase is st.AwaitingTools or phase is st.BackingOff:
        for call in state.calls.values():
            if call.status in WORKED_ON:
                return True
    return False


def reported(usage: Usage, request: OpenRequest, tokens: int) -> Usage:
    """What a reply used: as the provider says, or our estimate where it says nothing."""
    if usage.total_tokens > 0:
        return usage
    return Usage(input_tokens=request.input_tokens, output_tokens=tokens, estimated=True)


def cost_of(request: OpenRequest, usage: Usage) -> int:
    """What a request cost by the price of the model that was asked."""
    return request.price.cost_nanos(usage) if request.price is not None else 0


def spend_lost(state: State, request: OpenRequest) -> None:
    """An attempt whose outcome never arrived: what it may have cost is booked as an estimate, in full."""
    most = Usage(input_tokens=request.input_tokens, output_tokens=request.output_tokens, estimated=True)
    spend(state, request.model, most, request.reserved_nanos)


def spend(state: State, model: str, usage: Usage, cost: int, *, duration_ms: int = 0) -> None:
    """Books what a request used, on the run, the session and the model. Nothing that is reported gives budget back."""
    if usage.input_tokens < 0 or usage.output_tokens < 0 or cost < 0:
        cost = max(0, cost)
        usage = msgspec.structs.replace(
            usage, input_tokens=max(0, usage.input_tokens), output_tokens=max(0, usage.output_tokens)
        )
    run = state.run
    if run is not None:
        run.spent.tally.add(usage)
        run.spent.cost_nanos += cost
        run.usage_here.add(usage)
        run.cost_here += cost
    state.spent.tally.add(usage)
    state.spent.cost_nanos += cost
    totals = state.totals.get(model)
    if totals is None:
        name = model if len(state.totals) < st.TOTALS_MAX else "other"
        totals = state.totals.setdefault(name, st.Totals())
    totals.requests += 1
    totals.usage.add(usage)
    totals.cost_nanos += cost
    totals.duration_ms += duration_ms
