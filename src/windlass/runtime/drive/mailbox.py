"""Commands of a session as its owner takes them: from this process at once, from others through the inbox.

Each is checked, weighed and shown to hooks before it is taken; one from the inbox that does not fit is refused on
record, since nobody waits for an answer there.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars

import msgspec

from windlass.events.base import Command, Event
from windlass.events.commands import CommandRefused, PromptReceived
from windlass.events.errors import CodecError, CommandTaken, Refused
from windlass.events.runs import CancelReceived, InterruptReceived, PartialBody
from windlass.events.sessions import RewindReceived
from windlass.events.stored.codec import decode_command
from windlass.events.workspace import FilesRestoring
from windlass.kernel.phases import RESTING, AwaitingModel
from windlass.models.tokens import estimate_text
from windlass.runtime.commands.admission import admitted, check_size
from windlass.runtime.commands.large_results import apart
from windlass.runtime.hooks.prompt_hooks import hooked
from windlass.runtime.owner.owner import Owner
from windlass.store.base import InboxCommand

from .performer import Performer

INBOX_AT_ONCE = 100
SESSION = "session:"
"""How the actors of messages between sessions begin."""
PARTIAL_CHARS_MAX = 160_000
"""How much of an unfinished answer is kept with the command that stopped it: it must fit one event, however written."""

READING: contextvars.ContextVar[Mailbox | None] = contextvars.ContextVar("READING", default=None)
"""Whose inbox is being read: a hook that looks at what waits there may say something to the session itself."""


class Outdated(Exception):
    """The session is to be run by another of its agent's specialists than it is put together for here: whoever has a
    command for it opens it anew first."""


class Mailbox:
    """Takes the commands of one session."""

    def __init__(self, owner: Owner, performer: Performer) -> None:
        self._owner = owner
        self._performer = performer
        self._rewinding = asyncio.Lock()
        self._was_read = False
        performer.finish_rewind = self.finish_rewind

    @property
    def outdated(self) -> bool:
        """Whether another agent is to run the session than this was put together with."""
        return self._performer.bound.options.specialist != self._owner.state.setup.options.specialist

    async def submit(self, command: Command) -> list[Event]:
        """Takes a command now. Raises `Refused` if it does not fit, `CommandTaken` if it was taken before,
        `StorageFull` if there is no room for it, and `Outdated` if the session must be opened anew first."""
        return await self._take(command, command.command_id, waits=False)

    async def _take(
        self, command: Command, command_id: str, *, waits: bool = True, message: bool = False
    ) -> list[Event]:
        await self._after_rewind(command)
        if self.outdated:
            await self._owner.settled()
            if self.outdated:
                raise Outdated
        if isinstance(command, PromptReceived) and self._performer.bound.skills is not None:
            await self._performer.bound.skills.before_prompt(command)
        if isinstance(command, PromptReceived) and self._performer.bound.mcp is not None:
            await self._performer.bound.mcp.before_prompt()
        admitted_command = await self._admitted(command, message)
        if (
            isinstance(admitted_command, RewindReceived)
            and admitted_command.files
            and isinstance(self._owner.state.phase, RESTING)
        ):
            return await self._rewind(admitted_command, command_id, waits=waits)
        command, blobs = apart(await self._with_printed(self._with_partial(admitted_command)), self._owner.state)
        return await self._owner.take(command, takes=(command_id,), blobs=blobs, waits=waits)

    async def _admitted(self, command: Command, message: bool) -> Command:
        check_size(command)
        owner, bound = self._owner, self._performer.bound
        command = await admitted(command, owner.log, owner.key, owner.state, bound, message=message)
        ruled = await hooked(command, self._performer.hooks)
        if ruled is not command:
            check_size(ruled)
        return ruled

    # --- rewinds that put files back ---

    async def _rewind(self, command: RewindReceived, command_id: str, *, waits: bool) -> list[Event]:
        """The intent is on record before the first file is touched, so that whoever comes after a crash finishes it.
        Files that are back already stay as they are."""
        owner = self._owner
        async with self._rewinding:
            begun = owner.state.workspace.restoring
            if begun is None or begun.command_id != command.command_id:
                intent = FilesRestoring(command_id=command.command_id, to_seq=command.to_seq, actor=command.actor)
                await owner.take(intent, waits=waits)
            owner.ports.point("files_restoring")
            try:
                whole = await self._with_files(command)
                owner.ports.point("files_restored")
                return await owner.take(whole, takes=(command_id,), waits=waits)
            except (Refused, CommandTaken):
                with contextlib.suppress(Refused):
                    await owner.take(
                        FilesRestoring(command_id=command.command_id, to_seq=command.to_seq, given_up=True)
                    )
                raise

    async def _after_rewind(self, command: Command) -> None:
        """Nothing is taken between the beginning of a rewind with files and its end, also if somebody else began it
        and is gone."""
        if self._rewinding.locked():
            async with self._rewinding:
                return
        begun = self._owner.state.workspace.restoring
        if begun is not None and begun.command_id != command.command_id:
            await self.finish_rewind()

    async def finish_rewind(self) -> None:
        """Does what a rewind had begun that was cut off."""
        if self._rewinding.locked():
            async with self._rewinding:
                return
        begun = self._owner.state.workspace.restoring
        if begun is None:
            return
        command = RewindReceived(command_id=begun.command_id, actor=begun.actor, to_seq=begun.to_seq, files=True)
        with contextlib.suppress(Refused, CommandTaken):
            await self._take(command, command.command_id)

    async def _with_files(self, command: RewindReceived) -> RewindReceived:
        from windlass.runtime.workspace.restored_files import with_files

        state, bound = self._owner.state, self._performer.bound
        tools = [tool for name in state.toolset.tools if (tool := bound.tool(state, name)) is not None]
        return await with_files(command, self._owner, tools)

    def _with_partial(self, command: Command) -> Command:
        """What the model had written when it was stopped goes into the log with the command that stopped it."""
        if not isinstance(command, InterruptReceived | CancelReceived):
            return command
        if not isinstance(self._owner.state.phase, AwaitingModel):
            return command
        text = self._performer.models.written[:PARTIAL_CHARS_MAX]
        if not text:
            return command
        return msgspec.structs.replace(command, tokens=estimate_text(text), body=PartialBody(text=text))

    async def _with_printed(self, command: Command) -> Command:
        """The same for what the program had printed that a state of a machine ran."""
        call = self._owner.state.machine.call_id
        if not call or not isinstance(command, InterruptReceived | CancelReceived):
            return command
        output = await self._performer.jobs.printed(call)
        if not output:
            return command
        body = command.body or PartialBody()
        return msgspec.structs.replace(command, body=msgspec.structs.replace(body, output=output))

    async def fold_what_waited(self) -> None:
        """Takes what was sent before the session came to this process, unless that is done: it was said before
        anything that is said here."""
        if not self._was_read and READING.get() is not self:
            await self.fold_inbox()

    async def fold_inbox(self) -> int:
        """Takes the commands that other processes sent, in their order; one that does not fit is refused on record."""
        before = READING.set(self)
        try:
            count = await self._fold_all()
        finally:
            with contextlib.suppress(ValueError):  # let go of halfway, it ends in the context of whoever collects it
                READING.reset(before)
        self._was_read = True
        return count

    async def _fold_all(self) -> int:
        owner, count, last = self._owner, 0, 0
        while True:
            waiting = await owner.insist(lambda: owner.store.inbox.waiting(owner.key, limit=INBOX_AT_ONCE))
            for command in waiting:
                if self.outdated:
                    return count
                await self._fold_command(command)
            count += len(waiting)
            # Nobody says again that there are more; one that stays is not waited for.
            if len(waiting) < INBOX_AT_ONCE or waiting[0].position <= last:
                return count
            last = waiting[0].position

    async def _fold_command(self, waiting: InboxCommand) -> None:
        try:
            command = decode_command(waiting.data)
            if command.actor.startswith(SESSION):
                self._owner.follows(waiting.at_ms)
            await self._take(command, waiting.command_id, message=True)
        except CommandTaken:
            return
        except (Refused, CodecError) as error:
            code = error.code if isinstance(error, Refused) else "unreadable"
            refusal = CommandRefused(command_id=waiting.command_id, code=code, message=str(error))
            try:
                await self._owner.take(refusal, takes=(waiting.command_id,))
            except (Refused, CommandTaken):
                return
