"""A slow-down is seen: what a turn costs, in things that can be counted, and against a loop written by hand.

The bounds are generous, and are no aims: `benchmarks/` has those. What is counted is the same on a busy machine, and
the two sides of the ratio take turns in one process.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from benchmarks import opening
from benchmarks.counting import UNWATCHED_MS, Counter
from benchmarks.reply_server import serving
from benchmarks.sides import SHORT_RESULT, Bare, Meter, bare_at, session_of

import windlass
from windlass.store.sqlite import append_row, log
from windlass.testing import ScriptedModel
from windlass.testing.scripted import hang

PASSES_MAX = 6
"""Passes of the event loop for each turn: four without anybody else at work."""
STATEMENTS_MAX = 9
"""Two appends of four statements, and now and then a look at the store."""
CALLS_MAX = 1_800
"""Calls of Python functions for each turn, aiohttp's and those of a reader of all deltas included."""
RATIO_MAX = 4.0
"""CPU of a turn against that of the loop that streams."""
TRACKED_MAX = 170
"""Objects that the garbage collector must go through for each session that waits for a model."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as found:
        yield found


async def test_a_turn_takes_few_passes_statements_and_calls(port: int, tmp_path: Path):
    counter = Counter()
    with counter.counting():
        await session_of(str(tmp_path), port, 20, counter, poll_ms=UNWATCHED_MS)
    found = counter.per_turn(5, 19)
    assert found.passes <= PASSES_MAX
    assert found.statements <= STATEMENTS_MAX
    assert found.calls <= CALLS_MAX


async def test_a_turn_costs_no_more_than_a_few_times_that_of_a_loop_written_by_hand(port: int, tmp_path: Path):
    ratios = []
    for number in range(3):
        place = tmp_path / str(number)
        place.mkdir()
        theirs, ours = Meter(SHORT_RESULT), Meter(SHORT_RESULT)
        gc.collect()
        await bare_at(str(place), port, 20, "normal", lambda loop, meter=theirs: loop.run("s", meter), Bare)  # type: ignore[misc]
        gc.collect()
        await session_of(str(place), port, 20, ours)
        ratios.append(ours.per_turn(5, 19) / theirs.per_turn(5, 19))
    assert statistics.median(ratios) <= RATIO_MAX


FIRST = """
import asyncio, sys
import windlass
from windlass.events.stored.codec import decoders
from windlass.testing import ScriptedModel

async def main():
    assert not {"aiohttp", "apsw", "jsonschema_rs"} & sys.modules.keys()
    agent = windlass.Agent("worker", model=ScriptedModel(["hello"]))
    async with windlass.open(sys.argv[1], agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        async for event in session.prompt("hi"):
            pass
    assert "aiohttp" not in sys.modules
    print(sorted(vars(decoders)))

asyncio.run(main())
"""


def test_a_process_that_begins_a_session_builds_no_decoder_of_the_whole_vocabulary(tmp_path: Path):
    command = [sys.executable, "-c", FIRST, str(tmp_path / "s.db")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout.strip()) == (0, "[]"), run.stderr


async def test_a_session_that_waits_is_few_objects_to_the_collector(tmp_path: Path):
    model = ScriptedModel([hang()] * 60)
    agent = windlass.Agent("worker", model=model)
    async with windlass.open(str(tmp_path / "s.db"), agents=[agent], durability="normal") as runtime:
        counts = []
        for first, last in ((0, 10), (10, 60)):
            for number in range(first, last):
                await (await runtime.session(agent, f"s{number}")).prompt("go")
            while len(model.requests) < last:
                await asyncio.sleep(0)
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert (counts[1] - counts[0]) / 50 <= TRACKED_MAX


CHECKED_MORE_BYTES_MAX = 256
"""Beside what a row holds, the hashes before and behind it are summed as well."""
CHECK_CALLS_MAX = 4
"""Calls of functions for each row that is read, all that makes an append of it included."""


async def test_what_an_opening_reads_is_checked_once_and_with_few_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = str(tmp_path / "s.db")
    await opening.kept(path, turns=50)
    rows: list[int] = []
    summed: list[int] = []
    calls = 0

    def counted_row(key: Any, row: Any, *given: Any) -> Any:
        rows.append(len(row[5]))  # its data
        sys.setprofile(called)
        try:
            return append_row.sealed_of(key, row, *given)
        finally:
            sys.setprofile(None)

    def counted_sum(data: bytes, *given: int) -> int:
        if sys.getprofile() is called:  # not what is written meanwhile
            summed.append(len(data))
        return crc32(data, *given)

    def called(_: Any, event: str, __: Any) -> None:
        nonlocal calls
        calls += event == "call"

    async with opening.before_opening(path, "whole") as (runtime, agent):
        monkeypatch.setattr(log, "sealed_of", counted_row)
        monkeypatch.setattr(append_row, "crc32", counted_sum)
        await (await runtime.session(agent, opening.SESSION)).set_title("ready")
    assert len(rows) > 50
    assert sum(summed) <= sum(rows) + CHECKED_MORE_BYTES_MAX * len(rows)
    assert calls <= (CHECK_CALLS_MAX + 2) * len(rows), "two of them are the counting itself"
