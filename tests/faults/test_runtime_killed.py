"""The runtime is killed with SIGKILL while a tool runs (promises R10 and R20, kill-point matrix 3.4): nothing of the tool
is left, and after a resume the call ends by its contract, without anything done twice in silence."""

from __future__ import annotations

import asyncio
import os
import pathlib
import subprocess
import sys
import uuid

import pytest

from tests.runtime.support import events_of, only, sound
from windlass.events.tools.calls import ToolFinished, ToolOutcomeUnknown

from .killed_runtime import setup
from .places import CONFINED, MARK, PROCESS_PLANES, marked

PATIENCE_S = 180.0
PLACES = [*PROCESS_PLANES, "local", *CONFINED]  # of the remote worker there is a test of its own
CASES = [*((place, "at_most_once") for place in PLACES), ("process", "idempotent")]


async def until(reached: object) -> None:
    assert callable(reached)
    async with asyncio.timeout(PATIENCE_S):
        while not reached():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(("place", "contract"), CASES)
async def test_a_killed_runtime_leaves_no_process_and_the_call_ends_by_its_contract(
    tmp_path, monkeypatch, place, contract
):
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    folder = tmp_path / "work"
    folder.mkdir()
    given = (str(tmp_path / "log.db"), place, contract, str(folder))
    runtime = begun(mark, *given)
    ran = folder / "ran"
    # The tool runs, and so does whatever it started.
    await until(lambda: ran.exists() and len(marked(mark)) >= 3)
    runtime.kill()
    runtime.wait()
    await until(lambda: marked(mark) == [])

    agent, opened = setup(*given)
    async with opened as resumed:
        session = await resumed.session(agent, "s")
        async with asyncio.timeout(PATIENCE_S):
            assert (await session.result()).text == "done"
        events = await events_of(session)
        finished, unknown = only(events, ToolFinished), only(events, ToolOutcomeUnknown)
        if contract == "at_most_once":
            assert (ran.read_text(), len(finished), len(unknown)) == ("x", 0, 1)
        else:
            assert (ran.read_text(), len(finished), len(unknown)) == ("xx", 1, 0)
            assert finished[0].body.content[0].text == "worked"
        await sound(session)
    assert marked(mark) == []


def begun(mark: str, *given: str) -> subprocess.Popen[bytes]:
    """A runtime in a process of its own, at work."""
    env = {**os.environ, MARK: mark, "PYTHONPATH": str(pathlib.Path(__file__).parents[2])}
    return subprocess.Popen([sys.executable, "-m", "tests.faults.killed_runtime", *given], env=env)
