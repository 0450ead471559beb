"""Classify: one child that chooses a branch."""

from __future__ import annotations

from .model_answers import Misread, one_of
from .move import Calls, Ended, Move, Work, child, failed, told, why_not
from .spawn import REASKS_MAX


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
