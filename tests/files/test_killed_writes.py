"""kill -9 at each step of a change, through a real runtime: a file is old or new, never in part, and is changed once."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.runtime.support import only
from windlass.events.tools.calls import ToolFinished
from windlass.events.workspace import FilesChanged, FilesKept
from windlass.runtime.operate.log_point import read_point
from windlass.store import Key, open_store

TARGET = pathlib.Path(__file__).with_name("killed_writer.py")
EDIT: list[tuple[str, Any]] = [("edit", {"path": "a.py", "old": "one", "new": "one and one"})]
PATCH: list[tuple[str, Any]] = [
    ("patch", {"edits": [{"path": name, "old": "one", "new": "one and one"} for name in ("a.py", "b.py")]})
]
MAKE: list[tuple[str, Any]] = [("write", {"path": "new/c.py", "content": "one and one\n"})]
MOVE: list[tuple[str, Any]] = [("move", {"path": "a.py", "to": "new/a.py"})]
REMOVE: list[tuple[str, Any]] = [("remove", {"path": "a.py"})]
OLD, NEW = "one\n", "one and one\n"


def lived(place: pathlib.Path, step: str, turn: list[tuple[str, Any]]) -> int:
    """One life of the process; how it ended."""
    args = [sys.executable, str(TARGET), str(place / "store.db"), str(place / "root"), step, json.dumps(turn)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(args, timeout=120, check=False, capture_output=True, text=True, env=env)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def content(root: pathlib.Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def without_parts(found: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in found.items() if not name.rpartition("/")[2].startswith(".windlass-")}


CASES: list[tuple[list[tuple[str, Any]], str, list[dict[str, str]], dict[str, str]]] = [
    *(
        (EDIT, step, [{"a.py": OLD}, {"a.py": NEW}], {"a.py": NEW})
        for step in (
            "kept:before:1", "kept:after:1", "staged:after:1", "renamed:before:1", "renamed:after:1", "synced:before:2",
            "reported:before:1", "reported:after:1",
        )
    ),
    *(
        (PATCH, step, [{"a.py": a, "b.py": b} for a, b in ((OLD, OLD), (NEW, OLD), (NEW, NEW))], {"a.py": NEW, "b.py": NEW})
        for step in ("staged:after:2", "renamed:after:1", "renamed:after:2")
    ),
    *((MAKE, step, [{}, {"new/c.py": NEW}], {"new/c.py": NEW}) for step in ("renamed:before:1", "renamed:after:1")),
    *((MOVE, step, [{"a.py": OLD}, {"new/a.py": OLD}], {"new/a.py": OLD}) for step in ("moved:before:1", "moved:after:1")),
    *((REMOVE, step, [{"a.py": OLD}, {}], {}) for step in ("renamed:before:1", "renamed:after:1")),
]  # fmt: skip


SHORT = [(EDIT, "staged:after:1"), (EDIT, "renamed:after:1"), (EDIT, "reported:after:1"), (PATCH, "renamed:after:1")]
SHORT += [(MAKE, "renamed:before:1"), (MOVE, "moved:after:1")]


@pytest.mark.parametrize(
    ("turn", "step", "between", "after"),
    [case if case[:2] in SHORT else pytest.param(*case, marks=pytest.mark.long) for case in CASES],
    ids=lambda one: str(one)[:24],
)
async def test_a_change_that_was_killed_is_old_or_new_and_is_then_made_once(tmp_path, turn, step, between, after):
    root = tmp_path / "root"
    root.mkdir()
    for name in between[0]:
        (root / name).write_text(OLD)
    assert lived(tmp_path, step, turn) == -signal.SIGKILL
    assert without_parts(content(root)) in between
    assert lived(tmp_path, "-", turn) == 0
    assert content(root) == after, "with nothing of the first life left beside it"
    store = await open_store(tmp_path / "store.db", look=True)
    try:
        events = list((await read_point(store, Key("default", "the-one"))).events.values())
        before = only(events, FilesKept)[0].body.files
        held = {file.path: await store.blobs.get("default", file.before.digest) for file in before if file.before}
    finally:
        await store.close()
    (finished,), (changed,) = only(events, ToolFinished), only(events, FilesChanged)
    assert finished.ok, finished
    assert len({change.path for change in changed.changes}) == len(changed.changes)
    assert set(held.values()) <= {OLD.encode()}, "what it held can be restored whichever life has changed it"
