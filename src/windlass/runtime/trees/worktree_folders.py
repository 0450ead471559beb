"""The worktrees of child sessions on disk: made once, merged, removed. Each of these may be done again after a crash:
what is there already is found, and what was left half done is done anew."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from windlass.events.trees.worktrees import MergeBody, WorktreeMerged, WorktreeRemoved
from windlass.events.values.isolation import AtEnd, Worktree

from .git_commands import GitFailed, Repository, main_of, repository, said

FILES_TOLD_MAX = 20
MADE = ".made"
"""How the file is called that says that a worktree is whole, and which commit it began at."""


def made(root: str, folder: str, branch: str, at_end: AtEnd) -> Worktree:
    """The worktree of a branch in a folder, which is made from what is checked out in `root` unless it is there. Raises
    `GitFailed` if it cannot be."""
    with repository(root) as repo:
        base = _begun_at(repo, root, folder, branch)
        if base is None:
            _check_bare(repo, root, branch)
            _clear(repo, root, folder, branch)
            base = repo.git(root, "rev-parse", "--verify", "HEAD^{commit}")
            os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
            repo.git(root, "worktree", "add", "--quiet", "-b", branch, folder, base)
            _mark(folder, base)
    return Worktree(repository=root, folder=folder, branch=branch, base=base, at_end=at_end)


def _begun_at(repo: Repository, root: str, folder: str, branch: str) -> str | None:
    """The commit that a worktree began at, if it is there and whole."""
    try:
        with open(folder + MADE, encoding="ascii") as file:
            base = file.read().strip()
    except OSError:
        return None
    known = f"worktree {folder}" in repo.git(root, "worktree", "list", "--porcelain").splitlines()
    there = known and os.path.isdir(folder) and repo.holds(root, "rev-parse", "--verify", "-q", f"refs/heads/{branch}")
    return base if there else None


def _check_bare(repo: Repository, root: str, branch: str) -> None:
    """Raises `GitFailed` if a branch of this name holds what nobody else has: no crash of ours left it."""
    ours = repo.holds(root, "merge-base", "--is-ancestor", f"refs/heads/{branch}", "HEAD")
    if not ours and repo.holds(root, "rev-parse", "--verify", "-q", f"refs/heads/{branch}"):
        raise GitFailed(f"there is a branch {branch} with changes of its own: rename it, or delete it")


def _mark(folder: str, base: str) -> None:
    part = f"{folder}{MADE}.part"
    with open(part, "w", encoding="ascii") as file:
        file.write(base)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, folder + MADE)


def _clear(repo: Repository, root: str, folder: str, branch: str) -> None:
    """Takes away what is left of a worktree, its branch too."""
    _clear_folder(repo, root, folder)
    if repo.holds(root, "rev-parse", "--verify", "-q", f"refs/heads/{branch}"):
        repo.git(root, "branch", "--quiet", "-D", branch)


def _clear_folder(repo: Repository, root: str, folder: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(folder + MADE)
    if not repo.holds(root, "worktree", "remove", "--force", "--force", folder):
        shutil.rmtree(folder, ignore_errors=True)
    repo.git(root, "worktree", "prune", "--expire", "now")


def merged(tree: Worktree, why: str) -> WorktreeMerged:
    """Brings what is in a worktree to where it was made from. `why` is the text of commits that are made."""
    try:
        with repository(tree.repository) as repo:
            return _merged(repo, tree, why)
    except (GitFailed, OSError) as error:
        return WorktreeMerged(outcome="failed", body=MergeBody(detail=str(error)))


def _merged(repo: Repository, tree: Worktree, why: str) -> WorktreeMerged:
    tip, here = _committed(repo, tree, why), tree.repository
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
    # The merge is known to fit: this only moves the checkout on, and changes nothing at all if it cannot.
    repo.git(here, "merge", "--ff-only", "--quiet", target)
    return WorktreeMerged(outcome="merged", commit=target)


def _committed(repo: Repository, tree: Worktree, why: str) -> str:
    """The commit that holds all that was changed in a worktree; its branch is at it."""
    repo.git(tree.folder, "add", "--all")
    if not repo.holds(tree.folder, "diff", "--cached", "--quiet"):
        repo.git(tree.folder, "commit", "--quiet", "--no-verify", "-m", why)
    tip = repo.git(tree.folder, "rev-parse", "--verify", "HEAD^{commit}")
    repo.git(tree.folder, "update-ref", f"refs/heads/{tree.branch}", tip)
    return tip


def removed(tree: Worktree, why: str, *, keeps: bool) -> WorktreeRemoved:
    """Takes the folder of a worktree away, and its branch too unless that holds what nobody has. Never raises: what
    could not be done is said."""
    try:
        try:
            return _removed(tree.repository, tree, why, keeps=keeps)
        except (GitFailed, OSError):
            if os.path.isdir(tree.repository):
                raise
            # Made from the worktree of a parent that has ended, and went first: no order holds between the two.
            return _removed(main_of(tree.folder), tree, why, keeps=keeps)
    except (GitFailed, OSError) as error:
        return WorktreeRemoved(branch=tree.branch if keeps else "", detail=f"{tree.folder} is left: {error}")


def _removed(root: str, tree: Worktree, why: str, *, keeps: bool) -> WorktreeRemoved:
    with repository(root) as repo:
        return _taken_away(repo, root, tree, why, keeps=keeps)


def _taken_away(repo: Repository, root: str, tree: Worktree, why: str, *, keeps: bool) -> WorktreeRemoved:
    if keeps and os.path.isdir(tree.folder):
        _committed(repo, tree, why)
    named = repo.tried(root, "rev-parse", "--verify", "-q", f"refs/heads/{tree.branch}")
    tip = named.stdout.decode("ascii", "replace").strip()
    gone = not tip or tip == tree.base or repo.holds(root, "merge-base", "--is-ancestor", tip, "HEAD")
    if not keeps or gone:
        _clear(repo, root, tree.folder, tree.branch)
        return WorktreeRemoved()
    _clear_folder(repo, root, tree.folder)
    return WorktreeRemoved(branch=tree.branch, commit=tip)
