"""Budgets: reserved before a request, settled after it, never passed. Waiting spends no time.

reserved (by whatever is under way, see `held`) ──▶ spent, on the run, the session and the model
share used up ──▶ budget.warned, once for each limit and scope
nothing left  ──▶ budget.stopped: the run ends, after one last turn if the limit leaves room for it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, assert_never

import msgspec

from windlass.events.budgets import BudgetStopped, BudgetWarned
from windlass.events.changes import LimitsChanged
from windlass.events.runs import RunStarted
from windlass.events.sessions import SessionForked, SessionStarted
from windlass.events.trees.children import Used
from windlass.events.values.models import ModelRef
from windlass.events.values.setup import Limits
from windlass.events.values.usage import Usage
from windlass.kernel import parts
from windlass.kernel.part import Decisions, Misfit, Part, Reserved, bounded
from windlass.kernel.parts import runs, turns

if TYPE_CHECKING:
    from windlass.kernel.state import State


NO_LIMITS = Limits()
SET_ASIDE = ("tokens", "cost_nanos", "turns", "calls", "children")
"""What is set aside for a child."""
OUTPUT_TOKENS_MIN = 256
"""A request that could not even write this much is not made."""
TALLIED = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
TOTALS_MAX = 64
WARNED_MAX = 64

LimitName = Literal["tokens", "money", "turns", "calls", "time"]
Scope = Literal["run", "session"]
COUNTED: tuple[LimitName, ...] = ("turns", "calls", "time")
WITHIN_A_TURN: tuple[LimitName, ...] = ("time",)
"""What is counted for a request that opens no turn: the one that is open has been counted already."""
ALL_LIMITS: tuple[LimitName, ...] = ("tokens", "money", "turns", "calls", "time")


class Tally(msgspec.Struct, kw_only=True, gc=False):
    """A sum of usages that is only added to, in place: cheaper than a new value for every reply."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    estimates: int = 0
    """How many of them were estimated."""

    def add(self, usage: Usage) -> None:
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        if usage.cache_read_tokens or usage.cache_write_tokens or usage.reasoning_tokens or usage.estimated:
            self.cache_read_tokens += usage.cache_read_tokens
            self.cache_write_tokens += usage.cache_write_tokens
            self.reasoning_tokens += usage.reasoning_tokens
            self.estimates += usage.estimated

    def since(self, start: Tally) -> Tally:
        """What was added since it stood at `start`."""
        return Tally(
            input_tokens=self.input_tokens - start.input_tokens,
            output_tokens=self.output_tokens - start.output_tokens,
            cache_read_tokens=self.cache_read_tokens - start.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens - start.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens - start.reasoning_tokens,
            estimates=self.estimates - start.estimates,
        )

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def total(self) -> Usage:
        return Usage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cache_read_tokens=self.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens,
            estimated=self.estimates > 0,
        )


class Spent(msgspec.Struct, kw_only=True, gc=False):
    """What was used of the budgets."""

    tally: Tally = msgspec.field(default_factory=Tally)
    cost_nanos: int = 0
    turns: int = 0
    calls: int = 0
    active_ms: int = 0
    children: int = 0
    below_turns: int = 0
    """How many of the turns were those of children."""

    @property
    def usage(self) -> Usage:
        """The tokens, as a value."""
        return self.tally.total()

    def since(self, start: Spent) -> Spent:
        """What was used since it stood at `start`."""
        return Spent(
            tally=self.tally.since(start.tally),
            cost_nanos=self.cost_nanos - start.cost_nanos,
            turns=self.turns - start.turns,
            calls=self.calls - start.calls,
            active_ms=self.active_ms - start.active_ms,
            children=self.children - start.children,
            below_turns=self.below_turns - start.below_turns,
        )


class Totals(msgspec.Struct, kw_only=True, gc=False):
    """Use of one model over the session's life."""

    requests: int = 0
    usage: Tally = msgspec.field(default_factory=Tally)
    cost_nanos: int = 0
    duration_ms: int = 0


class OwnUse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What requests to models have used."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_nanos: int = 0


class Budget(msgspec.Struct, kw_only=True, gc=False):
    """What the session may use, and what it has used. Booked once; what a run used is what came since it began."""

    limits: Limits = Limits()
    run_limits: Limits = Limits()
    spent: Spent = msgspec.field(default_factory=Spent)
    before_run: Spent = msgspec.field(default_factory=Spent)
    """What was spent when the current run began, or the first of those that it continues."""
    before_here: Spent = msgspec.field(default_factory=Spent)
    """What was spent when the current run itself began."""
    warned: dict[str, bool] = {}
    totals: dict[str, Totals] = {}
    before_fork: OwnUse = OwnUse()
    """What the origin of a fork had requested itself up to there."""

    @property
    def run_spent(self) -> Spent:
        """By the current run and those that it continues."""
        return self.spent.since(self.before_run)

    @property
    def spent_here(self) -> Spent:
        """By the current run alone."""
        return self.spent.since(self.before_here)


