"""The program of an agent: what comes next when nothing is out.

    AwaitingTools ─▶ calls are started ─▶ all closed: the turn is over ─▶ Between
    Between ─▶ the run ends (a failure, a limit, the answer, a rest) │ room is made │ the next turn begins
    Idle, Asleep ─▶ the next prompt of the queue

`advance` is level-triggered: it looks at the state alone and goes on until the session waits for the world again, so
nothing depends on which fact came last.
"""

from __future__ import annotations

from typing import assert_never

from windlass.events.budgets import BudgetStopped
from windlass.events.errors import KernelError
from windlass.events.runs import RunAsked, RunCompleted, RunSlept
from windlass.events.timers import TimerCancelled
from windlass.events.trees.worktrees import WorktreeMerging
from windlass.events.turns import TurnStarted
from windlass.events.values.failures import Failure, StopReason, failure
from windlass.events.values.ids import turn_id
from windlass.kernel import parts
from windlass.kernel.part import Decisions
from windlass.kernel.parts.context import compaction, context_size, prefix
from windlass.kernel.parts.flows import node_graph
from windlass.kernel.parts.flows import program as flow
from windlass.kernel.parts.machines import loop_guard, states
from windlass.kernel.parts.machines import program as machine
from windlass.kernel.parts.tools import dispatch, open_calls, toolset
from windlass.kernel.parts.trees import child_side, grants, worktrees
from windlass.kernel.phases import (
    Asked,
    Asleep,
    AwaitingModel,
    AwaitingTools,
    BackingOff,
    Between,
    Compacting,
    Idle,
    Left,
    New,
)
from windlass.kernel.state import State

from .parts import budgets, children, queue, requests, retries, runs, setup, skills, timers, turns

STEPS_MAX = 1_000
"""More steps without an answer from the world than this are a bug, not work."""

CREDENTIALS = ("auth", "reauth_required", "no_credentials")

STOP_OF_LIMIT: dict[str, StopReason] = {
    "tokens": "token_budget",
    "money": "money_budget",
    "turns": "max_turns",
    "calls": "call_budget",
    "time": "time_budget",
    "price": "money_budget",
}


def advance(state: State) -> Decisions:
    """Goes on until the session waits for a model, a tool, a person, a time or a command."""
    if state.flow.graph is not None:
        yield from flow_goes_on(state)
        return
    for _ in range(STEPS_MAX):
        match state.phase:
            case AwaitingTools():
                yield from dispatch.start_calls(state)
                if worktrees.holds_up(state) or grants.holds_up(state):
                    rests = grants.rests(state) if grants.holds_up(state) else worktrees.rests(state)
                    if state.open_calls() or not rests:
                        return
                    yield from rest(state)
                elif not state.open_calls() and not state.turn.open and state.machine.status == "computing":
                    return
                elif not state.open_calls():
                    # A call that a person made outside of a turn leaves none to finish.
                    yield from turns.close(state)
                elif open_calls.owed_by_people(state):
                    yield from rest(state)
                else:
                    return
            case Between():
                yield from boundary(state)
            case Idle() | Asleep():
                before = state.seq
                yield from at_rest(state)
                if state.seq == before:
                    return
            case AwaitingModel() | Compacting():
                # What a person runs meanwhile needs no turn.
                yield from dispatch.start_calls(state)
                return
            case BackingOff():
                yield from dispatch.start_calls(state)
                if isinstance(state.phase, BackingOff):
                    yield from retries.perhaps_sleep(state, state.phase)
                return
            case Asked() if open_calls.to_be_judged(state):
                # What was asked about is another thing now: nobody need wait for an answer to the old one.
                yield from runs.begin(state, "change", continues=True)
            case Asked() if setup.chooses(state):
                yield from setup.select(state)
            case New() | Asked() | Left():
                return
            case _:
                assert_never(state.phase)
    raise KernelError("the session goes on and on without waiting for anything")


def flow_goes_on(state: State) -> Decisions:
    """The same for a workflow: its nodes take the place of turns."""
    while state.active:
        before = state.seq
        yield from flow.go_on(state)
        yield from dispatch.start_calls(state)
        if state.seq != before:
            continue
        if node_graph.over(state.flow) and not state.open_calls():
            yield from flow.finish(state)
        elif not state.flow.computing and open_calls.owed_by_people(state):
            yield from rest(state)
        else:
            return


def rest(state: State) -> Decisions:
    """Every open call waits for people, or for a child that sleeps: the run rests as they do."""
    wanted = tuple(thing.open_id for thing in parts.owed_by_people(parts.opens(state)))
    wake_at_ms = children.next_wake_ms(state)
    if not wanted and wake_at_ms is not None:
        yield runs.ended(state, RunSlept, "awaiting_time", wake_at_ms=wake_at_ms)
    else:
        yield runs.ended(state, RunAsked, "awaiting_people", waiting_for=wanted)


