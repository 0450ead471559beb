"""More budget for a child at its limit: it asks before it ends, and its parent sets more aside for it.

the limit is met ──▶ budget.stopped (asks) ──▶ question.requested ──┬──▶ grant.received: it goes on
                                                                    └──▶ answer.received, or nobody is there: it ends
(the parent) grant_child called ──▶ child.granted: more is set aside ──▶ grant.received in the child's log

What is granted is taken from what the parent has left, so that the sum over the tree stays below the root's budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from windlass.events.base import Event
from windlass.events.budgets import BudgetStopped
from windlass.events.errors import Refused
from windlass.events.questions import (
    AnswerReceived,
    Option,
    Question,
    QuestionBody,
    QuestionRequested,
    QuestionWithdrawn,
)
from windlass.events.sessions import SessionForked, SessionImported
from windlass.events.tools.calls import ToolResolved
from windlass.events.trees.accounts import ChildGranted, GrantReceived
from windlass.events.values.blocks import Nat, Value
from windlass.events.values.ids import child_grant_id, question_id
from windlass.events.values.setup import Limits
from windlass.kernel.part import Decisions, Part, Row, Send
from windlass.kernel.parts import budgets, children, queue, runs
from windlass.kernel.phases import STARTED, Idle

if TYPE_CHECKING:
    from windlass.kernel.parts.children import Child
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State

ASKED_FOR = ("tokens", "money", "turns", "calls")
END = "end"
BUDGET = "budget"
"""What a question about more budget stands beside in lists of what is open."""


class GrantArgs(Value, frozen=True, kw_only=True):
    """`grant_child`: how much more a child session may use."""

    child: str
    tokens: Nat | None = None
    cost_nanos: Nat | None = None
    turns: Nat | None = None
    calls: Nat | None = None
    children: Nat | None = None


class Grants(msgspec.Struct, kw_only=True, gc=False):
    """What a session asks for beyond its slice. Blank in every session that is no child."""

    question: str = ""
    """What is asked about more budget."""
    refused: bool = False
    """Whether nobody granted more when it was asked for."""


# --- as a child ---------------------------------------------------------------------------------------------------


def asks(state: State, limit: BudgetStopped) -> bool:
    """Whether a child asks for more before a limit ends its run. Nobody can grant what only its run was given."""
    if state.parent_id is None or not state.setup.settings.budget_asked or state.grants.refused:
        return False
    return not state.unattended and limit.scope == "session" and limit.limit in ASKED_FOR


def ask(state: State, limit: BudgetStopped) -> Decisions:
    """Asks for more, once for each time that the limit is met."""
    yield BudgetStopped(limit=limit.limit, scope=limit.scope, used=limit.used, allowed=limit.allowed, asks=True)
    yield QuestionRequested(
        question_id=question_id(state.seq + 1), call_id="", kind="choice", body=asked_about(state, limit)
    )


def asked_about(state: State, limit: BudgetStopped) -> QuestionBody:
    used = f"{limit.used:,} of {limit.allowed:,} ({limit.limit})"
    message = f"the child session {state.scope} has used {used} and is not done: grant it more, or let it end."
    options = (Option(label=END, description="it ends with what it has"),)
    question = Question(question="Is it to end here?", header="budget", options=options, free_text=False)
    return QuestionBody(message=message, questions=(question,))


def holds_up(state: State) -> bool:
    """Whether the session waits for more budget."""
    return bool(state.grants.question)


def rests(state: State) -> bool:
    """Whether nobody here is there to answer."""
    ask = state.asks.open.get(state.grants.question)
    return ask is None or ask.missed


def on_nobody(state: State) -> Decisions:
    """Nobody is waited for: the run ends at its limit."""
    yield QuestionWithdrawn(question_id=state.grants.question, reason="superseded")


def budget_stopped(state: State, event: BudgetStopped) -> None:
    if event.asks:
        state.grants.question = question_id(state.seq + 1)
        runs.between(state)


def answered(state: State, event: AnswerReceived) -> None:
    if event.question_id == state.grants.question:
        over(state, refused=True)


def withdrawn(state: State, event: QuestionWithdrawn) -> None:
    if event.question_id == state.grants.question:
        over(state, refused=event.reason != "granted")


def over(state: State, *, refused: bool) -> None:
    """Nobody is asked any more. If nothing was granted, the limit ends the run the next time."""
    state.grants.question, state.grants.refused = "", refused
    if state.active:
        runs.between(state)


def grant_received(state: State, event: GrantReceived) -> None:
    budgets.raise_limits(state, event.more)
    state.grants.refused = False


def check_grant(state: State, fact: GrantReceived) -> None:
    if state.parent_id is None or fact.actor != f"session:{state.parent_id}" or fact.auth != "none":
        raise Refused("not_parent", "more budget comes from the parent of a child session, and from nobody else")


def on_grant(state: State, fact: GrantReceived) -> Decisions:
    yield queue.done(fact.command_id)
    question = state.grants.question
    if question:
        yield QuestionWithdrawn(question_id=question, reason="granted")
        if not state.active and not isinstance(state.phase, Idle):
            yield from runs.begin(state, "change", continues=True)


def carried_over(state: State, event: SessionForked | SessionImported) -> None:
    """A fork is nobody's child."""
    state.grants.question, state.grants.refused = "", False


