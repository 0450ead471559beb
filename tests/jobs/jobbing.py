"""Sessions with background jobs, for tests: an agent that runs commands, over a real store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import windlass
from windlass.events.base import Event
from windlass.runtime.api.session import Session
from windlass.testing.scripted import ScriptedModel
from windlass.tools.shell import command_run

if TYPE_CHECKING:
    import pytest

    from windlass.tools.jobs.job_host import JobHost

PATIENCE_S = 60.0
TOOLS = ("shell", "jobs", "job_output", "kill_job")


def coder(script: list[Any], **more: Any) -> windlass.Agent:
    return windlass.Agent(
        "coder", model=ScriptedModel(script), tools=TOOLS, policy=windlass.Policy(default="allow"), **more
    )


@contextlib.asynccontextmanager
async def opened(tmp_path: Any, agent: windlass.Agent, folder: Any = None, **more: Any) -> AsyncIterator[Session]:
    """A session over a store in a folder, found if it is there; it works there too, or in another folder."""
    store = tmp_path / "store.db"
    async with windlass.open(str(store), agents=[agent], jobs=tmp_path / "jobs", **more) as runtime:
        yield await runtime.session(agent, "s1", workspace=folder or tmp_path)


def shows_what_it_printed(patch: pytest.MonkeyPatch) -> None:
    """Has a command whose time is over be shown once it has printed something: how soon it does is up to the machine."""
    looks = command_run._printed

    async def printed(host: JobHost, name: str) -> str:
        async with asyncio.timeout(PATIENCE_S):
            while not (text := await looks(host, name)):
                await asyncio.sleep(0.01)
        return text

    patch.setattr(command_run, "_printed", printed)


async def played(session: Session, prompt: str = "go") -> list[Any]:
    """Has a prompt played to its end; what happened."""
    return [told async for told in session.prompt(prompt)]


async def until(session: Session, kind: type[Event], count: int = 1) -> Any:
    """Waits for an event of a kind; the one that came last of so many."""
    seen = 0
    async with asyncio.timeout(PATIENCE_S):
        async for told in session.events(after=0):
            if isinstance(told, kind):
                seen += 1
                if seen == count:
                    return told
    raise AssertionError(f"no {kind.__name__} came")


async def events(session: Session) -> list[Event]:
    return [record.event async for record in session.records()]


def alive(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def gone(pid: int) -> None:
    """Waits until a process is not there any more."""
    async with asyncio.timeout(PATIENCE_S):
        while alive(pid):
            await asyncio.sleep(0.01)


async def pid_in(path: Any) -> int:
    """The number that a command writes into a file."""
    async with asyncio.timeout(PATIENCE_S):
        while not (text := _text(path)):
            await asyncio.sleep(0.01)
    return int(text)


def _text(path: Any) -> str:
    return path.read_text().strip() if path.exists() else ""


def requests(agent: windlass.Agent) -> list[Any]:
    """What the agent's model was asked."""
    assert isinstance(agent.model, ScriptedModel)
    return agent.model.requests
