"""A runtime that is killed with a call of an MCP tool open: the server is gone, and the call has its outcome by contract."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import windlass
from tests.mcp_client.conftest import Strange, gone
from tests.mcp_client.runtime_to_kill import LEASE_MS, agent
from windlass.events.base import name_of
from windlass.tools.processes.process_tree import PARENT_FIELD, stat_of

ROOT = pathlib.Path(__file__).parents[2]


async def killed(strange: Strange, place: pathlib.Path, contract: str) -> None:
    """Has a runtime begin a call, and kills it then; waits until its server is gone too."""
    words = ["-m", "tests.mcp_client.runtime_to_kill", str(place / "work.db"), str(strange.folder), contract]
    process = subprocess.Popen([sys.executable, *words], cwd=ROOT, env=dict(os.environ))  # noqa: ASYNC220
    try:
        (line,) = await strange.noted("hangs")
        server = stat_of(int(line.split()[1]))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert server is not None
    await gone(int(line.split()[1]))
    await gone(int(server[PARENT_FIELD]))


async def test_a_call_that_may_have_had_effects_is_not_made_again(strange: Strange, tmp_path: pathlib.Path) -> None:
    await killed(strange, tmp_path, "at_most_once")
    helper = agent(strange.folder, "at_most_once", "done")
    async with windlass.open(str(tmp_path / "work.db"), agents=[helper], lease_ms=LEASE_MS) as runtime:
        session = await runtime.get("one")
        await session.wait_idle()
        names = [name_of(record.event) async for record in session.records()]
    assert "tool.outcome_unknown" in names
    assert len(strange.notes("hangs")) == 1


async def test_a_call_that_may_be_made_again_is(strange: Strange, tmp_path: pathlib.Path) -> None:
    await killed(strange, tmp_path, "idempotent")
    helper = agent(strange.folder, "idempotent", "done")
    async with windlass.open(str(tmp_path / "work.db"), agents=[helper], lease_ms=LEASE_MS) as runtime:
        session = await runtime.get("one")
        pid = int((await strange.noted("hangs", 2))[1].split()[1])
        await session.interrupt()
        await session.wait_idle()
    await gone(pid)
    assert len(strange.notes("hangs")) == 2
