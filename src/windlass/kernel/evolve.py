"""The fold: how each event changes the state. Decides nothing, reads no content, and needs no policy code.

`EVOLVE` is a table by event type; an event that is not in it cannot be folded. The state is changed in place and is
private to its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from windlass.events import calls, context, hooks, permissions, questions, runs, sessions, turns
from windlass.events.base import Event
from windlass.events.codec import Unknown
from windlass.events.errors import NeedsNewer, NotLegal
from windlass.events.ids import prompt_id, signal_id, timer_id
from windlass.events.specs import ItemRef, ToolSpec
from windlass.events.usage import Usage

from . import state as st
from .state import Call, Input, OpenRequest, Run, State, Turn, bounded

Arm = Callable[[State, Any], None]

AWAITING_TOOLS, BETWEEN = st.AwaitingTools(), st.Between()


def evolve(state: State, event: Event) -> None:
    """Folds one event into the state. Raises `NotLegal` for an event that cannot stand here."""
    evolve_all(state, (event,))


def evolve_all(state: State, events: Iterable[Event | Unknown]) -> None:
    """Folds events one after the other. Unknown ones are passed over where they may be, else `NeedsNewer` is raised."""
    table: dict[type, Arm] = EVOLVE
    event: Any = None
    try:
        for event in events:
            state.seq += 1
            arm = table.get(type(event))
            if arm is not None:
                arm(state, event)
            else:
                pass_over(state, event)
    except (KeyError, AttributeError, AssertionError, ValueError, IndexError) as error:
        raise NotLegal(
            f"event {state.seq}: {event.__struct_config__.tag} is not legal in {type(state.phase).__name__}: {error!r}"
        ) from error


def pass_over(state: State, event: Event | Unknown) -> None:
    """An event without an arm: one of a later version, or none of a log."""
    if not isinstance(event, Unknown):
        raise NotLegal(f"event {state.seq}: {type(event).__name__} is not an event of a log")
    if not event.skippable:
        state.seq -= 1
        raise NeedsNewer(event.tag, state.seq + 1)


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


WORKED_ON = ("requested", "allowed", "started")


# --- the session itself -------------------------------------------------------------------------------------------


def session_started(state: State, event: sessions.SessionStarted) -> None:
    assert isinstance(state.phase, st.New), "the session has started before"
    setup = event.setup
    state.session_id = event.session_id
    state.epoch = event.epoch
    state.started_ms = state.now_ms
    state.setup_seq = state.seq
    state.phase = st.Idle()
    state.agent, state.model, state.policy = setup.agent, setup.model, setup.policy
    state.limits, state.run_limits, state.settings = setup.limits, setup.run_limits, setup.settings
    state.mode, state.routing = setup.mode, setup.routing
    set_tools(state, {spec.name: spec for spec in setup.tools})
    state.title, state.metadata = event.title, dict(event.metadata)
    state.workspace = event.workspace
    state.parent_id, state.root_id = event.parent_id, event.root_id
    state.scope, state.depth = event.scope, event.depth
    state.knowledge_tokens = event.knowledge_tokens
    for ref in event.imported:
        push(state, msgspec.structs.replace(ref, seq=state.seq))


def session_resumed(state: State, event: sessions.SessionResumed) -> None:
    assert event.epoch > state.epoch, "a resumed session has a newer epoch"
    state.epoch = event.epoch
    if event.workspace is not None:
        state.workspace = event.workspace
    for request in list(state.requests.values()):
        # Its outcome will never reach the log. What it may have cost is booked before anything is asked for again.
        spend_lost(state, request)
        del state.requests[request.request_id]
    if state.active:
        # The new owner has its own people; they are asked again, under the same ids.
        for ask in state.asks.values():
            ask.missed = False
        for call in state.calls.values():
            call.missed = False


def agent_changed(state: State, event: sessions.AgentChanged) -> None:
    state.agent = event.agent


def session_forked(state: State, event: sessions.SessionForked) -> None:
    state.session_id = event.session_id
    state.epoch = event.epoch
    state.parent_id = None


def nothing(state: State, event: Event) -> None:
    """Facts and decisions that are for readers only."""


def workspace_changed(state: State, event: sessions.WorkspaceChanged) -> None:
    state.workspace = event.workspace


def files_changed(state: State, event: sessions.FilesChanged) -> None:
    for change in event.changes:
        state.code.lines_added += change.lines_added
        state.code.lines_removed += change.lines_removed
        state.code.files[change.path] = True
    bounded(state.code.files, st.FILES_MAX)


def model_changed(state: State, event: sessions.ModelChanged) -> None:
    state.model = event.model
    state.measured_tokens = 0
    dirty(state, "model")


def mode_changed(state: State, event: sessions.ModeChanged) -> None:
    state.mode = event.mode


def title_changed(state: State, event: sessions.TitleChanged) -> None:
    state.title = event.title


def metadata_changed(state: State, event: sessions.MetadataChanged) -> None:
    for key, value in event.metadata.items():
        if value is None:
            state.metadata.pop(key, None)
        else:
            state.metadata[key] = value
    bounded(state.metadata, st.METADATA_MAX)


def settings_changed(state: State, event: sessions.SettingsChanged) -> None:
    state.settings = event.settings


def task_changed(state: State, event: sessions.TaskChanged) -> None:
    state.task = event.task


def pins_changed(state: State, event: sessions.PinsChanged) -> None:
    for seq in event.pinned:
        state.pinned[seq] = True
    for seq in event.unpinned:
        state.pinned.pop(seq, None)


def task_completed(state: State, event: sessions.TaskCompleted) -> None:
    if state.run is not None:
        state.run.task_done = True


def instructions_rendered(state: State, event: sessions.InstructionsRendered) -> None:
    if state.instructions_digest and event.digest != state.instructions_digest:
        dirty(state, "instructions")
    state.instructions_seq = state.seq
    state.instructions_digest = event.digest
    state.instructions_tokens = event.tokens


def session_rewound(state: State, event: sessions.SessionRewound) -> None:
    replace_history(state, list(event.history))
    # Which compactions the earlier history had seen is no longer told.
    state.compaction.count = 0
    dirty(state, "rewind")
    state.resumable = False


# --- inputs, queue, runs ------------------------------------------------------------------------------------------


def prompt_received(state: State, event: runs.PromptReceived) -> None:
    state.inputs[state.seq] = Input(
        seq=state.seq,
        kind="user",
        tokens=event.tokens,
        bytes=event.bytes,
        command_id=event.command_id,
        options=event.options,
    )


def queue_changed(state: State, event: runs.QueueChanged) -> None:
    seqs = [int(name[1:]) for name in event.prompt_ids]
    match event.operation:
        case "queued":
            state.queue.extend(seqs)
        case "steering":
            state.steering.extend(seqs)
            for seq in seqs:
                join(state, command_of(state, seq))
        case "taken":
            for seq in seqs:
                state.queue.remove(seq)
            state.held = state.held and bool(state.queue)
        case "absorbed":
            for seq in seqs:
                absorb(state, seq)
        case "dropped":
            for seq in seqs:
                state.inputs.pop(seq)
                for line in (state.queue, state.steering):
                    if seq in line:
                        line.remove(seq)
            state.held = state.held and bool(state.queue)
        case "edited":
            state.queue = seqs
        case "held":
            state.held = True
        case "released":
            state.held = False


def join(state: State, command: str) -> None:
    """A command that ends when the active run does."""
    if state.active and state.run is not None:
        state.run.commands.append(command)


def queue_edited(state: State, event: runs.QueueEdited) -> None:
    for name, tokens in event.tokens.items():
        waiting = state.inputs[int(name[1:])]
        waiting.tokens = tokens
        waiting.edited_seq = state.seq


def command_of(state: State, seq: int) -> str:
    found = state.inputs[seq].command_id
    assert found is not None
    return found


def run_started(state: State, event: runs.RunStarted) -> None:
    assert not state.active, "a run is active"
    previous = state.run
    fresh = Run(run_id=event.run_id, first_run_id=event.run_id, commands=list(event.commands), options=event.options)
    if event.continues is not None and previous is not None:
        fresh.first_run_id = previous.first_run_id
        fresh.spent = previous.spent
        fresh.overflowed = previous.overflowed
        fresh.attempts = previous.attempts if event.trigger in ("timer", "call") else 0
        if event.trigger not in ("wake", "prompt"):
            # Somebody who says to go on means it: what a run was stopped for before is counted anew, budgets are not.
            fresh.reasks = previous.reasks
            fresh.output_attempts = previous.output_attempts
            fresh.repeats = previous.repeats
        fresh.options = event.options or previous.options
        fresh.last_reply_seq = previous.last_reply_seq
        fresh.last_finish = previous.last_finish
        fresh.turn_owed = previous.turn_owed
    else:
        state.compaction.failures = 0
    fresh.turn_owed = event.trigger in ("wake", "timer", "signal") or (event.continues is not None and fresh.turn_owed)
    state.run = fresh
    state.resumable = False
    state.held = False
    between(state)
    if state.sent is not None and state.sent.model != state.current_model.name:
        state.measured_tokens = 0
    for seq, waiting in state.inputs.items():
        if waiting.command_id in fresh.commands and waiting.kind == "user" and seq not in state.steering:
            state.steering.append(seq)


def between(state: State) -> None:
    """Where an active run is when no request is out: in its turn, with what a person runs meanwhile, or between."""
    state.phase = AWAITING_TOOLS if state.turn is not None or state.calls else BETWEEN


def run_ended(state: State, event: runs.Terminal) -> None:
    run = state.run
    assert run is not None
    assert run.run_id == event.run_id, "another run is active"
    for request in state.requests.values():
        spend_lost(state, request)
    state.requests.clear()
    state.retry = None
    run.commands = []
    state.resumable = False
    state.phase = st.Idle()
    state.compaction.attempt = 0
    for timer in [t for t in state.timers.values() if t.kind == "retry"]:
        if not isinstance(event, runs.RunSlept):
            del state.timers[timer.timer_id]


def run_stopped(state: State, event: runs.RunInterrupted | runs.RunFailed) -> None:
    run_ended(state, event)
    state.resumable = True


def run_asked(state: State, event: runs.RunAsked) -> None:
    run_ended(state, event)
    state.phase = st.Asked()
    state.resumable = True


def run_slept(state: State, event: runs.RunSlept) -> None:
    run_ended(state, event)
    state.phase = st.Asleep()
    state.resumable = True


def signal_received(state: State, event: runs.SignalReceived) -> None:
    key = event.dedupe_key
    duplicate = key is not None and key in state.seen_signals
    if key is not None:
        state.seen_signals[key] = True
        bounded(state.seen_signals, st.SEEN_SIGNALS_MAX)
    state.signals.append(
        st.Signal(
            signal_id=signal_id(state.seq),
            seq=state.seq,
            kind=event.kind,
            urgency=event.urgency,
            tokens=event.tokens,
            duplicate=duplicate,
        )
    )


def signal_disposed(state: State, event: runs.SignalDisposed) -> None:
    signal = next(s for s in state.signals if s.signal_id == event.signal_id)
    if event.disposition in ("run", "steer", "queued"):
        waits = event.disposition == "queued"
        state.inputs[signal.seq] = Input(seq=signal.seq, kind="note", tokens=signal.tokens, part="signal", waits=waits)
        state.steering.append(signal.seq)
    if event.disposition != "observed":
        state.signals.remove(signal)
    del state.signals[: max(0, len(state.signals) - st.SIGNALS_MAX)]


def timer_set(state: State, event: runs.TimerSet) -> None:
    state.timers[event.timer_id] = st.Timer(timer_id=event.timer_id, at_ms=event.at_ms, kind=event.kind, seq=state.seq)


def timer_fired(state: State, event: runs.TimerFired) -> None:
    timer = state.timers.pop(event.timer_id)
    if timer.kind == "wait":
        state.inputs[state.seq] = Input(seq=state.seq, kind="note", tokens=16, part="timer")
        state.steering.append(state.seq)


def timer_cancelled(state: State, event: runs.TimerCancelled) -> None:
    timer = state.timers.pop(event.timer_id)
    if timer.kind == "wait" and event.reason == "woken":
        state.inputs[state.seq] = Input(seq=state.seq, kind="note", tokens=16, part="woken")
        state.steering.append(state.seq)
    if isinstance(state.phase, st.Asleep) and not state.timers:
        state.phase = st.Idle()


# --- turns and model requests -------------------------------------------------------------------------------------


def turn_started(state: State, event: runs.TurnStarted) -> None:
    run = state.run
    assert run is not None
    assert state.turn is None, "a turn is open"
    state.turns = event.number
    run.spent.turns += 1
    run.turns_here += 1
    state.spent.turns += 1
    run.turn_owed = False
    if run.stop == "completed":
        run.stop = None
    if run.task_done:
        run.task_done, run.task_was_done = False, True
    state.turn = Turn(turn_id=event.turn_id, number=event.number, wrap_up=event.wrap_up)
    run.wrapping_up = run.wrapping_up or event.wrap_up
    flush_notes(state)
    for seq in event.absorbs:
        absorb(state, seq)
    for note in event.notes:
        push(state, ItemRef(seq=state.seq, kind="note", tokens=32, part=note))
        if note in ("nudge", "continue"):
            run.nudges += 1


def absorb(state: State, seq: int) -> None:
    """Takes an input into the history."""
    taken = state.inputs.pop(seq)
    if seq in state.steering:
        state.steering.remove(seq)
    if seq in state.queue:
        state.queue.remove(seq)
    if taken.edited_seq is not None:
        seq, taken.part = taken.edited_seq, prompt_id(seq)
    push(state, ItemRef(seq=seq, kind=taken.kind, tokens=taken.tokens, bytes=taken.bytes, part=taken.part))


def turn_finished(state: State, event: runs.TurnFinished) -> None:
    turn = state.turn
    assert turn is not None, "no turn is open"
    for name in turn.calls:
        call = state.calls.pop(name)
        assert call.closed_seq is not None, f"{name} has no result"
        push(
            state,
            ItemRef(seq=call.closed_seq, kind="result", tokens=call.tokens, bytes=call.bytes, part=name),
        )
    state.turn = None
    flush_notes(state)
    run = state.run
    assert run is not None
    run.reasks = run.reasks + 1 if turn.bad else 0
    if turn.reply_seq is None or turn.calls or turn.finish == "pause":
        run.turn_owed = True
    if turn.calls:
        run.nudges = 0
    between(state)


def flush_notes(state: State) -> None:
    if state.notes:
        for ref in state.notes:
            push(state, ref)
        state.notes = []


def model_requested(state: State, event: turns.ModelRequested) -> None:
    assert state.active, "no run is active"
    if state.requests:
        for request in [r for r in state.requests.values() if r.lane == event.lane]:
            spend_lost(state, request)
            del state.requests[request.request_id]
    state.requests[event.request_id] = OpenRequest(
        request_id=event.request_id,
        lane=event.lane,
        attempt=event.attempt,
        epoch=event.epoch,
        model=event.model,
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        reserved_nanos=event.reserved_nanos,
        price=state.current_model.price,
    )
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


OVERFLOW = ("context_exceeded", "request_too_large")


def reported(usage: Usage, request: OpenRequest, tokens: int) -> Usage:
    """What a reply used: as the provider says, or our estimate where it says nothing."""
    if usage.total_tokens > 0:
        return usage
    return Usage(input_tokens=request.input_tokens, output_tokens=tokens, estimated=True)


def cost_of(request: OpenRequest, usage: Usage) -> int:
    """What a request cost by the price of the model that was asked."""
    return request.price.cost_nanos(usage) if request.price is not None else 0


def retry_planned(state: State, event: turns.RetryPlanned) -> None:
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


# --- calls --------------------------------------------------------------------------------------------------------


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
    call.status = "suspended"


def tool_resolved(state: State, event: calls.ToolResolved) -> None:
    close(state, event.call_id, event.tokens)


def tool_cancelled(state: State, event: calls.ToolCancelled) -> None:
    close(state, event.call_id, 24)


def tool_outcome_unknown(state: State, event: calls.ToolOutcomeUnknown) -> None:
    call = state.calls[event.call_id]
    if event.settle:
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


def repeat_warned(state: State, event: calls.RepeatWarned) -> None:
    state.notes.append(ItemRef(seq=state.seq, kind="note", tokens=40, part="repeat"))


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


# --- permissions and questions ------------------------------------------------------------------------------------


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


# --- context ------------------------------------------------------------------------------------------------------


def compact_received(state: State, event: context.CompactReceived) -> None:
    state.compaction.wanted = "command"
    state.compaction.failures = 0


def compaction_started(state: State, event: context.CompactionStarted) -> None:
    compaction = state.compaction
    compaction.trigger = event.trigger
    compaction.first, compaction.last = event.first, event.last
    compaction.items = event.items
    compaction.attempt = event.attempt
    compaction.wanted = ""
    room_made(state)


def compaction_finished(state: State, event: context.CompactionFinished) -> None:
    summary = ItemRef(seq=event.summary_seq, kind="summary", tokens=event.summary_tokens)
    cut(state, state.compaction.items, event.kept, summary)
    state.compaction.failures = 0
    state.compaction.attempt = 0
    state.compaction.count += 1
    dirty(state, "compaction")
    settle_phase(state)


def compaction_failed(state: State, event: context.CompactionFailed) -> None:
    if event.reason != "interrupted":
        state.compaction.failures += 1
    state.compaction.attempt = 0
    state.compaction.wanted = ""
    settle_phase(state)


def settle_phase(state: State) -> None:
    if isinstance(state.phase, st.Compacting | st.BackingOff):
        between(state)


def compaction_undone(state: State, event: context.CompactionUndone) -> None:
    replace_history(state, list(event.history))
    state.compaction.count -= 1
    dirty(state, "compaction")


def context_elided(state: State, event: context.ContextElided) -> None:
    chosen = set(event.seqs)
    left = len(chosen)
    # From the end: what was not elided before is among the newest.
    for index in range(len(state.history) - 1, -1, -1):
        ref = state.history[index]
        if ref.seq in chosen and ref.kind == "result" and not ref.elided:
            tokens = min(ref.tokens, ELIDED_TOKENS)
            state.history[index] = ItemRef(seq=ref.seq, kind="result", tokens=tokens, part=ref.part, elided=True)
            state.history_tokens += tokens - ref.tokens
            state.history_bytes -= ref.bytes
            left -= 1
            if not left:
                break
    state.measured_tokens = 0
    dirty(state, "elision")


ELIDED_TOKENS = 24


def context_truncated(state: State, event: context.ContextTruncated) -> None:
    gone = event.items_before - event.items_after
    cut(state, event.items or gone + len(event.kept), event.kept, None)
    state.compaction.wanted = ""
    state.compaction.count += 1
    dirty(state, "compaction")
    room_made(state)


def room_made(state: State) -> None:
    """A request that was too large is answered by a smaller one: the failure is dealt with."""
    if state.run is not None:
        state.run.failure = None


def context_paged_in(state: State, event: context.ContextPagedIn) -> None:
    ref = ItemRef(seq=state.seq, kind="note", tokens=event.tokens, bytes=event.bytes, part="page")
    if state.turn is None:
        push(state, ref)
    else:
        state.notes.append(ref)


def cut(state: State, items: int, kept: tuple[int, ...], summary: ItemRef | None) -> None:
    """Takes the oldest items out of the history, but for the kept ones. What came since is at the other end."""
    keep = set(kept)
    stays = [ref for ref in state.history[:items] if ref.seq in keep]
    first = [summary] if summary is not None else []
    replace_history(state, first + stays + state.history[items:])


def push(state: State, ref: ItemRef) -> None:
    state.history.append(ref)
    state.history_tokens += ref.tokens
    state.history_bytes += ref.bytes


def replace_history(state: State, history: list[ItemRef]) -> None:
    state.history = history
    state.history_tokens = sum(ref.tokens for ref in history)
    state.history_bytes = sum(ref.bytes for ref in history)
    state.measured_tokens = 0


def dirty(state: State, reason: str) -> None:
    """Remembers why the next request will not begin with the last one's bytes."""
    if state.requested_once and reason not in state.prefix_reasons:
        state.prefix_reasons.append(reason)


