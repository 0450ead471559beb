"""The children of one session, as its driver starts them: begun if they have not begun, and driven here if their code
is here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from windlass.events.base import Command
from windlass.events.commands import CommandRefused
from windlass.events.errors import Refused, StoreError, UsageError
from windlass.events.sessions import NoticeGiven
from windlass.events.tools.calls import ToolCancelled, ToolDenied
from windlass.events.trees.children import ChildBody, ChildOpened, ChildStarted
from windlass.events.values.blocks import Text
from windlass.events.values.graphs import FlowGraph
from windlass.events.values.isolation import Worktree, strictest
from windlass.events.values.items import HistoryItem
from windlass.events.values.tools import RUN_WORKFLOW
from windlass.kernel import log
from windlass.kernel.parts.trees import worktrees
from windlass.kernel.phases import Asked
from windlass.runtime.drive.children import NO_CHILDREN, finished
from windlass.runtime.drive.effect_outcome import Done
from windlass.runtime.drive.tool_calls import arguments_in
from windlass.runtime.flows.authored import graph_in
from windlass.runtime.flows.submission import Submission
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.workspace.folder import Folder, recorded_folder
from windlass.store.base import Key

from .git_threads import GitWork
from .messages import Messages
from .parent_conversation import ParentConversation
from .session_worktree import identity_of, made_for, name_of
from .specialists import inherited, isolation_of, repository_of
from .tree_rows import rows_below, scope_of
from .tree_tools import TreeTools

if TYPE_CHECKING:
    from windlass.kernel.effects import StartChild
    from windlass.kernel.state import State
    from windlass.runtime.api.agent import Agent
    from windlass.runtime.bind.agent_registry import BoundAgents
    from windlass.runtime.bind.bound_agent import Bound
    from windlass.runtime.commands.sender import Sender
    from windlass.runtime.host.host_settings import HostSettings
    from windlass.runtime.host.opener import Opener
    from windlass.runtime.host.ports import Ports
    from windlass.runtime.host.slot_table import Slots
    from windlass.runtime.owner.owner import Owner
    from windlass.store.base import Store

OPENED_TOKENS = 24
ENDING_MS = 5_000
"""How long the ends of children that were stopped, and the removal of worktrees, are waited for by whoever waits for
their parent, or leaves."""
LOOK_MS = 10


class Trees:
    """What the sessions of a runtime need to have children, and to tell each other."""

    def __init__(self, store: Store, ports: Ports, settings: HostSettings, slots: Slots, agents: BoundAgents) -> None:
        self.store = store
        self.slots = slots
        self.agents = agents
        self._ports = ports
        self._settings = settings
        self.opener: Opener | None = None
        self.sender: Sender | None = None
        self.git = GitWork()

    def submission(self, owner: Owner) -> Submission:
        """What adds nodes to the workflow that a session works for."""

        async def send(key: Key, command: Command) -> None:
            assert self.sender is not None, "the host is put together"
            self.ask_for(owner.key, key)
            await self.sender.send(key, command)

        return Submission(owner, self.store, self._ports, send)

    def tools(self, owner: Owner) -> TreeTools:
        """The tools by which a session reaches others of its tree."""
        return TreeTools(Messages(owner, self.store, self.nudge), ParentConversation(owner, self.store))

    def of(self, owner: Owner, bound: Bound) -> SessionChildren:
        """The children of one session."""
        return SessionChildren(self, owner, bound)

    def nudge(self, sender: Key, receivers: Sequence[str]) -> None:
        """Sessions were sent something: those that are here look at it at once; the others are found by whoever has
        them, or their code."""
        for name in receivers:
            key = Key(sender.tenant, name)
            driven = self.slots.driven_at(key)
            if driven is not None and driven.at_work:
                driven.driver.look()
            elif not self.slots.closed and not self.slots.draining:
                self._ports.spawn(self._wake(sender, key), f"windlass:nudge:{name}")

    async def _wake(self, sender: Key, key: Key) -> None:
        """Has a session driven that rests, if its log has begun. If the store does not answer, whoever watches it finds
        what was sent."""
        try:
            if await self.store.index.get(key) is None or self.opener is None:
                return
        except StoreError:
            return
        self.ask_for(sender, key)
        await self.opener.try_to_drive(key)

    async def spawned(self, key: Key, command_id: str) -> Key:
        """The child that a command started. Raises `Refused` with the reason if it started none."""
        log = LogReader(self.store)
        while True:
            seq = await log.taken_at(key, command_id)
            if seq is not None:
                async for record in log.records(key, after=seq - 1):
                    event = record.event
                    if isinstance(event, ChildStarted) and event.call_id == f"c{seq}.0":
                        return Key(key.tenant, event.child_id)
                    if isinstance(event, ToolDenied | ToolCancelled) and event.call_id == f"c{seq}.0":
                        raise Refused("no_child", getattr(event, "detail", "") or "the call was given up")
                    if isinstance(event, CommandRefused) and event.command_id == command_id:
                        raise Refused(event.code, event.message)
            if self.slots.closed:
                raise UsageError("this runtime is closed: open another one")
            await self._ports.sleep_ms(self._settings.poll_ms // 10 + 1)

    async def take_up(self, key: Key) -> None:
        """Has children do what they owed behind their end when nobody drove them any more, where nothing is resumed
        but what is asked for: somebody asked for the session above them."""
        if self._settings.take_up or self.opener is None:
            return
        for row in await rows_below(self.store, key):
            if row.state == "idle" and row.owed and row.agent in self.agents:
                below = Key(key.tenant, row.session)
                self.ask_for(key, below)
                await self.opener.try_to_drive(below)

    async def quiet(self, key: Key | None = None, most_ms: int | None = None) -> None:
        """Waits for the ends of children that were stopped here, so that the log of each parent tells them, and for
        the worktrees of those that have ended to be removed; of all sessions that are driven here, or of one and those
        below it. Not for ever: what is not told by then is owed."""
        left_ms = ENDING_MS if most_ms is None else min(most_ms, ENDING_MS)
        while left_ms > 0 and self.ending(key):
            await self._ports.sleep_ms(LOOK_MS)
            left_ms -= LOOK_MS

    def ending(self, key: Key | None = None) -> bool:
        """Whether a child is about to end whose parent is driven here, or about to remove its worktree. One that waits
        for a person is not."""
        for slot in self.slots.driven:
            driven, name = slot.driven, slot.key.session
            within = key is None or slot.key == key or name.startswith(f"{key.session}~")
            if driven is None or not within or not driven.at_work:
                continue
            if worktrees.is_to_be_removed(driven.owner.state):
                return True
            for child in driven.owner.state.children.ending:
                below = self.slots.driven_at(Key(slot.key.tenant, child.child_id))
                if below is None and child.agent in self.agents:
                    return True
                if below is not None and not isinstance(below.owner.state.phase, Asked):
                    return True
        return False

    async def goes_on(self, key: Key, state: State) -> bool:
        """Whether a session that rests as its children do is about to go on: one of them is at work, or has something
        to read."""
        log = LogReader(self.store)
        for child in state.children.open.values():
            below = Key(key.tenant, child.child_id)
            driven = self.slots.driven_at(below)
            there = driven.owner.state if driven is not None else (await log.fold(below)).state
            if there.setup.agent.name not in self.agents or child.mode != "foreground":
                continue
            if there.active or (driven is not None and driven.owner.busy):
                return True
            if await self.store.inbox.waiting(below, limit=1) or await self.goes_on(below, there):
                return True
        return False

    async def asked(self, key: Key) -> list[tuple[str, Key]]:
        """The sessions below one that wait for people, at any depth: the calls that lead to each, and its key. What
        each says of itself counts, whether or not those above it have heard of it."""
        below = [row for row in await rows_below(self.store, key) if any("/" not in name for name in row.waiting_for)]
        return [(scope_of(key.session, row.session), Key(key.tenant, row.session)) for row in below]

    def ask_for(self, by: Key, key: Key) -> None:
        """Whoever asked for a session by name asked for those that belong to it too."""
        slot = self.slots.get(by)
        if slot is not None and slot.asked_for:
            self.slots.at(key).asked_for = True


class SessionChildren:
    """Starts the children of one session."""

    def __init__(self, trees: Trees, owner: Owner, bound: Bound) -> None:
        self._trees = trees
        self._owner = owner
        self._bound = bound

    async def ended(self, effect: StartChild) -> Done | Command | None:
        """Begins the child unless it has begun, and has it driven; its end comes as a message."""
        why = await self._begun(effect)
        if why and not effect.settles:
            return finished(effect, ChildBody(content=(Text(text=why),)), status="error", tokens=OPENED_TOKENS)
        self._owner.ports.point("child_begun")
        if effect.mode != "foreground" and not effect.opened:
            opened = ChildOpened(child_id=effect.child_id, call_id=effect.call_id, tokens=OPENED_TOKENS)
            return Done(opened)
        await asyncio.get_running_loop().create_future()  # until nobody waits for it any more
        return None

    async def _begun(self, effect: StartChild) -> str:
        """Why a child cannot begin; empty if it has."""
        trees, key = self._trees, Key(self._owner.key.tenant, effect.child_id)
        assert trees.opener is not None
        trees.ask_for(self._owner.key, key)
        head = await trees.store.log.head(key)
        if head is not None and head.seq > 0:
            await trees.opener.try_to_drive(key)
            await self._say_if_unbound(key, effect)
            return ""
        if head is None:
            await trees.store.log.create(key)
        named = self._specialist(effect)
        bound = trees.agents.get(named.name) if named is not None else None
        if bound is None:
            return f"not run: there is no specialist {effect.agent!r} here" if effect.agent else NO_CHILDREN
        try:
            await self._begin(key, effect, bound)
        except UsageError as error:
            if not trees.slots.closed:
                return f"not run: {error}"
        return ""

    async def _say_if_unbound(self, key: Key, effect: StartChild) -> None:
        """A child that was begun by other code may have an agent that is not here: its parent would wait for it and
        nobody know what for."""
        trees, row = self._trees, await self._trees.store.index.get(key)
        assert trees.opener is not None
        if row is None or row.agent in trees.agents or await trees.opener.holder(key):
            return
        told = (
            f"{effect.scope} waits for a process with its agent {row.agent!r}, which is not here: name it in "
            f"agents=[...] of {self._bound.agent.name!r} or of open(), or interrupt "
            f"{self._owner.key.session!r} to go on without it"
        )
        await self._owner.take(NoticeGiven(level="warning", code="child_unbound", message=told, call_id=effect.call_id))

    def _specialist(self, effect: StartChild) -> Agent | None:
        """The agent that a child is run by; what coordinates it, if it is a workflow that the model wrote."""
        for agent in self._bound.may_start():
            if effect.tool == RUN_WORKFLOW and agent.workflows is not None:
                return agent.workflows
            for known in agent.agents:
                if known.name == effect.agent:
                    return known
        return None

    async def _begin(self, key: Key, effect: StartChild, bound: Bound) -> None:
        from windlass.runtime.host.first_facts import Beginning, Birth

        state, trees = self._owner.state, self._trees
        call = state.calls.by_id.get(effect.call_id)
        slot = trees.slots.get(self._owner.key)
        folder = (slot.folder if slot is not None else None) or recorded_folder(state.workspace.folder)
        isolation = strictest(state.setup.options.isolation, isolation_of(bound.agent, folder), effect.isolation)
        worktree = None
        if isolation == "worktree":
            worktree, folder = await self._worktree(key, folder, bound)
        if folder is not None:
            trees.slots.place(key, folder)
        birth = Birth(
            parent_id=state.session_id,
            call_id=effect.call_id,
            root_id=state.root_id or state.session_id,
            scope=effect.scope,
            depth=effect.depth,
        )
        beginning = Beginning(
            bound=bound,
            title=(call.node if call is not None else "") or bound.agent.display_name or bound.agent.name,
            history=await self._history() if effect.context == "forked" else (),
            options=inherited(state, bound.agent, effect, isolation),
            labels=effect.labels,
            birth=birth,
            worktree=worktree,
            trusted=bool(state.gate.policy.trusted),
            flow=await self._authored(effect),
        )
        assert trees.opener is not None
        await trees.opener.begin(key, beginning)

    async def _authored(self, effect: StartChild) -> FlowGraph | None:
        """The graph of a workflow that the session's model wrote; None of any other child."""
        call = self._owner.state.calls.by_id.get(effect.call_id)
        if effect.tool != RUN_WORKFLOW or call is None:
            return None
        source = await self._owner.event(call.source_seq if call.changed_seq is None else call.changed_seq)
        given = arguments_in(call, source)
        if given is None or given.args is None:
            raise UsageError("the graph was erased before it began")
        return graph_in(given.args)

    async def _worktree(self, key: Key, folder: Folder | None, bound: Bound) -> tuple[Worktree, Folder]:
        """The worktree of a child, made unless it is there, and the folder in it that the child works in: the place
        that its parent works in."""
        repository = repository_of(folder)
        if folder is None or repository is None:
            raise UsageError("it was to work in a worktree of its own, and this session works in no git repository")
        state = self._owner.state
        name = name_of(key.session, identity_of(self._trees.store), key.tenant, str(state.started_ms))
        worktree, place = await made_for(name, repository, folder.path, bound.agent, self._trees.git)
        self._owner.ports.point("worktree_made")
        return worktree, msgspec.structs.replace(folder, path=place)

    async def _history(self) -> Sequence[HistoryItem]:
        """What the parent has seen, but for what is open."""
        await self._owner.items()  # has what is missing read
        return self._owner.memory.rendered(list(log.visible(self._owner.state)))
