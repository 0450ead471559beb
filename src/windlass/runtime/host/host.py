"""The parts of an open runtime, put together: which of them there are, and what each is handed. Decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from windlass.runtime.bind.agent_registry import BoundAgents
from windlass.runtime.commands.mounts import Mounts
from windlass.runtime.commands.sender import Sender
from windlass.runtime.context.archive import LogArchive
from windlass.runtime.drive.tool_runner import ToolRunners
from windlass.runtime.hooks.observers import ORPHANS_MAX, THREADS_MAX
from windlass.runtime.schedules.occurrences import Occurrences
from windlass.runtime.sessions.directory import Directory
from windlass.runtime.sessions.erasure import Erasure
from windlass.runtime.sessions.forks import Forks
from windlass.runtime.sessions.idle_wait import Rest
from windlass.runtime.sessions.page_in import PageIn
from windlass.runtime.sessions.run_results import RunResults
from windlass.runtime.sessions.session_views import SessionViews
from windlass.runtime.sessions.shutdown import Shutdown
from windlass.runtime.streams.cursors import Cursors
from windlass.runtime.streams.event_streams import EventStreams
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.streams.tree_streams import TreeStreams
from windlass.runtime.trees.session_children import Trees
from windlass.store.base import Key, Store
from windlass.store.driven_elsewhere import elsewhere_of
from windlass.tools.planes.task_stops import ended, stop
from windlass.tools.planes.threads import Threads

from .drive_tasks import DriveTasks
from .fault_report import FaultReport
from .host_settings import HostSettings
from .lease_renewal import LeaseKeeper
from .opener import Opener
from .ports import Ports
from .session_assembly import Assembly
from .shielded_work import ENDING_S
from .slot_table import Slots
from .steady_clock import SteadyClock
from .store_watch import StoreWatch


class Host:
    """Everything that an open runtime consists of."""

    def __init__(
        self,
        store: Store,
        ports: Ports,
        settings: HostSettings,
        slots: Slots,
        agents: BoundAgents,
        tools: ToolRunners,
    ) -> None:
        tools.check(settings.library)
        self.store = store
        self._ports = ports
        self._slots = slots
        self.hook_threads = Threads(THREADS_MAX, ORPHANS_MAX)
        self._loops: list[asyncio.Task[Any]] = []
        poll_ms = settings.poll_ms
        faults = FaultReport()
        clock = SteadyClock(ports)
        self.log = log = LogReader(store)
        self.trees = trees = Trees(store, ports, settings, slots, agents)
        assembly = Assembly(ports, tools, LogArchive(log), self.hook_threads, settings, trees)
        self.tasks = tasks = DriveTasks(slots, ports, clock, faults)
        self.opener = opener = Opener(store, ports, settings, slots, agents, tasks, assembly, clock)
        trees.opener = opener
        self.leases = LeaseKeeper(slots, tasks, ports, settings, faults)
        self.watch = StoreWatch(store, ports, settings, slots, agents, opener, faults, clock)
        self.cursors = Cursors(log)
        self.elsewhere = elsewhere_of(store)
        """Who drives the sessions of this store; None if this process may."""
        if self.elsewhere is not None:
            from windlass.runtime.streams.feeds import Feeds

            slots.feeds = Feeds(self.elsewhere, self.cursors.end)
        self.streams = EventStreams(slots, log, self.cursors, poll_ms)
        self.tree_streams = TreeStreams(store, log, self.cursors, self.streams)
        self.views = SessionViews(slots, log, ports, agents, opener, tools, trees)
        self.rest = Rest(store, slots, log, self.views, agents, ports, poll_ms)
        self.results = RunResults(store, slots, log, self.views, self.rest, agents, poll_ms, trees)
        self.sender = Sender(store, ports, slots, log, opener, tasks)
        trees.sender = self.sender
        self.mounts = Mounts(slots, opener, self.sender, tools)
        self.directory = Directory(store, settings, slots, opener)
        assembly.shared.occurrences = Occurrences(store, ports, settings, agents, self.directory, self.sender)
        self.forks = Forks(store, log, opener)
        self.erasure = Erasure(store, slots, opener, tasks)
        self.page_in = PageIn(slots, opener, tasks)
        self.shutdown = Shutdown(slots, log, opener, tasks, self.rest)

    async def start(self) -> None:
        """Begins to watch the store and to keep leases, and drives what is owed; none of it where others drive."""
        if self.elsewhere is not None:
            return
        self._loops = [
            self._ports.spawn(self.watch.run(), "windlass:watch"),
            self._ports.spawn(self.leases.run(), "windlass:leases"),
        ]
        await self.watch.drive_owed()

    @property
    def loops(self) -> Sequence[asyncio.Task[Any]]:
        """The two tasks that run as long as the runtime is open."""
        return self._loops

    async def drain(self, timeout_ms: int) -> tuple[Key, ...]:
        """Begins nothing more, and waits until what has begun is on record, for so long at most. Gives the sessions
        that were still at work then."""
        self._slots.draining = True
        if not self._loops:
            return ()
        watching = self._loops[0]
        stop(watching)
        await asyncio.wait([watching])
        driven = {slot.key: slot.driven for slot in self._slots.driven if slot.driven is not None}
        for each in driven.values():
            each.driver.drain()
        working = [each.task for each in driven.values() if each.task is not None and each.at_work]
        if working:
            await asyncio.wait(working, timeout=timeout_ms / 1000)
        return tuple(key for key, each in driven.items() if each.at_work)

    async def close(self) -> None:
        """Stops driving, and gives the leases back. What was under way is owed again."""
        for task in self._loops:
            stop(task)
        await ended([*self._loops, *self.tasks.end_all()])
        if self._slots.feeds is not None:
            await self._slots.feeds.close()
        await self._slots.quiet(ENDING_S)
        driven = [slot.driven for slot in self._slots.driven if slot.driven is not None]
        await asyncio.gather(*(each.driver.performer.hooks.quiet() for each in driven))
        self.hook_threads.close()
        for each in driven:
            await each.owner.release()
        self._slots.close_hubs()
