"""Background jobs: commands past their time, and each way in which a job may end."""

from __future__ import annotations

import os
import signal
from typing import Any

import msgspec

import windlass
from windlass.events.tools.jobs import JobFinished, JobStarted
from windlass.testing.scripted import call

from .stage import QUICK, Stage, scripted

TOOLS = ("shell", "jobs", "job_output", "kill_job")


def agent_of(command: str, **given: Any) -> windlass.Agent:
    """An agent that runs one command."""
    turns = (call("shell", command=command, **given), "it goes on", "it has ended")
    settings = msgspec.structs.replace(QUICK, jobs_wake=True)
    return windlass.Agent("coder", model=scripted(*turns), tools=TOOLS, policy=windlass.ALLOW_ALL, settings=settings)


async def ended(stage: Stage, name: str, command: str, *, life_ms: int = 60_000, **given: Any) -> None:
    """A job in a session of its own, to its end."""
    agent = agent_of(command, **given)
    place = stage.folder / name
    place.mkdir()
    async with stage.open(agent, jobs=stage.folder / "jobs", job_life_ms=life_ms) as rt:
        session = await stage.session(rt, agent, name, workspace=place)
        await stage.said(session, "run it")
        (started,) = await stage.until(session, JobStarted)
        match name:
            case "job_cancelled":
                await session.kill_job(started.job_id)
            case "job_stopped":
                await session.interrupt(jobs=True)
            case "job_terminated":
                await session.close("enough")
            case "job_lost":
                os.kill(int((place / "boss").read_text()), signal.SIGKILL)
            case _:
                (place / "go").touch()
        await stage.until(session, JobFinished)
        await session.wait_idle()


async def every_end(stage: Stage) -> None:
    """A job for each way in which one may end; the first of them was to end within its time."""
    waits = "until [ -e go ]; do sleep 0.02; done; "
    await ended(stage, "job_completed", f"echo building; {waits}echo built", timeout_ms=500)
    await ended(stage, "job_failed", f"{waits}exit 2", background=True)
    await ended(stage, "job_aborted", f"{waits}kill -9 $$", background=True)
    await ended(stage, "job_cancelled", "exec sleep 100", background=True)
    await ended(stage, "job_stopped", "exec sleep 100", background=True)
    await ended(stage, "job_retired", "exec sleep 100", life_ms=300, background=True)
    await ended(stage, "job_terminated", "exec sleep 100", background=True)
    boss = "echo $PPID > part; mv part boss; echo before; exec sleep 100"
    await ended(stage, "job_lost", boss, background=False, timeout_ms=1_500)


async def dropped(stage: Stage) -> None:
    """A fork does not have the jobs of its origin."""
    agent = agent_of("until [ -e go ]; do sleep 0.02; done", background=True)
    async with stage.open(agent, jobs=stage.folder / "jobs") as rt:
        session = await stage.session(rt, agent, "job_of_the_origin", workspace=stage.folder)
        await stage.said(session, "run it")
        await session.fork("job_dropped")
        (stage.folder / "go").touch()
        await stage.until(session, JobFinished)
        await session.wait_idle()


SCENARIOS = {"jobs": every_end, "job_dropped": dropped}