def at_rest(state: State) -> Decisions:
    """A run that was stopped came to no boundary; rest is one. Then whatever waits in the queue begins."""
    if state.toolset.staged:
        yield from toolset.apply_staged(state)
    elif child_side.orphaned(state):
        yield from children.stop(state, "cancelled")
    elif setup.chooses(state):
        yield from setup.select(state)
    elif not state.queue.waiting or state.queue.held or retries.waited_for(state) is not None:
        return
    elif not parts.awaits_somebody(state):
        yield from queue.take_next(state)


def boundary(state: State) -> Decisions:
    """A run is active and no turn is open: end it, make room, or start the next turn."""
    run, turn, settings = state.run, state.turn, state.setup.settings
    yield from toolset.apply_staged(state)
    said = any(not state.queue.inputs[seq].waits for seq in state.queue.steering)
    retry_at_ms = retries.waited_for(state)
    why = state.requests.failure
    empty = state.requests.empty_replies
    if retry_at_ms is not None:
        yield runs.ended(state, RunSlept, "awaiting_time", wake_at_ms=retry_at_ms)
    elif run.stop is not None and not (run.stop == "completed" and said):
        yield from stop_as_marked(state, run.stop)
    elif why is not None and not compaction.may_help(state):
        yield from end_by_failure(state, why)
    elif turn.reasks > settings.argument_reasks_max:
        unreadable = failure("tool_arguments", f"the model's calls could not be read {turn.reasks} times in a row")
        yield from runs.fail(state, "error", unreadable)
    elif empty > settings.empty_replies_max:
        yield from runs.fail(state, "error", failure("empty_reply", f"the model answered with nothing {empty} times"))
    elif state.machine.status in states.GOES_ON and not said and (state.task.done or not turn.owed):
        yield from machine.go_on(state)
    elif state.task.done and not said:
        yield from come_to_rest(state)
    elif not turn.owed and not said:
        yield from wind_down(state)
    else:
        yield from next_turn(state)


def end_by_failure(state: State, why: Failure) -> Decisions:
    """The last request failed and is not made again: what the run comes to follows from the kind of failure."""
    if why.kind in requests.OVERFLOW:
        yield from runs.fail(state, "context_overflow", why)
    elif why.kind in CREDENTIALS:
        yield runs.ended(state, RunAsked, "awaiting_credentials", waiting_for=("credentials",), failure=why)
    elif why.retryable:
        spent = failure(
            "retries_exhausted",
            f"gave up after {state.requests.attempts} attempts: {why.message}",
            provider=why.provider,
            model=why.model,
            status=why.status,
            detail={"last": why.kind},
        )
        yield from runs.fail(state, "retries_exhausted", spent)
    else:
        yield from runs.fail(state, "hook_denied" if why.kind == "hook_denied" else "error", why)


def stop_as_marked(state: State, mark: runs.StopMark) -> Decisions:
    """Ends the run for the reason that is set."""
    match mark:
        case "hook_denied":
            yield from runs.fail(state, "hook_denied", failure("hook_denied", "a hook ended the run"))
        case "repeated":
            yield from runs.fail(state, "no_progress", failure("no_progress", "the same call was made again and again"))
        case "output_invalid":
            unfit = failure("output_invalid", "no answer fitted the output schema")
            yield from runs.fail(state, "output_invalid", unfit)
        case "budget":
            yield from stop_at_limit(state)
        case "completed":
            yield from come_to_rest(state)
        case _:
            assert_never(mark)


def stop_at_limit(state: State) -> Decisions:
    limit = state.run.stop_limit
    if limit == "price":
        model = state.current_model.name
        why = failure("price_unknown", f"money is limited and the price of {model!r} is unknown")
        yield from runs.fail(state, "money_budget", why)
    else:
        cause = "time_budget_exceeded" if limit == "time" else "budget_exhausted"
        cause = "turn_limit_reached" if limit == "turns" else cause
        yield from states.run_fails(state)
        yield from queue.keep_inputs(state)
        yield runs.ended(state, RunCompleted, STOP_OF_LIMIT[limit], cause=cause)


def wind_down(state: State) -> Decisions:
    """The model has nothing more to do: is that an end, or should it be nudged on?"""
    turn, settings = state.turn, state.setup.settings
    finish, may_nudge = turn.last_finish, turn.nudges < settings.nudges_max
    autopilot = state.setup.mode == "autopilot" and finish != "refusal"
    nudged = autopilot and not state.task.was_done and not timers.of_kind(state, "wait")
    nudged = nudged and state.machine.status not in states.OPEN
    if turn.here == 0:
        yield from come_to_rest(state)
    elif finish == "content_filter":
        filtered = failure("content_filtered", "the provider filtered the answer")
        yield from runs.fail(state, "content_filtered", filtered)
    elif finish == "error":
        yield from runs.fail(state, "error", failure("malformed_reply", "the model's answer ended in an error"))
    elif finish == "length" and settings.continue_on_length and may_nudge:
        yield from next_turn(state, note="continue")
    elif nudged and may_nudge:
        yield from next_turn(state, note="nudge")
    elif nudged and "complete_task" in state.toolset.tools:
        idle = failure("no_progress", "the agent stopped without completing its task")
        yield from runs.fail(state, "no_progress", idle)
    else:
        yield from come_to_rest(state)


