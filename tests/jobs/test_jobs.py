"""Background jobs with real processes: started once, told once, found again, ended with all that they started."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import signal
import tempfile
import time
from typing import Any

import pytest

from tests.jobs.jobbing import (
    PATIENCE_S,
    alive,
    coder,
    events,
    gone,
    opened,
    pid_in,
    played,
    requests,
    shows_what_it_printed,
    until,
)
from tests.sandboxes.programs import odd_signals
from windlass.events.runs import RunCompleted, RunStarted
from windlass.events.tools.calls import ToolFinished
from windlass.events.tools.jobs import JobFinished, JobStarted, JobStopping
from windlass.events.values.blocks import Terminal, Text
from windlass.events.values.items import ResultItem, UserItem
from windlass.runtime.jobs.local_jobs import LocalJobs, SessionJobs
from windlass.testing.scripted import call
from windlass.tools.jobs.job_tools import row_line

OF_THE_C_LIBRARY = 0b11 << 31
"""Signals 32 and 33, which glibc keeps to itself and ignores in whatever it spawns."""


def shown(block):
    assert isinstance(block, Terminal)
    return block.text


async def test_a_command_past_its_time_goes_on_and_its_end_begins_a_run(tmp_path, monkeypatch):
    shows_what_it_printed(monkeypatch)
    agent = coder(
        [
            [call("shell", command="echo one; while [ ! -e go ]; do sleep 0.02; done; echo two", timeout_ms=3_000)],
            "waits",
            "it is done",
        ]
    )
    async with opened(tmp_path, agent) as session:
        await played(session)
        log = await events(session)
        started = next(event for event in log if isinstance(event, JobStarted))
        assert (started.late, started.detached, started.job_id) == (True, False, f"j{started.call_id[1:]}")
        assert started.body is not None
        assert shown(started.body.content[0]) == "one\n"
        assert isinstance(started.body.content[1], Text)
        assert "goes on in the background" in started.body.content[1].text
        (tmp_path / "go").touch()
        await until(session, RunCompleted, 2)
        ended = next(event for event in await events(session) if isinstance(event, JobFinished))
        assert (ended.status, ended.exit_code) == ("completed", 0)
        assert ended.body is not None
        assert shown(ended.body.content[0]) == "one\ntwo\n"
        second = [event for event in await events(session) if isinstance(event, RunStarted)][1]
        assert (second.trigger, second.continues is not None) == ("job", True)
        said = [item for item in requests(agent)[-1].items if isinstance(item, UserItem)][-1]
        assert isinstance(said.content[0], Text)
        assert said.content[0].text.startswith(f"[background job {started.job_id} completed with exit code 0")
        assert (await session.state()).jobs.open == {}


async def test_an_end_during_a_run_is_told_with_its_next_turn(tmp_path):
    def look(request):
        return [call("shell", command='while [ -z "$(ls jobs/*/j*/end.json 2>/dev/null)" ]; do sleep 0.02; done')]

    agent = coder([[call("shell", command="exit 7", background=True)], look, "seen", "more"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        ended = await until(session, JobFinished)
        assert (ended.status, ended.exit_code) == ("failed", 7)
        await session.wait_idle()
        told = [
            item
            for request in requests(agent)
            for item in request.items
            if isinstance(item, UserItem) and "background job" in str(item.content)
        ]
        assert told
        assert sum(isinstance(event, JobFinished) for event in await events(session)) == 1


async def test_a_model_lists_reads_and_kills_its_jobs(tmp_path):
    def name_in(request):
        job = next(item for item in request.items if isinstance(item, ResultItem))
        return str(job.content).split("as job ")[1].split(".")[0] + ".0"

    agent = coder(
        [
            [call("shell", command="echo ready; touch printed; sleep 100", background=True)],
            [call("shell", command="until [ -e printed ] && [ -s jobs/*/j*/output.000000 ]; do sleep 0.02; done")],
            lambda request: [call("job_output", job_id=name_in(request)), call("jobs")],
            lambda request: [call("kill_job", job_id=name_in(request))],
            "ok",
            "ended",
        ]
    )
    async with opened(tmp_path, agent) as session:
        await played(session)
        ended = await until(session, JobFinished)
        assert ended.status == "cancelled"
        results = {
            item.tool: item for request in requests(agent) for item in request.items if isinstance(item, ResultItem)
        }
        assert "ready" in str(results["job_output"].content)
        assert "running" in str(results["jobs"].content)
        rows = await session.jobs()
        assert [(row.status, row.title) for row in rows] == [("cancelled", "echo ready; touch printed; sleep 100")]
        assert "cancelled" in row_line(rows[0])


async def test_a_job_is_started_with_signals_as_a_program_expects_them(tmp_path):
    agent = coder([[call("shell", command="grep -E 'Sig(Ign|Blk)' /proc/self/status", background=True)], "ok", "ended"])
    async with opened(tmp_path, agent) as session:
        with odd_signals():
            await played(session)
            ended = await until(session, JobFinished)
    masks = [int(line.split()[1], 16) & ~OF_THE_C_LIBRARY for line in shown(ended.body.content[0]).splitlines()]
    assert masks == [0, 0]


async def test_a_person_kills_a_job_and_the_session_is_not_woken(tmp_path):
    agent = coder([[call("shell", command="echo $$ > pid; exec sleep 100", background=True)], "ok"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        pid = await pid_in(tmp_path / "pid")
        (job,) = await session.jobs()
        await session.kill_job(job.job_id)
        ended = await until(session, JobFinished)
        assert ended.status == "cancelled"
        await gone(pid)
        log = await events(session)
        assert [event.reason for event in log if isinstance(event, JobStopping)] == ["killed"]
        assert sum(isinstance(event, RunStarted) for event in log) == 1


async def test_daemons_end_with_the_command_that_left_them(tmp_path):
    command = (
        "(setsid bash -c 'echo $$ > pid; exec sleep 100' >/dev/null 2>&1 &); until [ -s pid ]; do sleep 0.01; done"
    )
    agent = coder([[call("shell", command=command)], "ok"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        pid = await pid_in(tmp_path / "pid")
        assert not alive(pid)
        finished = next(event for event in await events(session) if isinstance(event, ToolFinished))
        assert finished.body is not None
        assert "left running ended with it" in shown(finished.body.content[0])


async def test_an_interrupt_ends_the_command_that_is_waited_for_and_leaves_jobs(tmp_path):
    agent = coder(
        [
            [call("shell", command="echo $$ > job; exec sleep 100", background=True)],
            [call("shell", command="echo $$ > fore; exec sleep 100")],
            "ok",
        ]
    )
    async with opened(tmp_path, agent) as session:
        playing = asyncio.ensure_future(played(session))
        job, fore = await pid_in(tmp_path / "job"), await pid_in(tmp_path / "fore")
        await session.interrupt()
        await playing
        await gone(fore)
        assert alive(job)
        await session.interrupt(jobs=True)
        await until(session, JobFinished)
        await gone(job)


@pytest.mark.parametrize("background", [True, "detached"])
async def test_closing_a_session_ends_its_jobs_unless_they_are_detached(tmp_path, background):
    script = [[call("shell", command="echo $$ > pid; exec sleep 100", background=background)], "ok"]
    agent = coder(script, approver=lambda asked: True)
    async with opened(tmp_path, agent) as session:
        await played(session)
        pid = await pid_in(tmp_path / "pid")
        await session.close()
        if background == "detached":
            assert alive(pid)
            os.kill(pid, signal.SIGKILL)
            return
        await gone(pid)
        ended = next(event for event in await events(session) if isinstance(event, JobFinished))
        assert ended.status == "terminated"


async def test_a_job_goes_on_when_its_runtime_ends_and_the_next_one_finds_it(tmp_path):
    agent = coder([[call("shell", command="until [ -e go ]; do sleep 0.02; done; echo whole", background=True)], "ok"])
    async with opened(tmp_path, agent) as session:
        await played(session)
    (tmp_path / "go").touch()
    agent = coder(["so it ended"])
    async with opened(tmp_path, agent) as session:
        ended = await until(session, JobFinished)
        assert ended.status == "completed"
        assert ended.body is not None
        assert shown(ended.body.content[0]) == "whole\n"
        await until(session, RunCompleted, 2)


async def test_a_job_whose_supervisor_was_killed_is_lost_with_its_tail_and_nothing_is_left(tmp_path):
    command = "echo $$ > pid; echo $PPID > boss; echo before; (setsid sleep 100 & echo $! > child); exec sleep 100"
    agent = coder([[call("shell", command=command, background=True)], "ok", "lost"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        child, pid = await pid_in(tmp_path / "child"), await pid_in(tmp_path / "pid")
        async with asyncio.timeout(PATIENCE_S):
            while not any(path.stat().st_size for path in tmp_path.glob("jobs/*/j*/output.*")):
                await asyncio.sleep(0.01)
        os.kill(await pid_in(tmp_path / "boss"), signal.SIGKILL)
        ended = await until(session, JobFinished)
        assert (ended.status, ended.exit_code) == ("lost", None)
        assert ended.body is not None
        assert shown(ended.body.content[0]) == "before\n"
        await gone(pid)
        await gone(child)


async def test_a_number_that_another_process_has_now_is_not_taken_for_the_supervisor(tmp_path):
    agent = coder([[call("shell", command="echo $PPID > boss; exec sleep 100", background=True)], "ok"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        os.kill(await pid_in(tmp_path / "boss"), signal.SIGKILL)
        await gone(await pid_in(tmp_path / "boss"))
    (said,) = tmp_path.glob("jobs/*/j*/supervisor.json")
    other = await asyncio.create_subprocess_exec("sleep", "100")
    try:
        said.write_text(said.read_text().replace((tmp_path / "boss").read_text().strip(), str(other.pid)))
        async with opened(tmp_path, coder(["lost"])) as session:
            assert (await until(session, JobFinished)).status == "lost"
        assert other.returncode is None
    finally:
        other.kill()
        await other.wait()


async def test_a_job_that_was_never_put_on_record_is_ended_by_the_next_owner(tmp_path):
    agent = coder([[call("shell", command="echo $$ > pid; exec sleep 100", background=True)], "ok"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        pid = await pid_in(tmp_path / "pid")
        (job,) = (await session.state()).jobs.open
        await pid_in(tmp_path / "pid")
    (folder,) = tmp_path.glob("jobs/*/j*")
    folder.rename(folder.with_name("j99.0"))  # as if its owner had died before `job.started` was kept
    async with opened(tmp_path, coder(["lost"])) as session:
        ended = await until(session, JobFinished)
        assert (ended.job_id, ended.status) == (job, "lost")
        await gone(pid)


async def test_a_job_ends_when_its_folder_is_removed(tmp_path):
    agent = coder([[call("shell", command="echo $$ > pid; exec sleep 100", background=True)], "ok"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        pid = await pid_in(tmp_path / "pid")
    for path in tmp_path.glob("jobs/*/j*/*"):
        path.unlink()
    for path in tmp_path.glob("jobs/*/j*"):
        path.rmdir()
    await gone(pid)


async def test_a_job_is_retired_at_the_end_of_its_life(tmp_path):
    agent = coder([[call("shell", command="exec sleep 100", background=True)], "ok", "retired"])
    async with opened(tmp_path, agent, job_life_ms=200) as session:
        await played(session)
        assert (await until(session, JobFinished)).status == "retired"


async def test_without_a_store_on_disk_jobs_end_with_the_process(tmp_path):
    import windlass

    agent = coder([[call("shell", command="echo $$ > pid; exec sleep 100", background=True)], "ok"])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, workspace=tmp_path)
        await played(session)
        pid = await pid_in(tmp_path / "pid")
    await gone(pid)


async def test_much_output_keeps_its_first_and_its_last_part_on_disk(tmp_path):
    agent = coder([[call("shell", command="seq 1 1500000", background=True)], "ok", "done"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        ended = await until(session, JobFinished)
        assert ended.output_bytes == len("".join(f"{number}\n" for number in range(1, 1_500_001)))
        assert ended.body is not None
        assert shown(ended.body.content[0]).endswith("1499999\n1500000\n")
    kept = sum(path.stat().st_size for path in tmp_path.glob("jobs/*/j*/output.*"))
    assert kept <= 8 * 256 * 1024


async def test_what_else_lies_among_the_folders_of_jobs_is_passed_over(tmp_path):
    agent = coder([[call("shell", command="until [ -e go ]; do sleep 0.02; done", background=True)], "ok"])
    async with opened(tmp_path, agent) as session:
        await played(session)
    (folder,) = tmp_path.glob("jobs/*")
    (folder / ".DS_Store").touch()
    (folder / "j1.0").touch()
    (tmp_path / "go").touch()
    async with opened(tmp_path, coder(["told"])) as session:
        assert (await until(session, JobFinished)).status == "completed"
        await until(session, RunCompleted, 2)


async def test_folders_that_cannot_be_swept_do_not_stop_the_session(tmp_path, monkeypatch):
    async def sweep(self, known):
        raise PermissionError(13, "no")

    monkeypatch.setattr(SessionJobs, "sweep", sweep)
    async with opened(tmp_path, coder(["fine"])) as session:
        await played(session)
        assert (await session.result()).text == "fine"


async def test_a_store_that_was_made_anew_runs_its_commands(tmp_path):
    for life in ("one", "two"):
        agent = coder([[call("shell", command=f"echo {life}", background=True)], "ok", "told"])
        async with opened(tmp_path, agent) as session:
            await played(session)
            ended = await until(session, JobFinished)
            assert ended.body is not None
            assert (ended.status, shown(ended.body.content[0])) == ("completed", f"{life}\n")
            await session.wait_idle()
        for path in tmp_path.glob("store.db*"):
            path.unlink()


async def test_stores_that_share_a_folder_for_jobs_leave_each_others_alone(tmp_path):
    import windlass

    agent = coder([[call("shell", command="echo $$ > pid; exec sleep 100", background=True)], "ok"])
    async with opened(tmp_path, agent) as session:
        await played(session)
        pid = await pid_in(tmp_path / "pid")
        other = coder([[call("shell", command="echo other", background=True)], "ok", "told"])
        async with windlass.open(str(tmp_path / "two.db"), agents=[other], jobs=tmp_path / "jobs") as runtime:
            second = await runtime.session(other, "s1", workspace=tmp_path)
            await played(second)
            assert (await until(second, JobFinished)).status == "completed"
        assert alive(pid)
        await session.close()
    await gone(pid)


async def test_a_detached_job_has_nothing_to_do_with_a_later_session_of_the_same_name(tmp_path):
    script = [[call("shell", command="echo $$ > pid; exec sleep 100", background="detached")], "ok"]
    async with opened(tmp_path, coder(script, approver=lambda asked: True)) as session:
        await played(session)
        pid = await pid_in(tmp_path / "pid")
    for path in tmp_path.glob("store.db*"):
        path.unlink()
    try:
        async with opened(tmp_path, coder(["hello"])) as session:
            await played(session)
            await session.close()
        assert not list(tmp_path.glob("jobs/*/j*/stop"))
        assert alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_jobs_that_are_started_at_once_have_one_place(monkeypatch):
    made = []

    class Slow(tempfile.TemporaryDirectory[str]):
        def __init__(self, *args: Any, **more: Any) -> None:
            time.sleep(0.05)
            super().__init__(*args, **more)
            made.append(self)

    monkeypatch.setattr(tempfile, "TemporaryDirectory", Slow)
    jobs = LocalJobs(None)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        places = set(pool.map(jobs.path, ["s"] * 4))
    assert (len(places), len(made)) == (1, 1)
