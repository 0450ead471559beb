"""The people and programs around the sessions: they ask, answer, change their minds, lose patience, and ask again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from windlass.events import codec
from windlass.events.base import Command
from windlass.events.blocks import Text
from windlass.events.calls import CallReceived, ResultBody, ResultReceived, ToolSettled, UserCallBody
from windlass.events.context import CompactReceived
from windlass.events.errors import CommandTaken, Refused, StoreError, UsageError
from windlass.events.ids import prompt_id
from windlass.events.permissions import FeedbackBody, PermissionApproved, PermissionDenied
from windlass.events.questions import Answer, AnswerBody, AnswerReceived
from windlass.events.runs import (
    CancelReceived,
    InterruptReceived,
    PromptBody,
    PromptReceived,
    QueueEdited,
    SignalBody,
    SignalReceived,
    WakeReceived,
)
from windlass.events.sessions import ChangeMetadata, ChangeMode, ChangeReceived, ChangeTitle
from windlass.kernel import state as st
from windlass.runtime.hub import Record
from windlass.store.base import InboxCommand, Key

if TYPE_CHECKING:
    from .runner import Runner
    from .world import World

SESSIONS_MAX = 5
THINK_MS = (5, 200, 1_500, 8_000)
PATIENCE_S = (0.001, 0.01, 0.1, 1.0)
RESENDS_MAX = 3
FOLLOW_S = 30.0
"""How long somebody watches a prompt that does not come to its end."""
PROMPT_WORDS = (1, 10, 120)


def answer_body() -> AnswerBody:
    return AnswerBody(answers=(Answer(index=0, selected=("a",)),))


class People:
    """Everybody outside, in the world's own actor: they never crash."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._commands = 0
        self._sessions = 0

    async def live(self) -> None:
        """One person's life."""
        world = self.world
        while True:
            await asyncio.sleep(world.chance.one(THINK_MS) / 1000)
            await self.act()

    async def act(self) -> None:
        """Does one thing."""
        from .runner import RunnerDied

        world, chance = self.world, self.world.chance
        keys = world.started()
        world.step(world.outside, "person")
        try:
            if not keys or (self._sessions < 2 and chance.hit(0.2)):
                await self._open()
                return
            key = chance.one(keys)
            if chance.hit(world.rates.forks):
                await self._fork(key)
            elif chance.hit(world.rates.follows * 0.3):
                await self._follow(key)
            else:
                await self.deliver(key, self._command(key))
        except (RunnerDied, StoreError, Refused):
            return

    # --- commands ---

    def command_id(self) -> str:
        self._commands += 1
        return f"k{self._commands}"

    def _command(self, key: Key) -> Command:
        world, chance = self.world, self.world.chance
        answer = self.answer(key) if chance.hit(0.5) else None
        if answer is not None:
            return answer
        if chance.hit(world.rates.stops):
            kind = InterruptReceived if chance.hit(0.5) else CancelReceived
            return kind(command_id=self.command_id(), reason="enough")
        if chance.hit(0.55):
            return self.prompt()
        return self._rarer(key)

    def prompt(self) -> PromptReceived:
        chance = self.world.chance
        text = "word " * chance.one(PROMPT_WORDS)
        return PromptReceived(
            command_id=self.command_id(),
            behavior=chance.one((None, None, "steer", "follow_up")),
            tokens=len(text) // 4 + 1,
            bytes=len(text),
            body=PromptBody(content=(Text(text=text),)),
        )

    def _rarer(self, key: Key) -> Command:
        chance, state = self.world.chance, self.world.watch.logs[key].state
        name = self.command_id()
        match chance.below(7):
            case 0 | 1:
                return WakeReceived(command_id=name)
            case 2:
                urgency: Any = chance.one(("critical", "high", "normal", "low"))
                return SignalReceived(
                    command_id=name, kind="ping", urgency=urgency, tokens=4, body=SignalBody(text="ping")
                )
            case 3:
                order = [prompt_id(seq) for seq in state.queue if not chance.hit(0.3)]
                chance.shuffle(order)
                return QueueEdited(command_id=name, order=tuple(order))
            case 4:
                tool = chance.one(("look", "pay", "put", "ui", "todo"))
                args: Any = {"todos": []} if tool == "todo" else {"n": 1}
                return CallReceived(command_id=name, tool=tool, body=UserCallBody(args=args, prepared=None))
            case 5:
                return CompactReceived(command_id=name)
            case _:
                change: Any = chance.one(
                    (
                        ChangeTitle(title="a title"),
                        ChangeMetadata(metadata={"k": "v"}),
                        ChangeMode(mode=chance.one(("interactive", "plan", "autopilot"))),
                    )
                )
                return ChangeReceived(command_id=name, change=change)

    def answer(self, key: Key) -> Command | None:
        """Answers something that a session waits for; None where it waits for nothing."""
        chance, state = self.world.chance, self.world.watch.logs[key].state
        name = self.command_id()
        if state.asks and chance.hit(0.8):
            ask = chance.one(list(state.asks.values()))
            if ask.kind == "question":
                action = chance.one(("approve", "reject")) if ask.question_kind == "plan" else None
                return AnswerReceived(
                    command_id=name, question_id=ask.ask_id, action=action, tokens=4, body=answer_body()
                )
            if chance.hit(0.7):
                return PermissionApproved(command_id=name, request_id=ask.ask_id, digest=ask.digest)
            return PermissionDenied(command_id=name, request_id=ask.ask_id, body=FeedbackBody(feedback="no"))
        waiting = [call for call in state.calls.values() if call.status in ("delegated", "suspended", "unknown")]
        if not waiting:
            return None
        call = chance.one(waiting)
        body = ResultBody(content=(Text(text="done"),))
        if call.status == "unknown":
            outcome: Any = chance.one(("happened", "did_not_happen", "run_again"))
            return ToolSettled(command_id=name, call_id=call.call_id, outcome=outcome, tokens=2, body=body)
        return ResultReceived(command_id=name, call_id=call.call_id, tokens=2, body=body)

    def settle(self, key: Key) -> Command | None:
        """What a person does who wants a session to come to an end."""
        state = self.world.watch.logs[key].state
        waiting = self.answer(key)
        if waiting is not None:
            return waiting
        if not state.active and (state.queue or isinstance(state.phase, st.Asked)):
            return WakeReceived(command_id=self.command_id())
        return None

    # --- sending ---

    async def deliver(self, key: Key, command: Command) -> bool:
        """Sends a command, by whichever way; a sender who hears nothing sends it again. True = acknowledged."""
        from .runner import RunnerDied

        world, chance = self.world, self.world.chance
        for attempt in range(RESENDS_MAX):
            if attempt:
                world.reached("command_sent_twice")
            try:
                await self._send(key, command)
            except CommandTaken:
                pass
            except Refused:
                return False
            except (RunnerDied, StoreError):
                await asyncio.sleep(chance.one(THINK_MS) / 1000)
                continue
            world.watch.told(key, command)
            return True
        return False

    async def _send(self, key: Key, command: Command) -> None:
        world, chance = self.world, self.world.chance
        runner = self._somebody()
        if runner is None or chance.hit(world.rates.by_inbox):
            world.reached("command_by_inbox")
            data = codec.encode_command(command)
            await world.disk.send(key, InboxCommand(command_id=command.command_id, at_ms=0, data=data))
            return
        patience = chance.one(PATIENCE_S) if chance.hit(world.rates.gives_up) else None
        if patience is not None:
            world.reached("person_gave_up")
        await runner.call(lambda: runner.runtime.send(key, command), patience_s=patience)

    def _somebody(self) -> Runner | None:
        alive = [runner for runner in self.world.runners if runner.alive]
        return self.world.chance.one(alive) if alive else None

    # --- more than a command ---

    async def _open(self) -> None:
        """Asks for a session, which may be there already."""
        runner = self._somebody()
        if runner is None:
            return
        world, chance = self.world, self.world.chance
        name = f"s{chance.below(2)}"
        self._sessions += 1
        await runner.call(lambda: runner.runtime.session(world.agent, name))
        key = Key(world.tenant, name)
        if chance.hit(world.rates.follows) and key not in runner.read_to:
            runner.read_to[key] = 0
            world.loop.start(runner.read_along(key), runner.actor, f"{runner.actor.name}:reader")
        await self.deliver(key, self.prompt())

    async def _follow(self, key: Key) -> None:
        """Watches a prompt of theirs to its end."""
        runner = self._somebody()
        if runner is None:
            return
        world = self.world
        command = self.prompt()

        async def follow() -> None:
            last = 0
            async for told in runner.runtime.follow(key, command):
                if isinstance(told, Record):
                    world.watch.published(runner.actor, key, told, last or told.seq - 1)
                    last = told.seq
            world.reached("follower_saw_the_end")
            world.watch.told(key, command)

        await runner.call(follow, patience_s=FOLLOW_S)

    async def _fork(self, key: Key) -> None:
        runner = self._somebody()
        world, chance = self.world, self.world.chance
        if runner is None or len(world.watch.logs) >= SESSIONS_MAX:
            return
        seq = world.watch.logs[key].state.seq
        at = None if chance.hit(0.5) else 1 + chance.below(seq)
        try:
            if chance.hit(0.5):
                await runner.call(lambda: runner.runtime.fork(key, None, at_seq=at))
            else:
                await runner.call(lambda: _rewind(runner, key, at or seq, self.command_id()))
        except UsageError:
            return


async def _rewind(runner: Runner, key: Key, to: int, command_id: str) -> None:
    session = await runner.runtime.get(key.session)
    await session.rewind(to, command_id=command_id)