def come_to_rest(state: State) -> Decisions:
    """Ends the run well: asleep if a timer is set, else completed. A machine in whose state the agent worked goes on
    first."""
    turn, due = state.turn, timers.of_kind(state, "wait")
    times = [] if state.task.done else [timer.at_ms for timer in due]
    if state.machine.status in ("told", "choosing") and not times:
        yield from machine_goes_on(state)
        return
    if (wakes_ms := states.next_wake_ms(state)) is not None:
        times.append(wakes_ms)
    if times:
        yield runs.ended(state, RunSlept, "awaiting_time", wake_at_ms=min(times))
        return
    if worktrees.is_to_be_merged(state) and state.tree.made is not None:
        yield WorktreeMerging(branch=state.tree.made.branch)
        return
    stop: StopReason = "completed"
    if state.task.done:
        stop = "task_complete"
        for timer in due:
            yield TimerCancelled(timer_id=timer.timer_id, reason="superseded")
    elif turn.last_finish == "length" and turn.here:
        stop = "max_tokens"
    elif turn.last_finish == "refusal" and turn.here:
        stop = "refused"
    yield runs.ended(state, RunCompleted, stop)


def machine_goes_on(state: State) -> Decisions:
    """The agent has ended its turn: so its state has ended, or it has not chosen the next one."""
    if state.machine.status == "told":
        yield from machine.agent_done(state)
    elif loop_guard.may_remind(state.machine):
        yield from next_turn(state, note="choose_state")
    else:
        yield from machine.end(state, "failed", f"no state was chosen behind {state.machine.current}")


# --- the next turn ------------------------------------------------------------------------------------------------


def next_turn(state: State, note: str | None = None) -> Decisions:
    """Checks the budgets, makes room if it is needed, and calls the model."""
    if not state.history.items and not state.queue.steering and not state.history.notes:
        yield from come_to_rest(state)
        return
    yield from budgets.warnings(state)
    tokens = context_size.context_tokens(state)
    limit = over_limit(state, tokens)
    if limit is None or limit.limit in ("tokens", "money"):
        # A smaller request may fit into what is left.
        before = state.seq
        yield from compaction.make_room(state, tokens)
        if isinstance(state.phase, Compacting):
            return
        if state.skills.active:
            yield from skills.restore(state)
        if state.seq != before:
            tokens = context_size.context_tokens(state)
            limit = over_limit(state, tokens)
    if limit is not None and grants.asks(state, limit):
        yield from grants.ask(state, limit)
        return
    wrap_up = limit is not None and may_wrap_up(state, limit, tokens)
    if limit is not None:
        yield BudgetStopped(
            limit=limit.limit, scope=limit.scope, used=limit.used, allowed=limit.allowed, wrap_up=wrap_up
        )
        if not wrap_up:
            yield from stop_at_limit(state)
            return
    room = budgets.output_room(state, tokens)
    yield from prefix.changed(state, room, wrap_up=wrap_up)
    notes = notes_for(state, note)
    yield TurnStarted(
        turn_id=turn_id(state.seq + 1),
        number=state.turn.number + 1,
        absorbs=tuple(state.queue.steering),
        notes=(*notes, "wrap_up") if wrap_up else notes,
        wrap_up=wrap_up,
    )
    yield requests.intend(state, "main", tokens, room, attempt=state.requests.attempts + 1)


def notes_for(state: State, note: str | None) -> tuple[str, ...]:
    """What the model is told with the turn. A request that ends with the model's own words asks for nothing."""
    if note is not None:
        return (note,)
    if not state.queue.steering and not state.history.notes and state.history.items[-1].kind == "assistant":
        return ("continue",)
    return ()


def over_limit(state: State, tokens: int) -> BudgetStopped | None:
    limit = budgets.exhausted(state, tokens)
    most, turns_used = state.setup.settings.turns_max, budgets.own_turns(state)
    if limit is None and turns_used >= most and state.limits_of_run().turns is None:
        limit = BudgetStopped(limit="turns", scope="run", used=turns_used, allowed=most)
    return limit


def may_wrap_up(state: State, limit: BudgetStopped, tokens: int) -> bool:
    """One last turn without tools, if the limit that was met leaves room for it."""
    if state.turn.wrapping_up or state.turn.here == 0 or limit.limit not in ("turns", "calls"):
        return False
    return budgets.output_room(state, tokens) >= min(budgets.OUTPUT_TOKENS_MIN, state.current_model.max_output_tokens)
