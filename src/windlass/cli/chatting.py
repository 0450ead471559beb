"""`windlass chat`: a conversation with an agent on a terminal.

What is typed while it works steers it; Ctrl-C stops the run and not the program; requests are asked on the spot.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from windlass.events.blocks import plain_text
from windlass.events.errors import Refused, UsageError, WindlassError
from windlass.events.permissions import PermissionRequested
from windlass.events.questions import QuestionRequested
from windlass.events.runs import PromptReceived, QueueChanged, RunStarted, Terminal

from . import chat_commands, options, stores, words
from .chat_desk import open_desk
from .chat_setup import summary
from .exits import OK
from .keyboard import Interviewer, is_interactive
from .line_history import History, history_path
from .setup_lines import files_line
from .text import one_line, visible

if TYPE_CHECKING:
    from windlass.events.specs import Behavior
    from windlass.runtime.agent import Agent
    from windlass.runtime.runtime import Runtime
    from windlass.runtime.session import Session

HEARD_CHARS_MAX = 2_000
"""How much is shown of what another terminal said."""
RECENT_MAX = 6
"""Prompts and replies of a session that is gone on with that are shown again."""
HINTS = "Ctrl-C stops it · what you write steers it"
HOW = "/help lists the commands · Ctrl-C stops a run · Ctrl-D leaves"


def run(args: argparse.Namespace) -> int:
    """Does it."""
    if not is_interactive():
        raise UsageError("chat needs a terminal: use 'windlass run' in scripts")
    return asyncio.run(converse(args))


async def converse(args: argparse.Namespace) -> int:
    import windlass

    from .agents import agent_of
    from .recalling import recalled

    agent = agent_of(args, await recalled(args))
    chat = Chat(args, agent)
    with chat.desk:
        async with windlass.open(
            options.place_of(args), agents=[agent], approver=chat.interviewer, tenant=args.tenant, take_up=False
        ) as runtime:
            chat.runtime = runtime
            try:
                await chat.enter(args.session)
                await chat.talk()
            finally:
                await chat.leave()
    farewell(chat)
    return OK


def farewell(chat: Chat) -> None:
    """How to come back."""
    from .commands import again

    name = chat.session.session_id
    print(f"session {visible(name)} is kept; go on with\n  {again('chat', name, chat.args)}", file=sys.stderr)


class Chat:
    """One conversation: what is typed goes to the session, what happens there comes to the screen."""

    runtime: Runtime
    session: Session

    def __init__(self, args: argparse.Namespace, agent: Agent) -> None:
        self.args = args
        self.agent = agent
        history = History(None if args.no_history else history_path())
        self.desk = open_desk(history, self._complete, self.ctrl_c)
        self.interviewer = Interviewer(self.desk, before=lambda: self.desk.narrator.rest())
        self._watching: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[Any]] = set()
        self._stopped_idle = False
        self._mine: set[str] = set()
        """Prompts from here that have not come back yet: they are on the screen already."""
        self.waiting: tuple[str, ...] = ()
        """The ids of the prompts that wait, as they were last looked at; for completion."""

    def note(self, line: str, colour: str = "dim") -> None:
        """A line of ours on the screen; the text must be visible text."""
        self.desk.narrator.note(line, colour)

    def _complete(self, text: str) -> list[str]:
        return chat_commands.completions(text, self.waiting)

    # --- the session ---

    async def enter(self, session_id: str | None) -> None:
        """Takes up a session: its setup, the end of its history, what it is owed, what it waits for."""
        await self.leave()
        name = session_id or self.runtime.ports.fresh_id()
        self.interviewer.session = name
        self.session = await self.runtime.session(self.agent, name, workspace=os.curdir, trusted=self.args.trust)
        before = await self.session.state()
        if not before.active:
            await self.runtime.drive(name)  # what the agent has otherwise than before is in the log once it is driven
        state = await self.session.state()
        self.note(f"session {visible(name)} in {visible(options.place_of(self.args))}")
        for line in (*summary(state), files_line(await self.session.setup())):
            if line:
                self.note(line)
        self.note(HOW)
        self.note(f"whatever needs your word is asked behind the mark {self.interviewer.mark}")
        await self._recall(before.seq)
        self._watching = asyncio.create_task(self._watch(before.seq))
        await self.look()
        if (await self.session.state()).asks:
            self.spawn(self.ask_open())

    async def leave(self) -> None:
        """Lets go of the session; what it does goes on with whoever drives it."""
        for task in (self._watching, *self._sending):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _recall(self, seq: int) -> None:
        """The last exchanges of a session that is gone on with."""
        if seq <= 1:
            return
        from windlass.events.turns import ModelReplied

        from .running import title_of

        found = [record.event async for record in self.session.records() if record.seq <= seq]
        said = [event for event in found if isinstance(event, PromptReceived | ModelReplied)]
        if len(said) > RECENT_MAX:
            self.note(f"… {words.plural(len(said) - RECENT_MAX, 'message')} before these")
        for event in said[-RECENT_MAX:]:
            if isinstance(event, PromptReceived):
                self.note(f"> {one_line(title_of(event.body.content), 200) if event.body else ''}", "bold")
            else:
                self.desk.narrator.tell(event)

    async def _watch(self, after: int) -> None:
        async for event in self.session.events(after=after):
            self.desk.narrator.tell(event)
            if isinstance(event, PromptReceived):
                self._heard(event)
            if isinstance(event, Terminal):
                used = f"{words.tokens(event.usage)}, {words.dollars(event.cost_nanos)}"
                self.note(f"({type(event).__name__.removeprefix('Run').lower()}; {used})")
                self.desk.invite()
            if isinstance(event, Terminal | RunStarted | QueueChanged | PermissionRequested | QuestionRequested):
                await self.look()

    def _heard(self, event: PromptReceived) -> None:
        """Shows what was said from elsewhere, with who said it."""
        if event.command_id in self._mine:
            self._mine.discard(event.command_id)
        elif event.body is not None:
            self.note(f"{visible(event.actor)}> {one_line(plain_text(event.body.content), HEARD_CHARS_MAX)}", "bold")

    async def look(self) -> None:
        """Says beside the input what the session is doing."""
        from windlass.events.ids import prompt_id

        state = await self.session.state()
        self.waiting = tuple(map(prompt_id, state.queue))
        queued = f"{words.plural(len(state.queue), 'prompt')} waiting" if state.queue else ""
        parts = ("working", queued, HINTS) if state.active else (queued,)
        self.desk.status(" · ".join(part for part in parts if part))

    async def ask_open(self) -> None:
        """Puts before the person what the session waits for."""
        from .running import answer_open

        await answer_open(self.session, self.interviewer)

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
        """Does what a line says; False where it says to leave."""
        if not line:
            self.desk.invite()
            return True
        if line.startswith("/"):
            return await chat_commands.perform(self, line)
        active = (await self.session.state()).active
        await self.say(line, "steer" if active else None)
        if active:
            self.note("(it reads that before its next step)")
        return True

    async def say(self, text: str, behavior: Behavior | None) -> None:
        """Sends a prompt from here."""
        command_id = stores.fresh_command_id()
        self._mine.add(command_id)
        await self.session.prompt(text, behavior=behavior, command_id=command_id, actor=stores.actor())

    def ctrl_c(self) -> None:
        """Stops the run; where none runs, leaves a request open, empties the input, and the second in a row leaves."""
        self.spawn(self._stop())

    async def _stop(self) -> None:
        if (await self.session.state()).active:
            try:
                await self.session.interrupt("Ctrl-C", actor=stores.actor())
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
        task = asyncio.ensure_future(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
