"""Puts together what drives one session: its performer, its driver, its hooks, its pages."""

from __future__ import annotations

import functools
from collections.abc import Coroutine
from typing import Any, Protocol

from windlass.events.base import Event
from windlass.events.live import HookStarted
from windlass.kernel.effects import BeginOccurrence, ComputeTimes
from windlass.runtime.bind.bound_agent import Bound
from windlass.runtime.context.archive import LogArchive
from windlass.runtime.context.archive_pager import Pager
from windlass.runtime.drive.driver import Driver
from windlass.runtime.drive.effect_outcome import Done
from windlass.runtime.drive.jobs import Jobs
from windlass.runtime.drive.model_calls import ModelCalls
from windlass.runtime.drive.people import People
from windlass.runtime.drive.performer import Performer
from windlass.runtime.drive.tool_calls import ToolCalls
from windlass.runtime.drive.tool_runner import ToolRunners
from windlass.runtime.drive.tool_session import SessionSeat
from windlass.runtime.flows.node_work import NodeWork
from windlass.runtime.hooks.committed_events import CommittedEvents
from windlass.runtime.hooks.hook import Hook, Moment
from windlass.runtime.hooks.hook_runner import HookRunner
from windlass.runtime.hooks.observers import Observers
from windlass.runtime.hooks.session_hooks import SessionHooks
from windlass.runtime.machines.state_work import StateWork
from windlass.runtime.owner.owner import Owner
from windlass.runtime.trees.session_children import Trees
from windlass.runtime.trees.session_worktree import SessionWorktree
from windlass.runtime.workspace.session_instructions import SessionInstructions
from windlass.tools.planes.threads import Threads

from .host_settings import HostSettings
from .ports import Ports
from .slot import Driven


class Occurs(Protocol):
    """What performs the effects of schedules."""

    def perform(self, owner: Owner, effect: ComputeTimes | BeginOccurrence) -> Coroutine[Any, Any, Done]: ...


class Assembly:
    """What all sessions of a runtime are driven with: what runs tools, an archive, threads for hooks, an approver."""

    def __init__(
        self,
        ports: Ports,
        tools: ToolRunners,
        archive: LogArchive,
        hook_threads: Threads,
        settings: HostSettings,
        trees: Trees,
    ) -> None:
        self._ports = ports
        self._tools = tools
        self._archive = archive
        self._hook_threads = hook_threads
        self._approver = settings.approver
        self._children = settings.children
        self._trees = trees
        self.occurrences: Occurs | None = None
        """What begins the occurrences of schedules; it opens sessions, so it is put here once there is an opener."""

    def _occurrences(self, owner: Owner, effect: ComputeTimes | BeginOccurrence) -> Coroutine[Any, Any, Done]:
        assert self.occurrences is not None, "the host is put together"
        return self.occurrences.perform(owner, effect)

    def driven(self, owner: Owner, bound: Bound, instructions: SessionInstructions, begun: list[Event]) -> Driven:
        """A session ready to be driven. `begun` is what was put on record when it was taken: its hooks hear of it
        too."""
        seat = SessionSeat(owner)
        observing = Observers(self._ports, self._hook_threads)
        consult, announce = functools.partial(seat.consult, "judge"), functools.partial(announced, owner)
        own = HookRunner(bound.agent.hooks, self._ports, observing, consult, announce)
        born = functools.partial(owner.log.born, owner.key)
        tools = self._tools.for_session(
            owner.key.session,
            instructions,
            born,
            bound.options.sandbox,
            read_only=bound.options.isolation == "read_only",
        )
        pager = Pager(owner, bound.agent.archive, self._archive)
        hooks = SessionHooks(owner, bound.local_code, own)
        jobs = Jobs(owner, tools.jobs, hooks)
        performer = Performer(
            bound,
            hooks,
            ModelCalls(owner, bound, hooks),
            ToolCalls(owner, bound, tools, seat, hooks, pager, jobs, self._trees.submission(owner)),
            People(owner, bound.agent.approver or self._approver, hooks),
            pager,
            self._children or self._trees.of(owner, bound),
            jobs,
            functools.partial(self._occurrences, owner),
            NodeWork(owner, bound, hooks),
            SessionWorktree(owner, bound).perform,
            StateWork(owner, bound, hooks),
        )
        if bound.agent.hooks or bound.local_code.hooks:
            owner.on_committed = CommittedEvents(hooks).tell
            owner.on_committed(begun)
        driver = Driver(owner, performer, clients=bound.local_code.clients)
        seat.driver = driver
        return Driven(owner, driver, instructions, tools)


def announced(owner: Owner, hook: Hook, moment: Moment) -> None:
    """Tells readers that a hook begins, if anybody reads."""
    hub = owner.hub
    if hub.hearing:
        begun = HookStarted(
            hook_id=hook.hook_id, point=hook.point, kind=hook.kind, call_id=moment.call_id, after_seq=hub.seq
        )
        hub.live([begun])
