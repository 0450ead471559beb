"""Model requests: the intent with its reservation, and the plan for trying again."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.events.base import Decision
from windlass.events.failures import Failure
from windlass.events.ids import request_id
from windlass.events.turns import ModelAsked, ModelFailed, ModelRequested, PrefixChanged, RetryPlan, RetryPlanned
from windlass.events.usage import Lane

from . import budgets
from .state import State


def prefix(state: State, output_tokens: int, *, wrap_up: bool) -> Iterator[Decision]:
    """Says so where the next request of the main lane will not begin with the bytes of the last one."""
    reasons = list(state.prefix_reasons)
    before, now = state.sent, state.shape(output_tokens, wrap_up=wrap_up)
    if before is not None and before != now:
        changed = {
            "model": before.model != now.model,
            "tools": before.tools != now.tools or before.wrap_up != now.wrap_up,
            "output": before.output != now.output or before.output_tokens != now.output_tokens,
        }
        reasons += [name for name, differs in changed.items() if differs and name not in reasons]
    if reasons:
        yield PrefixChanged(reasons=tuple(reasons))  # type: ignore[arg-type]


def intend(state: State, lane: Lane, input_tokens: int, output: int, *, attempt: int) -> ModelRequested:
    """The intent to make a request now, with what it may use at the most."""
    model = state.current_model
    if lane == "compact":
        model = state.summary_model
        output = min(output, state.settings.summary_tokens_max)
    return ModelRequested(
        request_id=request_id(state.seq + 1),
        lane=lane,
        attempt=attempt,
        model=model.name,
        epoch=state.epoch,
        input_tokens=input_tokens,
        output_tokens=output,
        reserved_nanos=budgets.reserve_nanos(state, input_tokens, output, model),
        initiator="compaction" if lane == "compact" else "user",
    )


def aside(state: State, fact: ModelAsked) -> ModelRequested:
    """The intent to ask a model on behalf of a tool or a judge."""
    output = budgets.output_room(state, fact.tokens, fact.model)
    if fact.max_output_tokens is not None:
        output = min(output, max(1, fact.max_output_tokens))
    return ModelRequested(
        request_id=request_id(state.seq + 1),
        lane=fact.lane,
        attempt=fact.attempt,
        model=fact.model.name,
        epoch=state.epoch,
        input_tokens=fact.tokens,
        output_tokens=output,
        reserved_nanos=budgets.reserve_nanos(state, fact.tokens, output, fact.model),
        initiator=fact.lane,
        asked_seq=state.seq,
        call_id=fact.call_id,
        price=fact.model.price,
    )


def plan(state: State, failure: Failure, attempt: int, sample: float, retries_max: int) -> RetryPlan:
    """How long to wait after the attempt that just failed. A server's hint wins where it is longer; a rate limit
    without one waits at least the floor; a time budget caps it."""
    settings = state.settings
    computed = min(settings.retry_base_ms * settings.retry_factor ** max(0, attempt - 1), settings.retry_cap_ms)
    computed = int(computed * (1 + settings.retry_jitter * (2 * sample - 1)))
    chosen, floor = computed, False
    hint = failure.retry_after_ms
    if hint is not None:
        chosen = max(chosen, hint)
    elif failure.kind == "rate_limited" and computed < settings.rate_limit_floor_ms:
        chosen, floor = settings.rate_limit_floor_ms, True
    left = time_left_ms(state)
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


def time_left_ms(state: State) -> int | None:
    """What the time budgets leave; None where there is none."""
    left: int | None = None
    for scope, limits, _ in budgets.scopes(state):
        if limits.time_ms is not None:
            here = limits.time_ms - budgets.active_ms(state, scope)
            left = here if left is None else min(left, here)
    return left


def retry(state: State, fact: ModelFailed, attempt: int, retries_max: int) -> Iterator[Decision]:
    """Plans the next attempt."""
    chosen = plan(state, fact.failure, attempt, fact.sample, retries_max)
    yield RetryPlanned(request_id=fact.request_id, lane=fact.lane, at_ms=state.now_ms + chosen.chosen_ms, plan=chosen)
