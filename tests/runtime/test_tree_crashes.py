"""A tree of sessions under SIGKILL: each child is begun once, each end comes back once, nothing is lost."""

from __future__ import annotations

import collections
import pathlib
import signal
import subprocess
import sys

import windlass
from windlass.events.trees.children import ChildFinished, ChildStarted

from . import tree_target
from .support import events_of, only, sound

KILLS_MIN = 5
LIVES_MAX = 200
PATIENCE_S = 120


async def test_a_tree_survives_kills_of_its_process(tmp_path):
    kills = killed_until_done(tmp_path)
    assert kills >= KILLS_MIN, "the tree was hardly killed"
    async with windlass.open(tmp_path / "work.db", agents=[tree_target.tree(tmp_path)], take_up=False) as runtime:
        rows = await runtime.sessions(root="root")
        assert sorted(row.session.count("~") for row in rows) == [0, 1, 1, 2, 2, 2, 2]
        for row in rows:
            session = await runtime.get(row.session)
            events = await events_of(session)
            below = 0 if row.session.count("~") == 2 else 2
            ends = only(events, ChildFinished)
            assert len(only(events, ChildStarted)) == len(ends) == below
            assert [end.status for end in ends] == ["completed"] * below
            assert (await sound(session)).children.open == {}
            assert await runtime.store.inbox.waiting(session.key) == []
    names = [line.split()[1] for line in (tmp_path / "notes").read_text().splitlines()]
    assert sorted(set(names)) == ["a", "b", "c", "d"]  # idempotent: noted again if killed in between
    assert collections.Counter(names).total() <= 4 + kills


def killed_until_done(folder: pathlib.Path) -> int:
    """Starts the process again and again; it dies with one of its next appends, until it comes to the end."""
    for life in range(LIVES_MAX):
        number, kept = 3 + life * 3 % 7, ("kept", "lost")[life % 2]
        words = [sys.executable, "-m", "tests.runtime.tree_target", str(folder), str(number), kept]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if done.returncode != -signal.SIGKILL:
            assert (done.returncode, done.stdout) == (0, "completed root is done\n"), done.stderr
            return life
    raise AssertionError("the tree never came to its end")
