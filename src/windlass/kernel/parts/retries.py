"""Retries: whether a request that failed is made again, and how long is waited before.

model.failed ─┬─▶ retry.planned ──▶ BackingOff ──▶ (timer fires, a wake, a new owner) ──▶ model.requested
              │                         └─▶ the wait is long: the run sleeps until then
              └─▶ (not to be tried again: the turn is over, and what follows is decided from the state)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.runs import RunSlept
from windlass.events.sessions import SessionResumed
from windlass.events.timers import TimerCancelled
from windlass.events.turns import ModelFailed, RetryPlan, RetryPlanned
from windlass.events.values.failures import Failure
from windlass.events.values.ids import timer_id
from windlass.events.values.usage import ASIDE
from windlass.kernel.part import Decisions, Part
from windlass.kernel.parts import budgets, requests, runs, timers, turns
from windlass.kernel.phases import REQUESTING, BackingOff

from .context import compaction, context_size, prefix

if TYPE_CHECKING:
    from windlass.kernel.state import State


def retry_planned(state: State, event: RetryPlanned) -> None:
    if event.lane in ASIDE:
        return
    name = timer_id(state.seq)
    timers.put(state, name, event.at_ms, "retry")
    state.phase = BackingOff(timer_id=name)


def perhaps_retry(state: State, fact: ModelFailed) -> Decisions:
    """Plans the next attempt, if there is to be one; a summary that is not tried again is given up."""
    settings, why = state.setup.settings, fact.failure
    aside = fact.lane in ASIDE
    attempt = fact.attempt if aside else state.requests.attempts
    short = delay(state, why, attempt, fact.sample, 0).chosen_ms <= settings.sleep_over_ms
    if aside:
        # Whoever asked waits in this process, so a wait that would outlast a run is no use to it.
        if why.retryable and attempt <= settings.retries_max and short:
            yield planned(state, fact, attempt, settings.retries_max)
    elif state.compaction.attempt == 0:
        if why.retryable and attempt <= settings.retries_max:
            yield planned(state, fact, attempt, settings.retries_max)
    elif why.retryable and attempt <= settings.compact_attempts_max and short:
        yield planned(state, fact, attempt, settings.compact_attempts_max)
    else:
        yield from compaction.give_up(state, "model", why)


def planned(state: State, fact: ModelFailed, attempt: int, retries_max: int) -> RetryPlanned:
    """The plan for the next attempt."""
    chosen = delay(state, fact.failure, attempt, fact.sample, retries_max)
    return RetryPlanned(request_id=fact.request_id, lane=fact.lane, at_ms=state.now_ms + chosen.chosen_ms, plan=chosen)


def delay(state: State, failure: Failure, attempt: int, sample: float, retries_max: int) -> RetryPlan:
    """How long to wait after the attempt that just failed. A server's hint wins if it is longer; a rate limit
    without one waits at least the floor; a time budget caps it."""
    settings = state.setup.settings
    computed = min(settings.retry_base_ms * settings.retry_factor ** max(0, attempt - 1), settings.retry_cap_ms)
    computed = int(computed * (1 + settings.retry_jitter * (2 * sample - 1)))
    chosen, floor = computed, False
    hint = failure.retry_after_ms
    if hint is not None:
        chosen = max(chosen, hint)
    elif failure.kind == "rate_limited" and computed < settings.rate_limit_floor_ms:
        chosen, floor = settings.rate_limit_floor_ms, True
    left = budgets.time_left_ms(state)
    capped = left is not None and chosen > left
    if capped and left is not None:
        chosen = max(0, left)
    return RetryPlan(
        attempt=attempt + 1,
        attempts_max=retries_max + 1,
        computed_ms=max(0, computed),
        chosen_ms=max(0, chosen),
        hint_ms=hint,
        floor_applied=floor,
        capped_by_budget=capped,
    )


def try_again(state: State) -> Decisions:
    """The next attempt of a request that failed, if the budgets still allow it."""
    summary = state.compaction.attempt > 0
    tokens = compaction.summary_tokens(state) if summary else context_size.context_tokens(state)
    model = state.summary_model if summary else state.current_model
    limit = budgets.exhausted(state, tokens, model, budgets.WITHIN_A_TURN)
    if limit is None:
        room = budgets.output_room(state, tokens, model)
        if not summary:
            yield from prefix.changed(state, room, wrap_up=state.turn.wrap_up)
        yield requests.intend(
            state, "compact" if summary else "main", tokens, room, attempt=state.requests.attempts + 1
        )
    elif summary:
        yield from compaction.give_up(state, "budget")
    else:
        yield limit
        yield from turns.close(state)


def waited_for(state: State) -> int | None:
    """Until when the session sleeps because a provider wants to be left alone."""
    if not state.timers.open:
        return None
    return min((timer.at_ms for timer in timers.of_kind(state, "retry")), default=None)


def drop(state: State) -> Decisions:
    """A waiting retry is overtaken by whatever makes the session go on now."""
    for timer in timers.of_kind(state, "retry"):
        yield TimerCancelled(timer_id=timer.timer_id, reason="superseded")


def perhaps_sleep(state: State, phase: BackingOff) -> Decisions:
    """A long wait for a provider is no reason to keep a run going; what a person runs meanwhile is."""
    at_ms = state.timers.open[phase.timer_id].at_ms
    if at_ms - state.now_ms > state.setup.settings.sleep_over_ms and not state.open_calls():
        why = state.requests.failure
        yield from turns.close(state)
        yield runs.ended(state, RunSlept, "awaiting_time", wake_at_ms=at_ms, failure=why)


def taken_over(state: State, fact: SessionResumed) -> Decisions:
    """What the owner before had asked for is asked for again."""
    if isinstance(state.phase, REQUESTING):
        yield from try_again(state)


PART = Part(name="retries", decisions={RetryPlanned: retry_planned}, taken_over=taken_over)
