"""Patience with a store: what is tried again, after how long, and what trying again does not change."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from windlass.events.errors import (
    CommandTaken,
    LeaseHeld,
    NotFound,
    StaleEpoch,
    StorageFull,
    StoreError,
    StorePoisoned,
)
from windlass.runtime.host.ports import Ports

FULL_RETRY_MS = 1_000
"""How long it is waited before a full disk is tried again."""
STORE_RETRIES_MAX = 4
STORE_RETRY_MS = 100
"""How often, and after how long at first, something is tried again with a store that does not answer."""

FINAL = (StaleEpoch, CommandTaken, LeaseHeld, NotFound, StorePoisoned)
"""What trying again does not change."""

LOGGER = logging.getLogger("windlass.store")

T = TypeVar("T")


class StorePatience:
    """One session's patience with its store. While the disk is full it says so: to `told`, and in the log of the
    program."""

    def __init__(self, ports: Ports, session: str, told: Callable[[str], None]) -> None:
        self._ports = ports
        self._session = session
        self._told = told
        self.paused = ""
        """What the session waits for: why there is no room. Empty unless it waits."""
        self.for_ever = False
        """Whether a full disk is waited for, however long that takes; else the caller hears of it at once."""

    async def insist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Does what may be done twice, again if the store is full or does not answer."""
        tries = 0
        while True:
            try:
                result = await work()
            except FINAL:
                raise
            except StorageFull as error:
                await self.wait_for_room(error)
            except StoreError as error:
                tries += 1
                await self.wait_after(tries, error)
            else:
                self.went_on()
                return result

    async def wait_after(self, tries: int, error: StoreError) -> None:
        """Waits before the next try. After too many the error is raised."""
        if tries > STORE_RETRIES_MAX:
            raise error
        wait_ms = STORE_RETRY_MS * 2**tries
        LOGGER.warning(
            "the store did not answer, tried again in %d ms (%d of %d): %s", wait_ms, tries, STORE_RETRIES_MAX, error
        )
        await self._ports.sleep_ms(wait_ms)

    async def wait_for_room(self, error: StorageFull) -> None:
        """The disk is full: it is tried again later, unless nothing is under way that would be lost."""
        if not self.for_ever:
            raise error
        if not self.paused:
            self.paused = str(error)
            LOGGER.warning("session %r waits for room and goes on when there is: %s", self._session, error)
            self._told(self.paused)
        await self._ports.sleep_ms(FULL_RETRY_MS)

    def went_on(self) -> None:
        """There was room."""
        if self.paused:
            self.paused = ""
            LOGGER.warning("session %r goes on: there is room again", self._session)
