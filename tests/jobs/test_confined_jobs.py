"""Background jobs under each sandbox that works here: confined as long as they run, found again, ended whole."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.jobs.jobbing import coder, events, gone, opened, played, until
from windlass.events.tools.jobs import JobFinished
from windlass.testing.scripted import call
from windlass.tools.processes.process_tree import descendants
from windlass.tools.sandboxes.choice import candidates

USABLE = [each.name for each in candidates() if each.problem is None and each.name != "container"]


@pytest.mark.parametrize("name", USABLE)
async def test_a_job_is_confined_outlives_its_runtime_and_is_found_again(tmp_path, name):
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    line = f"touch begun; while [ ! -e go ]; do sleep 0.02; done; echo x > {outside}/made; echo in > made; echo over"
    agent = coder([[call("shell", command=line, background=True)], "waits", "told"])
    async with opened(tmp_path, agent, sandbox=name, folder=work) as session:
        await played(session)
    (work / "go").touch()  # nobody drives the session now
    async with opened(tmp_path, agent, sandbox=name, folder=work) as session:
        ended = await until(session, JobFinished)
    assert ended.status == "completed"
    assert "over" in str(ended.body)
    assert (work / "made").read_text() == "in\n"
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", USABLE)
async def test_a_daemon_of_a_confined_job_ends_with_it(tmp_path, name):
    work = tmp_path / "work"
    work.mkdir()
    line = "setsid sh -c 'echo up > pid; exec sleep 1000' & sleep 1000"
    agent = coder([[call("shell", command=line, background=True)], "waits", "told"])
    async with opened(tmp_path, agent, sandbox=name, folder=work) as session:
        await played(session)
        (said,) = tmp_path.glob("jobs/*/j*/supervisor.json")
        pids = await _below(said, work)
        (job,) = (await session.state()).jobs.open
        await session.kill_job(job)
        ended = await until(session, JobFinished)
        for pid in pids:
            await gone(pid)
        assert len([event for event in await events(session) if isinstance(event, JobFinished)]) == 1
    assert ended.status == "cancelled"


async def _below(said, work):
    """The processes of a job, once its daemon is up."""
    async with asyncio.timeout(20):
        while not (work / "pid").exists():
            await asyncio.sleep(0.01)
    found = descendants(json.loads(said.read_text())["pid"])
    assert len(found) >= 2
    return found
