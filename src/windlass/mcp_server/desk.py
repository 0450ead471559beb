"""What all callers of one server share: the runtimes behind it, its bounds, and how people are asked in words.

It keeps nothing that a restart would lose: sessions, commands and answers are in the store.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.api.session import Session
from windlass.server.problems import Problem
from windlass.server.tenants import Tenants
from windlass.store.rules.ids import check_id

from .caller import Caller

Ask = PermissionAsk | QuestionAsk

LABEL = "untrusted:client"
"""What prompts are marked with: a model wrote them that has read who knows what."""
CALLS_MAX = 64
"""Calls that one caller may have open."""
KEY = re.compile(r"[A-Za-z0-9_.-]{1,100}\Z")


class Words(Protocol):
    """Requests to people in words, whole and without anything that only looks like it."""

    def asked(self, ask: Ask) -> str:
        """What is asked, with everything that would be done."""
        ...

    def by_hand(self, ask: Ask) -> str:
        """How a person answers it in a terminal."""
        ...


class Desk:
    """Sessions as MCP callers may have them."""

    def __init__(self, tenants: Tenants, words: Words, *, labels: tuple[str, ...] = (LABEL,)) -> None:
        self.tenants = tenants
        self.words = words
        self.labels = labels
        self._open: Counter[str] = Counter()

    async def runtime(self, caller: Caller) -> Runtime:
        """The runtime of the caller's tenant."""
        return await self.tenants.runtime(caller.tenant)

    async def session(self, caller: Caller, session_id: str) -> Session:
        """A session of the caller's tenant. Raises `NotFound`, also for one of another tenant."""
        return await (await self.runtime(caller)).get(check_id("session id", session_id))

    @contextlib.contextmanager
    def counted(self, caller: Caller) -> Iterator[None]:
        """Counts a call as open. Raises `Problem` if the caller has too many."""
        if self._open[caller.name] >= CALLS_MAX:
            raise Problem(429, "calls", f"{caller.name!r} has {CALLS_MAX} calls open already: wait for some of them")
        self._open[caller.name] += 1
        try:
            yield
        finally:
            self._open[caller.name] -= 1
            if not self._open[caller.name]:
                del self._open[caller.name]


def ask_id(ask: Ask) -> str:
    """The id by which an open request is answered."""
    return ask.request_id if isinstance(ask, PermissionAsk) else ask.question_id


def command_id_of(session: Session, key: str | None) -> str:
    """The id of a command that a caller may have named. Raises `Problem` for a name that is none."""
    if key is None:
        return session.runtime.ports.fresh_id()
    if not KEY.match(key):
        raise Problem(400, "usage", "a key has up to 100 letters, digits, '_', '-' and '.'")
    return key
