"""Inputs, the queue, runs, turns, timers and signals: how their events change the state."""

from __future__ import annotations

from windlass.events import hooks, runs
from windlass.events.ids import signal_id
from windlass.events.specs import ItemRef
from windlass.kernel import state as st
from windlass.kernel.state import Input, Run, State, Turn, bounded

from .accounts import cost_of, spend, spend_lost
from .history import absorb, flush_notes, push

AWAITING_TOOLS, BETWEEN = st.AwaitingTools(), st.Between()


def between(state: State) -> None:
    """Where an active run is when no request is out: in its turn, with what a person runs meanwhile, or between."""
    state.phase = AWAITING_TOOLS if state.turn is not None or state.calls else BETWEEN


def join(state: State, command: str) -> None:
    """A command that ends when the active run does."""
    if state.active and state.run is not None:
        state.run.commands.append(command)


def command_of(state: State, seq: int) -> str:
    found = state.inputs[seq].command_id
    assert found is not None
    return found


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


def queue_edited(state: State, event: runs.QueueEdited) -> None:
    for name, tokens in event.tokens.items():
        waiting = state.inputs[int(name[1:])]
        waiting.tokens = tokens
        waiting.edited_seq = state.seq


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
