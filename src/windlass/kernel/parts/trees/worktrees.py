"""The worktree of a child session: what it changed is merged before its run ends well, and the folder removed behind.

session.started(worktree) ──▶ open ──▶ worktree.merging ──▶ worktree.merged ──┬──▶ merged: the run ends
                               ▲  ▲                                           └──▶ a conflict: question.requested
                               │  └── a further turn: there is more to merge                     │
                               └── worktree.settled: merge again │ keep │ drop ◀── answer.received
(the child has ended, however) ──▶ the folder goes ──▶ worktree.removed

Whatever was not merged stays on the child's branch, unless it was to be dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from windlass.events.errors import Refused
from windlass.events.questions import (
    AnswerReceived,
    Option,
    Question,
    QuestionBody,
    QuestionRequested,
    QuestionWithdrawn,
)
from windlass.events.sessions import SessionForked, SessionImported, SessionStarted
from windlass.events.trees.worktrees import WorktreeMerged, WorktreeMerging, WorktreeRemoved, WorktreeSettled
from windlass.events.values.ids import question_id
from windlass.events.values.isolation import AtEnd, Worktree
from windlass.kernel.effects import MergeWorktree, RemoveWorktree
from windlass.kernel.part import Decisions, Misfit, Part, Row
from windlass.kernel.parts import runs
from windlass.kernel.parts.trees import child_side
from windlass.kernel.phases import STARTED, WORKING, Idle

if TYPE_CHECKING:
    from windlass.kernel.state import State

CHOICES: dict[str, AtEnd] = {"merge again": "merge", "keep both branches": "keep", "drop the changes": "drop"}
"""What a person may say to a merge that could not be made."""
ABOUT = {
    "merge": "once the two branches fit, or what stood in the way is gone",
    "keep": "the changes stay on their own branch",
    "drop": "what the child changed is thrown away",
}
FILES_SHOWN_MAX = 20


class OwnTree(msgspec.Struct, kw_only=True, gc=False):
    """The worktree that the session works in; blank if it has none."""

    made: Worktree | None = None
    status: Literal["open", "merging", "asked", "merged", "removed"] = "open"
    how: AtEnd = "merge"
    """What becomes of the changes: as the author said, or a person since."""
    seq: int = 0
    """Where the last merge was begun."""
    question: str = ""
    """What a person is asked about it."""


# --- verbs --------------------------------------------------------------------------------------------------------


def taken_up_again(state: State) -> None:
    """A turn begins: whatever was merged, there may be more to merge now."""
    state.tree.status = "open"


# --- questions ----------------------------------------------------------------------------------------------------


def is_to_be_merged(state: State) -> bool:
    """Whether a run that would end well has something to merge first."""
    tree = state.tree
    return tree.made is not None and tree.how == "merge" and tree.status == "open"


def holds_up(state: State) -> bool:
    """Whether a merge is under way, or a person is asked about it."""
    return state.tree.status in ("merging", "asked")


def is_asked(state: State, fact: AnswerReceived) -> bool:
    """Whether an answer is to what was asked about the merge."""
    return state.tree.status == "asked" and fact.question_id == state.tree.question


def rests(state: State) -> bool:
    """Whether nobody is there to say what becomes of a merge that could not be made."""
    asked = [ask for ask in state.asks.open.values() if not ask.call_id]
    return state.tree.status == "asked" and all(ask.missed for ask in asked)


# --- fold ---------------------------------------------------------------------------------------------------------


def session_started(state: State, event: SessionStarted) -> None:
    if event.worktree is not None:
        state.tree = OwnTree(made=event.worktree, how=event.worktree.at_end)


def carried_over(state: State, event: SessionForked | SessionImported) -> None:
    """The worktree is the origin's own."""
    state.tree = OwnTree()


def merging(state: State, event: WorktreeMerging) -> None:
    if not is_to_be_merged(state) or not state.active:
        raise Misfit("there is nothing to merge")
    state.tree.status, state.tree.seq = "merging", state.seq
    runs.between(state)


