"""The worktree of one child session: where it lies, and who performs its merge and its removal."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

from windlass.events.errors import UsageError
from windlass.events.user_folders import state_folder
from windlass.events.values.isolation import Worktree
from windlass.kernel.effects import MergeWorktree, RemoveWorktree
from windlass.runtime.drive.effect_outcome import Done

from . import worktree_folders, worktree_merge
from .git_process import GitFailed, Patience
from .git_threads import GitWork

if TYPE_CHECKING:
    from windlass.runtime.api.agent import Agent
    from windlass.runtime.bind.bound_agent import Bound
    from windlass.runtime.owner.owner import Owner

DIGEST_CHARS = 16
NAME_CHARS_MAX = 40


def identity_of(store: Any) -> str:
    """What tells the sessions of a store from those of another one: where it lies, if it lies anywhere."""
    path = getattr(store, "path", None)
    return os.path.realpath(path) if isinstance(path, str | os.PathLike) else ""


def name_of(session: str, *parts: str) -> str:
    """The name of a child's worktree and branch, derived from its id, its store and when its parent began."""
    plain = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in session)[:NAME_CHARS_MAX].strip("-")
    whole = hashlib.blake2b("\0".join((*parts, session)).encode("utf-8", "surrogateescape"), digest_size=16)
    return f"{plain or 'child'}-{whole.hexdigest()[:DIGEST_CHARS]}"


def place_of(name: str) -> str:
    """Where a worktree of this name lies."""
    return os.path.join(os.path.realpath(state_folder()), "windlass", "trees", name)


def folder_in(worktree: Worktree, folder: str) -> str:
    """The place in a worktree that is its parent's folder in the repository; made if the commit has none."""
    place = os.path.normpath(os.path.join(worktree.folder, os.path.relpath(folder, worktree.repository)))
    os.makedirs(place, exist_ok=True)
    return place


async def made_for(name: str, root: str, folder: str, agent: Agent, git: GitWork) -> tuple[Worktree, str]:
    """The worktree of a child, made from a repository unless it is there, and the place in it that is `folder` of the
    repository. Raises `UsageError` if it cannot be."""

    def make(patience: Patience) -> tuple[Worktree, str]:
        made = worktree_folders.made(root, place_of(name), f"windlass/{name}", agent.at_end, patience)
        return made, folder_in(made, folder)

    try:
        return await git.perform(root, make)
    except (GitFailed, OSError) as error:
        raise UsageError(f"no worktree can be made for it: {error}") from error


class SessionWorktree:
    """Performs what a session owes its worktree."""

    def __init__(self, owner: Owner, bound: Bound, git: GitWork) -> None:
        self._owner = owner
        self._bound = bound
        self._git = git

    async def perform(self, effect: MergeWorktree | RemoveWorktree) -> Done:
        """What came of a merge or a removal, as a fact."""
        why = f"{self._bound.agent.display_name or self._bound.agent.name} ({self._owner.key.session})"
        if isinstance(effect, MergeWorktree):
            merged = await self._git.perform(
                effect.worktree.repository, lambda patience: worktree_merge.merged(effect.worktree, why, patience)
            )
            self._owner.ports.point("worktree_merged")
            return Done(merged)
        removed = await self._git.perform(
            effect.worktree.repository,
            lambda patience: worktree_folders.removed(effect.worktree, why, keeps=effect.keeps, patience=patience),
        )
        self._owner.ports.point("worktree_removed")
        return Done(removed)
