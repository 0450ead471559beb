"""A file, a directory and a link change places as fast as another process can swap them, while the tools read.

The same rig is tried on a reader that checks and then opens, and must catch it: else its silence would prove nothing."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from windlass.tools.context import ToolError
from windlass.tools.files import WRITE_TOOLS

from .bench import MEANS, SECRET, Bench

TRIES = 20_000
PLANTED_TRIES_MAX = 200_000

SWAPPER = """
import ctypes, os, sys
exchange = ctypes.CDLL(None, use_errno=True).renameat2
os.chdir(sys.argv[1])
print("ready", flush=True)
turn = 0
while True:
    # The good one and the bad one change places in one step, so that there is always something to open.
    exchange(-100, b"file.txt", -100, b"../spare/file.txt", 2)
    exchange(-100, b"folder", -100, b"../spare/folder", 2)
    turn += 1
"""


@contextlib.contextmanager
def swapping(bench: Bench) -> Iterator[None]:
    """`file.txt` and `folder` of the root are, by turns, harmless and links to secrets outside."""
    bench.write("file.txt", "harmless")
    bench.write("folder/inner.txt", "harmless")
    spare, outside = bench.place / "spare", bench.place / "outside"
    for made in (spare, outside):
        made.mkdir()
    (outside / "inner.txt").write_text(SECRET)
    (outside / "file.txt").write_text(SECRET)
    (spare / "file.txt").symlink_to("../outside/file.txt")
    (spare / "folder").symlink_to("../outside")
    with subprocess.Popen([sys.executable, "-c", SWAPPER, bench.root], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            process.kill()


def outcome(bench: Bench, tool: str, args: dict[str, str]) -> str:
    """Which of its two faces a path showed."""
    try:
        said = bench.bare(tool, **args)
    except ToolError as error:
        said = error.told
    assert SECRET not in said, f"{tool} {args}"
    return "harmless" if "harmless" in said else "refused"


WAYS: list[tuple[str, dict[str, str], int]] = [
    ("read", {"path": "file.txt"}, TRIES),
    ("read", {"path": "folder/inner.txt"}, TRIES // 2),
    ("grep", {"pattern": "secret|harmless", "path": "folder"}, TRIES // 8),
    ("grep", {"pattern": "secret|harmless"}, TRIES // 20),
]


LONG_WAYS = [(tool, args, 10 * tries) for tool, args, tries in WAYS]


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize(
    ("tool", "args", "tries"), [*WAYS, *(pytest.param(*way, marks=pytest.mark.long) for way in LONG_WAYS)], ids=str
)
def test_swapping_links_never_lets_a_reader_out(tmp_path, means, tool, args, tries):
    bench = Bench(tmp_path, means=means, gitignore=False)
    with swapping(bench):
        seen = Counter(outcome(bench, tool, args) for _ in range(tries))
    assert seen["harmless"] + seen["refused"] == tries
    assert min(seen["harmless"], seen["refused"]) > tries // 1_000, f"the swapper hardly got a turn: {seen}"


def test_the_rig_catches_a_reader_that_checks_and_then_opens(tmp_path):
    bench = Bench(tmp_path)

    def naive(path: pathlib.Path) -> str:
        try:
            if not os.path.realpath(path).startswith(str(bench.root) + os.sep):
                return "refused"
            return path.read_text()
        except OSError:
            return "the file changed its kind under the check itself"

    with swapping(bench):
        for _ in range(PLANTED_TRIES_MAX):
            if SECRET in naive(bench.root / "file.txt"):
                return
    pytest.fail(f"not once in {PLANTED_TRIES_MAX:,} tries")


# --- writing ---

WRITE_TRIES = 1_000
WRITE_WAYS: list[tuple[str, dict[str, Any]]] = [
    ("write", {"path": "folder/new.txt", "content": "written"}),
    ("edit", {"path": "file.txt", "old": "harmless", "new": "harmless!"}),
    ("edit", {"path": "folder/inner.txt", "old": "harmless", "new": "harmless!"}),
    ("move", {"path": "mine.txt", "to": "folder/mine.txt"}),
    ("remove", {"path": "folder/inner.txt"}),
    ("make_directory", {"path": "folder/made"}),
]


def written(bench: Bench, tool: str, args: dict[str, Any]) -> str:
    """What came of one attempt; what it made is put back for the next one."""
    try:
        bench.bare(tool, **args)
    except ToolError as error:
        return error.code or "refused"
    for place in ("root/folder", "spare/folder"):  # wherever the harmless one is just now
        with contextlib.suppress(OSError):
            for name in ("new.txt", "mine.txt"):
                os.unlink(bench.place / place / name)
        with contextlib.suppress(OSError):
            os.rmdir(bench.place / place / "made")
    return "written"


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize("tries", [WRITE_TRIES, pytest.param(100_000, marks=pytest.mark.long)])
def test_swapping_links_never_lets_a_writer_out(tmp_path, monkeypatch, means, tries):
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # it would only make the tries slow
    bench = Bench(tmp_path, means=means, gitignore=False, names=("read", *WRITE_TOOLS))
    seen: Counter[str] = Counter()
    with swapping(bench):
        for turn in range(tries):
            tool, args = WRITE_WAYS[turn % len(WRITE_WAYS)]
            if tool == "move":
                (bench.root / "mine.txt").write_text("mine")
            seen[written(bench, tool, args)] += 1
            if tool == "remove":
                with contextlib.suppress(OSError):
                    (bench.place / "spare/folder/inner.txt").write_text(SECRET)
    outside = bench.place / "outside"
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"inner.txt": SECRET, "file.txt": SECRET}
    assert min(seen["written"], seen["is_a_link"]) > tries // 1_000, f"the swapper hardly got a turn: {seen}"


def test_the_rig_catches_a_writer_that_checks_and_then_writes(tmp_path):
    bench = Bench(tmp_path)
    with swapping(bench):
        for _ in range(PLANTED_TRIES_MAX):
            path = bench.root / "folder/new.txt"
            with contextlib.suppress(OSError):
                if os.path.realpath(path).startswith(str(bench.root) + os.sep):
                    path.write_text("escaped")
            if (bench.place / "outside/new.txt").exists():
                return
    pytest.fail(f"not once in {PLANTED_TRIES_MAX:,} tries")
