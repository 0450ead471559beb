"""Background jobs when the machine does not play along: no room on the disk, supervisors that stand still, files that
cannot be read, many starts at once."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import pathlib
import signal
import threading

import pytest

from tests.jobs.jobbing import PATIENCE_S, alive, coder, events, gone, opened, pid_in, played, until
from windlass.events.runs import RunCompleted
from windlass.events.tools.calls import ToolFinished
from windlass.events.tools.jobs import JobFinished
from windlass.runtime.jobs import job_folder, local_jobs, supervisor_start
from windlass.runtime.jobs.job_folder import JobFolder
from windlass.runtime.jobs.local_jobs import LocalJobs
from windlass.testing.scripted import call
from windlass.tools.context import ToolError
from windlass.tools.jobs.job_host import JobsFull
from windlass.tools.sandboxes.sandbox import Launch

SLEEPER = "echo $$ > pid; echo $PPID > boss; exec sleep 100"


async def born() -> str:
    return "one"


def folder_in(tmp_path):
    (folder,) = tmp_path.glob("jobs/*/j*")
    return folder


# --- no room ---


async def test_an_end_that_cannot_be_written_is_written_as_soon_as_it_can(tmp_path):
    agent = coder([[call("shell", command="until [ -e go ]; do sleep 0.02; done", background=True)], "ok", "told"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        in_the_way, beat = folder_in(tmp_path) / "end.json", folder_in(tmp_path) / "beat"
        async with asyncio.timeout(PATIENCE_S):
            while not beat.exists():
                await asyncio.sleep(0.02)
            in_the_way.mkdir()
            (tmp_path / "go").touch()
            while beat.exists():  # it makes room before it tries again
                await asyncio.sleep(0.02)
        in_the_way.rmdir()
        assert (await until(session, JobFinished)).status == "completed"


async def test_a_job_whose_supervisor_cannot_say_that_it_is_there_is_not_started(tmp_path, monkeypatch):
    claim = JobFolder.claim

    def claimed(self, token, *, detached=False):
        first = claim(self, token, detached=detached)
        os.mkdir(os.path.join(self.path, "supervisor.json"))
        return first

    monkeypatch.setattr(JobFolder, "claim", claimed)
    agent = coder([[call("shell", command="touch ran", background=True)], "ok"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        finished = next(event for event in await events(session) if isinstance(event, ToolFinished))
        assert "the folder for jobs takes nothing" in str(finished.body)
    assert not (tmp_path / "ran").exists()
    assert not list(tmp_path.glob("jobs/*/j*"))


async def test_a_claim_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full(self, name, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(JobFolder, "_write", full)
    host = LocalJobs(str(tmp_path / "jobs")).for_session("s", born)
    with pytest.raises(ToolError, match="No space left on device in the folder for jobs"):
        await host.start("j1.0", Launch(argv=("true",), cwd=str(tmp_path), env={}), "true")
    assert not list(tmp_path.glob("jobs/*/j*"))


async def test_a_job_is_ended_also_if_the_reason_cannot_be_written(tmp_path):
    agent = coder([[call("shell", command=SLEEPER, background=True)], "ok"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        pid = await pid_in(tmp_path / "pid")
        (folder_in(tmp_path) / f".stop.{os.getpid()}").mkdir()
        (job,) = await session.jobs()
        await session.kill_job(job.job_id)
        await until(session, JobFinished)
        await gone(pid)


# --- supervisors that stand still ---


async def test_a_stopped_supervisor_goes_on_to_end_its_job(tmp_path):
    agent = coder([[call("shell", command=SLEEPER, background=True)], "ok"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        pid, boss = await pid_in(tmp_path / "pid"), await pid_in(tmp_path / "boss")
        os.kill(boss, signal.SIGSTOP)
        (job,) = await session.jobs()
        await session.kill_job(job.job_id)
        assert (await until(session, JobFinished)).status == "cancelled"
        await gone(pid)


@pytest.mark.parametrize("how", ["kill", "close"])
async def test_a_supervisor_that_hears_nothing_is_killed_with_its_job(tmp_path, monkeypatch, how):
    told = job_folder._signal

    def frozen(pid, folder, *numbers):
        told(pid, folder, *(number for number in numbers if number == signal.SIGKILL))

    monkeypatch.setattr(job_folder, "_signal", frozen)
    monkeypatch.setattr(local_jobs, "ENDING_S", 0.3)
    agent = coder([[call("shell", command=SLEEPER, background=True)], "ok"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        pid, boss = await pid_in(tmp_path / "pid"), await pid_in(tmp_path / "boss")
        os.kill(boss, signal.SIGSTOP)
        (job,) = await session.jobs()
        await (session.kill_job(job.job_id) if how == "kill" else session.close())
        assert (await until(session, JobFinished)).status == "lost"
        await gone(pid)
        assert not alive(boss)


async def test_a_supervisor_that_never_answers_is_not_waited_for(tmp_path, monkeypatch):
    script = tmp_path / "silent.py"
    script.write_text("import time\ntime.sleep(100)\n")
    monkeypatch.setattr(supervisor_start, "SCRIPT", str(script))
    monkeypatch.setattr(supervisor_start, "START_S", 0.3)
    host = LocalJobs(str(tmp_path / "jobs")).for_session("s", born)
    big = {"BIG": "x" * 200_000}  # more than a pipe takes
    for env in ({}, big):
        with pytest.raises(ToolError, match="did not start within"):
            await host.start("j1.0", Launch(argv=("true",), cwd=str(tmp_path), env=env), "true")
    assert running(script) == []


def running(script):
    """The processes that run a script and have not ended."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(script).encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return [pid for pid in found if alive(pid)]


