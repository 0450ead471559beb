"""`windlass chat`: a conversation with an agent on a terminal.

What is typed while it works steers it; Ctrl-C stops the run and not the program; requests are asked on the spot.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from windlass.cli import identity, options
from windlass.cli.exits import OK
from windlass.cli.kept_session import tell_beginning
from windlass.cli.prompt_input import attachments_of, title_of
from windlass.cli.screen import number_words
from windlass.cli.screen.attachments import attachment_lines
from windlass.cli.screen.setup import files_line
from windlass.cli.shell_lines import word
from windlass.cli.terminal.history import HistoryFile, history_path
from windlass.cli.terminal.interview import Interviewer
from windlass.cli.terminal.keyboard import is_interactive
from windlass.cli.terminal.text import one_line, put
from windlass.cli.terminal.visible_text import spelt, visible
from windlass.events.changes import ChangeTitle
from windlass.events.commands import PromptReceived, QueueChanged
from windlass.events.errors import Refused, UsageError, WindlassError
from windlass.events.questions import QuestionRequested
from windlass.events.runs import RunAsked, RunStarted, Terminal
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.values.blocks import Text
from windlass.runtime.api.termination import TERMINATED, Termination
from windlass.runtime.operate.item_text import prompt_text
from windlass.runtime.streams.record import Record

from . import slash_commands
from .chat_screen import open_desk
from .opening_summary import summary

if TYPE_CHECKING:
    from windlass.events.values.blocks import AnyAttachment
    from windlass.events.values.setup import Behavior, SessionOptions
    from windlass.runtime.api.agent import Agent
    from windlass.runtime.api.runtime import Runtime
    from windlass.runtime.api.session import Session

HEARD_CHARS_MAX = 2_000
"""How much is shown of what another terminal said."""
RECENT_MAX = 6
"""Prompts and replies that are shown again of a session that is resumed."""
HINTS = "Ctrl-C stops it · what you write steers it"
HOW = "/help lists the commands · Ctrl-C stops a run · Ctrl-D leaves"


def run(args: argparse.Namespace) -> int:
    """Does it."""
    if not is_interactive():
        raise UsageError("chat needs a terminal: use 'windlass run' in scripts")
    return asyncio.run(converse(args))


async def converse(args: argparse.Namespace) -> int:
    import windlass
    from windlass.cli.agents import agent_of, options_of
    from windlass.cli.kept_session import kept
    from windlass.cli.served import connected
    from windlass.runtime.bind.session_options import NO_OPTIONS, merged

    before = (await kept(args)).options
    served = bool(options.url_of(args))
    given = NO_OPTIONS if served else options_of(args, before)
    in_force = merged(before, given)
    chat = Chat(args, None if served else agent_of(args, in_force), given)
    async with (
        chat.desk,
        connected(args)
        if chat.agent is None
        else windlass.open(
            options.place_to_write(args),
            agents=[chat.agent],
            approver=chat.interviewer,
            tenant=args.tenant,
            take_up=False,
            drain_ms=options.drain_ms(args),
        ) as runtime,
    ):
        chat.runtime = runtime
        ending = Termination(runtime.drain, before=lambda: chat.note(options.DRAINING), then=chat.desk.end)
        try:
            with ending, hung_up():
                await chat.enter(args.session)
                if (warning := options.sandbox_warning(args, in_force)) is not None:
                    chat.note(warning)
                for line in attachment_lines(chat.attached):
                    chat.note(f"({line}, for your first prompt)")
                await chat.talk()
                chat.jobs_left = len((await chat.session.state()).jobs.open)
        finally:
            await chat.leave()
    farewell(chat)
    return TERMINATED if ending.asked else OK


@contextmanager
def hung_up() -> Iterator[None]:
    """Has the terminal's end (SIGHUP) stop the conversation as SIGTERM does; the shell and the system may both tell of
    it, and the second time is no impatience. Whoever has it ignored (`nohup`) goes on."""
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        yield
        return
    loop, told = asyncio.get_running_loop(), asyncio.Event()

    def hear() -> None:
        if not told.is_set():
            told.set()
            os.kill(os.getpid(), signal.SIGTERM)

    loop.add_signal_handler(signal.SIGHUP, hear)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


def farewell(chat: Chat) -> None:
    """How to come back."""
    from windlass.cli.shell_lines import again, jobs_left

    name = chat.session.session_id
    if chat.jobs_left:
        put(jobs_left(chat.jobs_left, name, chat.args), sys.stderr)
    put(f"session {spelt(name)} is kept; resume it with\n  {again('chat', name, chat.args)}", sys.stderr)


class Chat:
    """One conversation: what is typed goes to the session, what happens there comes to the screen."""

    runtime: Runtime
    session: Session

    def __init__(self, args: argparse.Namespace, agent: Agent | None, given: SessionOptions) -> None:
        self.args = args
        self.agent = agent
        """None if the sessions are those of a server."""
        self.given = given
        """What the sessions of this conversation are to have otherwise than the agent."""
        history = HistoryFile(None if args.no_history else history_path())
        self.desk = open_desk(history, self._complete, self.ctrl_c)
        self.interviewer = Interviewer(self.desk, before=lambda: self.desk.narrator.rest())
        self._watching: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[Any]] = set()
        self._stopped_idle = False
        self._mine: set[str] = set()
        """Prompts from here that have not come back yet: they are on the screen already."""
        self.waiting: tuple[str, ...] = ()
        """The ids of the prompts that wait, as they were last looked at; for completion."""
        self.attached: tuple[AnyAttachment, ...] = attachments_of(args.attach)
        """What goes with the next prompt."""
        self.jobs_left = 0
        """Background jobs that go on when the person leaves."""

    def note(self, line: str, colour: str = "dim") -> None:
        """A line of ours on the screen; the text must be visible text."""
        self.desk.narrator.note(line, colour)

    def _complete(self, text: str) -> list[str]:
        return slash_commands.completions(text, self.waiting)

    # --- the session ---

    async def enter(self, session_id: str | None) -> None:
        """Takes up a session: its setup, the end of its history, what it is owed, what it waits for."""
        await self.leave()
        name = session_id or self.runtime.ports.fresh_id()
        self.interviewer.session = name
        self.session = await self._session(name)
        before = await self.session.state()
        if not before.active:
            await self.runtime.drive(name)  # what the agent has otherwise than before is in the log once it is driven
        state = await self.session.state()
        self.note(f"session {spelt(name)} in {spelt(options.told_place(self.args))}")
        for line in (*summary(state), files_line(await self.session.setup())):
            if line:
                self.note(line)
        await tell_beginning(self.session, self.desk.narrator)
        self.note(HOW)
        self.note(self.interviewer.explained)
        await self._recall(before.seq)
        self._watching = asyncio.create_task(self._watch(before.seq))
        await self.look()
        if (await self.session.state()).asks.open:
            self.spawn(self.ask_open())

    async def _session(self, name: str) -> Session:
        if self.agent is None:
            from windlass.cli.served import served_session

            self.args.session = name
            return await served_session(self.runtime, self.args)
        return await self.runtime.session(
            self.agent, name, workspace=os.curdir, trusted=self.args.trust, options=self.given
        )

    async def leave(self) -> None:
        """Lets go of the session; what it does goes on with whoever drives it."""
        for task in (self._watching, *self._sending):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _recall(self, seq: int) -> None:
        """The last exchanges of a session that is resumed."""
        if seq <= 1:
            return
        from windlass.events.turns import ModelReplied

        log, kinds = self.runtime.host.log, (PromptReceived, ModelReplied)
        said = await log.last(self.session.key, kinds, RECENT_MAX + 1, until=seq)
        if len(said) > RECENT_MAX:
            self.note(f"… 'windlass logs {word(self.session.session_id)}' shows what came before these")
        for record in said[-RECENT_MAX:]:
            event = record.event
            if isinstance(event, PromptReceived):
                self.note(f"> {one_line(title_of(event.body.content), 200) if event.body else ''}", "bold")
            else:
                self.desk.narrator.tell(record)

    async def _watch(self, after: int) -> None:
        async for told in self.session.tail(after=after):
            self.desk.narrator.tell(told)
            event = told.event if isinstance(told, Record) else told
            if isinstance(event, PromptReceived):
                self._heard(event)
            if isinstance(event, Terminal):
                used = f"{number_words.tokens(event.usage)}, {number_words.dollars(event.cost_nanos)}"
                self.note(f"({type(event).__name__.removeprefix('Run').lower()}; {used})")
                self.desk.invite()
            inside = isinstance(event, QuestionRequested) and event.inside
            if self.agent is None and (inside or isinstance(event, RunAsked)):
                self.spawn(self.ask_open())  # whoever drives it there has nobody at hand
            if isinstance(event, Terminal | RunStarted | QueueChanged | PermissionRequested | QuestionRequested):
                await self.look()

    def _heard(self, event: PromptReceived) -> None:
        """Shows what was said from elsewhere, with who said it."""
        if event.command_id in self._mine:
            self._mine.discard(event.command_id)
        elif event.body is not None:
            self.note(
                f"{spelt(event.actor)}> {one_line(prompt_text(event.body, whole=False), HEARD_CHARS_MAX)}", "bold"
            )

    async def look(self) -> None:
        """Says beside the input what the session is doing."""
        from windlass.events.values.ids import prompt_id

        state = await self.session.state()
        self.waiting = tuple(map(prompt_id, state.queue.waiting))
        queued = f"{number_words.plural(len(state.queue.waiting), 'prompt')} waiting" if state.queue.waiting else ""
        parts = ("working", queued, HINTS) if state.active else (queued,)
        self.desk.status(" · ".join(part for part in parts if part))

    async def ask_open(self) -> None:
        """Puts before the person what the session waits for."""
        from windlass.cli.open_requests import answer_open

        await answer_open(self.session, self.interviewer, self.note)

    # --- talking ---

    async def talk(self) -> None:
        """Reads what is said until the person leaves."""
        if not self.interviewer.asking:
            self.desk.invite()
        while (line := await self.desk.line()) is not None:
            self._stopped_idle = False
            try:
                if not await self.said(line.strip()):
                    return
            except WindlassError as error:
                self.note(visible(str(error)), "red")
                self.desk.invite()

    async def said(self, line: str) -> bool:
        """Does what a line says; False if it says to leave."""
        if not line:
            self.desk.invite()
            return True
        if line.startswith("/"):
            return await slash_commands.perform(self, line)
        active = (await self.session.state()).active
        await self.say(line, "steer" if active else None)
        if active:
            self.note("(it reads that before its next step)")
        return True

    async def say(self, text: str, behavior: Behavior | None) -> None:
        """Sends a prompt from here; the first one gives the session its title."""
        if not (await self.session.state()).setup.title:
            await self.session.change(ChangeTitle(title=title_of([Text(text=text)])), actor=identity.actor())
        command_id = identity.fresh_command_id()
        self._mine.add(command_id)
        await self.session.prompt(
            text, behavior=behavior, attachments=self.attached, command_id=command_id, actor=identity.actor()
        )
        self.attached = ()

    def ctrl_c(self) -> None:
        """Stops the run; where none runs, leaves a request open, empties the input, and the second in a row leaves."""
        self.spawn(self._stop())

    async def _stop(self) -> None:
        if (await self.session.state()).active:
            try:
                await self.session.interrupt("Ctrl-C", actor=identity.actor())
            except Refused:
                return
        elif self.desk.leave_open():
            self.note("(left open; /ask asks again)")
        elif self.desk.draft:
            self.desk.prefill("")
            self._stopped_idle = False
        elif self._stopped_idle:
            self.desk.end()
        else:
            self._stopped_idle = True
            self.note("(nothing runs; Ctrl-C again or /quit leaves)")
            self.desk.invite()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Lets something go on beside the conversation, for as long as that lasts."""
        task = asyncio.ensure_future(self._noted(work))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _noted(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except WindlassError as error:
            self.note(visible(str(error)), "red")
