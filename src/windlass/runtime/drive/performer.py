"""Performs one effect and reports what came of it as a fact. Knows nothing of the log; never decides."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, assert_never

from windlass.events.base import Command
from windlass.kernel.effects import (
    AnyEffect,
    AskPerson,
    AwaitClient,
    BeginOccurrence,
    CallModel,
    ComputeNode,
    ComputeState,
    ComputeTimes,
    MergeWorktree,
    PageOut,
    PrepareCall,
    PutFilesBack,
    RemoveWorktree,
    RunTool,
    SetTimer,
    StartChild,
    WatchJob,
)

from .effect_outcome import Done

if TYPE_CHECKING:
    from windlass.runtime.bind.bound_agent import Bound
    from windlass.runtime.hooks.session_hooks import SessionHooks
    from windlass.runtime.host.rare_hands import RareHands

    from .jobs import Jobs
    from .model_calls import ModelCalls
    from .people import People
    from .tool_calls import ToolCalls


class Performer:
    """The hands of one session's driver: each kind of effect has its own."""

    def __init__(
        self,
        bound: Bound,
        hooks: SessionHooks,
        models: ModelCalls,
        tools: ToolCalls,
        people: People,
        jobs: Jobs,
        rare: RareHands,
    ) -> None:
        self.bound = bound
        self.hooks = hooks
        self.models = models
        self.tools = tools
        self.people = people
        self.jobs = jobs
        self.rare = rare
        self.finish_rewind: Callable[[], Coroutine[Any, Any, None]] | None = None
        """How a rewind that was cut off is finished; the mailbox says so."""

    def perform(self, effect: AnyEffect) -> Coroutine[Any, Any, Done | Command | None]:
        """What came of an effect: a fact, or the command by which somebody answered. None if it is not owed any more,
        or nobody was there to answer. No coroutine of its own: every session that waits would hold it."""
        if isinstance(effect, CallModel):
            return self.models.call(effect)
        if isinstance(effect, RunTool):
            return self.tools.run(effect)
        if isinstance(effect, PrepareCall):
            return self.tools.prepare(effect)
        if isinstance(effect, AskPerson):
            return self.people.ask(effect)
        if isinstance(effect, StartChild):
            return self.rare.children.ended(effect)
        if isinstance(effect, WatchJob):
            return self.jobs.watch(effect)
        if isinstance(effect, ComputeTimes | BeginOccurrence):
            return self.rare.occur(effect)
        if isinstance(effect, ComputeNode):
            return self.rare.nodes.compute(effect)
        if isinstance(effect, MergeWorktree | RemoveWorktree):
            return self.rare.worktree.perform(effect)
        if isinstance(effect, ComputeState):
            return self.rare.states.compute(effect)
        if isinstance(effect, PageOut):
            return self._page_out(effect)
        if isinstance(effect, PutFilesBack):
            assert self.finish_rewind is not None, "a driver has a mailbox"
            return self.finish_rewind()
        if isinstance(effect, SetTimer | AwaitClient):
            raise AssertionError(f"{type(effect).__name__} is not performed, it is waited for")
        assert_never(effect)

    async def _page_out(self, effect: PageOut) -> Done:
        """The log has what left the history in any case, so nothing waits for this."""
        return Done(await self.rare.pager.out(effect.paged_seq))