# --- what is left ---


async def test_a_job_is_found_again_though_its_claim_cannot_be_read(tmp_path):
    agent = coder([[call("shell", command="until [ -e go ]; do sleep 0.02; done", background=True)], "ok"])
    async with opened(tmp_path, agent) as session:
        await played(session)
    (folder_in(tmp_path) / "claim.json").write_text("")
    (tmp_path / "go").touch()
    async with opened(tmp_path, coder(["told"])) as session:
        assert (await until(session, JobFinished)).status == "completed"
        await until(session, RunCompleted, 2)


@pytest.mark.parametrize("how", ["env -i", "env -i setsid"])
async def test_what_has_a_clean_environment_ends_too_when_the_supervisor_was_killed(tmp_path, how):
    command = f"{how} sleep 100 & echo $! > child; echo $PPID > boss; wait"
    agent = coder([[call("shell", command=command, background=True)], "ok", "lost"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        child, boss = await pid_in(tmp_path / "child"), await pid_in(tmp_path / "boss")
        async with asyncio.timeout(PATIENCE_S):
            while str(child) not in _text(folder_in(tmp_path) / "processes.json"):
                await asyncio.sleep(0.02)
        os.kill(boss, signal.SIGKILL)
        assert (await until(session, JobFinished)).status == "lost"
        await gone(child)


def _text(path):
    return path.read_text() if path.exists() else ""


# --- many ---


async def test_starts_at_the_same_time_keep_to_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(local_jobs, "JOBS_MAX", 3)
    host = LocalJobs(str(tmp_path / "jobs")).for_session("s", born)
    launch = Launch(argv=("sleep", "100"), cwd=str(tmp_path), env={"PATH": os.environ["PATH"]})
    starts = [host.start(f"j{number}.0", launch, "sleep") for number in range(8)]
    try:
        came = await asyncio.gather(*starts, return_exceptions=True)
        assert sum(one is None for one in came) == 3, came
        assert sum(isinstance(one, JobsFull) for one in came) == 5
    finally:
        await host.end_all()


async def test_a_job_whose_start_comes_after_its_session_was_let_go_ends(tmp_path, monkeypatch):
    begun, go = threading.Event(), threading.Event()
    spawn = supervisor_start.spawned

    def late(*given):
        begun.set()
        go.wait(PATIENCE_S)
        return spawn(*given)

    monkeypatch.setattr(local_jobs, "spawned", late)
    jobs = LocalJobs(str(tmp_path / "jobs")).for_session("s", born)
    launch = Launch(argv=("sh", "-c", SLEEPER), cwd=str(tmp_path), env=dict(os.environ))
    starting = asyncio.create_task(jobs.start("j1.0", launch, "sleeps"))
    await asyncio.to_thread(begun.wait, PATIENCE_S)
    await jobs.close()
    go.set()
    with pytest.raises(ToolError, match="was let go"):
        await starting
    async with asyncio.timeout(PATIENCE_S):
        assert (await jobs.ended("j1.0")).status in ("aborted", "lost")


# --- no files left ---


async def test_a_job_that_cannot_be_looked_at_for_want_of_files_is_neither_lost_nor_killed(tmp_path, monkeypatch):
    host = LocalJobs(str(tmp_path / "jobs")).for_session("s", born)
    script = "echo $$ > pid; until [ -e go ]; do sleep 0.02; done"
    await host.start(
        "j1.0", Launch(argv=("sh", "-c", script), cwd=str(tmp_path), env={"PATH": os.environ["PATH"]}), "s"
    )
    pid = await pid_in(tmp_path / "pid")
    looked = asyncio.Event()

    def without_descriptors(path, *more, **most):
        looked.set()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    try:
        for module in ("runtime.jobs.job_folder", "tools.processes.process_tree"):
            with monkeypatch.context() as patch:
                patch.setattr(f"windlass.{module}.open", without_descriptors, raising=False)
                looked.clear()
                end = asyncio.create_task(host.ended("j1.0"))
                await asyncio.wait_for(looked.wait(), PATIENCE_S)
                if module == "runtime.jobs.job_folder":
                    await host.sweep(frozenset())  # whose it is cannot be read: it is left alone
            assert alive(pid)
            assert not end.done()
            end.cancel()
        (tmp_path / "go").touch()
        assert (await asyncio.wait_for(host.ended("j1.0"), PATIENCE_S)).status == "completed"
    finally:
        await host.end_all()
