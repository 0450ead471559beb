"""Nodes without child sessions: reduce, tool, gate."""

from __future__ import annotations

from windlass.runtime.bind.cel_expressions import Expression
from windlass.runtime.flows.references import filled, filled_in, text_of

from .answers import Misread, fitted
from .moves import Calls, Ended, Move, Work, failed, why_not

ASK = "ask_user"
YES, NO = "yes", "no"
ASKS_MAX = 5
"""How often a person is asked who says neither."""


def reduce(work: Work) -> Move:
    """A pure function of what it needs."""
    return _fitting(work, work.functions[work.node.reducer](list(work.outputs.values())))


def tool(work: Work) -> Move:
    """One call of a tool; what it gave is the output."""
    if not work.rounds:
        return Calls([(work.node.tool, filled_in(work.node.args, work.values))])
    result = work.rounds[-1][0]
    return _fitting(work, result.value) if result.ok else failed(why_not(result))


def _fitting(work: Work, value: object) -> Move:
    if work.node.output is None:
        return Ended(value)
    try:
        return Ended(fitted(value, work.node.output))
    except Misread as error:
        return failed(f"its output does not fit the schema: {error}")


def gate(work: Work) -> Move:
    """Lets pass, or not: by a condition over what is there, or by what a person says."""
    return _condition(work) if work.node.when else _person(work)


def _condition(work: Work) -> Move:
    holds = Expression.of(work.node.when).holds({"args": dict(work.values), "call": {}, "session": {}})
    if holds is None:
        return failed(f"the condition {work.node.when!r} cannot be judged: a field is missing or is of another type")
    return Ended(True) if holds else Ended(False, outcome="closed", reason=f"{work.node.when} does not hold")


def _person(work: Work) -> Move:
    if not work.rounds:
        shown = "\n\n".join(f"{name}:\n{text_of(value)}" for name, value in work.outputs.items())
        question = filled(work.node.question, work.values)
        return Calls([(ASK, {"question": question, "options": [YES, NO], "message": shown})])
    said = work.rounds[-1][0]
    words = text_of(said.value).strip().lower() if said.ok else NO
    if words in (YES, "y"):
        return Ended(said.value)
    if words not in (NO, "n") and len(work.rounds) < ASKS_MAX:
        again = f"{text_of(said.value)!r} is neither {YES!r} nor {NO!r}."
        question = filled(work.node.question, work.values)
        return Calls([(ASK, {"question": question, "options": [YES, NO], "message": again})])
    return Ended(said.value, outcome="closed", reason="a person did not let it pass")
