"""Sleepers, as the benchmark has them in thousands: each wakes once, across a restart and a clock that jumps."""

from __future__ import annotations

import pathlib

from benchmarks import sleepers

COUNT = 12


async def test_each_sleeper_wakes_once_across_a_restart_and_a_clock_that_jumps(tmp_path: pathlib.Path):
    place = str(tmp_path / "work.db")
    await sleepers.fill(place, COUNT)
    assert await sleepers.once(place, COUNT, ahead_ms=0) == COUNT, "none wakes before its time"
    await sleepers.wake(place, COUNT)
    assert await sleepers.once(place, COUNT) == 0
