"""Workflows with much open at once: a hundred nodes at work, and a kill with nodes, timers and approvals open at depth 3."""

from __future__ import annotations

import asyncio
import collections
import os
import pathlib
import signal
import subprocess
import sys

import windlass
from tests.runtime.support import JumpPorts, events_of, only, sound, started
from windlass import flows
from windlass.events.tools.calls import ToolFinished
from windlass.events.trees.children import ChildStarted
from windlass.events.trees.flows import NodeStarted
from windlass.models.base import Request
from windlass.testing.scripted import ScriptedModel

from . import deep_target

MANY = 100
ROOT = pathlib.Path(__file__).parents[2]


async def test_a_hundred_nodes_are_at_work_at_the_same_time():
    here, all_here = 0, asyncio.Event()

    async def meets(request: Request) -> str:
        nonlocal here
        here += 1
        if here == MANY:
            all_here.set()
        await all_here.wait()
        return "met"

    agent = windlass.Agent("one", ScriptedModel(meets))
    names = [f"n{number}" for number in range(MANY)]
    steps = [flows.spawn(name, agent, "meet") for name in names]
    flow = flows.Flow("many", [*steps, flows.reduce("all", "count", names)], parallel=MANY)
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        result = await run.result()
        assert (result.status, result.output) == ("completed", MANY)
        begun = collections.Counter(event.node for event in only(await events_of(run.session), NodeStarted))
        assert set(begun.values()) == {1}
        assert len(begun) == MANY + 1


async def test_a_kill_with_nodes_timers_and_approvals_open_at_depth_three_loses_nothing(tmp_path, monkeypatch):
    killed_when_all_is_open(tmp_path)
    monkeypatch.chdir(tmp_path)
    ports, flow = JumpPorts(), deep_target.flow()
    async with windlass.open(tmp_path / "work.db", agents=[flow], ports=ports, take_up=False) as runtime:
        run = await runtime.flow(flow, "f")
        waiting = (await run.result()).waiting_for
        (below,) = [name for name in waiting if "/" in name]
        (asked,) = [name for name in waiting if "/" not in name]
        assert below.count("~") == 2
        child, _ = run.session.asker(below)
        (request,) = await child.requests()
        await child.approve(request)
        await run.session.answer(asked, "yes")
        await started(child, ToolFinished)
        ports.ahead_ms = 2 * 3600 * 1000
    async with windlass.open(tmp_path / "work.db", agents=[flow], ports=ports, take_up=False) as runtime:
        run = await runtime.flow(flow, "f")
        result = await run.result()
        assert (result.status, result.output) == ("completed", "first\n\nyes\n\ntried again")
        assert (tmp_path / "paid.txt").read_text() == "5\n", "it was paid once"
        begun = collections.Counter(event.node for event in only(await events_of(run.session), NodeStarted))
        assert begun == {"work": 1, "agree": 1, "again": 2, "end": 1}
        rows = await runtime.sessions(root="f")
        assert sorted(row.session.count("~") for row in rows) == [0, 1, 1, 1, 2, 3]
        for row in rows:
            session = await runtime.get(row.session)
            children = [event.child_id for event in only(await events_of(session), ChildStarted)]
            assert len(set(children)) == len(children)
            assert (await sound(session)).children.open == {}


def killed_when_all_is_open(folder: pathlib.Path) -> None:
    words = [sys.executable, "-m", "tests.flows.deep_target", str(folder)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=folder, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
