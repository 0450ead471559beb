"""A disk that survives the processes of a simulated world, and tells the watch of everything that changes a log.

What is on it is judged by the rules of `MemoryStore`; the faults of the way to it never bend those.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from windlass.events.stored.record import Sealed
from windlass.store.base import Key, Origin
from windlass.store.memory import MemoryStore
from windlass.store.rules.session_ledger import Ledger

from .loop import Actor

if TYPE_CHECKING:
    from .world import World

Result = TypeVar("Result")


class Disk:
    """What is kept."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.kept = MemoryStore()

    @property
    def writes(self) -> int:
        return self.kept.memory.writes

    def ledger(self, key: Key) -> Ledger:
        """The write side of a session, as the watch judges it."""
        return self.kept.memory.session(key).ledger

    async def create(self, key: Key, *, origin: Origin | None = None) -> bool:
        made = await self.kept.log.create(key, origin=origin)
        if made:
            self._world.watch.created(key, origin)
        return made

    def write(self, actor: Actor, key: Key, sealed: Sealed, takes: Sequence[str], more: dict[str, Any]) -> None:
        """One append, at this very moment. Raises as a store does."""
        epoch = self.ledger(key).epoch
        at_once(self.kept.log.append(key, sealed, takes=takes, **more))
        for message in more.get("sends", ()):
            to = Key(key.tenant, message.session)
            if message.creates and to not in self._world.watch.logs:
                self._world.watch.created(to, None)
        self._world.watch.committed(actor, key, sealed, takes, more.get("index"), epoch)

    async def erase_at(self, key: Key, seq: int) -> None:
        """An operator erases the content of an event."""
        await self.kept.log.erase(key, seq, by="operator", why="asked to", at_ms=0)
        async for sealed in self.kept.log.read(key):
            if sealed.first_seq <= seq <= sealed.last_seq:
                self._world.watch.erased(key, sealed.data)
        self._world.reached("erased")


def at_once(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    raise AssertionError("the disk waited for something")
