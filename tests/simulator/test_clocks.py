"""Clocks that are far off: they cost time, never a session."""

from __future__ import annotations

import asyncio

from tests.simulator.scenes import KEY, Scene, first, prompt
from windlass.store.base import LEASE_MS_MAX
from windlass.testing.scripted import hang

YEAR_MS = 365 * 86_400_000
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
        held = await scene.world.disk.holder(KEY, now_ms=two.runtime.ports.now_ms())
        assert held is not None
        assert held.runner == two.runtime.runner

    Scene(answer=first([hang()], then="done")).play(story)
