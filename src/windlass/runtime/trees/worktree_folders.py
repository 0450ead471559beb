"""The worktrees of child sessions on disk: made once, removed. Both may be done again after a crash: what is there
already is found, and what was left half done is done anew."""

from __future__ import annotations

import os
import shutil

from windlass.events.trees.worktrees import WorktreeRemoved
from windlass.events.values.isolation import AtEnd, Worktree

from .git_commands import Repository, repository
from .git_process import GitFailed, Patience
from .worktree_merge import committed, lock_of, tip_of, unlock

MADE = ".made"
"""How the file is called that says that a worktree is whole, and which commit it began at."""


def made(root: str, folder: str, branch: str, at_end: AtEnd, patience: Patience | None = None) -> Worktree:
    """The worktree of a branch in a folder, which is made from what is checked out in `root` unless it is there. Raises
    `GitFailed` if it cannot be."""
    with repository(root, patience=patience) as repo:
        head = repo.git(root, "rev-parse", "--verify", "HEAD^{commit}")
        base = _begun_at(repo, folder, branch)
        if base is None:
            _check_bare(repo, head, branch)
            _clear(repo, folder, branch)
            base = head
            os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
            repo.git(root, "worktree", "add", "--quiet", "-b", branch, folder, base)
            _mark(folder, base)
    return Worktree(repository=root, common=repo.common, folder=folder, branch=branch, base=base, at_end=at_end)


def _begun_at(repo: Repository, folder: str, branch: str) -> str | None:
    """The commit that a worktree began at, if it is there and whole."""
    try:
        with open(folder + MADE, encoding="ascii") as file:
            base = file.read().strip()
    except OSError:
        return None
    known = f"worktree {folder}" in repo.git(repo.common, "worktree", "list", "--porcelain").splitlines()
    return base if known and os.path.isdir(folder) and tip_of(repo, branch) else None


def _check_bare(repo: Repository, head: str, branch: str) -> None:
    """Raises `GitFailed` if a branch of this name holds what nobody else has: no crash of ours left it."""
    tip = tip_of(repo, branch)
    if tip and not repo.holds(repo.common, "merge-base", "--is-ancestor", tip, head):
        raise GitFailed(f"there is a branch {branch} with changes of its own: rename it, or delete it")


def _mark(folder: str, base: str) -> None:
    part = f"{folder}{MADE}.part"
    with open(part, "w", encoding="ascii") as file:
        file.write(base)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, folder + MADE)


def _clear(repo: Repository, folder: str, branch: str) -> None:
    """Takes away what is left of a worktree, its branch too."""
    _clear_folder(repo, folder)
    unlock(lock_of(repo, branch))
    if tip_of(repo, branch):
        repo.git(repo.common, "branch", "--quiet", "-D", branch)


def _clear_folder(repo: Repository, folder: str) -> None:
    unlock(folder + MADE)
    if repo.tried(repo.common, "worktree", "remove", "--force", "--force", folder).returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
    repo.git(repo.common, "worktree", "prune", "--expire", "now")


def removed(tree: Worktree, why: str, *, keeps: bool, patience: Patience | None = None) -> WorktreeRemoved:
    """Takes the folder of a worktree away, and its branch too unless that holds what nobody has. Never raises: what
    could not be done is said."""
    try:
        # In older logs only a folder leads to the repository: its own if that of a parent that has ended went first.
        there = tree.repository if os.path.isdir(tree.repository) else tree.folder
        with repository(there, tree.common, patience) as repo:
            return _removed(repo, tree, why, keeps=keeps)
    except (GitFailed, OSError) as error:
        return WorktreeRemoved(branch=tree.branch if keeps else "", detail=f"{tree.folder} is left: {error}")


def _removed(repo: Repository, tree: Worktree, why: str, *, keeps: bool) -> WorktreeRemoved:
    if keeps and os.path.isdir(tree.folder):
        committed(repo, tree, why)
    tip = tip_of(repo, tree.branch)
    if not keeps or not tip or tip == tree.base or _is_merged(repo, tree, tip):
        _clear(repo, tree.folder, tree.branch)
        return WorktreeRemoved()
    _clear_folder(repo, tree.folder)
    return WorktreeRemoved(branch=tree.branch, commit=tip)


def _is_merged(repo: Repository, tree: Worktree, tip: str) -> bool:
    """Whether the worktree that it was made from has all of it. That one may be gone, with the child session that
    worked there: then nobody can say so."""
    try:
        return repo.holds(tree.repository, "merge-base", "--is-ancestor", tip, "HEAD")
    except GitFailed:
        return False
