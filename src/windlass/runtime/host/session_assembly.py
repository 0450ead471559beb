"""Puts together what drives one session: its performer, its driver, its hooks, its pages."""

from __future__ import annotations

import functools
from collections.abc import Callable

from windlass.events.base import Event
from windlass.events.live import HookStarted
from windlass.kernel.parts.tools import gate
from windlass.runtime.bind.bound_agent import Bound
from windlass.runtime.context.archive import LogArchive
from windlass.runtime.drive.driver import Driver
from windlass.runtime.drive.jobs import Jobs
from windlass.runtime.drive.model_calls import ModelCalls
from windlass.runtime.drive.people import People
from windlass.runtime.drive.performer import Performer
from windlass.runtime.drive.tool_calls import ToolCalls
from windlass.runtime.drive.tool_runner import ToolRunners
from windlass.runtime.drive.tool_session import SessionSeat
from windlass.runtime.hooks.committed_events import POINTS_BELOW, CommittedEvents, EventsBelow
from windlass.runtime.hooks.hook import Hook, Moment
from windlass.runtime.hooks.hook_runner import HookRunner
from windlass.runtime.hooks.observers import Observers
from windlass.runtime.hooks.session_hooks import SessionHooks
from windlass.runtime.owner.owner import Owner
from windlass.runtime.trees.session_children import Trees
from windlass.runtime.workspace.session_instructions import SessionInstructions
from windlass.store.base import Key
from windlass.tools.planes.threads import Threads

from .host_settings import HostSettings
from .ports import Ports
from .rare_hands import RareHands, SharedHands
from .slot import Driven


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
        self._hook_threads = hook_threads
        self._approver = settings.approver
        self._slots = trees.slots
        self.shared = SharedHands(archive, trees, settings.children)
        self._sent = trees.nudge if settings.children is None else None

    def _hooks_of(self, key: Key) -> SessionHooks | None:
        """The hooks of a session that is driven here."""
        driven = self._slots.driven_at(key)
        return driven.driver.performer.hooks if driven is not None else None

    def _watched(self, key: Key) -> bool:
        """Whether a session above one hears of those below it."""
        above = key.session.rpartition("~")[0]
        while above:
            hooks = self._hooks_of(Key(key.tenant, above))
            if hooks is not None and not POINTS_BELOW.isdisjoint(hooks.current.points):
                return True
            above = above.rpartition("~")[0]
        return False

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
            read_only=bound.options.isolation == "read_only" or gate.only_reads(bound.options.specialist),
        )
        hooks = SessionHooks(owner, bound.local_code, own)
        jobs = Jobs(owner, tools.jobs, hooks)
        rare = RareHands(owner, bound, hooks, self.shared)
        owner.on_sent = self._sent
        performer = Performer(
            bound,
            hooks,
            ModelCalls(owner, bound, hooks),
            ToolCalls(owner, bound, tools, seat, hooks, jobs, rare),
            People(owner, bound.agent.approver or self._approver, hooks),
            jobs,
            rare,
        )
        if bound.agent.hooks or bound.local_code.hooks:
            owner.on_committed = CommittedEvents(hooks).tell
        if owner.state.parent_id is not None and self._watched(owner.key):
            owner.on_committed = both(owner.on_committed, EventsBelow(owner, self._hooks_of).tell)
        if owner.on_committed is not None:
            owner.on_committed(begun)
        driver = Driver(owner, performer, clients=bound.local_code.clients)
        seat.driver = driver
        return Driven(owner, driver, instructions, tools, seat)


def both(
    first: Callable[[list[Event]], None] | None, second: Callable[[list[Event]], None]
) -> Callable[[list[Event]], None]:
    """Tells one and then the other."""
    if first is None:
        return second
    before = first

    def tell(events: list[Event]) -> None:
        before(events)
        second(events)

    return tell


def announced(owner: Owner, hook: Hook, moment: Moment) -> None:
    """Tells readers that a hook begins, if anybody reads."""
    hub = owner.hub
    if hub.hearing:
        begun = HookStarted(
            hook_id=hook.hook_id, point=hook.point, kind=hook.kind, call_id=moment.call_id, after_seq=hub.seq
        )
        hub.live([begun])
