"""Clocks that are far off: they cost time, never a session."""

from __future__ import annotations

import asyncio

from tests.simulator.scenes import KEY, Scene, first, prompt
from windlass.store.base import LEASE_MS_MAX
from windlass.testing.scripted import call, hang

YEAR_MS = 365 * 86_400_000
HOUR_S = 3600.0
LOOKS_S = 10.0
"""How long it takes until a runtime has looked for what nobody drives."""


def test_a_session_of_a_dead_process_whose_clock_was_a_year_ahead_is_taken_up():
    async def story(scene: Scene) -> None:
        one = await scene.runner()
        one.actor.clock_ms = YEAR_MS
        await scene.begin(one)
        two = await scene.runner()
        scene.faults(model_hangs=1.0)
        await scene.send(one, prompt("p1"))
        await asyncio.sleep(2.0)
        scene.crash(one)
        died_s = scene.world.loop.time()
        await asyncio.sleep(LEASE_MS_MAX / 1000 - LOOKS_S)
        assert "session.resumed" not in scene.names(), "its lease was not waited for"
        await scene.until("run.completed", seconds=2 * LOOKS_S)
        assert scene.world.loop.time() - died_s <= LEASE_MS_MAX / 1000 + LOOKS_S
        held = await scene.world.disk.kept.leases.holder(KEY, now_ms=two.runtime.ports.now_ms())
        assert held is not None
        assert held.runner == two.runtime.runner

    Scene(answer=first([hang()], then="done")).play(story)


def test_a_timer_set_under_a_clock_a_year_ahead_fires_when_its_time_has_passed():
    async def story(scene: Scene) -> None:
        one = await scene.runner()
        one.actor.clock_ms = YEAR_MS
        await scene.begin(one)
        await scene.send(one, prompt("p1"))
        await scene.until("run.slept")
        slept_s = scene.world.loop.time()
        scene.crash(one)
        await scene.runner()
        await scene.until("timer.fired", seconds=2 * HOUR_S)
        passed_s = scene.world.loop.time() - slept_s
        # The lease of the dead is believed for a while, and what has passed until then is not known to anybody.
        assert HOUR_S <= passed_s <= HOUR_S + LEASE_MS_MAX / 1000 + LOOKS_S

    Scene(call("wait", for_ms=int(HOUR_S * 1000)), "asleep", "awake", tools=["wait"]).play(story)


def test_a_clock_set_back_by_a_year_delays_no_timer_of_a_process_that_lives():
    async def story(scene: Scene) -> None:
        one = await scene.runner()
        await scene.begin(one)
        await scene.send(one, prompt("p1"))
        await scene.until("run.slept")
        slept_s = scene.world.loop.time()
        one.actor.clock_ms = -YEAR_MS
        await scene.until("timer.fired", seconds=2 * HOUR_S)
        assert HOUR_S - 1 <= scene.world.loop.time() - slept_s <= HOUR_S + LOOKS_S

    Scene(call("wait", for_ms=int(HOUR_S * 1000)), "asleep", "awake", tools=["wait"]).play(story)
