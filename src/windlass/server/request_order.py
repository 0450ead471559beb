"""Requests that must not overtake each other: who looks at a log to say where a request belongs goes through alone."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class Turnstiles:
    """A lock for each name, kept for as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, ...], asyncio.Lock] = WeakValueDictionary()

    def of(self, *name: str) -> asyncio.Lock:
        """The lock of a name: `async with turnstiles.of(tenant, session)`."""
        return self._locks.setdefault(name, asyncio.Lock())
