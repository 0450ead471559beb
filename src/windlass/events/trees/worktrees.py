"""Worktrees of child sessions: merged before the child ends, or settled by a person; removed when it has ended."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.base import Category, Decision, Fact, Nat
from windlass.events.values.blocks import Value
from windlass.events.values.isolation import AtEnd


class MergeBody(Value, frozen=True, kw_only=True):
    """What stood in the way of a merge."""

    files: tuple[str, ...] = ()
    """The first of the files in which both sides changed the same."""
    detail: str = ""


class WorktreeMerging(Decision, frozen=True, kw_only=True, tag="worktree.merging"):
    """The intent to bring what the session changed to where its parent works. Done again after a crash: what is there
    already is found."""

    CATEGORY: ClassVar[Category] = "proc"
    branch: str
    """The branch that holds the changes."""


class WorktreeMerged(Fact, frozen=True, kw_only=True, tag="worktree.merged"):
    """What came of a merge. Whatever stood in its way, both branches are as they were."""

    CATEGORY: ClassVar[Category] = "proc"
    outcome: Literal["merged", "unchanged", "conflict", "failed"]
    """Merged, nothing was there to merge, both sides changed the same, or git could not do it."""
    commit: str = ""
    """The commit that the parent's branch is at with the changes."""
    conflicts: Nat = 0
    """In how many files both sides changed the same."""
    body: MergeBody | None = None


class WorktreeSettled(Decision, frozen=True, kw_only=True, tag="worktree.settled"):
    """What becomes of changes that could not be merged: merged once more, kept on their branch, or dropped."""

    CATEGORY: ClassVar[Category] = "proc"
    how: AtEnd
    """What becomes of them."""
    by: Literal["person", "nobody"] = "person"
    """Whether a person said so, or nobody was there to ask."""


class WorktreeRemoved(Fact, frozen=True, kw_only=True, tag="worktree.removed"):
    """The folder of the worktree is gone; a branch that holds what was not merged is left, and named here."""

    CATEGORY: ClassVar[Category] = "proc"
    branch: str = ""
    """The branch that is kept; empty if none is."""
    commit: str = ""
    """What that branch is at."""
    detail: str = ""
    """What could not be removed, and why."""