def hook_ruled(state: State, event: hooks.HookRuled) -> None:
    ruling = event.ruling
    if not ruling.denies or not state.active or state.run is None:
        return
    if ruling.fatal or ruling.point in ("before_model", "after_model"):
        # There is nothing smaller than the run that a denied reply could be taken out of.
        state.run.stop = "hook_denied"


def budget_warned(state: State, event: runs.BudgetWarned) -> None:
    scope = state.run.first_run_id if event.scope == "run" and state.run is not None else "session"
    state.warned[f"{scope}:{event.limit}"] = True
    bounded(state.warned, st.ANSWERED_MAX)


def budget_stopped(state: State, event: runs.BudgetStopped) -> None:
    run = state.run
    assert run is not None
    run.stop = "budget"
    run.stop_limit = event.limit
    if event.wrap_up:
        run.wrapping_up = True


def interrupt_received(state: State, event: runs.InterruptReceived | runs.CancelReceived) -> None:
    """Keeps what the model had written, so that a later turn knows it was cut off."""
    if not isinstance(state.phase, st.AwaitingModel):
        return
    request = state.requests.pop(state.phase.request_id, None)
    if request is not None:
        if event.usage is not None:
            spend(state, request.model, event.usage, cost_of(request, event.usage))
        else:
            spend_lost(state, request)
    if event.tokens:
        push(state, ItemRef(seq=state.seq, kind="assistant", tokens=event.tokens, part="partial"))