# --- booking ------------------------------------------------------------------------------------------------------


def session_started(state: State, event: SessionStarted) -> None:
    state.budget.limits, state.budget.run_limits = event.setup.limits, event.setup.run_limits


def session_forked(state: State, event: SessionForked) -> None:
    state.budget.before_fork = _requested(state)


def limits_changed(state: State, event: LimitsChanged) -> None:
    state.budget.limits, state.budget.run_limits = event.limits, event.run_limits


def raised(limits: Limits, more: Limits) -> Limits:
    """Limits with more added to those that there are; what is not limited stays so."""
    sums = {}
    for name in SET_ASIDE:
        most, added = getattr(limits, name), getattr(more, name)
        if most is not None and added is not None:
            sums[name] = most + added
    return msgspec.structs.replace(limits, **sums)


def raise_limits(state: State, more: Limits) -> None:
    """The session may use more than before."""
    state.budget.limits = raised(state.budget.limits, more)


def run_started(state: State, event: RunStarted) -> None:
    budget = state.budget
    budget.before_here = budget.spent.since(Spent())
    if event.continues is None:
        budget.before_run = budget.before_here


def budget_warned(state: State, event: BudgetWarned) -> None:
    scope = state.run.first_run_id if event.scope == "run" else "session"
    state.budget.warned[f"{scope}:{event.limit}"] = True
    bounded(state.budget.warned, WARNED_MAX)


def budget_stopped(state: State, event: BudgetStopped) -> None:
    if not state.active:
        raise Misfit("no run is active")
    if event.asks:
        return
    runs.must_end(state, "budget", event.limit)
    if event.wrap_up:
        turns.wrap_up(state)


def spend_time(state: State, elapsed_ms: int) -> None:
    """Books a stretch of time at work."""
    state.budget.spent.active_ms += elapsed_ms


def spend_turn(state: State) -> None:
    state.budget.spent.turns += 1


def spend_call(state: State) -> None:
    state.budget.spent.calls += 1


def spend_below(state: State, used: Used) -> None:
    """Books what a child used, with its own children, on the run and the session."""
    spent = state.budget.spent
    spent.tally.add(used.usage)
    spent.cost_nanos += used.cost_nanos
    spent.turns += used.turns
    spent.below_turns += used.turns
    spent.calls += used.calls
    spent.children += used.children


def spend_child(state: State) -> None:
    state.budget.spent.children += 1


def give_back_call(state: State) -> None:
    """A call that was allowed and never began is to be judged again."""
    state.budget.spent.calls -= 1


def spend(state: State, model: str, usage: Usage, cost: int, duration_ms: int = 0) -> None:
    """Books what a request used, on the run, the session and the model. Nothing that is reported gives budget back."""
    if usage.input_tokens < 0 or usage.output_tokens < 0 or cost < 0:
        cost = max(0, cost)
        usage = msgspec.structs.replace(
            usage, input_tokens=max(0, usage.input_tokens), output_tokens=max(0, usage.output_tokens)
        )
    budget = state.budget
    budget.spent.tally.add(usage)
    budget.spent.cost_nanos += cost
    totals = budget.totals.get(model)
    if totals is None:
        name = model if len(budget.totals) < TOTALS_MAX else "other"
        totals = budget.totals.setdefault(name, Totals())
    totals.requests += 1
    totals.usage.add(usage)
    totals.cost_nanos += cost
    totals.duration_ms += duration_ms


def own_use(state: State) -> OwnUse:
    """What the session has requested itself: nothing of what its children did, nor its origin before the fork. Summed
    over all sessions, each request counts once."""
    all_of_it, before = _requested(state), state.budget.before_fork
    return OwnUse(
        input_tokens=all_of_it.input_tokens - before.input_tokens,
        output_tokens=all_of_it.output_tokens - before.output_tokens,
        cost_nanos=all_of_it.cost_nanos - before.cost_nanos,
    )


def _requested(state: State) -> OwnUse:
    """What the requests in this log have used, also those from before a fork."""
    tokens_in = tokens_out = nanos = 0
    for totals in state.budget.totals.values():
        tokens_in += totals.usage.input_tokens
        tokens_out += totals.usage.output_tokens
        nanos += totals.cost_nanos
    return OwnUse(input_tokens=tokens_in, output_tokens=tokens_out, cost_nanos=nanos)


# --- what is left -------------------------------------------------------------------------------------------------


def held(state: State) -> Reserved:
    """What is under way may still use this much; nobody else may count on it."""
    tokens = nanos = calls = turns = children = 0
    for reserves in parts.TABLES.reserves:
        reserved = reserves(state)
        tokens += reserved.tokens
        nanos += reserved.cost_nanos
        calls += reserved.calls
        turns += reserved.turns
        children += reserved.children
    return Reserved(tokens, nanos, calls, turns, children)


