"""Kills of a real process at every named point and at random times; the work goes on, and nothing is done twice.

A failure prints the seed. `WINDLASS_SEED=n` repeats a campaign, `WINDLASS_CRASH_KILLS=n` makes it longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from windlass.events.turns import ModelReplied
from windlass.testing.kill_rig import KillRig, Life
from windlass.testing.model_server import ModelServer, by_turn, call, calls, say

from . import crash_oracle
from .crash_target import POINTS, SCENARIOS
from .serving import prefixes_broken

KILLS = int(os.environ.get("WINDLASS_CRASH_KILLS", "520"))
SHARE_RANDOM = 0.25
RANDOM_WINDOW_US = 60_000
TARGET = "tests.runtime.crash_target:live"
SEED = int(os.environ.get("WINDLASS_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)

EVERYWHERE = {"began", "before_append", "after_append", "before_model", "request_sent", "in_stream", "after_model"}
"""Points that every scenario passes; each must have been hit in each."""

REACHED = {
    "tools": {"before_tool", "effect_done", "after_tool"},
    "compaction": {"before_snapshot"},
    "fork": {"before_fork", "after_fork"},
}
"""Points that only some scenarios pass; each must have been hit there."""


class Campaign:
    """All the lives of one campaign, with what they came to."""

    def __init__(self, rig: KillRig, folder: str) -> None:
        self.rig = rig
        self.folder = folder
        self.dice = random.Random(SEED)
        self.kills = 0
        self.spread: Counter[tuple[str, str]] = Counter()
        self.number = 0
        self.calm: dict[str, crash_oracle.Story] = {}
        self.points: dict[str, int] = {}
        self.given: dict[str, str] = {}

    def place(self) -> str:
        self.number += 1
        place = os.path.join(self.folder, str(self.number))
        os.mkdir(place)
        return place

    def life(self, place: str, scenario: str, **end: Any) -> Life:
        life = self.rig.run({"place": place, "scenario": scenario, **self.given}, **end)
        if life.killed:
            self.kills += 1
            self.spread[scenario, POINTS[life.mark]] += 1
        return life

    def live_calmly(self, scenario: str) -> None:
        """The uninterrupted run that the others are compared with."""
        place = self.place()
        life = self.life(place, scenario)
        assert not life.killed
        self.calm[scenario] = crash_oracle.read(place)
        self.points[scenario] = life.points
        crash_oracle.check(self.calm[scenario], self.calm[scenario], 0)

    def sweep(self, scenario: str) -> None:
        """A case for each crash point."""
        for point in range(1, self.points[scenario] + 1):
            self.case(scenario, point)

    def case(self, scenario: str, first: int | None) -> None:
        """Work that dies at a point (or any time), dies again perhaps, and is finished."""
        place = self.place()
        before = self.kills
        ends = [self._end(scenario, first)]
        if self.dice.random() < 0.7:
            ends.append(self._end(scenario, None))
        where = f"seed {SEED}, case {self.number} ({scenario}): {ends}"
        try:
            for end in ends:
                self.life(place, scenario, **end)
                crash_oracle.check_cut(place)
            assert not self.life(place, scenario).killed
            story = crash_oracle.read(place)
            crash_oracle.check(story, self.calm[scenario], self.kills - before)
            if scenario == "fork":
                crash_oracle.check_fork(crash_oracle.read(place, "branch"))
        except Exception as error:
            raise AssertionError(f"{where}: {error}") from error
        shutil.rmtree(place)

    def _end(self, scenario: str, point: int | None) -> dict[str, Any]:
        if point is not None:
            return {"at_point": point}
        if self.dice.random() < SHARE_RANDOM:
            return {"after_us": self.dice.randrange(RANDOM_WINDOW_US)}
        return {"at_point": self.dice.randrange(1, self.points[scenario] + 1)}


@pytest.fixture(scope="module")
def campaign() -> Iterator[Campaign]:
    shared = "/dev/shm"
    folder = tempfile.mkdtemp(dir=shared if os.access(shared, os.W_OK) else None)
    try:
        with KillRig(TARGET, seed=SEED) as rig:
            yield Campaign(rig, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_work_survives_a_kill_at_every_point(campaign, scenario):
    """Every crash point of the scenario once as the first death, the second one wherever the seed says, and then
    random ones until there were enough kills."""
    before = campaign.kills
    campaign.live_calmly(scenario)
    campaign.sweep(scenario)
    while campaign.kills - before < KILLS / len(SCENARIOS):
        campaign.case(scenario, None)
    print(f"seed {SEED}: {campaign.kills - before} kills in {campaign.number} cases")
    hit = Counter({point: count for (name, point), count in campaign.spread.items() if name == scenario})
    for point, count in sorted(hit.items()):
        print(f"  {point:16} {count}")
    missing = (EVERYWHERE | REACHED.get(scenario, set())) - set(hit)
    assert not missing, f"never killed at {sorted(missing)}"


PLANTS = ("runs_again", "pays_for_all_again", "forgets_the_id", "acknowledges_early")


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(campaign, plant):
    """A rig that stays green whatever happens would prove nothing."""
    campaign.given = {}
    campaign.live_calmly("tools")
    campaign.given = {"plant": plant}
    try:
        with pytest.raises(AssertionError, match="seed"):
            campaign.sweep("tools")
    finally:
        campaign.given = {}


HTTP_KILLS = 40
HTTP_WINDOW_US = 120_000


def test_work_survives_kills_at_random_times_over_real_http(campaign):
    """The same with a real server behind a real socket, which counts what was asked of it."""
    turns = [call("look", {"name": "a"}), calls(("put", {"name": "b"}), ("pay", {"name": "c"})), say("all is done")]
    with served(by_turn(turns)) as server:
        campaign.given = {"url": server.url("openai")}
        try:
            before = campaign.kills
            campaign.live_calmly("tools")
            asked = len(server.requests)
            while campaign.kills - before < HTTP_KILLS:
                place, kills = campaign.place(), campaign.kills
                for _ in range(campaign.dice.randrange(1, 4)):
                    campaign.life(place, "tools", after_us=campaign.dice.randrange(HTTP_WINDOW_US))
                campaign.life(place, "tools")
                story = crash_oracle.read(place)
                crash_oracle.same_transcript(story, campaign.calm["tools"])
                crash_oracle.effects_by_contract(story)
                crash_oracle.acknowledged_is_kept(story)
                assert prefixes_broken(list(server.requests)[asked:]) == [], f"seed {SEED}"
                more, asked = len(server.requests) - asked, len(server.requests)
                replies = story.count(ModelReplied)
                assert more <= replies + campaign.kills - kills, f"seed {SEED}: {more} requests, {replies} replies"
            assert server.refusals == []
        finally:
            campaign.given = {}


@contextlib.contextmanager
def served(script: Any) -> Iterator[ModelServer]:
    """A model server on a thread of its own, since the children must reach it while this process waits for them."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def made() -> ModelServer:
        return await ModelServer(script=script).start()

    server = asyncio.run_coroutine_threadsafe(made(), loop).result(120)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(120)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(120)
        loop.close()
