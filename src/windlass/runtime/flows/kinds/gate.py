"""Gate: lets pass or not, by a condition or by what a person says."""

from __future__ import annotations

from windlass.runtime.bind.cel_expressions import Expression
from windlass.runtime.flows.references import filled, text_of

from .move import Calls, Ended, Move, Work, failed

ASK = "ask_user"

YES, NO = "yes", "no"

ASKS_MAX = 5
"""How often a person is asked who says neither."""


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
