"""Loop: a child again and again, until one says that it is done."""

from __future__ import annotations

from typing import Any

from windlass.runtime.flows.references import PREVIOUS

from .model_answers import Misread, asked_for, fitted
from .move import Calls, Ended, Move, Work, child, failed, told, why_not

ROUND = {
    "type": "object",
    "properties": {"done": {"type": "boolean"}, "output": {}},
    "required": ["done", "output"],
}
"""What a loop answers each time."""


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
