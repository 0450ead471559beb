"""What follows from one fact. The one place where each kind of fact meets the state.

`legal` says when a fact may come; one that may not is refused, and the state is unchanged then. `HANDLERS` give the
direct consequences; `runs.advance` does the rest from the state alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from windlass.events import calls as ce
from windlass.events import context as xe
from windlass.events import permissions as pe
from windlass.events import questions as qe
from windlass.events import runs as re_
from windlass.events import sessions as se
from windlass.events import turns as te
from windlass.events.base import Command, Decision, Event, Fact
from windlass.events.hooks import HookRuled
from windlass.events.ids import grant_id, prompt_id, question_id, signal_id
from windlass.events.specs import Grant, Terms
from windlass.events.usage import ASIDE

from . import builtin, calls, context, governance, requests, runs
from . import state as st
from .evolve import evolve, tick
from .legal import CHECKS, LEGAL, REQUESTING, check
from .state import State

Decisions = Iterator[Decision]


REJECT = "reject"
"""The answer to a plan that leaves the session in plan mode; every other action approves it."""


def step(state: State, fact: Fact, at_ms: int) -> list[Event]:
    """Takes one fact: the fact and the decisions that follow from it, folded into the state as they are made.

    Raises `Refused` where the fact does not fit, and the state is unchanged then. Anything else that is raised is a
    bug: the state must then be thrown away and folded again from the log."""
    check(state, fact)
    tick(state, at_ms, type(fact))
    events: list[Event] = [fact]
    evolve(state, fact)
    for decision in consequences(state, fact):
        evolve(state, decision)
        events.append(decision)
    return events


def consequences(state: State, fact: Fact) -> Decisions:
    """The decisions that follow, one by one; each is folded before the next is asked for."""
    yield from HANDLERS[type(fact)](state, fact)
    yield from runs.advance(state)


# --- the session itself -------------------------------------------------------------------------------------------


def on_nothing(state: State, fact: Fact) -> Decisions:
    """A fact that only `evolve` cares about."""
    yield from ()


def on_resumed(state: State, fact: se.SessionResumed) -> Decisions:
    """A new owner: each intent of an older epoch is issued again or closed, by its contract."""
    yield from rebind(state, fact)
    if isinstance(state.phase, REQUESTING):
        yield from runs.try_again(state)
    for call in [c for c in state.calls.values() if calls.cut_off(state, c)]:
        spec = state.tools.get(call.tool)
        yield from withdraw_inside(state, call.call_id)
        if spec is not None and spec.contract in ("pure", "idempotent"):
            # The code that is here may let fewer calls run at once than ran before: the others wait for a place.
            if state.active and calls.has_place(state, call, spec):
                yield ce.ToolStarted(call_id=call.call_id, epoch=state.epoch, attempt=call.attempt + 1)
        else:
            yield ce.ToolOutcomeUnknown(call_id=call.call_id, settle=spec is not None and spec.settle)


def withdraw_inside(state: State, call_id: str) -> Decisions:
    """Questions that a running tool asked die with it."""
    for ask in [a for a in state.asks.values() if a.call_id == call_id and a.inside]:
        yield qe.QuestionWithdrawn(question_id=ask.ask_id, reason="unknown_outcome")


def rebind(state: State, fact: se.SessionResumed) -> Decisions:
    """Says what differs between the recorded agent and the one bound now; nothing is guessed."""
    if fact.terms is not None:
        yield from adopt(state, fact.terms)
    if fact.agent is None and fact.tools is None:
        return
    now = {spec.name: spec for spec in fact.tools} if fact.tools is not None else dict(state.tools)
    missing = tuple(name for name in state.tools if name not in now)
    added = tuple(name for name in now if name not in state.tools)
    changed = tuple(n for n, spec in now.items() if n in state.tools and state.tools[n].digest != spec.digest)
    agent = fact.agent or state.agent
    if agent != state.agent or missing or added or changed:
        yield se.AgentChanged(previous=state.agent, agent=agent, missing=missing, changed=changed, added=added)
    if added or changed:
        fresh = tuple(now[name] for name in (*added, *changed))
        yield ce.ToolsetChanged(
            operation="reload", phase="applied", tools=fresh, names=(*added, *changed), revision=state.revision + 1
        )
    if missing:
        yield ce.ToolsetChanged(operation="remove", phase="applied", names=missing, revision=state.revision + 1)


def adopt(state: State, terms: Terms) -> Decisions:
    """What the agent's code says otherwise than before holds from here on; what it says as before changes nothing, so
    that what a command changed stays."""
    before = state.terms
    assert before is not None
    if terms.model != before.model:
        yield se.ModelChanged(previous=state.model.name, model=terms.model, reason="resume")
    if terms.policy != before.policy:
        yield se.PolicyChanged(policy=terms.policy)
    if (terms.limits, terms.run_limits) != (before.limits, before.run_limits):
        yield se.LimitsChanged(limits=terms.limits, run_limits=terms.run_limits)
    if terms.settings != before.settings:
        yield se.SettingsChanged(settings=terms.settings, reason="resume")
    if terms.mode != before.mode:
        yield se.ModeChanged(previous=state.mode, mode=terms.mode, reason="resume")


def on_forked(state: State, fact: se.SessionForked) -> Decisions:
    """Nothing that was open at the origin is carried over; the run may be gone on with from here."""
    waiting = tuple(prompt_id(seq) for seq, found in state.inputs.items() if found.kind == "user")
    if waiting:
        yield re_.QueueChanged(operation="dropped", prompt_ids=waiting)
    if state.active:
        yield from runs.stop_all(state, "not_carried_over")
        yield runs.ended(state, re_.RunInterrupted, "superseded")
    elif state.calls or state.timers or isinstance(state.phase, st.Asked):
        yield from runs.begin(state, "cancel", continues=True)
        yield from runs.stop_all(state, "not_carried_over")
        yield runs.ended(state, re_.RunInterrupted, "superseded")


def on_shut_down(state: State, fact: se.SessionShutDown) -> Decisions:
    models = tuple(
        se.ModelTotals(
            model=name,
            requests=totals.requests,
            usage=totals.usage.total(),
            cost_nanos=totals.cost_nanos,
            duration_ms=totals.duration_ms,
        )
        for name, totals in state.totals.items()
    )
    code = se.CodeTotals(
        lines_added=state.code.lines_added, lines_removed=state.code.lines_removed, files=tuple(state.code.files)
    )
    yield se.SessionTotalled(models=models, code=code, current_model=state.model.name, started_ms=state.started_ms)


def on_change(state: State, fact: se.ChangeReceived) -> Decisions:
    change = fact.change
    match change:
        case se.ChangeModel():
            yield se.ModelChanged(previous=state.model.name, model=change.model)
        case se.ChangeMode():
            if change.mode != state.mode:
                yield se.ModeChanged(previous=state.mode, mode=change.mode)
        case se.ChangeTitle():
            yield se.TitleChanged(title=change.title[:200])
        case se.ChangeMetadata():
            yield se.MetadataChanged(metadata=change.metadata)
        case se.ChangeTask():
            yield se.TaskChanged(task=change.task, fields=("task",))
        case se.ChangePins():
            yield se.PinsChanged(pinned=change.pin, unpinned=change.unpin)
        case se.ChangeGrants():
            yield pe.GrantsChanged(added=change.add, revoked=change.revoke)
        case se.ChangeSettings():
            yield se.SettingsChanged(settings=change.settings)
    yield runs.done(fact.command_id)


def on_rewind(state: State, fact: se.RewindReceived) -> Decisions:
    yield se.SessionRewound(
        to_seq=fact.to_seq,
        items_before=len(state.history),
        items_after=len(fact.restored),
        history=fact.restored,
    )
    yield runs.done(fact.command_id)


# --- prompts, wakes, stops ----------------------------------------------------------------------------------------


def on_prompt(state: State, fact: re_.PromptReceived) -> Decisions:
    seq = state.seq
    for ruling in fact.hooks:
        yield HookRuled(ruling=ruling)
    if any(ruling.denies for ruling in fact.hooks):
        yield re_.QueueChanged(operation="dropped", prompt_ids=(prompt_id(seq),))
        yield runs.done(fact.command_id, "denied by a hook")
        return
    behavior = fact.behavior or ("steer" if state.settings.on_busy == "steer" else None)
    replaces = fact.behavior is None and state.settings.on_busy == "interrupt"
    this = (fact.command_id,)
    if state.active:
        if replaces:
            yield from runs.interrupt(state, "superseded")
            yield from runs.begin(state, "prompt", this, options=fact.options)
        else:
            steers = behavior == "steer"
            operation: Any = "steering" if steers else "queued"
            yield re_.QueueChanged(operation=operation, prompt_ids=(prompt_id(seq),))
    elif state.calls and (behavior == "steer" or replaces):
        yield from runs.begin(state, "prompt", this, continues=True, options=fact.options)
        yield from calls.give_up(state, "superseded")
    elif state.calls:
        yield re_.QueueChanged(operation="queued", prompt_ids=(prompt_id(seq),))
    else:
        yield from drop_retry(state)
        goes_on = isinstance(state.phase, st.Asleep | st.Asked)
        yield from runs.begin(state, "prompt", this, continues=goes_on, options=fact.options)


def drop_retry(state: State) -> Decisions:
    """A waiting retry is overtaken by whatever makes the session go on now."""
    for timer in [t for t in state.timers.values() if t.kind == "retry"]:
        yield re_.TimerCancelled(timer_id=timer.timer_id, reason="superseded")


def on_wake(state: State, fact: re_.WakeReceived) -> Decisions:
    this = (fact.command_id,)
    due = min(state.timers.values(), key=lambda timer: (timer.at_ms, timer.seq), default=None)
    if state.active:
        if isinstance(state.phase, st.BackingOff):
            yield re_.TimerCancelled(timer_id=state.phase.timer_id, reason="woken")
            yield from runs.try_again(state)
            yield runs.done(fact.command_id, "the next attempt is made now")
        else:
            yield runs.done(fact.command_id, "the session is at work already")
    elif state.calls:
        yield runs.done(fact.command_id, "the session waits for an answer")
    elif due is not None:
        yield re_.TimerCancelled(timer_id=due.timer_id, reason="woken")
        yield from runs.begin(state, "wake", this, continues=True)
    elif state.resumable and state.run is not None:
        yield from runs.begin(state, "wake", this, continues=True)
    elif state.queue:
        yield from runs.take_next(state)
        yield runs.done(fact.command_id, "the queue goes on")
    else:
        yield runs.done(fact.command_id, "nothing to wake")


def on_interrupt(state: State, fact: re_.InterruptReceived) -> Decisions:
    if state.active:
        yield from runs.interrupt(state)
        yield runs.done(fact.command_id)
    elif state.calls:
        # Nobody waits for these answers any more: what was asked is withdrawn, and a later word goes on from there.
        yield from runs.begin(state, "interrupt", continues=True)
        yield from runs.interrupt(state)
        yield runs.done(fact.command_id)
    elif state.timers:
        for timer in list(state.timers.values()):
            yield re_.TimerCancelled(timer_id=timer.timer_id, reason="cancelled")
        yield runs.done(fact.command_id, "the wake is cancelled")
    else:
        yield runs.done(fact.command_id, "nothing to interrupt")


def on_cancel(state: State, fact: re_.CancelReceived) -> Decisions:
    if not state.active and (state.resumable or state.timers):
        yield from drop_retry(state)
        yield from runs.begin(state, "cancel", continues=True)
    if state.active:
        yield from runs.cancel(state)
        yield runs.done(fact.command_id)
    else:
        yield runs.done(fact.command_id, "nothing to cancel")


def on_queue_edited(state: State, fact: re_.QueueEdited) -> Decisions:
    keep = set(fact.order)
    gone = tuple(prompt_id(seq) for seq in state.queue if prompt_id(seq) not in keep)
    commands = [state.inputs[seq].command_id for seq in state.queue if prompt_id(seq) not in keep]
    if gone:
        yield re_.QueueChanged(operation="dropped", prompt_ids=gone)
    yield re_.QueueChanged(operation="edited", prompt_ids=fact.order)
    for command in commands:
        if command is not None:
            yield runs.done(command, "taken out of the queue")
    yield runs.done(fact.command_id)


def on_signal(state: State, fact: re_.SignalReceived) -> Decisions:
    signal = state.signals[-1]
    urgent = fact.urgency in ("critical", "high")
    disposition: Any = "observed" if fact.urgency == "low" else "queued"
    if signal.duplicate:
        disposition = "duplicate"
    elif disposition == "queued" and sum(i.part == "signal" for i in state.inputs.values()) >= st.SIGNALS_MAX:
        disposition = "dropped"
    elif urgent:
        disposition = "steer" if state.active or isinstance(state.phase, st.Asked) else "run"
    starts = disposition == "run"
    yield re_.SignalDisposed(signal_id=signal_id(signal.seq), disposition=disposition)
    if starts:
        yield from drop_retry(state)
        yield from runs.begin(state, "signal", (fact.command_id,), continues=isinstance(state.phase, st.Asleep))
    else:
        yield runs.done(fact.command_id)


def on_timer(state: State, fact: re_.TimerFired) -> Decisions:
    if isinstance(state.phase, st.BackingOff) and fact.timer_id == state.phase.timer_id:
        yield from runs.try_again(state)
    elif not state.active and not state.calls:
        yield from runs.begin(state, "timer", continues=isinstance(state.phase, st.Asleep | st.Asked))


# --- the model ----------------------------------------------------------------------------------------------------


def on_replied(state: State, fact: te.ModelReplied) -> Decisions:
    seq = state.seq
    for ruling in fact.hooks:
        yield HookRuled(ruling=ruling)
    if fact.lane in ASIDE:
        return
    if isinstance(state.phase, st.Compacting):
        yield from context.finish(state, fact, seq)
        return
    yield from calls.propose(state, fact, seq)
    if not fact.calls and not fact.empty:
        yield from check_output(state, fact, seq)


def check_output(state: State, fact: te.ModelReplied, seq: int) -> Decisions:
    """Where an answer must fit a schema: take it, ask again with the errors, or fail honestly."""
    run = state.run
    assert run is not None
    if not state.output_required() or fact.finish not in ("stop", "length", "stop_sequence", "other"):
        return
    assert fact.body is not None
    found = fact.body.output
    errors = found.errors if found is not None else ("nothing here could check the answer",)
    attempts = run.output_attempts + 1
    if found is not None and found.valid:
        yield te.OutputExtracted(reply_seq=seq, attempts=attempts, warnings=found.warnings)
    elif found is not None and run.output_attempts < state.settings.output_reasks_max and not run.wrapping_up:
        yield te.OutputRejected(reply_seq=seq, attempt=attempts, errors=errors)
    else:
        yield te.OutputFailed(reply_seq=seq, attempts=attempts, errors=errors)


def on_asked(state: State, fact: te.ModelAsked) -> Decisions:
    yield requests.aside(state, fact)


def on_failed(state: State, fact: te.ModelFailed) -> Decisions:
    run = state.run
    assert run is not None
    why = fact.failure
    for ruling in fact.hooks:
        yield HookRuled(ruling=ruling)
    if fact.lane in ASIDE:
        # Whoever asked waits in this process, so a wait that would outlast a run is no use to it.
        waits = requests.plan(state, why, fact.attempt, fact.sample, 0).chosen_ms
        if why.retryable and fact.attempt <= state.settings.retries_max and waits <= state.settings.sleep_over_ms:
            yield from requests.retry(state, fact, fact.attempt, state.settings.retries_max)
        return
    waits = requests.plan(state, why, run.attempts, fact.sample, 0).chosen_ms
    if state.compaction.attempt == 0:
        # Where it is not tried again, what follows is decided from the state when the turn is over.
        if why.retryable and run.attempts <= state.settings.retries_max:
            yield from requests.retry(state, fact, run.attempts, state.settings.retries_max)
        return
    most = state.settings.compact_attempts_max
    if why.retryable and run.attempts <= most and waits <= state.settings.sleep_over_ms:
        yield from requests.retry(state, fact, run.attempts, most)
    else:
        yield from context.give_up(state, "model", why)


# --- calls, permissions, questions --------------------------------------------------------------------------------


def on_prepared(state: State, fact: ce.ToolPrepared) -> Decisions:
    yield from calls.prepared(state, fact)


def on_outcome(state: State, fact: ce.ToolFinished | ce.ResultReceived) -> Decisions:
    if isinstance(fact, ce.ToolFinished):
        for ruling in fact.hooks:
            yield HookRuled(ruling=ruling)
    for ask in [a for a in state.asks.values() if a.call_id == fact.call_id and a.inside]:
        yield qe.QuestionWithdrawn(question_id=ask.ask_id, reason="superseded")
    yield from changed_files(fact)


def changed_files(
    fact: ce.ToolFinished | ce.ResultReceived | ce.ToolTimedOut | ce.ToolSuspended,
) -> Decisions:
    """What a tool reported to have changed holds however its call ended."""
    if fact.changes:
        yield se.FilesChanged(call_id=fact.call_id, changes=fact.changes)


def on_timed_out(state: State, fact: ce.ToolTimedOut) -> Decisions:
    for ask in [a for a in state.asks.values() if a.call_id == fact.call_id and a.inside]:
        yield qe.QuestionWithdrawn(question_id=ask.ask_id, reason="superseded")
    yield from changed_files(fact)


def on_suspended(state: State, fact: ce.ToolSuspended) -> Decisions:
    yield from changed_files(fact)


def on_tool_asked(state: State, fact: ce.ToolAsked) -> Decisions:
    assert fact.body is not None
    kind: Any = "form" if fact.body.form is not None else "choice"
    yield qe.QuestionRequested(
        question_id=question_id(state.seq + 1), call_id=fact.call_id, kind=kind, inside=True, body=fact.body
    )


def go_on(state: State, trigger: runs.Trigger, command: str) -> Decisions:
    """An answer to a session whose run ended asked: the run that continues it begins; else it joins the active one."""
    if not state.active:
        yield from runs.begin(state, trigger, (command,), continues=True)


def on_settled(state: State, fact: ce.ToolSettled) -> Decisions:
    yield from go_on(state, "settle", fact.command_id)


def on_result(state: State, fact: ce.ResultReceived) -> Decisions:
    yield from go_on(state, "result", fact.command_id)
    yield from on_outcome(state, fact)


def on_call(state: State, fact: ce.CallReceived) -> Decisions:
    seq = state.seq
    if not state.active:
        goes_on = isinstance(state.phase, st.Asked | st.Asleep)
        yield from runs.begin(state, "call", (fact.command_id,), continues=goes_on)
    yield from calls.receive(state, fact, seq)


def on_approved(state: State, fact: pe.PermissionApproved) -> Decisions:
    ask = state.asks[fact.request_id]
    call = state.calls[ask.call_id]
    yield from go_on(state, "approval", fact.command_id)
    spec = state.tools.get(call.tool)
    if spec is None:
        yield calls.denied(call, "unavailable_tool", f"{call.tool!r} is not there any more")
        return
    if governance.approval_digest(state, spec, call.digest) != ask.digest:
        yield calls.denied(call, "digest_changed", "the tool or the policy changed since this was approved; ask again")
        return
    yield ce.ToolAllowed(call_id=call.call_id, by="person", rule=fact.request_id)
    if fact.scope != "once":
        pattern = fact.pattern if fact.scope == "pattern" else None
        grant = Grant(grant_id=grant_id(state.seq), tool=call.tool, pattern=pattern, by=fact.actor)
        yield pe.GrantsChanged(added=(grant,))


def on_denied(state: State, fact: pe.PermissionDenied) -> Decisions:
    seq = state.seq
    call = state.calls[state.asks[fact.request_id].call_id]
    yield from go_on(state, "approval", fact.command_id)
    yield calls.denied(call, "person", "a person denied this", stop=fact.stop, feedback_seq=seq if fact.body else None)
    if fact.stop:
        yield from runs.interrupt(state)


def on_answer(state: State, fact: qe.AnswerReceived) -> Decisions:
    yield from go_on(state, "answer", fact.command_id)
    if fact.outcome != "answered" or fact.action is None:
        return
    if fact.body is not None and fact.body.edited is not None:
        yield se.PlanChanged(operation="update")
        plan = fact.body.edited[: builtin.TEXT_CHARS_MAX]
        yield se.TaskChanged(task=msgspec.structs.replace(state.task, plan=plan), fields=("plan",))
    if fact.action == REJECT or state.mode != "plan":
        return
    mode = fact.mode or "interactive"
    if mode != state.mode:
        yield se.ModeChanged(previous=state.mode, mode=mode)


# --- tools and context --------------------------------------------------------------------------------------------


def on_mount(state: State, fact: ce.MountReceived) -> Decisions:
    staged = state.staged[-1]
    names = tuple(spec.name for spec in fact.tools)
    yield ce.ToolsetChanged(operation=staged.operation, phase="pending", target=fact.source, names=names)
    if not state.active and not state.calls:
        yield from runs.apply_staged(state)
    yield runs.done(fact.command_id)


def on_unmount(state: State, fact: ce.UnmountReceived) -> Decisions:
    yield ce.ToolsetChanged(operation="remove", phase="pending", names=fact.tools)
    if fact.force and not state.active and calls.of_tools(state, fact.tools):
        # Its calls are given up, and the turn that waited for them goes on.
        yield from runs.begin(state, "unmount", continues=True)
    if fact.force or (not state.active and not state.calls):
        yield from runs.apply_staged(state)
    elif calls.of_tools(state, fact.tools):
        yield ce.ToolsetChanged(operation="remove", phase="draining", names=fact.tools)
    yield runs.done(fact.command_id)


def on_missed(state: State, fact: pe.ApproverMissed) -> Decisions:
    """In autopilot nobody is waited for, not even for what was asked before it began."""
    if state.mode != "autopilot":
        return
    for ask in [ask for ask in state.asks.values() if ask.missed and not ask.inside]:
        yield calls.denied(state.calls[ask.call_id], "no_approver", "nobody is there to answer this in autopilot")


def on_compact(state: State, fact: xe.CompactReceived) -> Decisions:
    if not state.active:
        yield from drop_retry(state)
        yield from runs.begin(state, "compact", (fact.command_id,), continues=isinstance(state.phase, st.Asleep))
        yield from context.make_room(state)
    else:
        yield runs.done(fact.command_id, "the history will be compacted at the next boundary")


def on_undo(state: State, fact: xe.UndoReceived) -> Decisions:
    yield xe.CompactionUndone(items_before=len(state.history), items_after=len(fact.restored), history=fact.restored)
    yield runs.done(fact.command_id)


HANDLERS: dict[type[Fact], Callable[[State, Any], Decisions]] = {
    se.SessionStarted: on_nothing,
    se.SessionResumed: on_resumed,
    se.SessionForked: on_forked,
    se.SessionShutDown: on_shut_down,
    se.ChangeReceived: on_change,
    se.RewindReceived: on_rewind,
    se.WorkspaceChanged: on_nothing,
    se.InstructionsRendered: on_nothing,
    se.NoticeGiven: on_nothing,
    se.ContentErased: on_nothing,
    re_.PromptReceived: on_prompt,
    re_.WakeReceived: on_wake,
    re_.InterruptReceived: on_interrupt,
    re_.CancelReceived: on_cancel,
    re_.QueueEdited: on_queue_edited,
    re_.SignalReceived: on_signal,
    re_.CommandRefused: on_nothing,
    re_.TimerFired: on_timer,
    te.ModelAsked: on_asked,
    te.ModelReplied: on_replied,
    te.ModelFailed: on_failed,
    ce.ToolPrepared: on_prepared,
    ce.ToolFinished: on_outcome,
    ce.ToolTimedOut: on_timed_out,
    ce.ToolSuspended: on_suspended,
    ce.ToolAsked: on_tool_asked,
    ce.ToolSettled: on_settled,
    ce.ResultReceived: on_result,
    ce.CallReceived: on_call,
    ce.MountReceived: on_mount,
    ce.UnmountReceived: on_unmount,
    pe.PermissionApproved: on_approved,
    pe.PermissionDenied: on_denied,
    pe.ApproverMissed: on_missed,
    qe.AnswerReceived: on_answer,
    xe.CompactReceived: on_compact,
    xe.UndoReceived: on_undo,
    xe.ContextArchived: on_nothing,
    xe.ContextPagedIn: on_nothing,
}


def is_command(fact: Fact) -> bool:
    """Whether a fact is a command, and so must be taken from the inbox."""
    return isinstance(fact, Command)


__all__ = ["CHECKS", "HANDLERS", "LEGAL", "check", "consequences", "is_command", "step"]
