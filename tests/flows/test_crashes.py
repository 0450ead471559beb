"""A workflow under SIGKILL: each child is begun once, each node is done once, and every output is there in the end."""

from __future__ import annotations

import collections
import pathlib
import signal
import subprocess
import sys

import windlass
from tests.runtime.support import events_of, only, sound
from windlass.events.trees.children import ChildFinished, ChildStarted
from windlass.events.trees.flows import NodeFinished, NodeStarted
from windlass.runtime.api.flows import FlowRun

from . import crash_target

KILLS_MIN = 2
LIVES_MAX = 100
PATIENCE_S = 120


async def test_a_flow_survives_kills_of_its_process(tmp_path):
    kills = killed_until_done(tmp_path)
    assert kills >= KILLS_MIN, "the workflow was hardly killed"
    async with windlass.open(tmp_path / "work.db", agents=[crash_target.flow()], take_up=False) as runtime:
        run = FlowRun(await runtime.get("f"))
        events = await events_of(run.session)
        assert (await sound(run.session)).children.open == {}
        begun = collections.Counter(event.child_id for event in only(events, ChildStarted))
        assert (len(begun), set(begun.values())) == (5, {1})
        assert len(only(events, ChildFinished)) == 5
        assert sorted(event.node for event in only(events, NodeStarted)) == ["aside", "each", "last", "lines", "list"]
        assert {event.node: event.status for event in only(events, NodeFinished)} == dict.fromkeys(
            ("list", "each", "aside", "lines", "last"), "done"
        )
        for name in begun:
            await sound(await runtime.get(name))
        rows = await runtime.sessions(root="f")
        assert sorted(row.session for row in rows) == sorted(["f", *begun])
        nodes = await run.nodes()
        assert nodes["each"].output == ["<check x>", "<check y>"]
        assert nodes["lines"].output == "<check x>\n<check y>\n<aside>"


def killed_until_done(folder: pathlib.Path) -> int:
    """Starts the process again and again; it dies with one of its next appends, until it comes to the end."""
    for life in range(LIVES_MAX):
        number, kept = 8 + life * 5 % 11, ("kept", "lost")[life % 2]
        words = [sys.executable, "-m", "tests.flows.crash_target", str(folder), str(number), kept]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if done.returncode != -signal.SIGKILL:
            assert (done.returncode, done.stdout) == (0, "completed <sum up <check x>>\n"), done.stderr
            return life
    raise AssertionError("the workflow never came to its end")
