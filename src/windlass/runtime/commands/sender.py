"""Sends commands: to the driver if this process can own the session, to the inbox for another process otherwise."""

from __future__ import annotations

from windlass.events.base import Command
from windlass.events.commands import PromptReceived
from windlass.events.errors import CodecError, CommandTaken, Refused, StaleEpoch, UsageError
from windlass.events.runs import CancelReceived, InterruptReceived
from windlass.events.stored import codec
from windlass.events.stored.known_secrets import SECRETS
from windlass.events.trees.accounts import ChildSettled, GrantReceived
from windlass.events.trees.children import ChildFinished, ChildMoved
from windlass.kernel.step import check
from windlass.runtime.bind.local_code import Lent
from windlass.runtime.drive.mailbox import Outdated
from windlass.runtime.hooks.committed_events import CommittedEvents
from windlass.runtime.host.drive_tasks import DriveTasks
from windlass.runtime.host.opener import Opener
from windlass.runtime.host.ports import Ports
from windlass.runtime.host.slot import Driven
from windlass.runtime.host.slot_table import Slots
from windlass.runtime.owner.index_row import row_of
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import InboxCommand, Key, Store

from .admission import GRANTED_ABOVE, check_size
from .fitting_answers import check_answer
from .left_trees import check_is_here
from .pending_commands import check_behind, pending
from .stale_answers import answered, check_open


class Sender:
    """Has commands taken, each once."""

    def __init__(
        self, store: Store, ports: Ports, slots: Slots, log: LogReader, opener: Opener, tasks: DriveTasks
    ) -> None:
        self._store = store
        self._ports = ports
        self._slots = slots
        self._log = log
        self._opener = opener
        self._tasks = tasks

    async def send(self, key: Key, command: Command, lent: Lent | None = None) -> None:
        """Has a command taken. Raises `Refused` if it does not fit now. One that was taken before is acknowledged
        again, and nothing happens. What is `lent` to its run must be of the process that drives the session."""
        if self._slots.closed:
            raise UsageError("this runtime is closed: open another one")
        if not lent and await self._is_old_news(key, command):
            return
        await check_is_here(command, self._store, key)
        driven = await self._opener.ensure_driven(key)
        if lent:
            await self._lend(key, driven, command, lent)
        if driven is None:
            await self._post(key, command)
            return
        try:
            await driven.driver.mailbox.fold_what_waited()
            await self._look_before(command, driven)
            await driven.driver.mailbox.submit(command)
            if driven.driver.mailbox.outdated:
                await self._open_anew(key, driven)
        except Outdated:
            await self._open_anew(key, driven)
            await self.send(key, command, lent)
        except CommandTaken:
            return
        except Refused:
            if await self._log.taken_at(key, command.command_id) is None:
                raise
            return
        except StaleEpoch:
            self._tasks.drop(self._slots.at(key), driven)
            await self.send(key, command, lent)
        finally:
            # Also if nobody waits for it any more: the command may have been kept.
            slot = self._slots.get(key)
            if slot is not None and slot.driven is driven:
                self._tasks.run(slot, driven)

    async def _open_anew(self, key: Key, driven: Driven) -> None:
        """Has a session put together with the agent that is to run it now."""
        await self._tasks.let_go(key, driven)
        await self._opener.ensure_driven(key)

    async def _is_old_news(self, key: Key, command: Command) -> bool:
        """Whether a session that lost its owners has taken a command before. A program that is started again and says
        all of it again must not have them driven at once, healthy ones beside the one that ends the process."""
        if self._slots.driven_at(key) is not None:
            return False
        row = await self._store.index.get(key)
        if row is None or not row.losses:
            return False
        return await self._log.taken_at(key, command.command_id) is not None

    async def _lend(self, key: Key, driven: Driven | None, command: Command, lent: Lent) -> None:
        if driven is None:
            raise UsageError(
                f"session {key.session!r} is not driven here ({await self._opener.why_not(key)}), so hooks and models "
                "of this process cannot serve its runs: name the model, and give hooks to the agent"
            )
        performer = driven.driver.performer
        own = performer.bound.model
        if lent.model is not None and lent.model is not own and lent.model.info.name == own.info.name:
            raise UsageError(f"the agent's own model is called {own.info.name!r} too: give this one another name")
        performer.bound.local_code.lend(command.command_id, lent, driven.owner.state)
        if lent.hooks and driven.owner.on_committed is None:
            driven.owner.on_committed = CommittedEvents(performer.hooks).tell

    async def _post(self, key: Key, command: Command) -> None:
        """Leaves a command for whoever drives the session. An answer to what is not open, or has an answer on its way,
        is refused here: nobody would hear of it later."""
        if isinstance(command, ChildFinished | ChildMoved | ChildSettled):
            raise Refused("not_for_clients", "what becomes of a child is told by itself")
        if isinstance(command, GrantReceived):
            raise Refused("not_for_clients", GRANTED_ABOVE)
        check_size(command)
        if answered(command) is not None:
            await self._check_answer(key, command)
        try:
            data = SECRETS.hidden(codec.encode_command(command))
        except CodecError as error:
            raise Refused("malformed", str(error)) from error
        posted = InboxCommand(command_id=command.command_id, at_ms=self._ports.now_ms(), data=data)
        await self._store.inbox.send(key, posted)
        self._slots.post(key, command.command_id)
        await self._make_known(key)

    async def _check_answer(self, key: Key, command: Command) -> None:
        state = (await self._log.fold(key)).state
        if await self._log.taken_at(key, command.command_id) is not None:
            return
        await check_open(command, self._log, key, state)
        await check_answer(command, self._log, key, state)
        check(state, command)
        before = await pending(self._store, key, before=command.command_id)
        check_behind(state, before, command, max(state.now_ms, self._ports.now_ms()))

    async def _make_known(self, key: Key) -> None:
        """A fork whose maker died before it began is in no index yet; what waits in its inbox would never be seen."""
        if await self._store.index.get(key) is None:
            await self._store.index.put(row_of(key, (await self._log.fold(key)).state))

    async def _look_before(self, command: Command, driven: Driven) -> None:
        """A run begins with what is true of its folder. Whoever wants something stopped waits for no disk; a run that
        is going on keeps its instructions, and learns of another branch with the next prompt."""
        if isinstance(command, InterruptReceived | CancelReceived):
            return
        at_rest = not driven.owner.state.active
        if at_rest or isinstance(command, PromptReceived):
            await driven.instructions.look(files=at_rest)
