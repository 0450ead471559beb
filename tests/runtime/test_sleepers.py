"""Sleepers, as the benchmark has them in thousands: each wakes once, across a restart and a clock that jumps."""

from __future__ import annotations

import pathlib
import shutil

from benchmarks import sleepers

COUNT = 12


async def test_each_sleeper_wakes_once_across_a_restart_and_a_clock_that_jumps(tmp_path: pathlib.Path):
    place = str(tmp_path / "work.db")
    await sleepers.fill(place, COUNT)
    jumped = shutil.copy(place, tmp_path / "jumped.db")
    assert await sleepers.once(place, COUNT, ahead_ms=0) == COUNT, "none wakes before its time"
    assert (await sleepers.restart(place, COUNT)).wrong == 0
    assert await sleepers.once(place, COUNT) == 0
    assert (await sleepers.jump(str(jumped), COUNT)).wrong == 0
    assert await sleepers.once_set_back(str(jumped), COUNT) == 0
