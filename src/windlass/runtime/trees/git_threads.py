"""Pieces of git work in threads of their own, those of one repository one after the other.

Not in the threads that the store and the tools share: a git that is slow, or waits for another one, must not hold them
up.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

from windlass.runtime.host.shielded_work import to_its_end

from .git_process import Patience

T = TypeVar("T")


class GitWork:
    """Performs the git work of a runtime. Who waits for its turn has no thread: many children may be begun at once."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def perform(self, repository: str, work: Callable[[Patience], T]) -> T:
        """What comes of a piece of work. Brought to its end even if nobody waits for it any more, but not for long: who
        has closed a runtime may do with the repository what he likes."""
        turn = self._turns.setdefault(repository, asyncio.Lock())
        async with turn:
            patience = Patience()
            return await to_its_end(asyncio.ensure_future(_in_thread(work, patience)), hurry=patience.hurry)


async def _in_thread(work: Callable[[Patience], T], patience: Patience) -> T:
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def perform() -> None:
        try:
            result = work(patience)
        except BaseException as error:
            told: tuple[Callable[..., None], object] = (_fail, error)
        else:
            told = (_succeed, result)
        try:
            loop.call_soon_threadsafe(told[0], outcome, told[1])
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    # A daemon: a git that cannot be ended does not keep the process from its end.
    threading.Thread(target=perform, name="windlass-git", daemon=True).start()
    return await outcome


def _succeed(outcome: asyncio.Future[T], result: T) -> None:
    if not outcome.done():
        outcome.set_result(result)


def _fail(outcome: asyncio.Future[T], error: BaseException) -> None:
    if not outcome.done():
        outcome.set_exception(error)
