"""What the runtime's tests share: reading a session's log, checking that it is sound, and a clock that can jump."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import windlass
from windlass.events.base import Event, name_of
from windlass.events.stored import codec
from windlass.events.values.settings import Settings
from windlass.kernel import log
from windlass.kernel.state import State
from windlass.runtime.api.session import Session
from windlass.runtime.host.ports import SystemPorts
from windlass.store.chain import history
from windlass.testing.invariants import Checker
from windlass.testing.scripted import ScriptedModel

QUICK = Settings(retry_base_ms=5, retry_cap_ms=20, rate_limit_floor_ms=0)
"""Retries that do not keep a test waiting."""

STEP_S = 0.005
WAIT_S = 120.0


class JumpPorts(SystemPorts):
    """The real world with a wall clock that tests move."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


def scripted(*turns: Any, **more: Any) -> ScriptedModel:
    return ScriptedModel(list(turns), **more)


def agent_of(*turns: Any, name: str = "worker", **more: Any) -> windlass.Agent:
    """An agent whose model says these turns."""
    more.setdefault("settings", QUICK)
    return windlass.Agent(name, model=scripted(*turns), **more)


async def until(reached: Callable[[], Any], what: str = "it") -> None:
    """Waits until something holds that no event tells of."""
    async with asyncio.timeout(WAIT_S):
        while not reached():
            await asyncio.sleep(STEP_S)
    assert reached(), what


async def events_of(session: Session) -> list[Event]:
    """The session's events so far."""
    return [record.event async for record in session.records()]


async def names_of(session: Session) -> list[str]:
    return [name_of(event) for event in await events_of(session)]


def only(events: Sequence[Event], kind: type[Any]) -> list[Any]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]


async def sound(session: Session) -> State:
    """Fails unless the session's log verifies at every level and keeps every rule that holds for all logs."""
    store = session.runtime.store
    lines = [sealed.data async for sealed in history(store, session.key)]
    report = log.verify(lines)
    assert report.problems == [], report.problems
    checker, state = Checker(), State()
    for line in lines:
        append = codec.decode(line)
        log.fold_append(state, append)
        for event in append.events:
            assert isinstance(event, Event)
            checker.feed(event)
        checker.rest(state)
    return state


async def started(session: Session, kind: type[Any], *, count: int = 1) -> list[Any]:
    """Waits until the log holds so many events of a kind, and gives them."""
    found: list[Any] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < count:
            await asyncio.sleep(STEP_S)
            found = only(await events_of(session), kind)
    return found
