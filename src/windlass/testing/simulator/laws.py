"""What an append must keep to, seen from the state before it and the state behind it.

Written from the promises, not from the kernel's code: it counts for itself where the kernel counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from windlass.events.context import CompactionFinished, ContextElided, ContextTruncated
from windlass.events.runs import RunCompleted
from windlass.events.stored.codec import Appended
from windlass.events.tools.calls import ToolAllowed, ToolReconsidered, ToolStarted
from windlass.events.tools.permissions import GrantsChanged
from windlass.events.turns import ModelRequested, TurnStarted
from windlass.events.values.setup import Limits
from windlass.events.values.tools import ToolSpec
from windlass.kernel.parts.budgets import Spent
from windlass.kernel.state import State
from windlass.runtime.api.agent import Agent
from windlass.testing.carried_labels import Carried
from windlass.testing.invariants import Broken

CUTS = (CompactionFinished, ContextTruncated, ContextElided)


class Before:
    """What is kept of a state to hold the next one against it."""

    __slots__ = ("mode", "output", "pinned")

    def __init__(self, state: State) -> None:
        self.mode = state.setup.mode
        self.output = state.output_required()
        self.pinned = {seq for seq in verbatim(state) if seq in state.history.pinned} if state.history.pinned else set()


def verbatim(state: State) -> set[int]:
    """The records whose content a model is shown as it is."""
    return {ref.seq for ref in state.history.items if not ref.elided}


def hold(rule: str, holds: bool, state: State, detail: str) -> None:
    if not holds:
        raise Broken(rule, state.seq, f"{state.session_id}: {detail}")


def check_append(state: State, before: Before, append: Appended, *, fits: bool) -> None:
    """Holds one append against the promises that need more than its events. `fits` = the last answer is one of the
    output type."""
    for event in append.events:
        if isinstance(event, ToolAllowed):
            _plan_mode(state, before, event)
            if event.by != "person":  # what was asked about is reserved, also where the code allows less by now
                _calls_in_budget(state)
        elif isinstance(event, ToolStarted):
            _places(state)
        elif isinstance(event, TurnStarted):
            _turns_in_budget(state, event)
        elif isinstance(event, ModelRequested):
            _request_in_budget(state)
        elif isinstance(event, CUTS) and before.pinned:
            left = before.pinned - verbatim(state)
            hold("pinned stays verbatim", not left, state, str(left))
        elif isinstance(event, RunCompleted):
            owed = before.output and state.output_required() and event.stop == "completed" and event.turns > 0
            hold("an owed output is given", fits or not owed, state, event.run_id)


class Passed:
    """On what word each call was let pass: whose, and what its tool was then."""

    def __init__(self) -> None:
        self._words: dict[str, tuple[str, tuple[object, ...]]] = {}
        self._grants: dict[str, str] = {}
        """The standing approvals that were given here and not taken back, each with its tool."""
        self._by_grant: dict[str, str] = {}

    def check_append(self, state: State, append: Appended) -> None:
        """Nothing starts that the rules and the mode in force at that moment refuse, or that somebody must be asked
        about and was not, as it is now."""
        for event in append.events:
            self._count_grants(state, event)
            if isinstance(event, ToolReconsidered):
                self._words.pop(event.call_id, None)
            elif isinstance(event, ToolAllowed) and (call := state.calls.by_id.get(event.call_id)) is not None:
                spec = state.toolset.tools.get(call.tool)
                self._words[event.call_id] = (event.by, _matters(spec)) if spec is not None else (event.by, ())
            elif isinstance(event, ToolStarted) and (call := state.calls.by_id.get(event.call_id)) is not None:
                self._check_start(state, event.call_id, call.tool)

    def _count_grants(self, state: State, event: object) -> None:
        """A standing approval lets pass what it speaks of, while it stands, in the session that it was given in."""
        match event:
            case GrantsChanged(added=added, revoked=revoked):
                self._grants |= {grant.grant_id: grant.tool for grant in added}
                for name in revoked:
                    self._grants.pop(name, None)
            case ToolReconsidered(call_id=name):
                self._by_grant.pop(name, None)
            case ToolAllowed(call_id=name, by="grant", rule=grant):
                call = state.calls.by_id.get(name)
                stands = call is None or self._grants.get(grant) == call.tool
                hold("a standing approval that lets pass was given and stands", stands, state, f"{name} by {grant}")
                self._by_grant[name] = grant
            case ToolStarted(call_id=name) if name in self._by_grant:
                stands = self._by_grant[name] in self._grants
                hold("nothing starts on an approval that was taken back", stands, state, name)

    def _check_start(self, state: State, name: str, tool: str) -> None:
        spec = state.toolset.tools.get(tool)
        if spec is None or name not in self._words:
            return  # the rules of calls hold these
        by, then = self._words[name]
        actions = {rule.action for rule in state.gate.policy.rules if rule.tool == tool}
        where = f"{tool} {name} by {by}"
        hold("what the policy in force denies does not start", "deny" not in actions, state, where)
        plans = state.setup.mode == "plan" and set(spec.traits) != {"read"}
        hold("what the mode in force forbids does not start", not plans, state, where)
        asked = "ask" not in actions or by in ("person", "grant")
        hold("what the policy in force asks about was asked about", asked, state, where)
        same = "ask" not in actions or then == _matters(spec)
        hold("what starts is what was approved", same, state, f"{where}: {then}")


def _matters(spec: ToolSpec) -> tuple[object, ...]:
    return (spec.code, spec.schema, spec.contract, spec.traits)


def check_labels(state: State, carried: Carried) -> None:
    """A session carries on what its events add up to, and says so; nothing leads out with both legs seen."""
    now = {*state.labels.held, *state.labels.met}
    hold("labels are what the events add up to", now == carried.held, state, f"{now} for {carried.held}")
    hold("labels are told", now == carried.told, state, f"{now}, told {carried.told}")
    hold("nothing private leaves unasked", not carried.unagreed, state, str(carried.unagreed))


def check_terms(state: State, agent: Agent) -> None:
    """A session goes by the code of whoever drives it."""
    policy = msgspec.structs.replace(agent.policy, role=agent.role, trusted=state.gate.policy.trusted)
    hold("the policy is the code's", state.gate.policy == policy, state, str(state.gate.policy))
    hold(
        "the budgets are the code's",
        state.budget.run_limits == agent.budget.limits(),
        state,
        str(state.budget.run_limits),
    )
    hold(
        "the budgets are the code's",
        state.budget.limits == agent.session_budget.limits(),
        state,
        str(state.budget.limits),
    )


def _plan_mode(state: State, before: Before, event: ToolAllowed) -> None:
    call = state.calls.by_id.get(event.call_id)
    if call is None or event.by in ("kernel", "person") or not before.mode == state.setup.mode == "plan":
        return  # a person who allows one call that was asked about before knows what they do
    spec = state.toolset.tools.get(call.tool)
    reads = spec is None or set(spec.traits) == {"read"}
    hold("plan mode only reads", reads, state, f"{call.tool} {event.call_id} by {event.by}")


def _places(state: State) -> None:
    """As many calls run at once as the session has places for, and one that must be alone is alone."""
    running = [call for call in state.calls.by_id.values() if call.status == "started" and call.epoch == state.epoch]
    one_by_one = state.setup.settings.tool_order == "sequential"
    most = 1 if one_by_one else state.setup.settings.parallel_tools_max
    names = [call.tool for call in running]
    hold("calls have their places", len(running) <= most, state, f"{names} in {most}")
    alone = any(call.tool in state.toolset.tools and state.toolset.tools[call.tool].exclusive for call in running)
    hold("an exclusive call is alone", not alone or len(running) == 1, state, str(names))


def _budgets(state: State) -> Iterator[tuple[Limits, Spent]]:
    if state.run.run_id:
        yield state.limits_of_run(), state.budget.run_spent
    yield state.budget.limits, state.budget.spent


def _calls_in_budget(state: State) -> None:
    for limits, spent in _budgets(state):
        if limits.calls is not None:
            hold("calls stay in budget", spent.calls <= limits.calls, state, f"{spent.calls} of {limits.calls}")


def _turns_in_budget(state: State, event: TurnStarted) -> None:
    """A turn that only wraps up is had once in any case, also where the code allows fewer turns than there were."""
    for limits, spent in _budgets(state):
        holds = event.wrap_up or limits.turns is None or spent.turns <= limits.turns
        hold("turns stay in budget", holds, state, f"{spent.turns}, {limits}")


def _request_in_budget(state: State) -> None:
    """What is out and what was spent fits what is allowed."""
    if not state.requests.open:
        return
    tokens = sum(request.input_tokens + request.output_tokens for request in state.requests.open.values())
    nanos = sum(request.reserved_nanos for request in state.requests.open.values())
    for limits, spent in _budgets(state):
        used = spent.usage.input_tokens + spent.usage.output_tokens + tokens
        cost = spent.cost_nanos + nanos
        hold("tokens stay in budget", limits.tokens is None or used <= limits.tokens, state, f"{used}, {limits}")
        hold(
            "money stays in budget", limits.cost_nanos is None or cost <= limits.cost_nanos, state, f"{cost}, {limits}"
        )
