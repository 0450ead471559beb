"""Where a child session works: in its parent's folder, there without writing, or in a worktree of its own."""

from __future__ import annotations

from typing import Literal

from .blocks import Value

Isolation = Literal["shared", "worktree", "read_only"]
"""How a child is kept apart, from the freest to the strictest: it works in its parent's folder, in a git worktree of
its own, or in its parent's folder without changing anything."""
AtEnd = Literal["merge", "keep", "drop"]
"""What becomes of a worktree's changes when the child has done its work: merged into the branch that its parent works
on, kept on a branch of their own, or thrown away."""

STRICTER: tuple[Isolation, ...] = ("shared", "worktree", "read_only")


def strictest(*given: Isolation | None) -> Isolation:
    """The strictest of some isolations; shared if none is named."""
    return max((one for one in given if one is not None), key=STRICTER.index, default="shared")


class Worktree(Value, frozen=True, kw_only=True):
    """A git worktree that was made for one child session."""

    repository: str
    """The folder of the worktree that it was made from: there its changes are merged."""
    folder: str
    """Its own folder."""
    branch: str
    """Its own branch, under a name that is derived from the session's id."""
    base: str
    """The commit that it began at."""
    at_end: AtEnd = "merge"
    common: str = ""
    """Where the repository keeps its branches and its list of worktrees; empty in older logs, in which the folder that
    it was made from leads there."""
