"""Nodes whose work child sessions do, one at a time: spawn, verify, classify, loop."""

from __future__ import annotations

from typing import Any

from windlass.runtime.flows.references import PREVIOUS

from .answers import Misread, asked_for, fitted, one_of
from .moves import Calls, Ended, Move, Work, child, failed, told, why_not

VERDICT = {
    "type": "object",
    "properties": {"pass": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["pass", "reason"],
}
"""What a verifier answers."""
ROUND = {
    "type": "object",
    "properties": {"done": {"type": "boolean"}, "output": {}},
    "required": ["done", "output"],
}
"""What a loop answers each time."""
REASKS_MAX = 1
"""How often an answer that does not fit is asked for again."""


def spawn(work: Work) -> Move:
    """One child; its answer is the output."""
    return _answered(work, work.node.output)


def verify(work: Work) -> Move:
    """One child that judges; a verdict that something does not pass is an output like another one."""
    return _answered(work, work.node.output or VERDICT)


def _answered(work: Work, schema: dict[str, Any] | None) -> Move:
    form = asked_for(schema) if schema is not None else ""
    if not work.rounds:
        return Calls([child(work, told(work, work.node.task, form))])
    last = work.rounds[-1][0]
    if not last.ok:
        return failed(why_not(last))
    if schema is None:
        return Ended(last.value)
    try:
        return Ended(fitted(last.value, schema))
    except Misread as error:
        if len(work.rounds) > REASKS_MAX:
            return failed(f"its output does not fit the schema: {error}")
        wrong = f"An earlier answer did not fit: {error}"
        return Calls([child(work, told(work, work.node.task, form, wrong))])


def classify(work: Work) -> Move:
    """One child that chooses a branch."""
    labels = list(work.node.branches)
    form = f'Answer with JSON alone: {{"branch": one of {", ".join(labels)}}}'
    if not work.rounds:
        return Calls([child(work, told(work, work.node.task, form))])
    last = work.rounds[-1][0]
    if not last.ok:
        return failed(why_not(last))
    try:
        label = one_of(last.value, "branch", labels)
    except Misread as error:
        if len(work.rounds) > REASKS_MAX:
            return failed(f"it chose no branch: {error}")
        return Calls([child(work, told(work, work.node.task, form, f"An earlier answer could not be read: {error}"))])
    return Ended(label, branch=label)


def loop(work: Work) -> Move:
    """A child again and again, each with what the one before gave, until one says that it is done."""
    form = f"{asked_for(ROUND)}\nSay done: true when there is nothing left to do."
    previous: Any = None
    for results in work.rounds:
        if not results[0].ok:
            return failed(why_not(results[0]))
        try:
            said = fitted(results[0].value, ROUND)
        except Misread:
            said = {"done": False, "output": results[0].value}
        previous = said["output"]
        if said["done"]:
            return Ended(previous)
    if len(work.rounds) >= work.node.rounds_max:
        return Ended(previous, reason=f"it was not done after {work.node.rounds_max} rounds")
    number = f"This is round {len(work.rounds) + 1} of at most {work.node.rounds_max}."
    before = f"The round before gave:\n{previous}" if previous is not None else ""
    if f"{{{PREVIOUS}}}" in work.node.task:
        before = ""
    return Calls([child(work, told(work, work.node.task, before, number, form, **{PREVIOUS: previous}))])
