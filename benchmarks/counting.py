"""What a turn costs in things that can be counted: they say the same on a busy machine as on an idle one."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import apsw
import msgspec

from .sides import SHORT_RESULT

UNWATCHED_MS = 3_600_000
"""How often the store is looked at while something is counted: a look is no part of a turn, and a slow machine would
have more of them in each."""


class Counts(msgspec.Struct):
    """Passes of the event loop, statements of SQLite and calls of Python functions; so far, or for each turn."""

    passes: float = 0
    statements: float = 0
    calls: float = 0


class Counter:
    """A tool that notes the counts when it is called. Counts within `counting`."""

    def __init__(self) -> None:
        self._now = Counts()
        self._at: list[Counts] = []

    async def __call__(self) -> str:
        self._at.append(msgspec.structs.replace(self._now))
        return SHORT_RESULT

    def per_turn(self, first: int, last: int) -> Counts:
        """What each turn between two turns cost."""
        before, after, turns = self._at[first], self._at[last], last - first
        return Counts(
            passes=(after.passes - before.passes) / turns,
            statements=(after.statements - before.statements) / turns,
            calls=(after.calls - before.calls) / turns,
        )

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Counts on the running loop, and on the connections to SQLite that are opened meanwhile."""
        loop: Any = asyncio.get_running_loop()
        once, now = loop._run_once, self._now

        def passed() -> None:
            now.passes += 1
            once()

        def executed(_: Any) -> None:
            now.statements += 1

        def connected(connection: apsw.Connection) -> None:
            connection.trace_v2(apsw.SQLITE_TRACE_STMT, executed)

        def called(_: Any, event: str, __: Any) -> None:
            if event == "call":
                now.calls += 1

        loop._run_once = passed
        apsw.connection_hooks.append(connected)
        sys.setprofile(called)
        try:
            yield
        finally:
            sys.setprofile(None)
            apsw.connection_hooks.remove(connected)
            loop._run_once = once