EVOLVE: dict[type[Event], Arm] = {
    sessions.SessionStarted: session_started,
    sessions.SessionResumed: session_resumed,
    sessions.SessionForked: session_forked,
    sessions.SessionShutDown: nothing,
    sessions.SessionTotalled: nothing,
    sessions.ChangeReceived: nothing,
    sessions.RewindReceived: nothing,
    sessions.WorkspaceChanged: workspace_changed,
    sessions.InstructionsRendered: instructions_rendered,
    sessions.NoticeGiven: nothing,
    sessions.ContentErased: nothing,
    sessions.AgentChanged: agent_changed,
    sessions.FilesChanged: files_changed,
    sessions.ModelChanged: model_changed,
    sessions.ModeChanged: mode_changed,
    sessions.TitleChanged: title_changed,
    sessions.MetadataChanged: metadata_changed,
    sessions.SettingsChanged: settings_changed,
    sessions.TaskChanged: task_changed,
    sessions.PlanChanged: nothing,
    sessions.PinsChanged: pins_changed,
    sessions.TaskCompleted: task_completed,
    sessions.SessionRewound: session_rewound,
    runs.PromptReceived: prompt_received,
    runs.WakeReceived: nothing,
    runs.InterruptReceived: interrupt_received,
    runs.CancelReceived: interrupt_received,
    runs.QueueEdited: queue_edited,
    runs.SignalReceived: signal_received,
    runs.SignalDisposed: signal_disposed,
    runs.CommandRefused: nothing,
    runs.CommandCompleted: nothing,
    runs.QueueChanged: queue_changed,
    runs.RunStarted: run_started,
    runs.RunCompleted: run_ended,
    runs.RunFailed: run_stopped,
    runs.RunCancelled: run_ended,
    runs.RunInterrupted: run_stopped,
    runs.RunAsked: run_asked,
    runs.RunSlept: run_slept,
    runs.TurnStarted: turn_started,
    runs.TurnFinished: turn_finished,
    runs.TimerSet: timer_set,
    runs.TimerFired: timer_fired,
    runs.TimerCancelled: timer_cancelled,
    runs.BudgetWarned: budget_warned,
    runs.BudgetStopped: budget_stopped,
    turns.ModelRequested: model_requested,
    turns.ModelReplied: model_replied,
    turns.ModelFailed: model_failed,
    turns.RetryPlanned: retry_planned,
    turns.PrefixChanged: prefix_changed,
    turns.OutputExtracted: output_extracted,
    turns.OutputRejected: output_rejected,
    turns.OutputFailed: output_failed,
    calls.ToolRequested: tool_requested,
    calls.ToolPrepared: tool_prepared,
    calls.ToolAllowed: tool_allowed,
    calls.ToolDenied: tool_denied,
    calls.ToolStarted: tool_started,
    calls.ToolDelegated: tool_delegated,
    calls.ToolFinished: tool_finished,
    calls.ToolTimedOut: tool_timed_out,
    calls.ToolSuspended: tool_suspended,
    calls.ToolAsked: nothing,
    calls.ToolResolved: tool_resolved,
    calls.ToolCancelled: tool_cancelled,
    calls.ToolOutcomeUnknown: tool_outcome_unknown,
    calls.ToolSettled: tool_settled,
    calls.ResultReceived: result_received,
    calls.CallReceived: call_received,
    calls.RepeatWarned: repeat_warned,
    calls.MountReceived: mount_received,
    calls.UnmountReceived: unmount_received,
    calls.ToolsetChanged: toolset_changed,
    permissions.PermissionRequested: permission_requested,
    permissions.PermissionApproved: permission_approved,
    permissions.PermissionDenied: permission_denied,
    permissions.PermissionWithdrawn: permission_withdrawn,
    permissions.ApproverMissed: approver_missed,
    permissions.GrantsChanged: grants_changed,
    questions.QuestionRequested: question_requested,
    questions.AnswerReceived: answer_received,
    questions.QuestionWithdrawn: question_withdrawn,
    context.CompactReceived: compact_received,
    context.UndoReceived: nothing,
    context.CompactionStarted: compaction_started,
    context.CompactionFinished: compaction_finished,
    context.CompactionFailed: compaction_failed,
    context.CompactionUndone: compaction_undone,
    context.ContextElided: context_elided,
    context.ContextTruncated: context_truncated,
    context.ContextPagedOut: nothing,
    context.ContextPagedIn: context_paged_in,
    hooks.HookRuled: hook_ruled,
}
