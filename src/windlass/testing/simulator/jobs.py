"""Background jobs of a simulated world: they live on its machine, not in its processes, and end when the seed says so.

Unkept ones die with the process that started them; a machine may lose some; a sweep ends those that nobody knows of.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, get_args

import msgspec

from windlass.events.tools.jobs import JobStatus
from windlass.events.values.blocks import Text
from windlass.events.values.ids import job_id
from windlass.tools.context import ToolContext
from windlass.tools.jobs.job_host import Background, Born, JobEnd, JobOutput, StopReason
from windlass.tools.sandboxes.sandbox import Launch

from .loop import Actor

if TYPE_CHECKING:
    from .world import World

LENGTHS_MS = (0, 20, 800, 6_000, 70_000, 300_000)
LOOK_S = 0.5
BY_ITSELF: tuple[JobStatus, ...] = ("completed", "failed", "aborted", "retired")
STOPPED: dict[StopReason, JobStatus] = {
    "killed": "cancelled",
    "stopped": "cancelled",
    "session_ended": "terminated",
    "given_up": "aborted",
}
NOTHING = Launch(argv=("true",), cwd="/", env={})

Place = tuple[str, str]
"""Session and job."""


class SimJob(msgspec.Struct, kw_only=True):
    """A job on the machine."""

    by: Actor
    ends_s: float
    status: JobStatus
    detached: bool = False
    kept: bool = False
    lost: bool = False


class Machine:
    """All jobs of a world, by session and id."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.jobs: dict[Place, SimJob] = {}
        self.claimed: set[Place] = set()

    def died(self, actor: Actor) -> None:
        """A process is gone: what it had not kept ends with it."""
        for job in self.jobs.values():
            if job.by is actor and not job.kept:
                self.end(job, "given_up")

    def end(self, job: SimJob, reason: StopReason) -> None:
        now_s = self._world.loop.time()
        if job.ends_s > now_s:
            job.ends_s, job.status = now_s, STOPPED[reason]

    def runs(self, place: Place) -> bool:
        job = self.jobs.get(place)
        return job is not None and not job.lost and job.ends_s > self._world.loop.time()

    def unknown(self) -> list[str]:
        """What runs and no session knows of, once all that was owed has come to its end."""
        from windlass.store.base import Key

        strays = []
        for session, name in self.jobs:
            log = self._world.watch.logs.get(Key(self._world.tenant, session))
            if self.runs((session, name)) and (log is None or name not in log.state.jobs.open):
                strays.append(f"{name} of {session}")
        return strays


class SimJobs:
    """The jobs of one simulated process's sessions."""

    def __init__(self, world: World, actor: Actor) -> None:
        self.world = world
        self.actor = actor

    def for_session(self, session: str, born: Born) -> SimSessionJobs:
        return SimSessionJobs(self, session)

    async def close(self) -> None:
        return None


class SimSessionJobs:
    """The jobs of one session: see `JobHost`."""

    def __init__(self, jobs: SimJobs, session: str) -> None:
        self._world, self._actor, self._session = jobs.world, jobs.actor, session
        self._machine = jobs.world.machine

    async def start(self, job_id: str, launch: Launch, title: str, *, detached: bool = False) -> None:
        place, chance = (self._session, job_id), self._world.chance
        self._world.watch.job_starts(self._session, job_id, before=place in self._machine.claimed)
        self._machine.claimed.add(place)
        ends_s = self._world.loop.time() + chance.one(LENGTHS_MS) / 1000
        self._machine.jobs[place] = SimJob(
            by=self._actor, ends_s=ends_s, status=chance.one(BY_ITSELF), detached=detached
        )
        await self._world.pause(self._actor, "job.started")

    async def keep(self, job_id: str) -> None:
        self._machine.jobs[self._session, job_id].kept = True
        await self._world.pause(self._actor, "job.kept", risk=20.0)

    async def ended(self, job_id: str) -> JobEnd:
        place = (self._session, job_id)
        if self._world.chance.hit(self._world.rates.job_lost) and self._machine.runs(place):
            self._machine.jobs[place].lost = True
            self._world.reached("job_lost")
        while self._machine.runs(place):
            left_s = self._machine.jobs[place].ends_s - self._world.loop.time()
            await asyncio.sleep(min(LOOK_S, max(0.001, left_s)))
        job = self._machine.jobs.get(place)
        if job is None or job.lost:
            return JobEnd(status="lost")
        return JobEnd(status=job.status, exit_code=0 if job.status == "completed" else 1, duration_ms=1)

    async def stop(self, job_id: str, reason: StopReason) -> None:
        job = self._machine.jobs.get((self._session, job_id))
        if job is not None:
            self._machine.end(job, reason)

    async def output(self, job_id: str, offset: int, most: int) -> JobOutput:
        return JobOutput(data=b"printed", size=7) if most else JobOutput(size=7)

    async def forget(self, job_id: str) -> None:
        self._machine.jobs.pop((self._session, job_id), None)

    async def end_all(self) -> None:
        for (session, _), job in self._machine.jobs.items():
            if session == self._session and not job.detached:
                self._machine.end(job, "session_ended")

    async def sweep(self, known: frozenset[str]) -> None:
        for (session, name), job in self._machine.jobs.items():
            if session == self._session and name not in known and self._machine.runs((session, name)):
                self._world.reached("job_swept")
                self._machine.end(job, "given_up")

    async def close(self) -> None:
        """The process lets the session go: what it had not kept ends."""
        for (session, _), job in self._machine.jobs.items():
            if session == self._session and job.by is self._actor and not job.kept:
                self._machine.end(job, "given_up")


async def in_background(ctx: ToolContext) -> Background:
    """Has a call go on as a job."""
    assert ctx.jobs is not None, "a simulated process has jobs"
    name = job_id(ctx.call_id, ctx.attempt)
    await ctx.jobs.host.start(name, NOTHING, "simulated")
    return Background(job_id=name, title="simulated", content=(Text(text="goes on"),))


assert set(BY_ITSELF) | set(STOPPED.values()) | {"lost"} == set(get_args(JobStatus))
