"""The runner: takes the commands of one caller, one after the other, and tells what becomes of them.

Between turns it holds nothing: no store is open, no session is driven, and no timer of it fires. Whoever keeps its
states says when it wakes, as the protocol has it; other processes may work on the session meanwhile.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from windlass.events.errors import Refused, WindlassError
from windlass.runtime.api.agent import Agent
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.api.session import Session

from . import follow_ups
from .question_forms import ACTOR, as_prompt, give, open_asks, sort_answers
from .turn import Sending, Tell, Turn
from .turn_commands import (
    Answer,
    AnyCommand,
    BadCommand,
    Behavior,
    EditFollowUpQueue,
    Interrupt,
    Prompt,
    Start,
    Wake,
    read_command,
)
from .turn_setup import Seat, begin, catch_up, resume
from .view.fold import system

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Opening = Callable[[Sequence[Agent]], Runtime]
"""Makes a runtime over the store, for these agents."""


class TurnRunner:
    """Runs the turns of one session."""

    def __init__(self, agents: Sequence[Agent], opening: Opening, tell: Tell, *, folder: str = ".") -> None:
        self._agents = {agent.name: agent for agent in agents}
        self._opening = opening
        self._tell = tell
        self._folder = folder
        self._seat: Seat | None = None
        self._turn: Turn | None = None

    async def take_line(self, line: bytes) -> None:
        """Takes a line of a caller; what is wrong with it is told, and the next one is taken."""
        try:
            await self.take(read_command(line))
        except WindlassError as error:
            await self._tell(system("error", str(error)))

    async def take(self, command: AnyCommand) -> None:
        """Carries out a command: a turn begins, or what is under way learns of it. Raises `UsageError` for what does
        not fit now; nothing has changed then."""
        match command:
            case Start():
                await self._start(command)
            case Interrupt():
                await self._interrupt(command)
            case EditFollowUpQueue():
                await self._edit_queue(command)
            case Wake():
                await self._wake(command)
            case Prompt():
                await self._say(command.message, command.behavior, _name(command))
            case Answer():
                await self._answer(command)

    async def finish(self) -> None:
        """Waits for the end of the turn, if there is one."""
        if self._turn is not None:
            await self._turn.wait()

    async def close(self) -> None:
        """Leaves whatever is under way; it is owed to the next process."""
        if self._turn is not None and not self._turn.over:
            await self._turn.stop()

    # --- setting up ---

    async def _start(self, command: Start) -> None:
        if self._seat is not None:
            raise BadCommand("start: this process has its session: start another process for another one")
        async with self._opened([]) as runtime:
            if command.state is None:
                agent = next(iter(self._agents.values()))
                seat = await begin(runtime, agent, command, self._folder)
            else:
                seat = await resume(runtime, self._agents, command)
            await catch_up(seat.view, await runtime.get(seat.session_id))
        self._seat = seat
        if command.options.memory_model is not None:
            await self._tell(
                system("warn", "start.options.memoryModel: no memory is kept here, so no model is used for it")
            )
        await self._tell(seat.view.started())
        if seat.view.fold.state.active:
            await self._tell(system("info", "the turn that was cut off goes on"))
            await self._begin(None)

    @asynccontextmanager
    async def _opened(self, agents: Sequence[Agent]) -> AsyncIterator[Runtime]:
        async with self._opening(agents) as runtime:
            yield runtime

    def _seated(self, what: str) -> Seat:
        if self._seat is None:
            raise BadCommand(f"{what}: send start first")
        return self._seat

    # --- turns ---

    async def _active(self) -> Turn | None:
        """The turn that is going on; one that is about to tell its terminal is waited for."""
        turn = self._turn
        if turn is not None and turn.ending:
            await turn.wait()
        return turn if turn is not None and not turn.over else None

    async def _begin(self, first: Sending | None, command_id: str = "") -> None:
        seat = self._seated("a turn")
        turn = Turn(seat, self._opening([seat.agent]), self._tell)
        try:
            await turn.begin(first, command_id)
        except WindlassError as error:
            await self._tell(seat.view.idle("failed", str(error)))
        else:
            self._turn = turn

    async def _send(self, sending: Sending, command_id: str) -> None:
        """Has a command carried out: in the turn that is going on, else in one of its own."""
        turn = await self._active()
        if turn is None:
            await self._begin(sending, command_id)
            return
        try:
            await turn.send(sending, command_id)
        except Refused as refusal:
            raise BadCommand(str(refusal)) from refusal

    async def _say(self, text: str, behavior: Behavior, command_id: str) -> None:
        seat = self._seated("prompt")

        async def prompt(session: Session, name: str) -> None:
            rests = not seat.view.fold.open
            # Nobody is there to wait for while nothing runs: a question that is open gives way to the prompt.
            await session.prompt(text, behavior="steer" if rests else behavior, command_id=name, actor=ACTOR)

        await self._send(prompt, command_id)

    async def _answer(self, command: Answer) -> None:
        self._seated("answer")
        if not command.answers:
            raise BadCommand("answer: answers: give at least one, by the text of its question")
        name = _name(command)

        async def answer(session: Session, first: str) -> None:
            given, left = sort_answers(command.answers, await open_asks(session))
            for number, (ask, answers) in enumerate(given):
                await give(session, ask, answers, first if number == 0 else f"{first}.{number}")
            if left:
                behavior: Behavior = command.behavior if given else "steer"
                words = first if not given else f"{first}.words"
                await session.prompt(as_prompt(left), behavior=behavior, command_id=words, actor=ACTOR)

        await self._send(answer, name)

    async def _wake(self, command: Wake) -> None:
        seat = self._seated("wake")
        if await self._active() is not None:
            await self._tell(system("debug", "wake: the session is at work already"))
            return
        async with self._opened([]) as runtime:
            await catch_up(seat.view, await runtime.get(seat.session_id))
        if seat.view.sleeps:
            await self._begin(_woken, _name(command))
        else:
            await self._tell(system("info", "nothing to wake: the session waits for no time"))
            await self._tell(seat.view.idle("completed"))

    # --- out of band ---

    async def _interrupt(self, command: Interrupt) -> None:
        seat = self._seated("interrupt")
        name = _name(command)
        turn = await self._active()
        if turn is not None:
            await turn.send(_interrupted, name)
            return
        async with self._opened([seat.agent]) as runtime:
            session = await runtime.get(seat.session_id)
            await catch_up(seat.view, session)
            if not seat.view.waits:
                return
            await _interrupted(session, name)
            async for record in session.records(after=seat.view.seq):
                for event in seat.view.feed(record):
                    if event["type"] == "state_machine":
                        await self._tell(event)

    async def _edit_queue(self, command: EditFollowUpQueue) -> None:
        seat = self._seated("edit_follow_up_queue")
        turn = await self._active()
        if turn is not None:
            await turn.send(functools.partial(follow_ups.edit, prompts=command.prompts), _name(command))
            return
        async with self._opened([seat.agent]) as runtime:
            session = await runtime.get(seat.session_id)
            await follow_ups.edit(session, _name(command), prompts=command.prompts)
            await catch_up(seat.view, session)
        await self._tell({"type": "follow_up_queue", "prompts": list(seat.view.fold.queue)})


async def _woken(session: Session, command_id: str) -> None:
    await session.wake(command_id=command_id, actor=ACTOR)


async def _interrupted(session: Session, command_id: str) -> None:
    await session.interrupt("interrupted by the caller", command_id=command_id, actor=ACTOR)


def _name(command: AnyCommand) -> str:
    """What a command is known by: its caller's name for it, so that it is taken once; else a new one."""
    return f"duet:{command.request_id}" if command.request_id is not None else f"duet:{uuid.uuid4()}"