def merged(state: State, event: WorktreeMerged) -> None:
    state.tree.status = "merged" if event.outcome in ("merged", "unchanged") else "asked"
    state.tree.question = question_id(state.seq + 1)
    runs.between(state)


def question_gone(state: State) -> None:
    """What was asked about the merge is withdrawn: the run was stopped, or nobody is asked any more."""
    if state.tree.status == "asked":
        state.tree.status = "open"


def settled(state: State, event: WorktreeSettled) -> None:
    state.tree.status, state.tree.how = "open", event.how
    if state.active:
        runs.between(state)


def removed(state: State, event: WorktreeRemoved) -> None:
    state.tree.status = "removed"


# --- when, and what follows ---------------------------------------------------------------------------------------


def check_merged(state: State, fact: WorktreeMerged) -> None:
    if state.tree.status != "merging" or not state.active:
        raise Refused("stale", "nobody waits for a merge")


def check_removed(state: State, fact: WorktreeRemoved) -> None:
    if not is_to_be_removed(state):
        raise Refused("stale", "the worktree is in use, or gone already")


def on_merged(state: State, fact: WorktreeMerged) -> Decisions:
    made = state.tree.made
    if made is not None and state.tree.status == "asked":
        yield QuestionRequested(
            question_id=question_id(state.seq + 1), call_id="", kind="choice", body=asked(made, fact)
        )


def asked(made: Worktree, fact: WorktreeMerged) -> QuestionBody:
    """What a person is asked about a merge that could not be made."""
    body = fact.body
    files = body.files if body is not None else ()
    more = f" and {fact.conflicts - len(files)} more" if fact.conflicts > len(files) else ""
    why = f"both sides changed {', '.join(files)}{more}" if fact.outcome == "conflict" else "git could not do it"
    told = f": {body.detail}" if body is not None and body.detail else ""
    message = (
        f"the changes on branch {made.branch} cannot be merged into what is checked out in {made.repository}: "
        f"{why}{told}. Both branches are as they were."
    )
    options = tuple(Option(label=label, description=ABOUT[how]) for label, how in CHOICES.items())
    question = Question(question="What becomes of the changes?", header="worktree", options=options, free_text=False)
    return QuestionBody(message=message, questions=(question,))


def on_answer(state: State, fact: AnswerReceived) -> Decisions:
    """What a person said to it. Whoever does not say keeps both."""
    answers = fact.body.answers if fact.body is not None and fact.outcome == "answered" else ()
    said = (*answers[0].selected, answers[0].text or "")[0] if answers else ""
    yield WorktreeSettled(how=CHOICES.get(said.strip(), "keep"))


def on_nobody(state: State, question: str) -> Decisions:
    """Nobody is waited for: both branches stay."""
    yield QuestionWithdrawn(question_id=question, reason="superseded")
    yield WorktreeSettled(how="keep", by="nobody")


# --- what is owed -------------------------------------------------------------------------------------------------


def is_to_be_removed(state: State) -> bool:
    """Whether the child has ended and its folder is still there."""
    tree = state.tree
    if tree.made is None or tree.status == "removed":
        return False
    return isinstance(state.phase, Idle) and child_side.has_ended(state)


def owes(state: State) -> Iterable[MergeWorktree | RemoveWorktree]:
    tree = state.tree
    if tree.made is None:
        return ()
    if tree.status == "merging" and state.active:
        return (MergeWorktree(effect_id=f"worktree/{tree.seq}", worktree=tree.made),)
    if is_to_be_removed(state):
        keeps = tree.how == "keep" or (tree.how == "merge" and tree.status != "merged")
        return (RemoveWorktree(effect_id="worktree/removed", worktree=tree.made, keeps=keeps),)
    return ()


PART = Part(
    name="worktrees",
    facts={
        WorktreeMerged: Row(when=WORKING, check=check_merged, fold=merged, then=on_merged),
        WorktreeRemoved: Row(when=STARTED, check=check_removed, fold=removed),
    },
    decisions={WorktreeMerging: merging, WorktreeSettled: settled},
    hears={
        SessionStarted: session_started,
        SessionForked: carried_over,
        SessionImported: carried_over,
    },
    keeps=lambda state: state.tree.made,
    owes=owes,
)
