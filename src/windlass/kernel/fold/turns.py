"""Model requests and what came of them: how their events change the state."""

from __future__ import annotations

from windlass.events import turns
from windlass.events.ids import timer_id
from windlass.events.specs import ItemRef
from windlass.events.usage import ASIDE, Price
from windlass.kernel import state as st
from windlass.kernel.state import OpenRequest, State

from .accounts import cost_of, reported, spend, spend_lost
from .history import flush_notes, push
from .runs import AWAITING_TOOLS, between

OVERFLOW = ("context_exceeded", "request_too_large")


def model_requested(state: State, event: turns.ModelRequested) -> None:
    assert state.active, "no run is active"
    if event.lane in ASIDE:
        open_request(state, event, event.price)
        return
    if state.requests:
        for request in [r for r in state.requests.values() if r.lane == event.lane]:
            spend_lost(state, request)
            del state.requests[request.request_id]
    model = state.summary_model if event.lane == "compact" else state.current_model
    open_request(state, event, model.price)
    if event.lane == "compact":
        state.phase = st.Compacting(request_id=event.request_id)
    else:
        assert state.turn is not None, "no turn is open"
        # What the model was told between two attempts stands before its reply, in this request and in all later ones.
        flush_notes(state)
        state.phase = st.AwaitingModel(request_id=event.request_id)
        state.requested_once = True
        note_shape(state, event.output_tokens)
        assert state.run is not None
        state.run.failure = None
    state.retry = None


def open_request(state: State, event: turns.ModelRequested, price: Price | None) -> None:
    state.requests[event.request_id] = OpenRequest(
        request_id=event.request_id,
        lane=event.lane,
        attempt=event.attempt,
        epoch=event.epoch,
        model=event.model,
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        reserved_nanos=event.reserved_nanos,
        price=price,
        asked_seq=event.asked_seq,
        call_id=event.call_id,
    )


def note_shape(state: State, output_tokens: int) -> None:
    """Remembers how a request began; most begin as the one before did."""
    sent, run, turn = state.sent, state.run, state.turn
    assert run is not None
    assert turn is not None
    if (
        sent is None
        or run.options is not None
        or sent.tools is not None
        or sent.model != state.model.name
        or sent.output_tokens != output_tokens
        or sent.wrap_up != turn.wrap_up
        or sent.output != state.settings.output_required
    ):
        state.sent = state.shape(output_tokens, wrap_up=turn.wrap_up)


def model_replied(state: State, event: turns.ModelReplied) -> None:
    request = state.requests.pop(event.request_id)
    run = state.run
    assert run is not None
    used = event.usage
    if used.input_tokens <= 0 and used.output_tokens <= 0:
        used = reported(used, request, event.tokens)
    cost = event.cost_nanos if event.cost_nanos is not None else cost_of(request, used)
    spend(state, event.model or request.model, used, cost, duration_ms=event.duration_ms)
    if request.lane in ASIDE:
        return
    run.attempts = 0
    if request.lane == "compact":
        return
    turn = state.turn
    assert turn is not None
    run.overflowed = False
    if used.input_tokens > 0 and not used.estimated:
        state.measured_tokens = used.input_tokens
        state.measured_at_tokens = state.history_tokens
    turn.finish = event.finish
    run.last_finish = event.finish
    if not event.empty:
        turn.reply_seq = state.seq
        run.last_reply_seq = state.seq
        run.empty_replies = 0
        push(state, ItemRef(seq=state.seq, kind="assistant", tokens=event.tokens, bytes=event.bytes))
    else:
        run.empty_replies += 1
    state.phase = AWAITING_TOOLS


def model_failed(state: State, event: turns.ModelFailed) -> None:
    request = state.requests.pop(event.request_id)
    if event.usage is not None:
        spend(state, request.model, event.usage, cost_of(request, event.usage), duration_ms=event.duration_ms)
    if request.lane in ASIDE:
        return
    between(state)
    run = state.run
    assert run is not None
    run.attempts += 1
    if request.lane != "main":
        return
    run.failure = event.failure
    if event.failure.kind in OVERFLOW:
        # Room is made once; where that was not enough, it will not be the second time.
        state.compaction.wanted = "" if run.overflowed else "overflow"
        run.overflowed = True


def retry_planned(state: State, event: turns.RetryPlanned) -> None:
    if event.lane in ASIDE:
        return
    timer = timer_id(state.seq)
    state.timers[timer] = st.Timer(timer_id=timer, at_ms=event.at_ms, kind="retry", seq=state.seq)
    state.retry = event.plan
    state.phase = st.BackingOff(timer_id=timer)


def prefix_changed(state: State, event: turns.PrefixChanged) -> None:
    state.prefix_reasons = []


def output_extracted(state: State, event: turns.OutputExtracted) -> None:
    assert state.run is not None
    state.run.stop = "completed"


def output_rejected(state: State, event: turns.OutputRejected) -> None:
    assert state.run is not None
    state.run.output_attempts += 1
    state.run.turn_owed = True
    state.notes.append(ItemRef(seq=state.seq, kind="note", tokens=64, part="output"))


def output_failed(state: State, event: turns.OutputFailed) -> None:
    assert state.run is not None
    state.run.stop = "output_invalid"
