"""The merge of a child session's worktree into what it was made from. It may be done again after a crash."""

from __future__ import annotations

import os
from contextlib import suppress

from windlass.events.trees.worktrees import MergeBody, WorktreeMerged
from windlass.events.values.isolation import Worktree
from windlass.runtime.workspace.git import git_folder

from .git_commands import Repository, repository, said
from .git_process import GitFailed, Patience

FILES_TOLD_MAX = 20


def tip_of(repo: Repository, branch: str) -> str:
    """What a branch is at; empty if there is none."""
    return repo.found(repo.common, "rev-parse", "--verify", "-q", f"refs/heads/{branch}")


def merged(tree: Worktree, why: str, patience: Patience | None = None) -> WorktreeMerged:
    """Brings what is in a worktree to where it was made from. `why` is the text of commits that are made."""
    try:
        with repository(tree.repository, tree.common, patience) as repo:
            return _merged(repo, tree, why)
    except (GitFailed, OSError) as error:
        return WorktreeMerged(outcome="failed", body=MergeBody(detail=str(error)))


def _merged(repo: Repository, tree: Worktree, why: str) -> WorktreeMerged:
    tip, here = committed(repo, tree, why), tree.repository
    head = repo.git(here, "rev-parse", "--verify", "HEAD^{commit}")
    if repo.holds(here, "merge-base", "--is-ancestor", tip, head):
        return WorktreeMerged(outcome="unchanged" if tip == tree.base else "merged", commit=head)
    target = tip
    if not repo.holds(here, "merge-base", "--is-ancestor", head, tip):
        tried = repo.tried(here, "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", head, tip)
        joined, *files = tried.stdout.decode("utf-8", "replace").rstrip("\0").split("\0")
        if tried.returncode == 1:
            shown = tuple(files[:FILES_TOLD_MAX])
            return WorktreeMerged(outcome="conflict", conflicts=len(files), body=MergeBody(files=shown))
        if tried.returncode != 0:
            raise GitFailed(f"git merge-tree: {said(tried)}")
        target = repo.git(here, "commit-tree", joined, "-p", head, "-p", tip, "-m", f"Merge {tree.branch}: {why}")
    # The merge is known to fit: this only moves the checkout on, and changes nothing at all if it cannot. It is not cut
    # off when nobody waits any more: half of it would stand in a folder that is not ours.
    repo.git(here, "merge", "--ff-only", "--quiet", target, finishes=True)
    return WorktreeMerged(outcome="merged", commit=target)


def committed(repo: Repository, tree: Worktree, why: str) -> str:
    """The commit that holds all that was changed in a worktree; its branch is at it."""
    _take_locks_away(repo, tree)
    repo.git(tree.folder, "add", "--all")
    if not repo.holds(tree.folder, "diff", "--cached", "--quiet"):
        repo.git(tree.folder, "commit", "--quiet", "--no-verify", "-m", why)
    tip = repo.git(tree.folder, "rev-parse", "--verify", "HEAD^{commit}")
    repo.git(tree.folder, "update-ref", f"refs/heads/{tree.branch}", tip)
    return tip


def _take_locks_away(repo: Repository, tree: Worktree) -> None:
    """Takes away what a git that was killed left in a worktree, whose work is done, and beside its branch. None of ours
    is at work there: the repository is locked. What such a git left elsewhere is somebody else's, and git names it."""
    repo.require_checkout(tree.folder)
    inside = git_folder(os.path.join(tree.folder, ".git"))
    assert inside is not None, "a checkout has a folder of git's"
    unlock(os.path.join(inside, "index.lock"), os.path.join(inside, "HEAD.lock"), lock_of(repo, tree.branch))


def lock_of(repo: Repository, branch: str) -> str:
    return os.path.join(repo.common, "refs/heads", f"{branch}.lock")


def unlock(*paths: str) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)
