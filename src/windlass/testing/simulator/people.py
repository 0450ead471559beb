"""The people and programs around the sessions: they ask, answer, change their minds, lose patience, and ask again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from windlass.events.base import Command
from windlass.events.commands import PromptReceived
from windlass.events.errors import CommandTaken, Refused, StoreError, UsageError
from windlass.events.runs import InterruptReceived
from windlass.events.stored import codec
from windlass.events.tools.calls import ToolRequested
from windlass.events.tools.toolset import MountReceived, ToolBody, UnmountReceived
from windlass.runtime.api.result import Parked
from windlass.runtime.api.session import Session
from windlass.runtime.bind.local_code import Lent, weighed
from windlass.runtime.streams.record import Record
from windlass.store.base import InboxCommand, Key

from .commands import Commands
from .hooks import one_hook
from .readers import READERS_MAX, Reader
from .tools import EXTRAS, SERVED, tab

if TYPE_CHECKING:
    from .runner import Runner
    from .world import World

SESSIONS_MAX = 5
OPENED_MAX = {"plain": 2, "trees": 2, "grants": 2, "talks": 2, "flows": 8, "machines": 2}
"""How many sessions people open in a world of each kind. A workflow runs once; then others must follow."""
OPENS = {"talks": 0.8}
"""How soon they open the next one, if that is not usual: whoever is to tell another tree something needs one."""
THINK_MS = (5, 200, 1_500, 8_000)
PATIENCE_S = (0.001, 0.01, 0.1, 1.0)
RESENDS_MAX = 3
GRANTS = 0.7
FOLLOW_S = 30.0
"""How long somebody watches a prompt that does not come to its end."""
SERVES_S = (0.5, 5.0, 20.0)


class People:
    """Everybody outside, in the world's own actor: they never crash."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.commands = Commands(world)
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
            if not keys or (self._sessions < OPENED_MAX[world.kind] and chance.hit(OPENS.get(world.kind, 0.2))):
                await self._open()
                return
            key = chance.one(keys)
            if "~" in key.session:
                await self._answer_child(key)
            elif chance.hit(world.rates.forks):
                await self._fork(key)
            elif chance.hit(world.rates.follows * 0.3):
                await self._follow(key)
            elif not await self._rarely(key):
                await self.deliver(key, self.commands.any(key))
        except (RunnerDied, StoreError, Refused):
            return

    async def _answer_child(self, key: Key) -> None:
        """Answers what a child asks, or has it stop by itself; its work is its parent's to say."""
        chance = self.world.chance
        if await self.grants(key):
            return
        command = self.commands.answer(key)
        if command is None and chance.hit(self.world.rates.stops * 0.3):
            command = InterruptReceived(command_id=self.commands.fresh_id())
        if command is not None:
            await self.deliver(key, command)

    async def grants(self, key: Key) -> bool:
        """Has a child given more that asks for it, if there is one and they feel like it."""
        if not self.world.watch.logs[key].state.grants.question or not self.world.chance.hit(GRANTS):
            return False
        above = Key(key.tenant, key.session.rpartition("~")[0])
        await self.deliver(above, self.commands.grant(key.session))
        return True

    async def _rarely(self, key: Key) -> bool:
        """What few people do, each in few worlds. False if they did nothing of it."""
        chance, rates = self.world.chance, self.world.rates
        if chance.hit(rates.mounts):
            await self._mount(key)
        elif self.world.watch.logs[key].state.compaction.count and chance.hit(rates.pages_in):
            await self._page_in(key)
        elif chance.hit(rates.erases):
            await self._erase(key)
        elif chance.hit(rates.shuts_down):
            await self._with(key, lambda session: session.close("for today"), patience_s=FOLLOW_S)
        elif chance.hit(rates.serves * 0.1):
            await self._serve(key)
        else:
            return False
        return True

    # --- sending ---

    async def deliver(self, key: Key, command: Command) -> bool:
        """Sends a command, by whichever way; a sender who hears nothing sends it again. True = acknowledged."""
        from .runner import RunnerDied

        world, chance = self.world, self.world.chance
        lent = self._lent(command)
        for attempt in range(RESENDS_MAX):
            if attempt:
                world.reached("command_sent_twice")
            try:
                await self._send(key, command, lent)
            except CommandTaken:
                pass
            except UsageError:
                # Hooks of one process cannot serve a session that another one drives.
                if lent is None:
                    raise
                return False
            except Refused:
                return False
            except (RunnerDied, StoreError):
                await asyncio.sleep(chance.one(THINK_MS) / 1000)
                continue
            world.watch.told(key, command)
            return True
        return False

    def _lent(self, command: Command) -> Lent | None:
        """What somebody brings along for the run that a prompt opens."""
        chance = self.world.chance
        if not isinstance(command, PromptReceived) or not chance.hit(self.world.rates.options * 0.5):
            return None
        return Lent(hooks=(one_hook(chance),))

    async def _send(self, key: Key, command: Command, lent: Lent | None = None) -> None:
        world, chance = self.world, self.world.chance
        runner = self.somebody(clients=lent is None)
        if runner is None or chance.hit(world.rates.by_inbox):
            world.reached("command_by_inbox")
            data = codec.encode_command(command)
            await world.disk.kept.inbox.send(key, InboxCommand(command_id=command.command_id, at_ms=0, data=data))
            return
        patience = chance.one(PATIENCE_S) if chance.hit(world.rates.gives_up) else None
        if patience is not None:
            world.reached("person_gave_up")
        await runner.call(lambda: runner.runtime.send(key, command, lent), patience_s=patience)
        if lent is not None:
            world.reached("hooks_lent")

    def somebody(self, *, clients: bool = False) -> Runner | None:
        """A process that can be asked now; one that only serves clients among them, where that will do."""
        asked = [*self.world.runners, *self.world.clients] if clients else self.world.runners
        alive = [runner for runner in asked if runner.alive]
        return self.world.chance.one(alive) if alive else None

    # --- more than a command ---

    async def _open(self) -> None:
        """Asks for a session, which may be there already."""
        runner = self.somebody()
        if runner is None:
            return
        world, chance = self.world, self.world.chance
        name = f"s{self._sessions if world.kind in ('flows', 'talks') else chance.below(2)}"
        self._sessions += 1
        await runner.call(lambda: runner.begin(name))
        key = Key(world.tenant, name)
        if chance.hit(world.rates.follows) and key not in runner.read_to:
            runner.read_to[key] = 0
            world.loop.start(runner.read_along(key), runner.actor, f"{runner.actor.name}:reader")
        if chance.hit(world.rates.reads_on) and len(world.readers) < READERS_MAX:
            reader = Reader(world, key)
            world.readers.append(reader)
            task = world.loop.start(reader.live(), world.outside, "outside:reader")
            task.add_done_callback(world.trouble_died)
        await self.deliver(key, self.commands.first())

    async def _with(
        self, key: Key, work: Callable[[Session], Coroutine[Any, Any, Any]], *, patience_s: float | None = None
    ) -> Any:
        """Has some process do something with a session. What it says cannot be done there is left undone."""
        runner = self.somebody()
        if runner is None:
            return None
        try:
            return await runner.call(lambda: work(Session(runner.runtime, key)), patience_s=patience_s)
        except (UsageError, Parked):
            return None

    async def _mount(self, key: Key) -> None:
        """Offers tools that were not there before, or takes some away."""
        chance, name = self.world.chance, self.commands.fresh_id()
        match chance.below(4):
            case 0 | 1:
                await self._with(key, lambda session: session.mount(chance.one(EXTRAS), command_id=name))
            case 2:
                body = ToolBody(tools=(tab.text,))
                await self.deliver(key, MountReceived(command_id=name, actor="app", tools=(weighed(tab),), body=body))
            case _:
                busy = [call.tool for call in self.world.watch.logs[key].state.open_calls() if call.tool != "ui"]
                tool = chance.one(busy) if busy else chance.one(("extra", "extra", "tab", "put"))
                await self.deliver(key, UnmountReceived(command_id=name, tools=(tool,), force=chance.hit(0.5)))

    async def _page_in(self, key: Key) -> None:
        pages = await self._with(key, lambda session: session.page_in("word", limit=2))
        if pages:
            self.world.reached("paged_in_by_a_person")

    async def _erase(self, key: Key) -> None:
        """Has the content of something erased that the session's own log holds."""
        log, chance = self.world.watch.logs[key], self.world.chance
        append = log.appends[len(log.appends) - 1 - chance.below(len(log.lines))]
        bodied = [
            seq
            for seq, event in enumerate(append.events, append.first_seq)
            if not isinstance(event, ToolRequested) and getattr(event, "body", None) is not None
        ]
        if bodied:
            await self.world.disk.erase_at(key, chance.one(bodied))

    async def _serve(self, key: Key) -> None:
        """Runs the clients' tools of a session for a while, in a process that may drive it itself."""
        stays = self.world.chance.one(SERVES_S)

        async def serve(session: Session) -> None:
            async with session.serve(*SERVED):
                await asyncio.sleep(stays)

        await self._with(key, serve)

    async def _follow(self, key: Key) -> None:
        """Watches a prompt of theirs to its end."""
        runner = self.somebody()
        if runner is None:
            return
        world = self.world
        command = self.commands.prompt()

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
        runner = self.somebody()
        world, chance = self.world, self.world.chance
        if runner is None or len(world.watch.logs) >= SESSIONS_MAX:
            return
        seq = world.watch.logs[key].state.seq
        at = None if chance.hit(0.5) else 1 + chance.below(seq)
        try:
            if chance.hit(0.5):
                await runner.call(lambda: runner.runtime.fork(key, None, at_seq=at))
            else:
                await runner.call(lambda: _rewind(runner, key, at or seq, self.commands.fresh_id()))
        except UsageError:
            return


async def _rewind(runner: Runner, key: Key, to: int, command_id: str) -> None:
    session = await runner.runtime.get(key.session)
    await session.rewind(to, command_id=command_id)
