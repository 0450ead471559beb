"""Jobs on this machine: each has a folder, which is the claim on its id, and a supervisor that outlives this process.

claimed (folder made) ──▶ started (unkept: ends with this process) ──▶ kept ──▶ ended, or lost with its supervisor
                                                                        └──▶ found again by whoever comes next
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import tempfile
import threading
import time
from typing import Any

from windlass.events.errors import UsageError
from windlass.events.stored.known_secrets import SECRETS
from windlass.events.values.ids import JOB_ID
from windlass.tools.context import ToolError
from windlass.tools.jobs.job_host import Born, JobEnd, JobHosts, JobOutput, JobsFull, StopReason
from windlass.tools.sandboxes.sandbox import Launch

from . import job_supervisor
from .job_folder import JobFolder
from .job_place import digest, make_private, place_for_store
from .supervisor_start import spawned

JOB_LIFE_MS = 24 * 3_600_000
"""How long a job that is not detached may run."""
JOBS_MAX = 16
"""Jobs of one session at the same time, commands that are still waited for among them."""
FOLDERS_MAX = 48
"""Folders of one session; those of the oldest jobs that have ended are removed beyond it."""
LOOK_S = 0.2
"""How often the end of a job is looked for, on systems that do not tell."""
ENDING_S = job_supervisor.GRACE_S + job_supervisor.KILL_S + 1.0
"""How long the supervisor of a job that is told to end may take, before it is killed and its job with it."""
JOB_NAME = re.compile(JOB_ID, re.ASCII)


class LocalJobs:
    """The jobs of a runtime's sessions. Without a place, or if they are `brief`, they end with this process."""

    def __init__(self, place: str | None, *, tenant: str = "default", life_ms: int = JOB_LIFE_MS) -> None:
        if life_ms <= 0:
            raise UsageError(f"job_life_ms={life_ms!r} must be greater than 0")
        self._place = place
        self._tenant = tenant
        self.life_ms = life_ms
        self.brief = place is None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._making = threading.Lock()

    def for_session(self, session: str, born: Born) -> SessionJobs:
        """The jobs of one session."""
        return SessionJobs(self, f"{self._tenant}\0{session}", born)

    def path(self, name: str) -> str:
        """Where the folders of a session's jobs lie, whether or not any are there."""
        if self._place is None:
            with self._making:  # jobs are started in threads, several at a time
                if self._temporary is None:
                    self._temporary = tempfile.TemporaryDirectory(prefix="windlass-jobs-", ignore_cleanup_errors=True)
                return os.path.join(self._temporary.name, name)
        return os.path.join(os.path.abspath(self._place), name)

    def is_used(self) -> bool:
        """Whether there may be any jobs at all."""
        return self._temporary is not None if self._place is None else os.path.isdir(self._place)

    def make(self, name: str) -> None:
        """Makes the folder of a session, for this user alone."""
        path = self.path(name)
        make_private(os.path.dirname(path))
        make_private(path)

    async def close(self) -> None:
        """Gives up what ends with this process. Safe twice."""
        if self._temporary is not None:
            await asyncio.to_thread(self._temporary.cleanup)
            self._temporary = None


