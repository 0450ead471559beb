"""Calls on their way to their one result, and what is asked about them: how their events change the state."""

from __future__ import annotations

from windlass.events import calls, permissions, questions
from windlass.events.specs import ItemRef
from windlass.kernel import state as st
from windlass.kernel.state import Call, Run, State, bounded

from .accounts import spend_lost
from .history import push
from .runs import join


def tool_requested(state: State, event: calls.ToolRequested) -> None:
    turn = state.turn
    source = turn.reply_seq if turn is not None and not event.by_person else None
    state.calls[event.call_id] = Call(
        call_id=event.call_id,
        tool=event.tool,
        ordinal=event.ordinal,
        source_seq=source if source is not None else int(event.call_id[1:].partition(".")[0]),
        by_person=event.by_person,
        digest=event.digest,
    )
    if not event.by_person:
        assert turn is not None
        turn.calls.append(event.call_id)
    elif isinstance(state.phase, st.Between):
        state.phase = st.AwaitingTools()
    if event.digest and not event.by_person:
        assert state.run is not None
        count_repeat(state.run, event.tool, event.digest)


def count_repeat(run: Run, tool: str, digest: str) -> None:
    key = f"{tool}:{digest}"
    run.repeats[key] = run.repeats.pop(key, 0) + 1
    if len(run.repeats) > st.REPEATS_MAX:
        bounded(run.repeats, st.REPEATS_MAX)


def tool_prepared(state: State, event: calls.ToolPrepared) -> None:
    call = state.calls[event.call_id]
    assert call.status == "requested"
    call.status = "prepared"
    call.digest = event.digest
    if event.changed:
        call.changed_seq = state.seq
    assert state.run is not None
    if not call.by_person:
        count_repeat(state.run, call.tool, event.digest)


def tool_allowed(state: State, event: calls.ToolAllowed) -> None:
    call = state.calls[event.call_id]
    assert call.status != "closed", f"{event.call_id} is closed"
    call.status = "allowed"
    assert state.run is not None
    state.run.spent.calls += 1
    state.spent.calls += 1
    if call.ask_id is not None:
        state.asks.pop(call.ask_id, None)
        call.ask_id = None


def tool_denied(state: State, event: calls.ToolDenied) -> None:
    call = state.calls[event.call_id]
    if event.reason in ("malformed_arguments", "truncated_reply", "unknown_tool") and not call.by_person:
        assert state.turn is not None
        state.turn.bad = True
    if event.stop and event.reason == "repeated":
        assert state.run is not None
        state.run.stop = "repeated"
    close(state, event.call_id, event.tokens)


def tool_started(state: State, event: calls.ToolStarted) -> None:
    call = state.calls[event.call_id]
    assert call.status in ("allowed", "started", "unknown"), f"{event.call_id} is {call.status}"
    drop_asides(state, event.call_id)
    call.status = "started"
    call.epoch = event.epoch
    call.attempt = event.attempt
    call.missed = False


def tool_delegated(state: State, event: calls.ToolDelegated) -> None:
    call = state.calls[event.call_id]
    assert call.status == "allowed"
    call.status = "delegated"


def tool_finished(state: State, event: calls.ToolFinished) -> None:
    close(state, event.call_id, event.tokens, event.bytes)


def tool_timed_out(state: State, event: calls.ToolTimedOut) -> None:
    close(state, event.call_id, event.tokens)


def tool_suspended(state: State, event: calls.ToolSuspended) -> None:
    call = state.calls[event.call_id]
    assert call.status == "started"
    drop_asides(state, event.call_id)
    call.status = "suspended"


def tool_resolved(state: State, event: calls.ToolResolved) -> None:
    close(state, event.call_id, event.tokens)


def tool_cancelled(state: State, event: calls.ToolCancelled) -> None:
    close(state, event.call_id, 24)


def tool_outcome_unknown(state: State, event: calls.ToolOutcomeUnknown) -> None:
    call = state.calls[event.call_id]
    if event.settle:
        drop_asides(state, event.call_id)
        call.status = "unknown"
    else:
        close(state, event.call_id, 40)


def tool_settled(state: State, event: calls.ToolSettled) -> None:
    join(state, event.command_id)
    call = state.calls[event.call_id]
    assert call.status == "unknown"
    if event.outcome == "run_again":
        call.status = "allowed"
    else:
        close(state, event.call_id, max(event.tokens, 24))


def call_received(state: State, event: calls.CallReceived) -> None:
    join(state, event.command_id)


