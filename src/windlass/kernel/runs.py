"""Runs: how one starts, what happens at each boundary, and the six ways in which it ends.

`advance` is level-triggered: it looks at the state alone and goes on until the session waits for the world again, so
nothing depends on which fact came last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from windlass.events.base import Decision
from windlass.events.calls import ToolsetChanged
from windlass.events.context import CompactionFailed
from windlass.events.failures import Failure, StopReason, cause_of, failure
from windlass.events.ids import prompt_id, run_id, turn_id
from windlass.events.runs import (
    BudgetStopped,
    CommandCompleted,
    QueueChanged,
    RunAsked,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunSlept,
    RunStarted,
    Terminal,
    TimerCancelled,
    TurnFinished,
    TurnStarted,
)
from windlass.events.specs import RunOptions

from . import budgets, calls, context, requests
from . import state as st
from .evolve import OVERFLOW
from .state import Staged, State, Timer

STEPS_MAX = 1_000
"""More steps without an answer from the world than this are a bug, not work."""

Trigger = Literal[
    "prompt",
    "answer",
    "approval",
    "result",
    "settle",
    "wake",
    "timer",
    "signal",
    "call",
    "cancel",
    "interrupt",
    "compact",
    "unmount",
]

CREDENTIALS = ("auth", "reauth_required", "no_credentials")

STOP_OF_LIMIT: dict[str, StopReason] = {
    "tokens": "token_budget",
    "money": "money_budget",
    "turns": "max_turns",
    "calls": "call_budget",
    "time": "time_budget",
    "price": "money_budget",
}


def advance(state: State) -> Iterator[Decision]:
    """Goes on until the session waits for a model, a tool, a person, a time or a command."""
    for _ in range(STEPS_MAX):
        match state.phase:
            case st.AwaitingTools():
                yield from calls.dispatch(state)
                if not state.open_calls():
                    # A call that a person made outside of a turn leaves none to finish.
                    yield from close_turn(state)
                elif calls.owed_by_people(state):
                    yield ended(state, RunAsked, "awaiting_people", waiting_for=waiting_ids(state))
                else:
                    return
            case st.Between():
                yield from boundary(state)
            case st.Idle() | st.Asleep() if state.staged:
                # A run that was stopped came to no boundary; rest is one.
                yield from apply_staged(state)
            case st.Idle() | st.Asleep() if state.queue and not state.held and not retry_waits(state):
                yield from take_next(state)
            case st.AwaitingModel() | st.Compacting():
                # What a person runs meanwhile needs no turn.
                yield from calls.dispatch(state)
                return
            case st.BackingOff():
                yield from calls.dispatch(state)
                yield from perhaps_sleep(state)
                return
            case _:
                return
    raise AssertionError("the session goes on and on without waiting for anything")


def perhaps_sleep(state: State) -> Iterator[Decision]:
    """A long wait for a provider is no reason to keep a run going; what a person runs meanwhile is."""
    assert isinstance(state.phase, st.BackingOff)
    at_ms = state.timers[state.phase.timer_id].at_ms
    if at_ms - state.now_ms > state.settings.sleep_over_ms and not state.open_calls():
        assert state.run is not None
        why = state.run.failure
        yield from close_turn(state)
        yield ended(state, RunSlept, "awaiting_time", wake_at_ms=at_ms, failure=why)


def retry_waits(state: State) -> bool:
    """Whether the session sleeps because a provider wants to be left alone."""
    return any(timer.kind == "retry" for timer in state.timers.values())


def waiting_ids(state: State) -> tuple[str, ...]:
    """What the people or clients who owe something must answer, by id."""
    return tuple(call.ask_id or call.call_id for call in state.open_calls())


def turn_over(state: State) -> Decision:
    turn = state.turn
    assert turn is not None
    return TurnFinished(finish=turn.finish, calls=len(turn.calls))  # type: ignore[arg-type]


# --- starting -----------------------------------------------------------------------------------------------------


def begin(
    state: State,
    trigger: Trigger,
    commands: tuple[str, ...] = (),
    *,
    continues: bool = False,
    options: RunOptions | None = None,
) -> Iterator[Decision]:
    """Opens a run, one that goes on with the last where `continues`."""
    if state.held:
        yield QueueChanged(operation="released")
    previous = state.run.run_id if continues and state.run is not None else None
    yield RunStarted(
        run_id=run_id(state.seq + 1), commands=commands, continues=previous, trigger=trigger, options=options
    )


def take_next(state: State) -> Iterator[Decision]:
    """Opens a run for the prompt that has waited longest."""
    seq = state.queue[0]
    waiting = state.inputs[seq]
    yield QueueChanged(operation="taken", prompt_ids=(prompt_id(seq),))
    command = (waiting.command_id,) if waiting.command_id is not None else ()
    yield from begin(state, "prompt", command, options=waiting.options)


# --- ending -------------------------------------------------------------------------------------------------------


def ended(state: State, kind: type[Terminal], stop: StopReason, **more: Any) -> Terminal:
    """The terminal of the current run, with what it used and the commands that end with it."""
    run = state.run
    assert run is not None
    return kind(
        run_id=run.run_id,
        stop=stop,
        commands=tuple(run.commands),
        usage=run.usage_here.total(),
        cost_nanos=run.cost_here,
        turns=run.turns_here,
        **more,
    )


def fail(state: State, stop: StopReason, why: Failure) -> Iterator[Decision]:
    """Ends the run as failed; waiting prompts are held until somebody looks."""
    yield from close_turn(state)
    yield from keep_inputs(state)
    if state.queue:
        yield QueueChanged(operation="held")
    yield ended(state, RunFailed, stop, failure=why, cause=cause_of(why))


def keep_inputs(state: State) -> Iterator[Decision]:
    """Prompts that the run took and the model has not seen enter the history: no accepted input is lost."""
    unused = tuple(prompt_id(seq) for seq in state.steering if state.inputs[seq].kind == "user")
    if unused:
        yield QueueChanged(operation="absorbed", prompt_ids=unused)


def close_turn(state: State) -> Iterator[Decision]:
    """Ends an open turn whose calls all have their results."""
    if state.turn is not None:
        yield turn_over(state)


def stop_all(
    state: State, reason: Literal["interrupted", "cancelled", "superseded", "not_carried_over"]
) -> Iterator[Decision]:
    """Closes all that is open: asks, calls, a compaction, the turn, timers that wait."""
    yield from calls.give_up(state, reason)
    if state.compaction.attempt:
        yield CompactionFailed(reason="interrupted")
    yield from close_turn(state)
    if reason != "superseded":
        for timer in [t for t in state.timers.values() if t.kind == "wait"]:
            why: Literal["cancelled", "not_carried_over"] = (
                "not_carried_over" if reason == "not_carried_over" else "cancelled"
            )
            yield TimerCancelled(timer_id=timer.timer_id, reason=why)


def interrupt(state: State, stop: StopReason = "user_abort") -> Iterator[Decision]:
    """Stops the active run; it may go on. The queue is held until the next command."""
    yield from stop_all(state, "interrupted")
    yield from keep_inputs(state)
    if state.queue:
        yield QueueChanged(operation="held")
    yield ended(state, RunInterrupted, stop)


def cancel(state: State) -> Iterator[Decision]:
    """Closes the active run for good."""
    yield from stop_all(state, "cancelled")
    yield from keep_inputs(state)
    yield ended(state, RunCancelled, "user_abort")


# --- the boundary between two turns -------------------------------------------------------------------------------


def boundary(state: State) -> Iterator[Decision]:
    """A run is active and no turn is open: end it, make room, or start the next turn."""
    run = state.run
    assert run is not None
    yield from apply_staged(state)
    said = any(not state.inputs[seq].waits for seq in state.steering)
    if retry_waits(state):
        at_ms = min(timer.at_ms for timer in state.timers.values() if timer.kind == "retry")
        yield ended(state, RunSlept, "awaiting_time", wake_at_ms=at_ms)
        return
    if run.stop is not None and not (run.stop == "completed" and said):
        yield from stop_as_said(state)
        return
    if run.failure is not None and not may_make_room(state):
        yield from end_by_failure(state, run.failure)
        return
    if run.reasks > state.settings.argument_reasks_max:
        why = failure("tool_arguments", f"the model's calls could not be read {run.reasks} times in a row")
        yield from fail(state, "error", why)
        return
    if run.empty_replies > state.settings.empty_replies_max:
        why = failure("empty_reply", f"the model answered with nothing {run.empty_replies} times")
        yield from fail(state, "error", why)
        return
    if run.task_done and not said:
        yield from come_to_rest(state)
        return
    if not run.turn_owed and not said:
        yield from wind_down(state)
        return
    yield from next_turn(state)


def may_make_room(state: State) -> bool:
    """Whether the failure that ended the turn is answered by a smaller request."""
    return state.compaction.wanted == "overflow" and bool(context.movable(state))


def end_by_failure(state: State, why: Failure) -> Iterator[Decision]:
    """The last request failed and is not made again: what the run comes to follows from the kind of failure."""
    run = state.run
    assert run is not None
    if why.kind in OVERFLOW:
        yield from fail(state, "context_overflow", why)
    elif why.kind in CREDENTIALS:
        yield ended(state, RunAsked, "awaiting_credentials", waiting_for=("credentials",), failure=why)
    elif why.retryable:
        spent = failure(
            "retries_exhausted",
            f"gave up after {run.attempts} attempts: {why.message}",
            provider=why.provider,
            model=why.model,
            status=why.status,
            detail={"last": why.kind},
        )
        yield from fail(state, "retries_exhausted", spent)
    else:
        stops: dict[str, StopReason] = {"refused": "refused", "hook_denied": "hook_denied"}
        yield from fail(state, stops.get(why.kind, "error"), why)


def stop_as_said(state: State) -> Iterator[Decision]:
    """Ends the run for the reason that is set."""
    run = state.run
    assert run is not None
    match run.stop:
        case "hook_denied":
            yield from fail(state, "hook_denied", failure("hook_denied", "a hook ended the run"))
        case "repeated":
            yield from fail(state, "no_progress", failure("no_progress", "the same call was made again and again"))
        case "output_invalid":
            yield from fail(state, "output_invalid", failure("output_invalid", "no answer fitted the output schema"))
        case "budget":
            yield from stop_at_limit(state)
        case _:
            yield from come_to_rest(state)


def stop_at_limit(state: State) -> Iterator[Decision]:
    run = state.run
    assert run is not None
    if run.stop_limit == "price":
        why = failure("price_unknown", f"money is limited and the price of {state.current_model.name!r} is unknown")
        yield from fail(state, "money_budget", why)
    else:
        cause = "time_budget_exceeded" if run.stop_limit == "time" else "budget_exhausted"
        cause = "turn_limit_reached" if run.stop_limit == "turns" else cause
        yield from keep_inputs(state)
        yield ended(state, RunCompleted, STOP_OF_LIMIT[run.stop_limit], cause=cause)


def wind_down(state: State) -> Iterator[Decision]:
    """The model has nothing more to do: is that an end, or should it be nudged on?"""
    run = state.run
    assert run is not None
    nudged = state.mode == "autopilot" and run.last_finish != "refusal" and not run.task_was_done and not waits(state)
    if run.turns_here == 0:
        yield from come_to_rest(state)
    elif run.last_finish == "content_filter":
        yield from fail(state, "content_filtered", failure("content_filtered", "the provider filtered the answer"))
    elif run.last_finish == "error":
        yield from fail(state, "error", failure("malformed_reply", "the model's answer ended in an error"))
    elif run.last_finish == "length" and state.settings.continue_on_length and run.nudges < state.settings.nudges_max:
        yield from next_turn(state, note="continue")
    elif nudged and run.nudges < state.settings.nudges_max:
        yield from next_turn(state, note="nudge")
    elif nudged and "complete_task" in state.tools:
        yield from fail(state, "no_progress", failure("no_progress", "the agent stopped without completing its task"))
    else:
        yield from come_to_rest(state)


def come_to_rest(state: State) -> Iterator[Decision]:
    """Ends the run well: asleep where a timer is set, else completed."""
    run = state.run
    assert run is not None
    due = waits(state)
    if due and not run.task_done:
        yield ended(state, RunSlept, "awaiting_time", wake_at_ms=min(timer.at_ms for timer in due))
        return
    stop: StopReason = "completed"
    if run.task_done:
        stop = "task_complete"
        for timer in due:
            yield TimerCancelled(timer_id=timer.timer_id, reason="superseded")
    elif run.last_finish == "length" and run.turns_here:
        stop = "max_tokens"
    elif run.last_finish == "refusal" and run.turns_here:
        stop = "refused"
    yield ended(state, RunCompleted, stop)


def waits(state: State) -> list[Timer]:
    """The timers that the agent set itself."""
    return [timer for timer in state.timers.values() if timer.kind == "wait"]


def next_turn(state: State, note: str | None = None) -> Iterator[Decision]:
    """Checks the budgets, makes room where it is needed, and calls the model."""
    run = state.run
    assert run is not None
    if not state.history and not state.steering and not state.notes:
        yield from come_to_rest(state)
        return
    yield from budgets.warnings(state)
    tokens = context.context_tokens(state)
    limit = over_limit(state, tokens)
    if limit is None or limit.limit in ("tokens", "money"):
        # A smaller request may fit into what is left.
        before = state.seq
        yield from context.make_room(state)
        if isinstance(state.phase, st.Compacting):
            return
        if state.seq != before:
            tokens = context.context_tokens(state)
            limit = over_limit(state, tokens)
    wrap_up = False
    if limit is not None:
        wrap_up = may_wrap_up(state, limit, tokens)
        yield BudgetStopped(
            limit=limit.limit, scope=limit.scope, used=limit.used, allowed=limit.allowed, wrap_up=wrap_up
        )
        if not wrap_up:
            yield from stop_at_limit(state)
            return
    output = budgets.output_room(state, tokens)
    yield from requests.prefix(state, output, wrap_up=wrap_up)
    notes = (note,) if note is not None else ()
    if not notes and not state.steering and not state.notes and state.history[-1].kind == "assistant":
        # A request that ends with the model's own words asks for nothing.
        notes = ("continue",)
    yield TurnStarted(
        turn_id=turn_id(state.seq + 1),
        number=state.turns + 1,
        absorbs=tuple(state.steering),
        notes=(*notes, "wrap_up") if wrap_up else notes,
        wrap_up=wrap_up,
    )
    yield requests.intend(state, "main", tokens, output, attempt=run.attempts + 1)


def try_again(state: State) -> Iterator[Decision]:
    """The next attempt of a request that failed, where the budgets still allow it."""
    run = state.run
    assert run is not None
    summary = state.compaction.attempt > 0
    tokens = context.summary_tokens(state) if summary else context.context_tokens(state)
    model = state.summary_model if summary else state.current_model
    limit = budgets.exhausted(state, tokens, model, budgets.WITHIN_A_TURN)
    if limit is None:
        output = budgets.output_room(state, tokens, model)
        if not summary:
            assert state.turn is not None
            yield from requests.prefix(state, output, wrap_up=state.turn.wrap_up)
        lane: Literal["main", "compact"] = "compact" if summary else "main"
        yield requests.intend(state, lane, tokens, output, attempt=run.attempts + 1)
    elif summary:
        yield from context.give_up(state, "budget")
    else:
        yield limit
        yield from close_turn(state)


def over_limit(state: State, tokens: int) -> BudgetStopped | None:
    run = state.run
    assert run is not None
    found = budgets.exhausted(state, tokens)
    if found is None and run.spent.turns >= state.settings.turns_max:
        most = state.settings.turns_max
        found = BudgetStopped(limit="turns", scope="run", used=run.spent.turns, allowed=most)
    return found


def may_wrap_up(state: State, limit: BudgetStopped, tokens: int) -> bool:
    """One last turn without tools, where the limit that was met leaves room for it."""
    run = state.run
    assert run is not None
    if run.wrapping_up or run.turns_here == 0 or limit.limit not in ("turns", "calls"):
        return False
    return budgets.output_room(state, tokens) >= min(budgets.OUTPUT_TOKENS_MIN, state.current_model.max_output_tokens)


# --- the tool set -------------------------------------------------------------------------------------------------


def apply_staged(state: State) -> Iterator[Decision]:
    """Puts staged changes of the tool set in force, in order. A turn boundary is the place for that; only a forced
    removal does not wait for one, and gives up the calls that are open."""
    while state.staged:
        change = state.staged[0]
        problem = mount_problem(state, change)
        if problem:
            names = tuple(spec.name for spec in change.tools)
            yield ToolsetChanged(
                operation=change.operation, phase="failed", target=change.target, names=names, error=problem
            )
            continue
        busy = calls.of_tools(state, change.names)
        if busy:
            yield from calls.take_away(state, busy)
        yield applied(state, change, "forced" if busy else "applied")


def mount_problem(state: State, change: Staged) -> str:
    """Why staged tools cannot be offered after all, by now; empty where they can."""
    mounted = {spec.name: spec for spec in change.tools}
    if len(state.tools.keys() | mounted.keys()) > st.TOOLS_MAX:
        return f"at most {st.TOOLS_MAX} tools"
    taken = {spec.alias or spec.name: spec.name for spec in state.tools.values() if spec.name not in mounted}
    for spec in change.tools:
        shown = spec.alias or spec.name
        if shown in taken:
            return f"the model-side name {shown!r} is taken by {taken[shown]!r}"
        taken[shown] = spec.name
    return ""


def applied(state: State, change: Staged, phase: Literal["applied", "forced"]) -> ToolsetChanged:
    names = change.names or tuple(spec.name for spec in change.tools)
    return ToolsetChanged(
        operation=change.operation,
        phase=phase,
        target=change.target,
        tools=change.tools,
        names=names,
        revision=state.revision + 1,
        hidden=sum(spec.deferred for spec in change.tools),
    )


def done(command: str, note: str = "") -> CommandCompleted:
    """The terminal of a command that needs no run."""
    return CommandCompleted(command_id=command, note=note)
