"""Kills of a real process at every point of a job's way, and at random times: the job is started once, its end is told
once, its output is whole, and nothing is left of one that never came to be on record.

A failure prints the seed. `WINDLASS_SEED=n` repeats a campaign."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.jobs.crash_target import POINTS
from windlass.events.base import Event
from windlass.events.tools.calls import ToolOutcomeUnknown
from windlass.events.tools.jobs import JobFinished, JobStarted
from windlass.runtime.operate.log_point import read_point
from windlass.runtime.operate.verification import verify_session
from windlass.store import open_store
from windlass.store.base import Key
from windlass.testing.kill_rig import KillRig

SEED = int(os.environ.get("WINDLASS_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
TARGET = "tests.jobs.crash_target:live"
KILLS, KILLS_LONG = 50, 300
RANDOM_WINDOW_US = 250_000
GONE_S = 60.0


class Campaign:
    """All the lives of one campaign, with what they came to."""

    def __init__(self, rig: KillRig, folder: str) -> None:
        self.rig = rig
        self.folder = folder
        self.dice = random.Random(SEED)
        self.number = 0
        self.kills = 0
        self.points = 0
        self.spread: Counter[str] = Counter()
        self.came_to: Counter[str] = Counter()

    def case(self, *ends: dict[str, Any], plant: str = "") -> None:
        """Work that dies so often, and is finished."""
        self.number += 1
        place = os.path.join(self.folder, f"case{SEED}-{self.number}")
        os.mkdir(place)
        for end in (*ends, {}):
            life = self.rig.run({"place": place, "plant": plant}, **end)
            self.kills += life.killed
            if life.killed:
                self.spread[POINTS[life.mark]] += 1
            elif not end:
                self.points = self.points or life.points
        try:
            self.came_to[check(place)] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {SEED}, case {self.number}: {ends}: {error}") from error
        shutil.rmtree(place)

    def end(self) -> dict[str, Any]:
        if self.dice.random() < 0.5:
            return {"after_us": self.dice.randrange(RANDOM_WINDOW_US)}
        return {"at_point": self.dice.randrange(1, self.points + 1)}


def check(place: str) -> str:
    """What must hold of work that is finished; how it came out."""
    log = asyncio.run(events_in(os.path.join(place, "work.db")))
    starts = [event for event in log if isinstance(event, JobStarted)]
    ends = [event for event in log if isinstance(event, JobFinished)]
    began = os.path.join(place, "starts")
    times = len(read(began).splitlines()) if os.path.exists(began) else 0
    assert times <= 1, f"the command ran {times} times"
    assert len(starts) <= 1
    assert [event.job_id for event in starts] == [event.job_id for event in ends], "each job has one end"
    for event in ends:
        assert event.body is not None
        text = msgspec.to_builtins(event.body.content)[0]["text"]
        assert (event.status, event.exit_code, text) == ("completed", 0, "one\ntwo\n"), (event.status, text)
    nothing_left(os.path.basename(place))
    if starts:
        return "told"
    assert any(isinstance(event, ToolOutcomeUnknown) for event in log), "the model does not know of it"
    return "unknown"


async def events_in(path: str) -> list[Event]:
    store = await open_store(path, look=True)
    try:
        key = Key("default", "s")
        found = await verify_session(store, key)
        assert not found.problems, found.problems
        point = await read_point(store, key)
        return list(point.events.values())
    finally:
        await store.close()


def nothing_left(mark: str) -> None:
    """No process of the case is there, after a moment."""
    deadline = time.monotonic() + GONE_S
    while left := [
        pid for pid in os.listdir("/proc") if pid.isdigit() and f": {mark};" in read(f"/proc/{pid}/cmdline")
    ]:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.02)


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


@pytest.fixture
def campaign() -> Iterator[Campaign]:
    folder = tempfile.mkdtemp()
    try:
        with KillRig(TARGET, seed=SEED) as rig:
            yield Campaign(rig, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def killed_so_often(campaign: Campaign, kills: int) -> None:
    campaign.case()
    step = max(1, campaign.points * 2 // kills)
    for point in range(1, campaign.points + 1, step):
        campaign.case({"at_point": point})
    while campaign.kills < kills:
        campaign.case(*(campaign.end() for _ in range(1 + campaign.dice.randrange(3))))
    print(f"seed {SEED}: {campaign.kills} kills, {dict(campaign.spread)}, {dict(campaign.came_to)}")
    assert campaign.came_to["told"] > 1, "no job was found again"
    assert campaign.came_to["unknown"], "no job died before it was on record"


def test_jobs_survive_kills_of_their_runtime(campaign):
    killed_so_often(campaign, KILLS)


@pytest.mark.long
def test_jobs_survive_many_kills_of_their_runtime(campaign):
    killed_so_often(campaign, KILLS_LONG)


def test_a_job_that_is_started_twice_is_noticed(campaign):
    with pytest.raises(AssertionError, match="2 times"):
        campaign.case(plant="starts_again")
