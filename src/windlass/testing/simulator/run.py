"""Running one seed: builds its world, lets it go, and says what was found and how to repeat it."""

from __future__ import annotations

import asyncio
import gc
import platform
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Literal

import msgspec

from .loop import Stuck
from .world import Kind, World

STEPS_MIN = 200
Mode = Literal["safety", "liveness"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one seed did."""

    seed: int
    steps: int
    runs: int
    crashes: int
    appends: int
    seconds: float
    """Of simulated time."""
    places: Counter[str]
    trace: list[str] = []


class SimFailure(AssertionError):
    """A rule was broken. Says which, and the command that repeats it."""

    def __init__(self, world: World, mode: Mode, error: BaseException) -> None:
        more = "" if world.steps_wanted == STEPS_MIN else f" --steps {world.steps_wanted}"
        more += "" if world.kind == "plain" else f" --{world.kind}"
        more += " --mode safety" if mode == "safety" else ""
        super().__init__(
            f"seed {world.seed}, step {world.steps}, {world.loop.time():.3f} s: {type(error).__name__}: {error}\n"
            f"repeat it with: windlass sim {world.seed}{more} --trace (Python {platform.python_version()})"
        )
        self.seed = world.seed
        self.trace = world.lines
        self.rule = getattr(error, "rule", type(error).__name__)


def simulate(
    seed: int, *, steps: int = STEPS_MIN, mode: Mode = "liveness", trace: bool = False, kind: Kind = "plain"
) -> Finding:
    """Lives through the world of one seed: `steps` acts with faults, and in `liveness` mode then a time without any,
    in which everything that is owed must come to its end. `kind` says what its sessions do: in `trees` they have others
    work for them, in `flows` they carry out workflows, in `machines` they go through state machines. Raises
    `SimFailure` if a rule is broken."""
    world = World(seed, steps=steps, tracing=trace, kind=kind)
    error = live(world, world.main(settles=mode == "liveness"))
    if error is not None:
        raise SimFailure(world, mode, error) from error
    return Finding(
        seed=seed,
        steps=world.steps,
        runs=world.runs,
        crashes=world.crashes,
        appends=world.watch.appends,
        seconds=world.loop.time(),
        places=world.places,
        trace=world.lines,
    )


def live(world: World, story: Coroutine[Any, Any, None]) -> BaseException | None:
    """Lets a story happen in a world and takes the world apart. What went wrong, if anything did."""
    loop = world.loop
    collecting = gc.isenabled()
    gc.disable()  # when a cycle is collected must not depend on what ran before
    main = loop.start(story, world.outside, "main")
    main.add_done_callback(lambda done: loop.stop())
    try:
        loop.run_forever()
    except Stuck as error:
        world.fail(error)
    finally:
        asyncio.set_event_loop(None)
        loop.take_apart()
        if collecting:
            gc.enable()
    raised = main.exception() if main.done() and not main.cancelled() else None
    return world.failure or raised