# --- as a parent --------------------------------------------------------------------------------------------------


def grant_child(state: State, call: Call, args: GrantArgs) -> Decisions:
    """The kernel's tool by which more is set aside for a child."""
    child = next((child for child in state.children.open.values() if child.child_id == args.child), None)
    more = Limits(**{name: getattr(args, name) for name in budgets.SET_ASIDE if getattr(args, name)})
    why = refusal(state, args.child, child, more)
    if why or child is None:
        yield ToolResolved(call_id=call.call_id, text=why, ok=False, tokens=len(why) // 4 + 8)
        return
    yield ChildGranted(child_id=child.child_id, call_id=child.call_id, more=more)
    yield ToolResolved(call_id=call.call_id, text="granted", ok=True, tokens=8)


def refusal(state: State, name: str, child: Child | None, more: Limits) -> str:
    """Why nothing is granted; empty if it may be."""
    if child is None or child.stopping or child.mode == "detached":
        return f"there is no child session {name!r} at work that can be granted anything"
    left = budgets.share_of(state, 1)
    wanted = [limit for limit in budgets.SET_ASIDE if getattr(more, limit) is not None]
    if not wanted:
        return "say how much more it may use: tokens, cost_nanos, turns, calls or children"
    for limit in wanted:
        here, there, asked = getattr(left, limit), getattr(child.slice, limit), getattr(more, limit)
        if there is None:
            return f"the child session {name} has no limit of {limit}"
        if here is not None and asked > here:
            return f"{here:,} {limit} are left here, and {asked:,} were to be granted: ask for more above"
    return ""


def child_granted(state: State, event: ChildGranted) -> None:
    children.set_aside_more(state, event.call_id, event.more)


def tells(state: State, first_seq: int, events: list[Event]) -> Iterator[Send]:
    for seq, event in enumerate(events, start=first_seq):
        if type(event) is ChildGranted:
            granted = GrantReceived(
                command_id=child_grant_id(event.child_id, seq),
                actor=f"session:{state.session_id}",
                auth="none",
                more=event.more,
            )
            yield Send(event.child_id, granted)


PART = Part(
    name="grants",
    facts={GrantReceived: Row(when=STARTED, check=check_grant, fold=grant_received, then=on_grant)},
    decisions={ChildGranted: child_granted},
    hears={
        BudgetStopped: budget_stopped,
        AnswerReceived: answered,
        QuestionWithdrawn: withdrawn,
        SessionForked: carried_over,
        SessionImported: carried_over,
    },
    tells=tells,
)
