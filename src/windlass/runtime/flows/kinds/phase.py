"""Phases: an agent works until its output passes a check, made by a judge or by a condition; else the phase blocks."""

from __future__ import annotations

from typing import Any

from windlass.runtime.bind.cel_expressions import Expression
from windlass.runtime.flows.outputs import Outcome

from .model_answers import Misread, asked_for, fitted
from .move import Calls, Ended, Move, Work, child, failed, told, why_not
from .spawn import VERDICT

OUTPUT = "output"
"""What a condition knows the output of the phase by."""


def phase(work: Work) -> Move:
    """One child that works and, if there is a judge, one that checks; again with what was wrong until it passes."""
    return _judged(work) if work.node.judge else _measured(work)


def _judged(work: Work) -> Move:
    """Rounds go in pairs: the work, then the verdict on it."""
    why = ""
    for index in range(0, len(work.rounds), 2):
        done = _value(work, work.rounds[index][0])
        if isinstance(done, Ended):
            return done
        if index + 1 == len(work.rounds):
            return Calls([child(work, _asked(work, done), work.node.judge)])
        verdict = _verdict(work.rounds[index + 1][0])
        if isinstance(verdict, Ended):
            return verdict
        if verdict["pass"]:
            return Ended(done)
        why = str(verdict["reason"])
    return _again(work, len(work.rounds) // 2, why)


def _measured(work: Work) -> Move:
    why = ""
    for results in work.rounds:
        done = _value(work, results[0])
        if isinstance(done, Ended):
            return done
        holds = Expression.of(work.node.when).holds({"args": {**work.values, OUTPUT: done}, "call": {}, "session": {}})
        if holds:
            return Ended(done)
        wrong = "does not hold" if holds is False else "cannot be judged: a field is missing or is of another type"
        why = f"{work.node.when} {wrong}"
    return _again(work, len(work.rounds), why)


def _again(work: Work, count: int, why: str) -> Move:
    """The work once more, with what was wrong; or the phase blocks."""
    if count >= work.node.rounds_max:
        return failed(f"it did not pass after {count} rounds: {why}")
    before = f"An earlier attempt did not pass: {why}" if count else ""
    form = asked_for(work.node.output) if work.node.output is not None else ""
    return Calls([child(work, told(work, work.node.task, before, form))])


def _value(work: Work, outcome: Outcome) -> Any:
    """What was made, or the end of the phase if nothing was. One that does not fit its schema does not pass."""
    if not outcome.ok:
        return failed(why_not(outcome))
    if work.node.output is None:
        return outcome.value
    try:
        return fitted(outcome.value, work.node.output)
    except Misread as error:
        return f"(it does not fit the schema: {error})"


def _asked(work: Work, done: Any) -> str:
    from windlass.runtime.flows.references import filled, text_of

    task = filled(work.node.task, work.values)
    made = f"Task:\n{task}\n\nWhat was made:\n{text_of(done)}"
    return f"Has this task been done as it says?\n\n{made}\n\n{asked_for(VERDICT)}"


def _verdict(outcome: Outcome) -> Any:
    if not outcome.ok:
        return failed(f"its judge did not end well: {why_not(outcome)}")
    try:
        return fitted(outcome.value, VERDICT)
    except Misread as error:
        return {"pass": False, "reason": f"the verdict could not be read: {error}"}
