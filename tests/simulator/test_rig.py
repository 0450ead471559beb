"""The rig itself: one seed is one course of things, time is a number, the dead stay dead, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.simulator.scenes import KEY, Scene, prompt
from windlass.cli.main import main
from windlass.testing.scripted import call
from windlass.testing.simulator import SimFailure, simulate
from windlass.testing.simulator.chance import CALM, Chance
from windlass.testing.simulator.loop import Actor, SimLoop, Stuck

SEEDS = (3, 11, 42)
VERSION_SEEDS = 6
DIGEST = """
import hashlib
from windlass.testing.simulator import simulate
for seed in {seeds}:
    print(hashlib.sha256("\\n".join(simulate(seed, trace=True).trace).encode()).hexdigest())
"""


def digests() -> list[str]:
    return [hashlib.sha256("\n".join(simulate(seed, trace=True).trace).encode()).hexdigest() for seed in SEEDS]


def test_a_seed_is_the_same_course_of_things_in_every_process():
    here = digests()
    assert here == digests()
    assert len(set(here)) == len(SEEDS)
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", DIGEST.format(seeds=SEEDS)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == here


@pytest.mark.parametrize("kind", ["plain", "flows"])
def test_nothing_waits_in_a_way_that_takes_other_passes_of_the_loop_in_another_version_of_python(kind, monkeypatch):
    gathers, found = asyncio.gather, set[str]()

    async def wait_for(work: Any, timeout: float | None) -> Any:
        found.add("wait_for makes a task in 3.11")
        async with asyncio.timeout(timeout):
            return await work

    def gather(*works: Any, **more: Any) -> Any:
        if any(isinstance(work, asyncio.Future) and work.done() for work in works):
            found.add("gather takes no pass in 3.13 for what has ended")
        return gathers(*works, **more)

    monkeypatch.setattr(asyncio, "wait_for", wait_for)
    monkeypatch.setattr(asyncio, "gather", gather)
    for seed in range(VERSION_SEEDS):
        simulate(seed, kind=kind)
    assert found == set()


def test_a_failure_names_the_version_of_python_that_its_world_ran_in(monkeypatch):
    monkeypatch.setattr(SimLoop, "_run_once", lambda loop: (_ for _ in ()).throw(Stuck("planted")))
    with pytest.raises(SimFailure, match=rf"windlass sim 3 --trace \(Python {re.escape(platform.python_version())}\)"):
        simulate(3)


def test_safety_mode_ends_with_the_trouble():
    assert simulate(5, mode="safety").seconds < simulate(5).seconds


def test_rates_differ_from_world_to_world():
    rates = [Chance(seed).rates() for seed in range(50)]
    assert len(set(map(str, rates))) == 50
    assert any(rate.crash_any == 0.0 for rate in rates)
    assert any(rate.crash_any > 0.0 for rate in rates)
    assert CALM.crash_any == 0.0


def loop_of(shuffles: bool = False) -> SimLoop:
    return SimLoop(Chance(1), shuffles=shuffles)


def finish(loop: SimLoop, work) -> None:
    task = loop.create_task(work)
    task.add_done_callback(lambda done: loop.stop())
    try:
        loop.run_forever()
        task.result()
    finally:
        loop.take_apart()


def test_time_passes_only_where_nothing_else_can_happen():
    loop = loop_of()

    async def sleeps() -> None:
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(7200))
        assert loop.time() == 7200.0

    finish(loop, sleeps())


def test_a_wait_that_nothing_can_end_is_found():
    async def waits() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck, match="waits in"):
        finish(loop_of(), waits())


def test_a_spin_is_found():
    async def spins() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="spins"):
        finish(loop_of(), spins())


def test_the_dead_run_no_more_not_even_to_clean_up():
    loop, told, actor = loop_of(), [], Actor("mortal")

    async def mortal() -> None:
        try:
            await asyncio.sleep(1)
            told.append("went on")
        finally:
            told.append("cleaned up")

    async def watches() -> None:
        loop.start(mortal(), actor, "mortal")
        await asyncio.sleep(0.5)
        actor.dead = True
        await asyncio.sleep(5)
        assert told == []

    finish(loop, watches())


def test_a_stalled_actor_goes_on_where_it_stood():
    loop, told, actor = loop_of(), [], Actor("slow")

    async def slow() -> None:
        await asyncio.sleep(1)
        told.append(loop.time())

    async def watches() -> None:
        loop.start(slow(), actor, "slow")
        actor.stalled = True
        await asyncio.sleep(5)
        assert told == []
        loop.resume(actor)
        await asyncio.sleep(2)
        assert told == [6.0]

    finish(loop, watches())


def test_the_order_of_what_is_ready_is_the_seeds():
    def order(seed: int) -> list[int]:
        loop, told = SimLoop(Chance(seed), shuffles=True), []

        async def says(number: int) -> None:
            told.append(number)

        async def all_at_once() -> None:
            await asyncio.gather(*(says(number) for number in range(8)))

        finish(loop, all_at_once())
        return told

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(20)}) > 10


def test_a_broken_rule_names_the_seed_and_the_command_that_repeats_it():
    async def story(scene: Scene) -> None:
        runner = await scene.runner()
        await scene.begin(runner)
        scene.world.watch.effects.done.update({(KEY.session, f"c{seq}.0"): 1 for seq in range(20)})
        await scene.send(runner, prompt("p1"))
        await asyncio.sleep(10.0)

    with pytest.raises(SimFailure, match=r"at most once.*\n.*windlass sim 0 .*--trace"):
        Scene([call("pay", n=1)], "done").play(story)


def test_a_seed_runs_from_the_shell(capsys):
    assert main(["sim", "3", "--trace"]) == 0
    told = capsys.readouterr().out
    assert "seed 3: no rule broken" in told
    assert "session.started" in told
    assert main(["sim", "3", "--seeds", "2", "--steps", "200", "--mode", "safety"]) == 0
    assert capsys.readouterr().out.count("no rule broken") == 2
    assert main(["sim", "three"]) == 2
