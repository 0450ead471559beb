"""What performs the effects that few sessions ever have: of children, workflows, machines, schedules and archives.

A session that answers prompts and calls tools needs none of it, so each is made when it is first needed: what all of
them held would be paid for by whoever has many sessions at once, with memory and with the collector's time.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from windlass.kernel.effects import BeginOccurrence, ComputeTimes
from windlass.runtime.context.archive import LogArchive
from windlass.runtime.context.archive_pager import Pager
from windlass.runtime.drive.children import Children
from windlass.runtime.drive.effect_outcome import Done
from windlass.runtime.flows.node_work import NodeWork
from windlass.runtime.flows.submission import Submission
from windlass.runtime.machines.state_work import StateWork
from windlass.runtime.trees.session_children import Trees
from windlass.runtime.trees.session_worktree import SessionWorktree
from windlass.runtime.trees.tree_tools import TreeTools

if TYPE_CHECKING:
    from windlass.runtime.bind.bound_agent import Bound
    from windlass.runtime.hooks.session_hooks import SessionHooks
    from windlass.runtime.owner.owner import Owner


class Occurs(Protocol):
    """What performs the effects of schedules."""

    def perform(self, owner: Owner, effect: ComputeTimes | BeginOccurrence) -> Coroutine[Any, Any, Done]: ...


class SharedHands:
    """What those of all sessions of a runtime are made of."""

    def __init__(self, archive: LogArchive, trees: Trees, children: Children | None) -> None:
        self.archive = archive
        self.trees = trees
        self.children = children
        """Who starts children, if somebody else is to."""
        self.occurrences: Occurs | None = None
        """What begins the occurrences of schedules; it opens sessions, so it is put here once there is an opener."""


class RareHands:
    """Those of one session."""

    def __init__(self, owner: Owner, bound: Bound, hooks: SessionHooks, shared: SharedHands) -> None:
        self._owner = owner
        self._bound = bound
        self._hooks = hooks
        self._shared = shared

    @cached_property
    def pager(self) -> Pager:
        return Pager(self._owner, self._bound.agent.archive, self._shared.archive)

    @cached_property
    def children(self) -> Children:
        return self._shared.children or self._shared.trees.of(self._owner, self._bound)

    @cached_property
    def worktree(self) -> SessionWorktree:
        return SessionWorktree(self._owner, self._bound, self._shared.trees.git)

    @cached_property
    def nodes(self) -> NodeWork:
        return NodeWork(self._owner, self._bound, self._hooks)

    @cached_property
    def states(self) -> StateWork:
        return StateWork(self._owner, self._bound, self._hooks)

    @cached_property
    def submission(self) -> Submission:
        return self._shared.trees.submission(self._owner)

    @cached_property
    def tree_tools(self) -> TreeTools:
        return self._shared.trees.tools(self._owner)

    def occur(self, effect: ComputeTimes | BeginOccurrence) -> Coroutine[Any, Any, Done]:
        """Works out the times of a schedule, or begins what is due."""
        assert self._shared.occurrences is not None, "the host is put together"
        return self._shared.occurrences.perform(self._owner, effect)
