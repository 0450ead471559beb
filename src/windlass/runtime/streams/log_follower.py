"""What may go along with a runtime: told which sessions something was committed to, it reads their logs by itself.

Telling costs a driver next to nothing, and nobody waits for whoever follows: the log holds what it has not read yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from windlass.store.base import Key, Store


class LogFollower(Protocol):
    """Follows the sessions that one runtime drives."""

    async def begin(self, store: Store) -> None:
        """The store is open, and nothing is driven yet."""
        ...

    def committed(self, key: Key, seq: int) -> None:
        """Something was added to the log of a session, from this seq on. May not wait, raise or read."""
        ...

    async def close(self) -> None:
        """Nothing is driven any more. May wait for a bounded time; the store is closed afterwards."""
        ...


class FollowerMaker(Protocol):
    """What a host turns on: it makes a follower for each runtime that it is given to."""

    def follower(self, tenant: str, place: str | None, now: Callable[[], int]) -> LogFollower:
        """A follower for the sessions of a tenant. `place` is where the store is, if it is anywhere; `now` the clock in
        milliseconds."""
        ...