class SessionJobs:
    """The jobs of one session: see `JobHost`."""

    def __init__(self, jobs: LocalJobs, session: str, born: Born) -> None:
        self._jobs = jobs
        self._session = session
        self._born = born
        self._name = ""
        """What the folder of the session is called, once its log has been asked what tells it from others."""
        self._held: dict[str, tuple[int, int]] = {}
        """The supervisors that this process started: by what they know that it is there, and their numbers."""
        self._claiming = threading.Lock()
        self._starting: set[str] = set()
        """Jobs that are claimed and have no supervisor yet."""
        self._let_go_times = 0
        """How often the session was let go; a start that is under way in a thread then is too late."""
        self._over_at: dict[str, float] = {}
        """When jobs that were told to end are killed, by the monotonic clock."""
        self._watched: dict[str, asyncio.Event] = {}
        """What wakes whoever waits for the end of a job."""

    def folder(self, job_id: str) -> JobFolder:
        """Where a job is."""
        if not JOB_NAME.fullmatch(job_id):
            raise UsageError(f"{job_id!r} is no id of a job")
        if not self._name:
            raise UsageError("the log of a session says which its jobs are, and nobody has asked it")
        return JobFolder(os.path.join(self._jobs.path(self._name), job_id))

    def names(self) -> list[str]:
        """The jobs that have a folder, the oldest first. What else lies there is nobody's job."""
        if not self._name or not self._jobs.is_used():
            return []
        try:
            with os.scandir(self._jobs.path(self._name)) as listing:
                jobs = [
                    entry for entry in listing if JOB_NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
                ]
                entries = [(entry.stat(follow_symlinks=False).st_mtime_ns, entry.name) for entry in jobs]
        except OSError:
            return []
        return [name for _, name in sorted(entries)]

    async def _found(self, job_id: str) -> JobFolder:
        """Where a job is, by what is in the session's log: one of the same name may have been here before."""
        await self._look()
        return self.folder(job_id)

    async def _look(self) -> None:
        """Learns what the folder of the session is called, as soon as there is anything in its log."""
        if not self._name and (born := await self._born()):
            self._name = digest(f"{self._session}\0{born}")

    async def over(self, job_id: str) -> bool:
        """Whether a job has ended, as its folder says; False if nothing of it is here. Only looks."""
        folder = await self._found(job_id)
        return folder.is_there and folder.supervisor() is None

    # --- what a host does ---

    async def start(self, job_id: str, launch: Launch, title: str, *, detached: bool = False) -> None:
        """Starts a job, once: the folder under its id is made by whoever is first."""
        times = self._let_go_times
        await self._look()
        await asyncio.to_thread(self._start, job_id, launch, detached, times)

    def _start(self, job_id: str, launch: Launch, detached: bool, times: int) -> None:
        self._jobs.make(self._name)
        folder, token = self.folder(job_id), secrets.token_hex(16)
        with self._claiming:
            self._make_room()
            self._claim(folder, token, job_id, detached)
            self._starting.add(job_id)
        try:
            self._supervise(job_id, folder, launch, token, detached, times)
        finally:
            self._starting.discard(job_id)

    def _claim(self, folder: JobFolder, token: str, job_id: str, detached: bool) -> None:
        try:
            first = folder.claim(token, detached=detached)
        except OSError as error:
            raise ToolError(f"no job can be started: {error.strerror} in the folder for jobs", code="no_jobs") from None
        if not first:
            raise ToolError(f"job {job_id} was started before: it is not started again", code="claimed")

    def _supervise(
        self, job_id: str, folder: JobFolder, launch: Launch, token: str, detached: bool, times: int
    ) -> None:
        spec = {
            "argv": launch.argv,
            "cwd": launch.cwd,
            "env": launch.env,
            "token": token,
            "detached": detached,
            "life_ms": self._jobs.life_ms,
            "secrets": [form.decode("latin-1") for form in SECRETS.forms],  # over a pipe, as the environment is
        }
        try:
            held, pid, wrong = spawned(folder.path, spec)
        except OSError as error:
            folder.kill()
            folder.forget()
            raise ToolError(f"no job can be started: {error.strerror}", code="no_jobs") from None
        with self._claiming:
            self._held[job_id] = (held, pid)
            late = self._let_go_times != times
        if late:
            self._let_go(job_id)
            raise ToolError("the session was let go: the job ends", code="no_jobs")
        if wrong:
            os.waitpid(pid, 0)
            self._let_go(job_id)
            folder.forget()
            if not os.path.isdir(launch.cwd):
                raise ToolError(f"there is no folder {launch.cwd!r} any more to run it in", code="not_found")
            raise ToolError(f"the program {launch.argv[0]!r} cannot be run: {wrong}", code="not_started")

    def _make_room(self) -> None:
        names = self.names()
        ended = [name for name in names if name not in self._starting and self.folder(name).supervisor() is None]
        if len(names) - len(ended) >= JOBS_MAX:
            raise JobsFull(f"{JOBS_MAX} commands are running already: wait for some of them, or kill them", code="full")
        for name in ended[: max(0, len(names) - FOLDERS_MAX)]:
            self.folder(name).forget()

    async def keep(self, job_id: str) -> None:
        """From now on the job goes on without this process, unless nothing here outlives it."""
        if not self._jobs.brief:
            (await self._found(job_id)).keep()

    async def ended(self, job_id: str) -> JobEnd:
        """Waits for the end of a job: its supervisor has said how, or is not there any more."""
        folder = await self._found(job_id)
        end = None
        while end is None:
            try:
                end = await self._looked_at(job_id, folder)
            except OSError:  # no file can be read now: what is not seen may be there all the same
                await asyncio.sleep(LOOK_S)
        return end

    async def _looked_at(self, job_id: str, folder: JobFolder) -> JobEnd | None:
        """The end of a job, or None after a while in which its supervisor was there. Raises `OSError`."""
        pid = folder.supervisor()  # looked at first: it says how the job ended before it is gone
        end = folder.end()
        if pid is not None:
            await self._wait_or_kill(job_id, pid)
            return None
        if end is None:
            await asyncio.to_thread(folder.kill_left)
        self._let_go(job_id)
        return end or JobEnd(status="lost")

    async def stop(self, job_id: str, reason: StopReason) -> None:
        """Has a job end, with all that it started: by its supervisor, or without it if that takes too long."""
        with contextlib.suppress(OSError):  # one that could not be told is killed later
            (await self._found(job_id)).stop(reason)
        self._over_at.setdefault(job_id, time.monotonic() + ENDING_S)
        if job_id in self._watched:
            self._watched[job_id].set()

    async def _wait_or_kill(self, job_id: str, pid: int) -> None:
        """Waits for a supervisor to end, or to be told to; one that was told and does not is killed with its job."""
        changed = self._watched.setdefault(job_id, asyncio.Event())
        changed.clear()
        left_s = self._over_at[job_id] - time.monotonic() if job_id in self._over_at else None
        if left_s is not None and left_s <= 0:
            await asyncio.to_thread(self.folder(job_id).kill)
            left_s = LOOK_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await _gone(pid, changed)

    async def output(self, job_id: str, offset: int, most: int) -> JobOutput:
        """What a job printed from an offset on."""
        return await asyncio.to_thread((await self._found(job_id)).output, offset, most)

    async def forget(self, job_id: str) -> None:
        """Removes what is kept of a job."""
        self._let_go(job_id)
        await asyncio.to_thread((await self._found(job_id)).forget)

    async def sweep(self, known: frozenset[str]) -> None:
        """Ends what was started and never came to be on record, but for what was let go on without its session."""
        if not self._jobs.is_used():
            return
        await self._look()
        for name in self.names():
            with contextlib.suppress(OSError):  # nobody knows whose it is: it is looked at the next time
                await self._give_up(self.folder(name), known=name in known)

    async def _give_up(self, folder: JobFolder, *, known: bool) -> None:
        if known or folder.end() is not None or (folder.detached and folder.kept):
            return
        folder.stop("given_up")
        if folder.supervisor() is None:
            await asyncio.to_thread(folder.kill_left)
            folder.forget()

    async def end_all(self) -> None:
        """The session is gone: ends its jobs, but for those that are detached, and waits for that."""
        if not self._jobs.is_used():
            return
        await self._look()
        for name in self.names():
            if not self.folder(name).detached:
                await self.stop(name, "session_ended")
        for name in self.names():
            if not self.folder(name).detached:
                await self.ended(name)
                await self.forget(name)

    def _let_go(self, job_id: str) -> None:
        self._over_at.pop(job_id, None)
        self._watched.pop(job_id, None)
        held = self._held.pop(job_id, None)
        if held is not None:
            with contextlib.suppress(OSError):
                os.close(held[0])
            with contextlib.suppress(ChildProcessError):
                os.waitpid(held[1], os.WNOHANG)

    async def close(self) -> None:
        """This process lets the session go; what is kept goes on."""
        with self._claiming:
            self._let_go_times += 1
        for job_id in tuple(self._held):
            self._let_go(job_id)


async def _gone(pid: int, ended: asyncio.Event) -> None:
    """Waits until a process has ended or the event is set, or a while on systems that do not tell."""
    loop = asyncio.get_running_loop()
    try:
        held = os.pidfd_open(pid)
    except (AttributeError, OSError):
        await asyncio.sleep(LOOK_S)
        return
    try:
        loop.add_reader(held, ended.set)
        await ended.wait()
    except NotImplementedError:
        await asyncio.sleep(LOOK_S)
    finally:
        with contextlib.suppress(NotImplementedError, ValueError):
            loop.remove_reader(held)
        os.close(held)


def jobs_of(given: Any, store: Any, tenant: str, life_ms: int) -> JobHosts:
    """What a runtime's jobs run with: as given, else beside a store that has a place, else for as long as the process
    is there."""
    if given is not None and not isinstance(given, str | os.PathLike):
        host: JobHosts = given
        return host
    if given is None:
        place = place_for_store(store) if isinstance(store, str) and store != ":memory:" else None
    else:
        place = os.fspath(given)
    return LocalJobs(place, tenant=tenant, life_ms=life_ms)
