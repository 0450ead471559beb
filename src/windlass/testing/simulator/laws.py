"""What an append must keep to, seen from the state before it and the state behind it.

Written from the promises, not from the kernel's code: it counts for itself where the kernel counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.events import calls as ce
from windlass.events import context as xe
from windlass.events import runs as re_
from windlass.events import turns as te
from windlass.events.codec import Appended
from windlass.events.specs import Limits
from windlass.kernel.state import Spent, State
from windlass.runtime.agent import Agent
from windlass.testing.invariants import Broken

CUTS = (xe.CompactionFinished, xe.ContextTruncated, xe.ContextElided)


class Before:
    """What is kept of a state to hold the next one against it."""

    __slots__ = ("mode", "output", "pinned")

    def __init__(self, state: State) -> None:
        self.mode = state.mode
        self.output = state.output_required()
        self.pinned = {seq for seq in verbatim(state) if seq in state.pinned} if state.pinned else set()


def verbatim(state: State) -> set[int]:
    """The records whose content a model is shown as it is."""
    return {ref.seq for ref in state.history if not ref.elided}


def hold(rule: str, holds: bool, state: State, detail: str) -> None:
    if not holds:
        raise Broken(rule, state.seq, f"{state.session_id}: {detail}")


def check_append(state: State, before: Before, append: Appended, *, fits: bool) -> None:
    """Holds one append against the promises that need more than its events. `fits` = the last answer is one of the
    output type."""
    for event in append.events:
        if isinstance(event, ce.ToolAllowed):
            _plan_mode(state, before, event)
            if event.by != "person":  # what was asked about is reserved, also where the code allows less by now
                _calls_in_budget(state)
        elif isinstance(event, ce.ToolStarted):
            _places(state)
        elif isinstance(event, re_.TurnStarted):
            _turns_in_budget(state, event)
        elif isinstance(event, te.ModelRequested):
            _request_in_budget(state)
        elif isinstance(event, CUTS) and before.pinned:
            left = before.pinned - verbatim(state)
            hold("pinned stays verbatim", not left, state, str(left))
        elif isinstance(event, re_.RunCompleted):
            owed = before.output and state.output_required() and event.stop == "completed" and event.turns > 0
            hold("an owed output is given", fits or not owed, state, event.run_id)


def check_terms(state: State, agent: Agent) -> None:
    """A session goes by the code of whoever drives it."""
    hold("the policy is the code's", state.policy == agent.policy, state, str(state.policy))
    hold("the budgets are the code's", state.run_limits == agent.budget.limits(), state, str(state.run_limits))
    hold("the budgets are the code's", state.limits == agent.session_budget.limits(), state, str(state.limits))


def _plan_mode(state: State, before: Before, event: ce.ToolAllowed) -> None:
    call = state.calls.get(event.call_id)
    if call is None or event.by in ("kernel", "person") or not before.mode == state.mode == "plan":
        return  # a person who allows one call that was asked about before knows what they do
    spec = state.tools.get(call.tool)
    reads = spec is None or set(spec.traits) == {"read"}
    hold("plan mode only reads", reads, state, f"{call.tool} {event.call_id} by {event.by}")


def _places(state: State) -> None:
    """As many calls run at once as the session has places for, and one that must be alone is alone."""
    running = [call for call in state.calls.values() if call.status == "started" and call.epoch == state.epoch]
    one_by_one = state.settings.tool_order == "sequential"
    most = 1 if one_by_one else state.settings.parallel_tools_max
    names = [call.tool for call in running]
    hold("calls have their places", len(running) <= most, state, f"{names} in {most}")
    alone = any(call.tool in state.tools and state.tools[call.tool].exclusive for call in running)
    hold("an exclusive call is alone", not alone or len(running) == 1, state, str(names))


def _budgets(state: State) -> Iterator[tuple[Limits, Spent]]:
    if state.run is not None:
        yield state.limits_of_run(), state.run.spent
    yield state.limits, state.spent


def _calls_in_budget(state: State) -> None:
    for limits, spent in _budgets(state):
        if limits.calls is not None:
            hold("calls stay in budget", spent.calls <= limits.calls, state, f"{spent.calls} of {limits.calls}")


def _turns_in_budget(state: State, event: re_.TurnStarted) -> None:
    """A turn that only wraps up is had once in any case, also where the code allows fewer turns than there were."""
    for limits, spent in _budgets(state):
        holds = event.wrap_up or limits.turns is None or spent.turns <= limits.turns
        hold("turns stay in budget", holds, state, f"{spent.turns}, {limits}")


def _request_in_budget(state: State) -> None:
    """What is out and what was spent fits what is allowed."""
    if not state.requests:
        return
    tokens = sum(request.input_tokens + request.output_tokens for request in state.requests.values())
    nanos = sum(request.reserved_nanos for request in state.requests.values())
    for limits, spent in _budgets(state):
        used = spent.usage.input_tokens + spent.usage.output_tokens + tokens
        cost = spent.cost_nanos + nanos
        hold("tokens stay in budget", limits.tokens is None or used <= limits.tokens, state, f"{used}, {limits}")
        hold(
            "money stays in budget", limits.cost_nanos is None or cost <= limits.cost_nanos, state, f"{cost}, {limits}"
        )
