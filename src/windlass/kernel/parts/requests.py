"""Model requests: the intent with its reservation, and what came of it.

    model.requested ──▶ open ──▶ model.replied   settled; calls, an answer or a summary follow
                             ├─▶ model.failed    tried again (see `retries`), or the turn is over
                             ├─▶ model.dropped   cut off by a signal: booked in full, and asked again with it
                             └─▶ lost            the owner changed, the run ended, its call ended: booked in full

The lanes: `main` is the conversation, `compact` writes a summary; `tool` and `judge` are aside: they change no turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import Refused
from windlass.events.hooks import HookRuled
from windlass.events.runs import (
    CancelReceived,
    InterruptReceived,
    RunAsked,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunSlept,
    RunStarted,
    Terminal,
)
from windlass.events.sessions import SessionForked, SessionResumed
from windlass.events.turns import ModelAsked, ModelDropped, ModelFailed, ModelReplied, ModelRequested
from windlass.events.values.failures import Failure
from windlass.events.values.ids import request_id
from windlass.events.values.setup import ItemRef
from windlass.events.values.usage import ASIDE, Lane, Price, Usage
from windlass.kernel.effects import CallModel
from windlass.kernel.part import Decisions, Misfit, Open, Part, Reserved, Row
from windlass.kernel.parts import budgets, output, retries, runs, turns
from windlass.kernel.parts.context import compaction, history, prefix
from windlass.kernel.parts.tools import call_proposals
from windlass.kernel.phases import ACTIVE, WORKING, AwaitingModel, Compacting

if TYPE_CHECKING:
    from windlass.kernel.state import State


ASIDES_MAX = 64
OVERFLOW = ("context_exceeded", "request_too_large")


class OpenRequest(msgspec.Struct, kw_only=True, gc=False):
    """A model request whose outcome is not in the log yet."""

    request_id: str
    lane: Lane
    attempt: int
    epoch: int
    model: str
    input_tokens: int
    output_tokens: int
    reserved_nanos: int
    seq: int
    price: Price | None = None
    """Of the model that was asked, whichever model the session has when the reply comes."""
    asked_seq: int | None = None
    call_id: str | None = None


class Requests(msgspec.Struct, kw_only=True, gc=False):
    """The model requests that are out, and how those of the run went."""

    open: dict[str, OpenRequest] = {}
    attempts: int = 0
    """How many failed in a row."""
    failure: Failure | None = None
    """Why the last one of the main lane failed, until the next one is made."""
    overflowed: bool = False
    empty_replies: int = 0


# --- verbs --------------------------------------------------------------------------------------------------------


def lose(state: State, request: OpenRequest) -> None:
    """An attempt whose outcome never arrives: what it may have cost is booked as an estimate, in full."""
    budgets.spend(state, request.model, most_used(request), request.reserved_nanos)
    del state.requests.open[request.request_id]


def most_used(request: OpenRequest) -> Usage:
    """What a request may have used at the most."""
    return Usage(input_tokens=request.input_tokens, output_tokens=request.output_tokens, estimated=True)


def lose_all(state: State) -> None:
    for request in list(state.requests.open.values()):
        lose(state, request)


def lose_those_of_call(state: State, call_id: str) -> None:
    """What was asked of a model for a call is of no use to anybody once the call is over."""
    for request in [request for request in state.requests.open.values() if request.call_id == call_id]:
        lose(state, request)


def room_made(state: State) -> None:
    """A request that was too large is answered by a smaller one: the failure is dealt with."""
    state.requests.failure = None


# --- fold ---------------------------------------------------------------------------------------------------------


def model_requested(state: State, event: ModelRequested) -> None:
    if type(state.phase) not in ACTIVE:
        raise Misfit("no run is active")
    lane = event.lane
    here = state.requests
    if lane in ASIDE:
        price = event.price
    else:
        if here.open:
            for request in [request for request in here.open.values() if request.lane == lane]:
                lose(state, request)
        model = state.summary_model if lane == "compact" else state.current_model
        price = model.price
    here.open[event.request_id] = OpenRequest(
        request_id=event.request_id,
        lane=lane,
        attempt=event.attempt,
        epoch=event.epoch,
        model=event.model,
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        reserved_nanos=event.reserved_nanos,
        seq=state.seq,
        price=price,
        asked_seq=event.asked_seq,
        call_id=event.call_id,
    )
    if lane == "main":
        if not state.turn.open:
            raise Misfit("no turn is open")
        # What the model was told between two attempts stands before its reply, in this request and in all later ones.
        if state.history.notes:
            history.flush_notes(state)
        state.phase = AwaitingModel(request_id=event.request_id)
        prefix.sent(state, event.output_tokens)
        here.failure = None
    elif lane == "compact":
        state.phase = Compacting(request_id=event.request_id)


def model_replied(state: State, event: ModelReplied) -> None:
    here = state.requests
    request = here.open.pop(event.request_id)
    used = event.usage
    if used.input_tokens <= 0 and used.output_tokens <= 0:
        used = reported(used, request, event.tokens)
    cost = event.cost_nanos if event.cost_nanos is not None else cost_of(request, used)
    budgets.spend(state, event.model or request.model, used, cost, event.duration_ms)
    if request.lane != "main":
        if request.lane == "compact":
            here.attempts = 0
        return
    here.attempts = 0
    here.overflowed = False
    if used.input_tokens > 0 and not used.estimated:
        history.measured(state, used.input_tokens)
    turns.replied(state, event.finish, event.empty)
    if event.empty:
        here.empty_replies += 1
    else:
        here.empty_replies = 0
        history.push(state, ItemRef(seq=state.seq, kind="assistant", tokens=event.tokens, bytes=event.bytes))
    state.phase = runs.AWAITING_TOOLS


def model_dropped(state: State, event: ModelDropped) -> None:
    lose(state, state.requests.open[event.request_id])


def reported(usage: Usage, request: OpenRequest, tokens: int) -> Usage:
    """What a reply used: as the provider says, or our estimate if it says nothing."""
    if usage.total_tokens > 0:
        return usage
    return Usage(input_tokens=request.input_tokens, output_tokens=tokens, estimated=True)


def cost_of(request: OpenRequest, usage: Usage) -> int:
    """What a request cost by the price of the model that was asked."""
    return request.price.cost_nanos(usage) if request.price is not None else 0


def model_failed(state: State, event: ModelFailed) -> None:
    here = state.requests
    request = here.open.pop(event.request_id)
    if event.usage is not None:
        budgets.spend(state, request.model, event.usage, cost_of(request, event.usage), event.duration_ms)
    if request.lane in ASIDE:
        return
    runs.between(state)
    here.attempts += 1
    if request.lane != "main":
        return
    here.failure = event.failure
    if event.failure.kind in OVERFLOW:
        # Room is made once; if that was not enough, it will not be the second time.
        compaction.want(state, "" if here.overflowed else "overflow")
        here.overflowed = True


def run_started(state: State, event: RunStarted) -> None:
    here = state.requests
    if event.continues is None or event.trigger not in ("timer", "call"):
        here.attempts = 0
    if event.continues is None:
        here.overflowed = False
    here.failure = None
    here.empty_replies = 0


def run_ended(state: State, event: Terminal) -> None:
    lose_all(state)


def session_resumed(state: State, event: SessionResumed) -> None:
    # Their outcome will never reach the log. What they may have cost is booked before anything is asked for again.
    lose_all(state)


def session_forked(state: State, event: SessionForked) -> None:
    """What the origin had sent is its own cost. In older logs it was booked here too, as an estimate, in full."""
    if event.unsent:
        state.requests.open.clear()


def stopped_by_command(state: State, event: InterruptReceived | CancelReceived) -> None:
    """Keeps what the model had written, so that a later turn knows it was cut off."""
    if not isinstance(state.phase, AwaitingModel):
        return
    request = state.requests.open.get(state.phase.request_id)
    if request is not None and event.usage is not None:
        budgets.spend(state, request.model, event.usage, cost_of(request, event.usage))
        del state.requests.open[request.request_id]
    elif request is not None:
        lose(state, request)
    if event.tokens:
        history.push(state, ItemRef(seq=state.seq, kind="assistant", tokens=event.tokens, part="partial"))


# --- when, and what follows ---------------------------------------------------------------------------------------


def check_outcome(state: State, fact: ModelReplied | ModelFailed) -> None:
    request = state.requests.open.get(fact.request_id)
    if request is None or request.epoch != state.epoch:
        raise Refused("stale", f"request {fact.request_id} is not open any more")
    if fact.lane != request.lane:
        raise Refused("malformed", f"request {fact.request_id} was made in the lane {request.lane!r}")
    if isinstance(fact, ModelReplied) and (fact.body is None or len(fact.body.calls) != fact.calls):
        raise Refused("malformed", "a reply needs its content, and as many calls as it says")


def check_asked(state: State, fact: ModelAsked) -> None:
    call = state.calls.by_id.get(fact.call_id) if fact.call_id is not None else None
    if fact.lane == "tool" and (call is None or call.status != "started" or call.epoch != state.epoch):
        raise Refused("stale", f"call {fact.call_id} is not running under this owner")
    if fact.call_id is not None and (call is None or call.status == "closed"):
        raise Refused("stale", f"call {fact.call_id} is not open")
    if fact.body is None:
        raise Refused("no_content", "a question to a model needs content")
    if sum(request.lane in ASIDE for request in state.requests.open.values()) >= ASIDES_MAX:
        raise Refused("too_many", f"{ASIDES_MAX} such requests are open already")
    limit = budgets.exhausted(state, fact.tokens, fact.model, budgets.WITHIN_A_TURN)
    if limit is not None:
        raise Refused("budget", f"the budget leaves no room for it: {limit.limit} of the {limit.scope}")


def on_replied(state: State, fact: ModelReplied) -> Decisions:
    seq = state.seq
    for ruling in fact.hooks:
        yield HookRuled(ruling=ruling)
    if fact.lane in ASIDE:
        return
    if isinstance(state.phase, Compacting):
        yield from compaction.finish(state, fact, seq)
        return
    yield from call_proposals.propose(state, fact, seq)
    if not fact.calls and not fact.empty:
        yield from output.check_output(state, fact, seq)


def on_failed(state: State, fact: ModelFailed) -> Decisions:
    for ruling in fact.hooks:
        yield HookRuled(ruling=ruling)
    yield from retries.perhaps_retry(state, fact)


def on_asked(state: State, fact: ModelAsked) -> Decisions:
    """The intent to ask a model on behalf of a tool or a judge."""
    room = budgets.output_room(state, fact.tokens, fact.model)
    if fact.max_output_tokens is not None:
        room = min(room, max(1, fact.max_output_tokens))
    yield ModelRequested(
        request_id=request_id(state.seq + 1),
        lane=fact.lane,
        attempt=fact.attempt,
        model=fact.model.name,
        epoch=state.epoch,
        input_tokens=fact.tokens,
        output_tokens=room,
        reserved_nanos=budgets.reserve_nanos(state, fact.tokens, room, fact.model),
        initiator=fact.lane,
        asked_seq=state.seq,
        call_id=fact.call_id,
        price=fact.model.price,
    )


def intend(state: State, lane: Lane, input_tokens: int, room: int, *, attempt: int) -> ModelRequested:
    """The intent to make a request of the conversation now, with what it may use at the most."""
    model = state.current_model
    if lane == "compact":
        model = state.summary_model
        room = min(room, state.setup.settings.summary_tokens_max)
    return ModelRequested(
        request_id=request_id(state.seq + 1),
        lane=lane,
        attempt=attempt,
        model=model.name,
        epoch=state.epoch,
        input_tokens=input_tokens,
        output_tokens=room,
        reserved_nanos=budgets.reserve_nanos(state, input_tokens, room, model),
        initiator="compaction" if lane == "compact" else "user",
    )


def drop(state: State, name: str) -> ModelDropped:
    """Cuts off a request that is under way."""
    request = state.requests.open[name]
    return ModelDropped(request_id=name, lane=request.lane, usage=most_used(request), cost_nanos=request.reserved_nanos)


# --- what is open -------------------------------------------------------------------------------------------------


def owes(state: State) -> Iterable[CallModel]:
    if not state.active:
        return ()
    left = budgets.time_left_ms(state)
    return [
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
        for request in state.requests.open.values()
        if request.epoch == state.epoch
    ]


def opens(state: State) -> Iterable[Open]:
    return [
        Open(
            kind="model",
            open_id=request.request_id,
            by="us",
            seq=request.seq,
            model=request.model,
            attempt=request.attempt,
        )
        for request in state.requests.open.values()
    ]


def works(state: State) -> bool:
    phase = type(state.phase)
    return phase is AwaitingModel or phase is Compacting


def reserves(state: State) -> Reserved:
    if not state.requests.open:
        return NOTHING
    under_way = state.requests.open.values()
    tokens = sum([request.input_tokens + request.output_tokens for request in under_way])
    return Reserved(tokens=tokens, cost_nanos=sum([request.reserved_nanos for request in under_way]))


NOTHING = Reserved()

PART = Part(
    name="requests",
    facts={
        ModelAsked: Row(when=WORKING, check=check_asked, then=on_asked),
        ModelReplied: Row(when=WORKING, check=check_outcome, fold=model_replied, then=on_replied),
        ModelFailed: Row(when=WORKING, check=check_outcome, fold=model_failed, then=on_failed),
    },
    decisions={ModelRequested: model_requested, ModelDropped: model_dropped},
    hears={
        SessionResumed: session_resumed,
        SessionForked: session_forked,
        InterruptReceived: stopped_by_command,
        CancelReceived: stopped_by_command,
        RunStarted: run_started,
        **dict.fromkeys((RunCompleted, RunFailed, RunCancelled, RunInterrupted, RunAsked, RunSlept), run_ended),
    },
    keeps=lambda state: state.requests.open,
    owes=owes,
    opens=opens,
    works=works,
    reserves=reserves,
)
