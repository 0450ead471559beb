"""How runs end: the result of the current one, and of the one that a certain command led to.

A session may be driven elsewhere, and others may be talking to it: what was sent from here is waited for before
anything is called its result, and what is said of a run is read at one place of the log.
"""

from __future__ import annotations

from typing import Any

from windlass.events.errors import Refused, UsageError
from windlass.events.hooks import HookRuled
from windlass.events.runs import CommandCompleted, CommandRefused, RunStarted, Terminal
from windlass.events.turns import ModelReplied
from windlass.kernel.state import State
from windlass.store.base import Key
from windlass.tools.convert import Mismatch

from .attached import Attached
from .hub import Record, Subscription
from .reading import Reading, closed_meanwhile
from .result import Parked, Result, result_of
from .session import ends

TAIL_RECORDS = 64
"""How much of a log's end is read first where the newest of something is wanted."""


INBOX_LOOKED_AT = 1_000
"""Among how many waiting commands one is looked for; where there are more, it may be any of them."""
POSTED_MAX = 1_000


class Ending(Reading):
    """What a runtime knows of the ends of runs."""

    _attached: dict[Key, Attached]
    _posted: dict[Key, str]
    """The last command that was left for another process, by session, until it is known to have been taken."""

    async def result(self, key: Key, command_id: str | None = None) -> Result:
        """How the current run ends, or how the last one ended; of a command: how the run ends that it ends with, or the
        one that it waits behind where that waits for people. Raises `Refused` where a command led to no run."""
        if command_id is not None:
            return await self._result_of(key, command_id)
        await self._taken(key)
        while True:
            await self.wait_idle(key)
            state = await self._seen(key)
            if state.active:
                continue  # another process has begun the next run meanwhile
            if not self._is_served(key, state):
                break
            await self._until_something_happened(key)
        if state.run is None:
            raise UsageError(f"session {key.session!r} has had no run yet: send it a prompt first")
        agent, reply_seq = state.agent.name, state.run.last_reply_seq
        terminal = await self._last_terminal(key, state.seq)
        return await self._told(key, agent, terminal, reply_seq)

    async def _told(self, key: Key, agent: str, terminal: Terminal, reply_seq: int | None) -> Result:
        reply = await self._reply(key, reply_seq)
        return result_of(key.session, terminal, reply, self._output(agent, reply))

    def _is_served(self, key: Key, state: State) -> bool:
        """Whether a client in this process is at work on a call that a run ended asking for."""
        attached = self._attached.get(key)
        return attached is not None and any(
            call.status == "delegated" and call.tool in attached.clients and call.call_id not in attached.handed_on
            for call in state.calls.values()
        )

    async def _until_something_happened(self, key: Key) -> None:
        """Waits for the next record, for a moment: a client may also leave without a word."""
        listener = self.hub(key).subscribe(live=False)
        try:
            if await listener.next_or_look(self._poll_ms / 1000) is None and not listener.lagging:
                raise closed_meanwhile(key)
        finally:
            self._leave(key, listener)

    # --- of a command ---

    async def _result_of(self, key: Key, command_id: str) -> Result:
        listener = self.hub(key).subscribe(live=False)
        try:
            sent = False
            while True:
                if not self._runs_now(key, command_id):
                    found = await self._end_of(key, command_id)
                    if found is not None:
                        return found
                    if not sent:
                        await self._check_sent(key, command_id)
                        sent = True
                    if key in self.parked:
                        raise Parked(f"session {key.session!r} is parked: {self.parked[key]}")
                    if await self._taken_at(key, command_id) is not None and not await self._works(key):
                        # It waits behind a run that waits for somebody, unless it ended between the two looks.
                        return await self._end_of(key, command_id) or await self.result(key)
                await self._until_it_may_have_ended(key, command_id, listener)
                if listener.lagging:
                    listener = self.hub(key).subscribe(live=False)
        finally:
            self._leave(key, listener)

    def _runs_now(self, key: Key, command_id: str) -> bool:
        """Whether this process knows, without a look at the log, that the command's run is going on."""
        active = self._active.get(key)
        if active is None or active.owner.busy or key in self.parked:
            return False
        state = active.owner.state
        return state.active and state.run is not None and command_id in state.run.commands

    async def _check_sent(self, key: Key, command_id: str) -> None:
        """Raises `UsageError` for a command that nobody has sent: it would be waited for in vain."""
        if await self._taken_at(key, command_id) is not None:
            return
        waiting = await self.store.inbox(key, limit=INBOX_LOOKED_AT)
        known = len(waiting) == INBOX_LOOKED_AT or any(command.command_id == command_id for command in waiting)
        if not known and await self._taken_at(key, command_id) is None:
            raise UsageError(
                f"session {key.session!r} was sent no command {command_id!r}: give the id that `await prompt(...)` gave"
            )

    async def _until_it_may_have_ended(self, key: Key, command_id: str, listener: Subscription) -> None:
        while True:
            active = self._active.get(key)
            sure = active is not None and not active.owner.stale
            told = await listener.next_or_look(None if sure else self._poll_ms / 1000)
            if told is None and not listener.lagging:
                raise closed_meanwhile(key)
            if not isinstance(told, Record) or isinstance(told.event, Terminal) or ends(told.event, command_id):
                return

    async def _end_of(self, key: Key, command_id: str) -> Result | None:
        """How a command ended; None where it has not."""
        active = self._active.get(key)
        if active is not None and not active.owner.stale:
            last, state = active.owner.hub.terminal, active.owner.state
            if last is not None and command_id in last.commands and state.run and state.run.run_id == last.run_id:
                return await self._told(key, state.agent.name, last, state.run.last_reply_seq)
        taken = await self._taken_at(key, command_id)
        if taken is None:
            return None
        reply_seq: int | None = None
        async for record in self.records(key, after=taken - 1):
            event = record.event
            if isinstance(event, ModelReplied) and event.lane == "main" and not event.empty:
                reply_seq = record.seq
            elif isinstance(event, RunStarted) and event.continues is None:
                reply_seq = None
            elif ends(event, command_id):
                if isinstance(event, Terminal):
                    return await self._told(key, (await self._seen(key)).agent.name, event, reply_seq)
                raise await self._no_run(key, event, record)
        return None

    async def _no_run(self, key: Key, event: Any, record: Record) -> Refused:
        """Why a command got no run: it was refused, or dropped, or a hook denied it."""
        if isinstance(event, CommandRefused):
            return Refused(event.code, event.message)
        assert isinstance(event, CommandCompleted)
        async for told in self.records(key, after=record.first - 1, until=record.seq):
            if isinstance(told.event, HookRuled) and told.event.ruling.denies:
                why = told.event.ruling.message or told.event.ruling.hook_id
                return Refused("hook_denied", f"the prompt was denied by a hook: {why}")
        why = f": {event.note}" if event.note else ""
        return Refused("no_run", f"command {event.command_id!r} led to no run{why}")

    # --- what was left for others ---

    def _note_posted(self, key: Key, command_id: str) -> None:
        self._posted.pop(key, None)
        self._posted[key] = command_id
        while len(self._posted) > POSTED_MAX:
            del self._posted[next(iter(self._posted))]

    async def _idle(self, key: Key) -> None:
        """What was sent from here is work too, as long as there is somebody to take it: whose code is at hand here is
        driven by this process, if by nobody else."""
        if key in self._posted:
            row = await self.store.get_index(key)
            if row is not None and row.agent in self._bound:
                await self._taken(key)
        await super()._idle(key)

    async def _taken(self, key: Key) -> None:
        """Waits until whoever drives the session has taken what was sent from here: before that, how its last run ended
        is no answer to it."""
        while (command_id := self._posted.get(key)) is not None:
            if await self._taken_at(key, command_id) is not None:
                if self._posted.get(key) == command_id:
                    del self._posted[key]
                return
            if key in self.parked:
                raise Parked(f"session {key.session!r} is parked: {self.parked[key]}")
            if self._closed:
                raise closed_meanwhile(key)
            await self.ports.sleep_ms(self._poll_ms)

    # --- looking it up ---

    async def _last_terminal(self, key: Key, seq: int) -> Terminal:
        """How the last run ended. It stands near the end of the log, so that is where it is looked for first."""
        active = self._active.get(key)
        told = active.owner.hub.terminal if active is not None else None
        if told is not None:
            return told
        for back in (TAIL_RECORDS, TAIL_RECORDS * 16, seq):
            found: Terminal | None = None
            async for record in self.records(key, after=max(0, seq - back), until=seq):
                if isinstance(record.event, Terminal) and record.seq <= seq:
                    found = record.event
            if found is not None:
                return found
        raise AssertionError("a session that had a run and is at rest has a terminal")

    async def _reply(self, key: Key, seq: int | None) -> ModelReplied | None:
        if seq is None:
            return None
        active = self._active.get(key)
        known = active.owner.known(seq) if active is not None else None
        if isinstance(known, ModelReplied):
            return known
        async for record in self.records(key, after=seq - 1):
            return record.event if isinstance(record.event, ModelReplied) else None
        return None

    def _output(self, agent: str, reply: ModelReplied | None) -> Any:
        bound = self._bound.get(agent)
        if bound is None or reply is None or reply.body is None or reply.body.output is None:
            return None
        found = reply.body.output
        try:
            return bound.parse_output(found.value) if found.valid else None
        except Mismatch:  # it fitted the type that the agent had then
            return None
