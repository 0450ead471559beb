"""Budgets: reserved before a request, settled after it, never passed. Waiting spends no time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from windlass.events.base import Decision
from windlass.events.runs import BudgetStopped, BudgetWarned
from windlass.events.specs import Limits, ModelRef
from windlass.events.usage import Usage

from .state import Spent, State

NO_LIMITS = Limits()
OUTPUT_TOKENS_MIN = 256
"""A request that could not even write this much is not made."""

LimitName = Literal["tokens", "money", "turns", "calls", "time"]
Scope = Literal["run", "session"]
COUNTED: tuple[LimitName, ...] = ("turns", "calls", "time")
WITHIN_A_TURN: tuple[LimitName, ...] = ("time",)
"""What is counted for a request that opens no turn: the one that is open has been counted already."""
ALL_LIMITS: tuple[LimitName, ...] = ("tokens", "money", "turns", "calls", "time")


def active_ms(state: State, scope: Scope) -> int:
    """Time spent working, up to the fact that came last."""
    return state.run.spent.active_ms if scope == "run" and state.run is not None else state.spent.active_ms


def scopes(state: State) -> list[tuple[Scope, Limits, Spent]]:
    """The budgets that bind now, the narrow one first. One without any limit binds nothing."""
    found: list[tuple[Scope, Limits, Spent]] = []
    if state.run is not None:
        limits = state.limits_of_run()
        if limits != NO_LIMITS:
            found.append(("run", limits, state.run.spent))
    if state.limits != NO_LIMITS:
        found.append(("session", state.limits, state.spent))
    return found


def used(state: State, scope: Scope, spent: Spent, limit: LimitName) -> int:
    match limit:
        case "tokens":
            return spent.tally.total_tokens
        case "money":
            return spent.cost_nanos
        case "turns":
            return spent.turns
        case "calls":
            return spent.calls
        case "time":
            return active_ms(state, scope)


def allowed(limits: Limits, limit: LimitName) -> int | None:
    match limit:
        case "tokens":
            return limits.tokens
        case "money":
            return limits.cost_nanos
        case "turns":
            return limits.turns
        case "calls":
            return limits.calls
        case "time":
            return limits.time_ms


def held(state: State) -> tuple[int, int]:
    """Tokens and money that requests under way may still use; nobody else may count on them."""
    if not state.requests:
        return 0, 0
    found = state.requests.values()
    tokens = sum([request.input_tokens + request.output_tokens for request in found])
    return tokens, sum([request.reserved_nanos for request in found])


def output_room(state: State, input_tokens: int, model: ModelRef | None = None) -> int:
    """How many tokens a request may write: the model's most, or less where the window or a budget leaves less."""
    model = model or state.current_model
    most = model.max_output_tokens
    room = min(most, max(OUTPUT_TOKENS_MIN, model.window_tokens - input_tokens))
    for _, limits, spent in scopes(state):
        room = min(room, room_by_tokens(state, limits, spent, input_tokens, room))
        room = min(room, room_by_money(state, limits, spent, input_tokens, room, model))
    return in_steps(most, max(0, room))


def in_steps(most: int, room: int) -> int:
    """The most, halved until it fits. The figure stands at the head of a request, before the history: were it to change
    with each turn, no request would begin with the bytes of the one before."""
    step = most
    while step > room and step > OUTPUT_TOKENS_MIN:
        step //= 2
    return min(room, max(step, OUTPUT_TOKENS_MIN))


def room_by_tokens(state: State, limits: Limits, spent: Spent, input_tokens: int, most: int) -> int:
    if limits.tokens is None:
        return most
    return limits.tokens - spent.tally.total_tokens - held(state)[0] - input_tokens


def room_by_money(state: State, limits: Limits, spent: Spent, input_tokens: int, most: int, model: ModelRef) -> int:
    price = model.price
    if limits.cost_nanos is None or price is None:
        return most
    left = limits.cost_nanos - spent.cost_nanos - held(state)[1] - price.cost_nanos(Usage(input_tokens=input_tokens))
    if left < 0:
        return 0
    return most if price.output == 0 else left * 1_000 // price.output


def reserve_nanos(state: State, input_tokens: int, output_tokens: int, model: ModelRef | None = None) -> int:
    """What a request may cost at the most."""
    price = (model or state.current_model).price
    if price is None:
        return 0
    return price.cost_nanos(Usage(input_tokens=input_tokens, output_tokens=output_tokens))


def exhausted(
    state: State, input_tokens: int, model: ModelRef | None = None, counted: tuple[LimitName, ...] = COUNTED
) -> BudgetStopped | None:
    """Why the next request may not be made, or None."""
    model = model or state.current_model
    for scope, limits, spent in scopes(state):
        if limits.cost_nanos is not None and model.price is None:
            return BudgetStopped(limit="price", scope=scope, used=0, allowed=limits.cost_nanos)
        for limit in counted:
            cap = allowed(limits, limit)
            now = used(state, scope, spent, limit)
            if cap is not None and now >= cap:
                return BudgetStopped(limit=limit, scope=scope, used=now, allowed=cap)
        most = model.max_output_tokens
        least = min(OUTPUT_TOKENS_MIN, most)
        if limits.tokens is not None and room_by_tokens(state, limits, spent, input_tokens, most) < least:
            return BudgetStopped(limit="tokens", scope=scope, used=spent.tally.total_tokens, allowed=limits.tokens)
        if limits.cost_nanos is not None and room_by_money(state, limits, spent, input_tokens, most, model) < least:
            return BudgetStopped(limit="money", scope=scope, used=spent.cost_nanos, allowed=limits.cost_nanos)
    return None


def calls_left(state: State) -> int | None:
    """How many calls may still be allowed; None = no limit. What a person may yet allow is reserved."""
    left: int | None = None
    asked = sum(call.status == "asked" for call in state.calls.values())
    for _, limits, spent in scopes(state):
        if limits.calls is not None:
            here = limits.calls - spent.calls - asked
            left = here if left is None else min(left, here)
    return left


def warnings(state: State) -> Iterator[Decision]:
    """Warns once per limit and scope when the set share of it is used up."""
    share = state.settings.budget_warn
    for scope, limits, spent in scopes(state):
        key = state.run.first_run_id if scope == "run" and state.run is not None else "session"
        for limit in ALL_LIMITS:
            most = allowed(limits, limit)
            if most is None or f"{key}:{limit}" in state.warned:
                continue
            now = used(state, scope, spent, limit)
            if now >= most * share:
                yield BudgetWarned(limit=limit, scope=scope, used=now, allowed=most)
