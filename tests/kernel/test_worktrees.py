"""The worktree of a child as the kernel sees it: what is owed when, and what follows from each outcome."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.kernel.session import Session, setup
from windlass.events.errors import Refused
from windlass.events.questions import Answer, AnswerBody, QuestionRequested
from windlass.events.runs import RunAsked, RunCompleted
from windlass.events.sessions import SessionStarted
from windlass.events.trees.worktrees import MergeBody, WorktreeMerged, WorktreeMerging, WorktreeRemoved, WorktreeSettled
from windlass.events.values.isolation import AtEnd, Worktree
from windlass.events.values.settings import Settings
from windlass.kernel.effects import MergeWorktree, RemoveWorktree

CONFLICT = WorktreeMerged(outcome="conflict", conflicts=1, body=MergeBody(files=("a.txt",)))


def tree(at_end: AtEnd = "merge") -> Worktree:
    return Worktree(repository="/r", folder="/t", branch="windlass/x", base="0" * 40, at_end=at_end)


def child(at_end: AtEnd = "merge", **changes: Any) -> Session:
    """A child at work in a worktree."""
    session = Session("s~c1.0", start=False)
    session.take(
        SessionStarted(
            command_id="start",
            session_id="s~c1.0",
            epoch=1,
            setup=setup(**changes),
            parent_id="s",
            parent_call_id="c1.0",
            root_id="s",
            depth=1,
            worktree=tree(at_end),
        )
    )
    session.prompt("work")
    return session


def last(session: Session, kind: type[Any]) -> Any:
    return [event for event in session.events() if isinstance(event, kind)][-1]


def test_a_run_that_would_end_well_merges_first():
    session = child()
    session.reply("done")
    assert isinstance(session.events()[-1], WorktreeMerging)
    (owed,) = session.owed()
    assert isinstance(owed, MergeWorktree)
    session.take(WorktreeMerged(outcome="merged", commit="1" * 40))
    assert isinstance(session.events()[-1], RunCompleted)
    assert session.owed() == (RemoveWorktree(effect_id="worktree/removed", worktree=tree(), keeps=False),)
    session.take(WorktreeRemoved())
    assert session.owed() == ()


@pytest.mark.parametrize(("at_end", "keeps"), [("keep", True), ("drop", False)])
def test_what_is_not_to_be_merged_is_not(at_end: AtEnd, keeps: bool):
    session = child(at_end)
    session.reply("done")
    assert session.owed() == (RemoveWorktree(effect_id="worktree/removed", worktree=tree(at_end), keeps=keeps),)


def test_a_run_that_was_stopped_keeps_what_was_not_merged():
    for first in (True, False):
        session = child()
        if first:
            session.reply("done")  # the merge is under way
        session.interrupt()
        assert session.owed() == (RemoveWorktree(effect_id="worktree/removed", worktree=tree(), keeps=True),)
        with pytest.raises(Refused):
            session.take(WorktreeMerged(outcome="merged"))


def test_what_was_said_during_a_merge_begins_a_turn_and_then_another_merge():
    session = child()
    session.reply("done")
    session.prompt("and one more thing", behavior="steer")
    session.take(WorktreeMerged(outcome="merged"))
    session.reply("done too")
    assert isinstance(session.events()[-1], WorktreeMerging)


def test_a_merge_that_was_cut_off_is_owed_to_the_next_owner():
    session = child()
    session.reply("done")
    session.crash()
    assert [type(effect) for effect in session.owed()] == [MergeWorktree]


@pytest.mark.parametrize(
    ("picked", "how"), [("merge again", "merge"), ("keep both branches", "keep"), ("drop the changes", "drop")]
)
def test_a_conflict_is_asked_about_and_settled_as_a_person_says(picked: str, how: AtEnd):
    session = child()
    session.reply("done")
    session.take(CONFLICT)
    question = last(session, QuestionRequested)
    assert (question.call_id, session.owed()[0].ask_id) == ("", question.question_id)  # type: ignore[union-attr]
    session.nobody()
    assert last(session, RunAsked).waiting_for == (question.question_id,)
    session.answer(question.question_id, body=AnswerBody(answers=(Answer(index=0, selected=(picked,)),)))
    assert last(session, WorktreeSettled).how == how
    ends = WorktreeMerging if how == "merge" else RunCompleted
    assert isinstance(session.events()[-1], ends)
    assert session.folded() == session.state


def test_a_choice_that_was_typed_counts_and_other_words_keep_both():
    for text, how in (("drop the changes", "drop"), ("no idea", "keep")):
        session = child()
        session.reply("done")
        session.take(CONFLICT)
        body = AnswerBody(answers=(Answer(index=0, text=text),))
        session.answer(last(session, QuestionRequested).question_id, body=body)
        assert last(session, WorktreeSettled).how == how


@pytest.mark.parametrize("outcome", ["declined", "cancelled"])
def test_who_does_not_say_keeps_both(outcome: Literal["declined", "cancelled"]):
    session = child()
    session.reply("done")
    session.take(CONFLICT)
    session.answer(last(session, QuestionRequested).question_id, outcome=outcome)
    assert last(session, WorktreeSettled).how == "keep"


def test_in_autopilot_both_are_kept_without_asking():
    session = child(mode="autopilot", settings=Settings(nudges_max=0), tools=())
    session.reply("done")
    session.take(CONFLICT)
    session.nobody()
    settled = last(session, WorktreeSettled)
    assert (settled.how, settled.by) == ("keep", "nobody")
    assert isinstance(session.events()[-1], RunCompleted)


def test_a_fork_has_no_part_in_the_worktree():
    session = child()
    session.reply("done")
    fork = session.fork(session.state.seq)
    assert fork.state.tree.made is None
    assert fork.owed() == ()
