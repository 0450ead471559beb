"""The worktree of one child session: where it lies, and who performs its merge and its removal."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from windlass.events.errors import UsageError
from windlass.events.values.isolation import Worktree
from windlass.kernel.effects import MergeWorktree, RemoveWorktree
from windlass.runtime.drive.effect_outcome import Done
from windlass.runtime.host.shielded_work import to_its_end
from windlass.runtime.jobs.job_place import state_folder

from . import worktree_folders
from .git_commands import GitFailed

if TYPE_CHECKING:
    from windlass.runtime.api.agent import Agent
    from windlass.runtime.bind.bound_agent import Bound
    from windlass.runtime.owner.owner import Owner

T = TypeVar("T")

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


async def made_for(name: str, root: str, agent: Agent) -> Worktree:
    """The worktree of a child, made from a repository unless it is there. Raises `UsageError` if it cannot be."""
    try:
        return await _by_git(lambda: worktree_folders.made(root, place_of(name), f"windlass/{name}", agent.at_end))
    except (GitFailed, OSError) as error:
        raise UsageError(f"no worktree can be made for it: {error}") from error


async def _by_git(work: Callable[[], T]) -> T:
    """In a thread, since git may take its time, and to its end even if nobody waits for it any more: who has closed a
    runtime may do with the repository what he likes."""
    return await to_its_end(asyncio.ensure_future(asyncio.to_thread(work)))


class SessionWorktree:
    """Performs what a session owes its worktree."""

    def __init__(self, owner: Owner, bound: Bound) -> None:
        self._owner = owner
        self._bound = bound

    async def perform(self, effect: MergeWorktree | RemoveWorktree) -> Done:
        """What came of a merge or a removal, as a fact."""
        why = f"{self._bound.agent.display_name or self._bound.agent.name} ({self._owner.key.session})"
        if isinstance(effect, MergeWorktree):
            merged = await _by_git(lambda: worktree_folders.merged(effect.worktree, why))
            self._owner.ports.point("worktree_merged")
            return Done(merged)
        removed = await _by_git(lambda: worktree_folders.removed(effect.worktree, why, keeps=effect.keeps))
        self._owner.ports.point("worktree_removed")
        return Done(removed)
