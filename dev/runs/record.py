"""Plays the runs and keeps what they leave: `python -m dev.runs.record [NAME…]`."""

from __future__ import annotations

import asyncio
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import msgspec
from dev import evidence

from . import (
    context,
    edges,
    faults,
    files,
    flow,
    hooks,
    jobs,
    limits,
    lives,
    machines,
    marks,
    mcp,
    people,
    refusals,
    replies,
    skills,
    tools,
    trees,
    web,
    workflows,
    worktrees,
)
from .stage import Play, Stage

NEUTRAL = pathlib.Path(tempfile.gettempdir()) / "windlass-runs"
MARK = "WINDLASS_RUNS_NEUTRAL"
SCENARIOS: dict[str, Play] = {
    **replies.SCENARIOS,
    **people.SCENARIOS,
    **tools.SCENARIOS,
    **files.SCENARIOS,
    **context.SCENARIOS,
    **flow.SCENARIOS,
    **limits.SCENARIOS,
    **hooks.SCENARIOS,
    **faults.SCENARIOS,
    **lives.SCENARIOS,
    **refusals.SCENARIOS,
    **edges.SCENARIOS,
    **marks.SCENARIOS,
    **web.SCENARIOS,
    **jobs.SCENARIOS,
    **skills.SCENARIOS,
    **trees.SCENARIOS,
    **mcp.SCENARIOS,
    **workflows.SCENARIOS,
    **worktrees.SCENARIOS,
    **machines.SCENARIOS,
}
"""Every run by its name; one run may leave the logs of several sessions."""


async def play(name: str, folder: pathlib.Path) -> Stage:
    """Plays one run in a folder of its own."""
    stage = Stage(folder / name)
    async with asyncio.timeout(60):
        await SCENARIOS[name](stage)
    return stage


def main(names: list[str]) -> int:
    raised: list[evidence.Raised] = []
    failed = 0
    for name in names or list(SCENARIOS):
        try:
            stage = asyncio.run(play(name, NEUTRAL / "stage"))
        except Exception as error:
            failed += 1
            print(f"{name}: {type(error).__name__}: {error}")
            continue
        stage.keep(evidence.FOLDER)
        raised += stage.raised
        print(f"{name}: {', '.join(sorted(stage.logs)) or 'no log'}")
    keep_raised(raised)
    return min(failed, 1)


def keep_raised(raised: list[evidence.Raised]) -> None:
    """Keeps what callers were refused with; of runs that were not played, what is there."""
    path = evidence.FOLDER / f"{evidence.RAISED}.jsonl"
    kept = [msgspec.json.decode(line, type=evidence.Raised) for line in path.read_bytes().splitlines()]
    again = {each.did for each in raised}
    found = [each for each in kept if each.did not in again] + raised
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in sorted(found, key=lambda each: each.did)))


def elsewhere(names: list[str]) -> int:
    """Plays the runs from a folder whose name says nothing of this machine, since logs hold paths."""
    shutil.rmtree(NEUTRAL, ignore_errors=True)
    NEUTRAL.mkdir()
    for name in ("dev", "src", "tests"):
        (NEUTRAL / name).symlink_to(evidence.ROOT / name)
    more = {"PYTHONPATH": f"{NEUTRAL / 'src'}{os.pathsep}{NEUTRAL}", MARK: "1"}
    try:
        return subprocess.run(
            [sys.executable, "-m", "dev.runs.record", *names], cwd=NEUTRAL, env=os.environ | more, check=False
        ).returncode
    finally:
        shutil.rmtree(NEUTRAL, ignore_errors=True)


if __name__ == "__main__":
    sys.exit((main if MARK in os.environ else elsewhere)(sys.argv[1:]))
