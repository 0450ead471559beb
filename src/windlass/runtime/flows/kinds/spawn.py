"""Spawn and verify: one child, whose answer or verdict is the output."""

from __future__ import annotations

from typing import Any

from .model_answers import Misread, asked_for, fitted
from .move import Calls, Ended, Move, Work, child, failed, told, why_not

VERDICT = {
    "type": "object",
    "properties": {"pass": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["pass", "reason"],
}
"""What a verifier answers."""

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
