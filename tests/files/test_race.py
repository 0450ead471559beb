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

import pytest

from windlass.tools.context import ToolError

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
