"""What the tests of machines share: an agent with a machine, a folder to work in, a clock that jumps."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import windlass
from tests.runtime.support import QUICK, JumpPorts, events_of, only, sound, started
from windlass.events.runs import Terminal
from windlass.events.trees.machines import MachineMoved
from windlass.machines import Machine, SessionMachine
from windlass.runtime.api.session import Session
from windlass.testing.scripted import ScriptedModel

ALLOW = windlass.Policy(default="allow")


def piloted(machine: Any, *replies: Any, **more: Any) -> windlass.Agent:
    """An agent with a machine, whose model says these replies."""
    more.setdefault("settings", QUICK)
    script = replies[0] if len(replies) == 1 and callable(replies[0]) else list(replies)
    return windlass.Agent("pilot", ScriptedModel(script), machine=machine, **more)


class Flight:
    """A session with its machine, and the clock that it lives by."""

    def __init__(self, session: Session, ports: JumpPorts) -> None:
        self.session = session
        self.ports = ports
        self.machine = SessionMachine(session)

    async def ended(self, count: int) -> Terminal:
        """The terminal of the run of that number, once it is there."""
        ends: list[Terminal] = await started(self.session, Terminal, count=count)
        return ends[count - 1]

    async def later(self, seconds: float) -> None:
        self.ports.ahead_ms += round(seconds * 1000)

    async def way(self) -> list[str]:
        return [event.state for event in only(await events_of(self.session), MachineMoved)]

    async def sound(self) -> Any:
        return await sound(self.session)


@contextlib.asynccontextmanager
async def flying(
    agent: windlass.Agent, folder: pathlib.Path, *, store: Any = None, ports: JumpPorts | None = None, **more: Any
) -> AsyncIterator[Flight]:
    """A session of an agent in a folder."""
    clock = ports or JumpPorts()
    place = {} if store is None else {"store": store}
    async with windlass.open(*place.values(), agents=[agent], ports=clock, poll_ms=5, **more) as runtime:
        session = await runtime.session(agent, "s", workspace=folder)
        yield Flight(session, clock)


__all__ = ["ALLOW", "Flight", "Machine", "events_of", "flying", "only", "piloted", "sound", "started"]