def used_up(state: State, apart: Reserved) -> Used:
    """What the session has used over its life, and what it has under way: what its parent books at its end. What is
    set aside for those below it is told `apart`."""
    spent, more, usage = state.budget.spent, held(state), state.budget.spent.usage
    tokens = more.tokens - apart.tokens
    return Used(
        usage=msgspec.structs.replace(usage, input_tokens=usage.input_tokens + tokens) if tokens else usage,
        cost_nanos=spent.cost_nanos + more.cost_nanos - apart.cost_nanos,
        turns=spent.turns + more.turns - apart.turns,
        calls=spent.calls + more.calls - apart.calls,
        children=spent.children + more.children - apart.children,
    )


def used_since(used: Used, before: Used) -> Used:
    """What was used more than before."""
    now, then = used.usage, before.usage
    more = {name: max(0, getattr(now, name) - getattr(then, name)) for name in TALLIED}
    return Used(
        usage=Usage(**more, estimated=now.estimated),
        cost_nanos=max(0, used.cost_nanos - before.cost_nanos),
        turns=max(0, used.turns - before.turns),
        calls=max(0, used.calls - before.calls),
        children=max(0, used.children - before.children),
    )


def share_of(state: State, sharers: int) -> Limits:
    """What is left of each budget, in equal shares: what a child may use if nobody says less. A share of 0 means that
    there is nothing left."""
    more = held(state)
    left: dict[str, int] = {}
    for _, limits, spent in scopes(state):
        bounds = (
            ("tokens", limits.tokens, spent.tally.total_tokens + more.tokens),
            ("cost_nanos", limits.cost_nanos, spent.cost_nanos + more.cost_nanos),
            ("turns", limits.turns, spent.turns + more.turns),
            ("calls", limits.calls, spent.calls + more.calls),
            ("children", limits.children, spent.children + more.children),
        )
        for name, most, gone in bounds:
            if most is not None:
                left[name] = min(left.get(name, most), max(0, most - gone))
    shares = {name: here // sharers for name, here in left.items()}
    if (time_ms := time_left_ms(state)) is not None:
        shares["time_ms"] = max(0, time_ms)
    return Limits(**shares)


def own_turns(state: State) -> int:
    """The turns of the current run, without those of its children."""
    spent, before = state.budget.spent, state.budget.before_run
    return spent.turns - spent.below_turns - before.turns + before.below_turns


def active_ms(state: State, scope: Scope) -> int:
    """Time spent working, up to the fact that came last."""
    budget = state.budget
    return budget.spent.active_ms - (budget.before_run.active_ms if scope == "run" else 0)


def scopes(state: State) -> list[tuple[Scope, Limits, Spent]]:
    """The budgets that bind now, the narrow one first. One without any limit binds nothing."""
    budget = state.budget
    binding: list[tuple[Scope, Limits, Spent]] = []
    if state.run.run_id and (limits := state.limits_of_run()) != NO_LIMITS:
        binding.append(("run", limits, budget.run_spent))
    if budget.limits != NO_LIMITS:
        binding.append(("session", budget.limits, budget.spent))
    return binding


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
        case _:
            assert_never(limit)


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
        case _:
            assert_never(limit)


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
    return limits.tokens - spent.tally.total_tokens - held(state).tokens - input_tokens


def room_by_money(state: State, limits: Limits, spent: Spent, input_tokens: int, most: int, model: ModelRef) -> int:
    price = model.price
    if limits.cost_nanos is None or price is None:
        return most
    asked = price.cost_nanos(Usage(input_tokens=input_tokens))
    left = limits.cost_nanos - spent.cost_nanos - held(state).cost_nanos - asked
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
            if cap is not None and limit == "turns":
                now += held(state).turns
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
    for _, limits, spent in scopes(state):
        if limits.calls is not None:
            here = limits.calls - spent.calls - held(state).calls
            left = here if left is None else min(left, here)
    return left


def time_left_ms(state: State) -> int | None:
    """What the time budgets leave; None if there is none."""
    left: int | None = None
    for scope, limits, _ in scopes(state):
        if limits.time_ms is not None:
            here = limits.time_ms - active_ms(state, scope)
            left = here if left is None else min(left, here)
    return left


def warnings(state: State) -> Decisions:
    """Warns once per limit and scope when the set share of it is used up."""
    share = state.setup.settings.budget_warn
    for scope, limits, spent in scopes(state):
        key = state.run.first_run_id if scope == "run" else "session"
        for limit in ALL_LIMITS:
            most = allowed(limits, limit)
            if most is None or f"{key}:{limit}" in state.budget.warned:
                continue
            now = used(state, scope, spent, limit)
            if now >= most * share:
                yield BudgetWarned(limit=limit, scope=scope, used=now, allowed=most)


PART = Part(
    name="budgets",
    decisions={LimitsChanged: limits_changed, BudgetWarned: budget_warned, BudgetStopped: budget_stopped},
    hears={SessionStarted: session_started, SessionForked: session_forked, RunStarted: run_started},
)