def result_received(state: State, event: calls.ResultReceived) -> None:
    join(state, event.command_id)
    close(state, event.call_id, event.tokens, event.bytes)


def close(state: State, name: str, tokens: int, size: int = 0) -> None:
    """Gives a call its one result: the event being folded now."""
    call = state.calls[name]
    assert call.status != "closed", f"{name} has a result already"
    drop_asides(state, name)
    call.status = "closed"
    call.closed_seq = state.seq
    call.tokens = tokens
    call.bytes = size
    if call.ask_id is not None:
        state.asks.pop(call.ask_id, None)
        call.ask_id = None
    if call.by_person:
        # What a person ran becomes a note of its own; it belongs to no reply.
        del state.calls[name]
        ref = ItemRef(seq=state.seq, kind="note", tokens=tokens + 16, bytes=size, part=name)
        if state.turn is None:
            push(state, ref)
            if isinstance(state.phase, st.AwaitingTools) and not state.calls:
                state.phase = st.Between()
        else:
            state.notes.append(ref)


def drop_asides(state: State, name: str) -> None:
    """What was asked of a model for a call is of no use to anybody once the call is over; what it cost is booked."""
    if state.requests:
        for request in [r for r in state.requests.values() if r.call_id == name]:
            spend_lost(state, request)
            del state.requests[request.request_id]


def repeat_warned(state: State, event: calls.RepeatWarned) -> None:
    state.notes.append(ItemRef(seq=state.seq, kind="note", tokens=40, part="repeat"))


def permission_requested(state: State, event: permissions.PermissionRequested) -> None:
    call = state.calls[event.call_id]
    call.status = "asked"
    call.ask_id = event.request_id
    state.asks[event.request_id] = st.Ask(
        ask_id=event.request_id,
        call_id=event.call_id,
        seq=state.seq,
        kind="permission",
        tool=event.tool,
        permission_kind=event.kind,
        digest=event.digest,
    )


def permission_approved(state: State, event: permissions.PermissionApproved) -> None:
    join(state, event.command_id)
    answer(state, event.request_id, f"approved by {event.actor or 'someone'}")
    state.calls[state.asks[event.request_id].call_id].missed = False


def permission_denied(state: State, event: permissions.PermissionDenied) -> None:
    join(state, event.command_id)
    answer(state, event.request_id, f"denied by {event.actor or 'someone'}")


def permission_withdrawn(state: State, event: permissions.PermissionWithdrawn) -> None:
    ask = state.asks.pop(event.request_id)
    answer(state, event.request_id, f"withdrawn: {event.reason}")
    call = state.calls.get(ask.call_id)
    if call is not None:
        call.ask_id = None


def approver_missed(state: State, event: permissions.ApproverMissed) -> None:
    for name in event.request_ids:
        if name in state.asks:
            state.asks[name].missed = True
        elif name in state.calls:
            state.calls[name].missed = True


def grants_changed(state: State, event: permissions.GrantsChanged) -> None:
    for grant in event.added:
        state.grants[grant.grant_id] = grant
    for name in event.revoked:
        state.grants.pop(name, None)
    while len(state.grants) > st.GRANTS_MAX:
        del state.grants[next(iter(state.grants))]


def question_requested(state: State, event: questions.QuestionRequested) -> None:
    call = state.calls[event.call_id]
    if not event.inside:
        call.status = "answering"
        call.ask_id = event.question_id
    state.asks[event.question_id] = st.Ask(
        ask_id=event.question_id,
        call_id=event.call_id,
        seq=state.seq,
        kind="question",
        question_kind=event.kind,
        inside=event.inside,
        tool=call.tool,
    )


def answer_received(state: State, event: questions.AnswerReceived) -> None:
    join(state, event.command_id)
    ask = state.asks[event.question_id]
    answer(state, event.question_id, f"answered by {event.actor or 'someone'}")
    if ask.inside:
        del state.asks[event.question_id]
    else:
        close(state, ask.call_id, max(event.tokens, 8))


def question_withdrawn(state: State, event: questions.QuestionWithdrawn) -> None:
    ask = state.asks.pop(event.question_id)
    answer(state, event.question_id, f"withdrawn: {event.reason}")
    call = state.calls.get(ask.call_id)
    if call is not None and call.ask_id == event.question_id:
        call.ask_id = None


def answer(state: State, ask_id: str, what: str) -> None:
    state.answered[ask_id] = what
    bounded(state.answered, st.ANSWERED_MAX)
