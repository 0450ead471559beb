"""How runs end: the result of the current one, and of the one that a certain command led to.

A session may be driven elsewhere, and others may be talking to it: what was sent from here is waited for before
anything is called its result, and what is said of a run is read at one place of the log.
"""

from __future__ import annotations

from typing import Any

from windlass.events.commands import CommandCompleted, CommandRefused
from windlass.events.errors import Refused, UsageError
from windlass.events.hooks import HookRuled
from windlass.events.runs import RunStarted, Terminal
from windlass.events.turns import ModelReplied
from windlass.kernel.phases import Asked, Asleep
from windlass.kernel.state import State
from windlass.runtime.api.result import Result, result_of
from windlass.runtime.bind.agent_registry import BoundAgents
from windlass.runtime.host.slot_table import Slots
from windlass.runtime.streams.event_streams import closed_meanwhile, ends
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.streams.record import Record
from windlass.runtime.streams.subscribers import Subscription
from windlass.runtime.trees.session_children import Trees
from windlass.store.base import Key, Store
from windlass.tools.types.convert import Mismatch

from .idle_wait import Rest
from .session_views import SessionViews

INBOX_LOOKED_AT = 1_000
"""Among how many waiting commands one is looked for; if there are more, it may be any of them."""


class RunResults:
    """What a runtime knows of the ends of runs."""

    def __init__(
        self,
        store: Store,
        slots: Slots,
        log: LogReader,
        views: SessionViews,
        rest: Rest,
        agents: BoundAgents,
        poll_ms: int,
        trees: Trees,
    ) -> None:
        self._store = store
        self._slots = slots
        self._log = log
        self._views = views
        self._rest = rest
        self._agents = agents
        self._poll_ms = poll_ms
        self._trees = trees

    async def result(self, key: Key, command_id: str | None = None) -> Result:
        """How the current run ends, or how the last one ended; of a command: how the run ends that it ends with, or the
        one that it waits behind if that waits for people. Raises `Refused` if a command led to no run."""
        if command_id is not None:
            return await self._result_of(key, command_id)
        await self._rest.taken(key)
        while True:
            await self._rest.wait(key)
            state = await self._views.seen(key)
            if state.active:
                continue  # another process has begun the next run meanwhile
            unborn = "~" in key.session and not state.run.run_id  # a child that has not got its task yet
            if not unborn and not self._is_served(key, state) and not await self._has_mail(key, state):
                break
            await self._until_something_happened(key)
        if not state.run.run_id:
            raise UsageError(f"session {key.session!r} has had no run yet: send it a prompt first")
        agent, reply_seq = state.setup.agent.name, state.turn.last_reply_seq
        terminal = await self._last_terminal(key, state.seq)
        return await self._told(key, agent, terminal, reply_seq)

    async def _told(self, key: Key, agent: str, terminal: Terminal, reply_seq: int | None) -> Result:
        reply = await self._reply(key, reply_seq)
        return result_of(key.session, terminal, reply, self._output(key, agent, reply))

    async def _has_mail(self, key: Key, state: State) -> bool:
        """Whether a run that waits goes on by itself: what it waits for is in the inbox, and this process takes it."""
        if not isinstance(state.phase, Asked | Asleep) or state.setup.agent.name not in self._agents:
            return False
        self._rest.check_parked(key)
        if await self._store.inbox.waiting(key, limit=1):
            return True
        return bool(state.children.open) and await self._trees.goes_on(key, state)

    def _is_served(self, key: Key, state: State) -> bool:
        """Whether a client in this process is at work on a call that a run ended asking for."""
        slot = self._slots.get(key)
        if slot is None:
            return False
        clients, handed_on = slot.local_code.clients, slot.local_code.handed_on
        return any(
            call.status == "delegated" and call.tool in clients and call.call_id not in handed_on
            for call in state.calls.by_id.values()
        )

    async def _until_something_happened(self, key: Key) -> None:
        """Waits for the next record, for a moment: a client may also leave without a word."""
        listener = self._slots.subscribe(key, live=False)
        try:
            patience_s = self._slots.patience_s(key, self._poll_ms / 1000)
            if await listener.next_or_look(patience_s) is None and not listener.lagging:
                raise closed_meanwhile(key)
        finally:
            self._slots.leave(key, listener)

    # --- of a command ---

    async def _result_of(self, key: Key, command_id: str) -> Result:
        listener = self._slots.subscribe(key, live=False)
        try:
            sent = False
            while True:
                if not self._runs_now(key, command_id):
                    ended = await self._end_of(key, command_id)
                    if ended is not None:
                        return ended
                    if not sent:
                        await self._check_sent(key, command_id)
                        sent = True
                    self._rest.check_parked(key)
                    taken = await self._log.taken_at(key, command_id) is not None
                    if taken and not await self._views.works(key):
                        # It waits behind a run that waits for somebody, unless it ended between the two looks.
                        return await self._end_of(key, command_id) or await self.result(key)
                await self._until_it_may_have_ended(key, command_id, listener)
                if listener.lagging:
                    listener = self._slots.subscribe(key, live=False)
        finally:
            self._slots.leave(key, listener)

    def _runs_now(self, key: Key, command_id: str) -> bool:
        """Whether this process knows, without a look at the log, that the command's run is going on."""
        driven = self._slots.driven_at(key)
        if driven is None or driven.owner.busy or self._rest.why_parked(key):
            return False
        state = driven.owner.state
        return state.active and command_id in state.run.commands

    async def _check_sent(self, key: Key, command_id: str) -> None:
        """Raises `UsageError` for a command that nobody has sent: it would be waited for in vain."""
        if await self._log.taken_at(key, command_id) is not None:
            return
        waiting = await self._store.inbox.waiting(key, limit=INBOX_LOOKED_AT)
        known = len(waiting) == INBOX_LOOKED_AT or any(command.command_id == command_id for command in waiting)
        if not known and await self._log.taken_at(key, command_id) is None:
            raise UsageError(
                f"session {key.session!r} was sent no command {command_id!r}: give the id that `await prompt(...)` gave"
            )

    async def _until_it_may_have_ended(self, key: Key, command_id: str, listener: Subscription) -> None:
        while True:
            told = await listener.next_or_look(self._rest.patience_s(key))
            if told is None and not listener.lagging:
                raise closed_meanwhile(key)
            if not isinstance(told, Record) or isinstance(told.event, Terminal) or ends(told.event, command_id):
                return

    async def _end_of(self, key: Key, command_id: str) -> Result | None:
        """How a command ended; None if it has not."""
        driven = self._slots.driven_at(key)
        if driven is not None and not driven.owner.stale:
            last, state = driven.owner.hub.terminal, driven.owner.state
            if last is not None and command_id in last.commands and state.run and state.run.run_id == last.run_id:
                return await self._told(key, state.setup.agent.name, last, state.turn.last_reply_seq)
        taken = await self._log.taken_at(key, command_id)
        if taken is None:
            return None
        reply_seq: int | None = None
        async for record in self._log.records(key, after=taken - 1):
            event = record.event
            if isinstance(event, ModelReplied) and event.lane == "main" and not event.empty:
                reply_seq = record.seq
            elif isinstance(event, RunStarted) and event.continues is None:
                reply_seq = None
            elif ends(event, command_id):
                if isinstance(event, Terminal):
                    return await self._told(key, (await self._views.seen(key)).setup.agent.name, event, reply_seq)
                raise await self._no_run(key, event, record)
        return None

    async def _no_run(self, key: Key, event: Any, record: Record) -> Refused:
        """Why a command got no run: it was refused, or dropped, or a hook denied it."""
        if isinstance(event, CommandRefused):
            return Refused(event.code, event.message)
        assert isinstance(event, CommandCompleted)
        async for told in self._log.records(key, after=record.first - 1, until=record.seq):
            if isinstance(told.event, HookRuled) and told.event.ruling.denies:
                why = told.event.ruling.message or told.event.ruling.hook_id
                return Refused("hook_denied", f"the prompt was denied by a hook: {why}")
        why = f": {event.note}" if event.note else ""
        return Refused("no_run", f"command {event.command_id!r} led to no run{why}")

    # --- looking it up ---

    async def _last_terminal(self, key: Key, seq: int) -> Terminal:
        """How the last run ended."""
        driven = self._slots.driven_at(key)
        terminal = driven.owner.hub.terminal if driven is not None else None
        if terminal is None:
            terminal = await self._log.newest(key, Terminal, until=seq)
        assert terminal is not None, "a session that had a run and is at rest has a terminal"
        return terminal

    async def _reply(self, key: Key, seq: int | None) -> ModelReplied | None:
        if seq is None:
            return None
        driven = self._slots.driven_at(key)
        known = driven.owner.memory.known(seq) if driven is not None else None
        event = known if known is not None else await self._log.event_at(key, seq)
        return event if isinstance(event, ModelReplied) else None

    def _output(self, key: Key, agent: str, reply: ModelReplied | None) -> Any:
        driven = self._slots.driven_at(key)
        bound = driven.driver.performer.bound if driven is not None else self._agents.get(agent)
        if bound is None or reply is None or reply.body is None or reply.body.output is None:
            return None
        checked = reply.body.output
        try:
            return bound.parse_output(checked.value) if checked.valid else None
        except Mismatch:  # it fitted the type that the agent had then
            return None
