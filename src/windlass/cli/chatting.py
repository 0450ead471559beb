"""`windlass chat`: a conversation with an agent on a plain terminal.

What is typed while it works steers it; Ctrl-C stops the run and not the program; requests are asked on the spot.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from windlass.events.errors import Refused, UsageError, WindlassError
from windlass.events.runs import PromptReceived, Terminal

from . import options, stores, words
from .exits import OK
from .keyboard import Interviewer, Keyboard, is_interactive
from .narrate import Narrator
from .text import Paint, one_line, visible

if TYPE_CHECKING:
    from windlass.runtime.agent import Agent
    from windlass.runtime.runtime import Runtime
    from windlass.runtime.session import Session

HELP = """/help              this
/queue             the prompts that wait; /queue TEXT adds one for when the run is over
/edit ID TEXT      change a prompt that waits; /drop ID drops it
/cost              what this session has used
/log               the last records of its log
/clear             a fresh context (the log keeps everything)
/resume SESSION    go on with another session of this agent; /sessions lists them
/quit              leave (Ctrl-D too); the session is kept
Ctrl-C             stop what it is doing"""

LOG_LINES = 20

RECENT_MAX = 6


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .agents import agent_of

    if not is_interactive():
        raise UsageError("chat needs a terminal: use 'windlass run' in scripts")
    return asyncio.run(converse(args, agent_of(args)))


async def converse(args: argparse.Namespace, agent: Agent) -> int:
    import windlass

    with Keyboard() as keyboard:
        chat = Chat(args, agent, keyboard)
        place = options.place_of(args)
        async with windlass.open(
            place, agents=[agent], approver=chat.interviewer, tenant=args.tenant, take_up=False
        ) as runtime:
            chat.runtime = runtime
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, chat.ctrl_c)
            try:
                await chat.enter(args.session)
                await chat.talk()
            finally:
                asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
                await chat.leave()
    return OK


class Turnstile:
    """The lines that are meant for a request: the chat passes them on while one is open."""

    def __init__(self, keyboard: Keyboard) -> None:
        self._keyboard = keyboard
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()

    def give(self, line: str | None) -> None:
        self._lines.put_nowait(line)

    async def line(self) -> str | None:
        return await self._lines.get()

    def forget(self) -> None:
        while not self._lines.empty():
            self._lines.get_nowait()
        self._keyboard.forget()


class Chat:
    """One conversation: what is typed goes to the session, what happens there comes to the screen."""

    runtime: Runtime
    session: Session

    def __init__(self, args: argparse.Namespace, agent: Agent, keyboard: Keyboard) -> None:
        self._args = args
        self._agent = agent
        self._keyboard = keyboard
        self._paint = Paint(sys.stderr)
        self.narrator = Narrator(sys.stdout, sys.stderr)
        self._turnstile = Turnstile(keyboard)
        self.interviewer = Interviewer(self._turnstile, before=self.narrator.rest)
        self._watching: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[Any]] = set()
        self._stopped_idle = False

    # --- the session ---

    async def enter(self, session_id: str | None) -> None:
        """Takes up a session: its setup, the end of its history, what it is owed, what it waits for."""

        await self.leave()
        name = session_id or self.runtime.ports.fresh_id()
        self.interviewer.session = name
        self.session = await self.runtime.session(self._agent, name)
        state = await self.session.state()
        tools = ", ".join(map(visible, state.tools)) or "none"
        self.narrator.note(f"session {visible(name)} in {options.place_of(self._args)}")
        self.narrator.note(f"model {visible(state.model.name)} · tools {tools} · /help")
        self.narrator.note(f"whatever needs your word is asked behind the mark {self.interviewer.mark}")
        await self._recall(state.seq)
        self._watching = asyncio.create_task(self._watch(state.seq))
        if not state.active:
            await self.runtime.drive(name)
        if (await self.session.state()).asks:
            self._spawn(self._answer_open())

    async def leave(self) -> None:
        for task in (self._watching, *self._sending):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _recall(self, seq: int) -> None:
        """The last exchanges of a session that is gone on with."""
        if seq <= 1:
            return
        from windlass.events.turns import ModelReplied

        from .running import title_of

        found = [record.event async for record in self.session.records()]
        said = [event for event in found if isinstance(event, PromptReceived | ModelReplied)][-RECENT_MAX:]
        for event in said:
            if isinstance(event, PromptReceived):
                self.narrator.note(f"> {one_line(title_of(event.body.content), 200) if event.body else ''}")
            else:
                self.narrator.tell(event)

    async def _watch(self, after: int) -> None:
        async for event in self.session.events(after=after):
            self.narrator.tell(event)
            if isinstance(event, Terminal):
                used = f"{words.tokens(event.usage)}, {words.dollars(event.cost_nanos)}"
                self.narrator.note(f"({type(event).__name__.removeprefix('Run').lower()}; {used})")
                self.invite()

    async def _answer_open(self) -> None:
        from .running import answer_open

        await answer_open(self.session, self.interviewer)

    # --- talking ---

    def invite(self) -> None:
        """Shows that the next word is the person's."""
        self.narrator.rest()
        print(self._paint("> ", "bold"), end="", file=sys.stderr, flush=True)

    async def talk(self) -> None:
        """Reads lines until the person leaves."""
        if not self.interviewer.asking:
            self.invite()
        while True:
            line = await self._keyboard.line()
            if self.interviewer.asking:
                self._turnstile.give(line)
                if line is None:
                    return
                continue
            if line is None:
                print(file=sys.stderr)
                return
            self._stopped_idle = False
            try:
                if not await self.said(line.strip()):
                    return
            except WindlassError as error:
                self.narrator.note(f"{visible(str(error))}", "red")
                self.invite()

    async def said(self, line: str) -> bool:
        """Does what a line says; False where it says to leave."""
        if not line:
            self.invite()
            return True
        if line.startswith("/"):
            name, _, rest = line[1:].partition(" ")
            if name in ("quit", "exit"):
                return False
            doing = COMMANDS.get(name)
            if doing is None:
                raise UsageError(f"no command '/{name}': /help lists them")
            await doing(self, rest.strip())
            return True
        active = (await self.session.state()).active
        await self.session.prompt(line, behavior="steer" if active else None, actor=stores.actor())
        if active:
            self.narrator.note("(it reads that before its next step)")
        return True

    def ctrl_c(self) -> None:
        """Stops the run; where none runs, the second in a row leaves."""
        self._spawn(self._stop())

    async def _stop(self) -> None:
        if (await self.session.state()).active:
            try:
                await self.session.interrupt("Ctrl-C")
            except Refused:
                return
        elif self._stopped_idle:
            self._keyboard.end()
        else:
            self._stopped_idle = True
            self.narrator.note("(nothing runs; Ctrl-C again or /quit leaves)")
            self.invite()

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    # --- commands ---

    async def help(self, rest: str) -> None:
        for line in HELP.splitlines():
            self.narrator.note(line, "")
        self.invite()

    async def queue(self, rest: str) -> None:
        """Lists what waits, or adds to it."""
        if rest:
            await self.session.prompt(rest, behavior="follow_up", actor=stores.actor())
            return
        for name, text in (await self._queued()).items():
            self.narrator.note(f"{name}  {one_line(text, 200)}", "")
        if not await self._queued():
            self.narrator.note("no prompt waits")
        self.invite()

    async def _queued(self) -> dict[str, str]:
        from windlass.events.ids import prompt_id

        from .render import in_words

        waiting = (await self.session.state()).queue
        events = {record.seq: record.event async for record in self.session.records() if record.seq in waiting}
        found = {}
        for seq in waiting:
            event = events.get(seq)
            body = event.body if isinstance(event, PromptReceived) else None
            found[prompt_id(seq)] = in_words(body.content) if body is not None else ""
        return found

    async def drop(self, rest: str) -> None:
        waiting = await self._queued()
        if rest not in waiting:
            raise UsageError(f"no prompt {rest!r} waits: waiting are {', '.join(waiting) or 'none'}")
        await self.session.edit_queue(*(name for name in waiting if name != rest))

    async def edit(self, rest: str) -> None:
        """Another text for a prompt that waits."""
        from windlass.events.blocks import Text
        from windlass.events.runs import PromptBody, QueueBody, QueueEdited
        from windlass.models.tokens import estimate_text

        name, _, text = rest.partition(" ")
        waiting = await self._queued()
        if name not in waiting or not text.strip():
            raise UsageError(f"write /edit ID TEXT; waiting are {', '.join(waiting) or 'none'}")
        command = QueueEdited(
            command_id=stores.fresh_command_id(),
            actor=stores.actor(),
            order=tuple(waiting),
            tokens={name: estimate_text(text)},
            body=QueueBody(edits={name: PromptBody(content=(Text(text=text.strip()),))}),
        )
        await self.runtime.send(self.session.key, command)
        self.narrator.note(f"({name} is changed)")

    async def cost(self, rest: str) -> None:
        state = await self.session.state()
        spent = state.spent
        self.narrator.note(f"{words.tokens(spent.usage)} (tokens), {words.dollars(spent.cost_nanos)}", "")
        self.invite()

    async def log(self, rest: str) -> None:
        from .render import Timeline
        from .text import width_of

        view = Timeline(width=width_of(sys.stderr), paint=self._paint)
        lines: list[str] = []
        async for record in self.session.records():
            lines += view.lines(record.seq, record.at_ms, record.event)
        self.narrator.rest()
        for line in lines[-LOG_LINES:]:
            print(line, file=sys.stderr)
        self.invite()

    async def clear(self, rest: str) -> None:
        await self.session.clear()
        self.narrator.note("(a fresh context)")
        self.invite()

    async def resume(self, rest: str) -> None:
        if not rest:
            raise UsageError("write /resume SESSION; /sessions lists them")
        key = await stores.session_key(self.runtime.store, self._args, rest)
        await self.enter(key.session)
        self.invite()

    async def sessions(self, rest: str) -> None:
        for row in await self.runtime.sessions(agent=self._agent.name, limit=20):
            self.narrator.note(f"{visible(row.session)}  {row.state}  {one_line(row.title, 60)}", "")
        self.invite()


COMMANDS: dict[str, Callable[[Chat, str], Awaitable[None]]] = {
    "help": Chat.help,
    "queue": Chat.queue,
    "drop": Chat.drop,
    "edit": Chat.edit,
    "cost": Chat.cost,
    "log": Chat.log,
    "clear": Chat.clear,
    "resume": Chat.resume,
    "sessions": Chat.sessions,
}
