"""`windlass prune` and jobs: what is open elsewhere stays, what is removed takes its jobs along."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from typing import Any

import windlass
from tests.jobs.jobbing import PATIENCE_S, coder, gone, pid_in, played
from windlass.cli.main import main
from windlass.testing.scripted import call

LINE = "echo $$ > pid; exec sleep 1000"


async def ran(*words: str) -> str:
    """What the command line prints, run in a thread with a loop of its own."""

    def run() -> str:
        with contextlib.redirect_stdout(io.StringIO()) as told:
            assert main([*words]) == 0
        return told.getvalue()

    return await asyncio.to_thread(run)


async def pruned(store: str, *more: str) -> Any:
    return json.loads(await ran("prune", "--older-than", "0s", "--yes", "--json", "--store", store, *more))


async def test_a_session_that_is_open_elsewhere_stays_and_what_is_removed_ends_its_jobs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    store = str(tmp_path / "store.db")
    agent = coder([[call("shell", command=LINE, background=True)], "waits", "told"])
    async with windlass.open(store, agents=[agent]) as runtime:
        session = await runtime.session(agent, "s1", workspace=tmp_path)
        await played(session)
        pid = await pid_in(tmp_path / "pid")
        (row,) = await pruned(store)
        assert (row["removed"], bool(row["open_in"])) == (False, True)
        assert (await session.state()).jobs.open
    (row,) = await pruned(store)
    assert (row["removed"], row["open_in"]) == (True, None)
    await gone(pid)


async def test_show_and_ps_know_that_a_job_is_over_though_nobody_was_told(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    store = str(tmp_path / "store.db")
    line = "echo $$ > pid; while [ ! -e go ]; do sleep 0.02; done"
    agent = coder([[call("shell", command=line, background=True)], "waits", "told"])
    async with windlass.open(store, agents=[agent]) as runtime:
        session = await runtime.session(agent, "s1", workspace=tmp_path)
        await played(session)
        pid = await pid_in(tmp_path / "pid")
    (row,) = json.loads(await ran("ps", "--json", "--store", store))
    assert row["jobs"] == 1
    (tmp_path / "go").touch()
    await gone(pid)
    async with asyncio.timeout(PATIENCE_S):  # its supervisor says how it ended, and goes
        while json.loads(await ran("ps", "--json", "--store", store))[0]["jobs"]:
            await asyncio.sleep(0.05)
    assert "ended, not told yet" in await ran("show", "s1", "--store", store)
