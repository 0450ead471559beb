"""Hooks of the simulated agent: they look on, stop, change, fail, and take longer than they may.

They are made anew for each world; which world a hook is asked in is known from the actor that asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from windlass.events.hooks import HookPoint
from windlass.runtime.hooks.hook import Allowed, Changed, Denied, Hook, Moment, Said
from windlass.runtime.hooks.judge import judge_guard

from .chance import Chance
from .loop import ACTOR

TIMEOUT_MS = 2_000
SLOW_MS = (20, 900, 1_900, 30_000)
"""The last is longer than any hook may take."""

GUARDS: tuple[HookPoint, ...] = (
    "prompt",
    "before_model",
    "after_model",
    "before_tool",
    "after_tool",
    "permission",
    "permission",
)
TRANSFORMS: tuple[HookPoint, ...] = ("prompt", "before_model", "before_tool", "after_tool")
OBSERVERS: tuple[HookPoint, ...] = (
    "session_start",
    "session_save",
    "session_end",
    "run_start",
    "run_end",
    "turn_end",
    "steer",
    "before_tool",
    "after_compaction",
    "error",
)
SELDOM_ASKED = ("permission", "after_tool")
STRICT = 3
"""How much more often a hook says no where it is seldom asked."""
HOOKS_MAX = 5
RISK = 5.0
JUDGED = 0.15
CHANGED = 1_000
"""What a hook adds to a number, so that one that was changed is known by its size."""


async def look(moment: Moment) -> Said:
    """What every hook does first: takes its time, and breaks. An observer does no more."""
    actor = ACTOR.get()
    world = actor.world
    assert world is not None
    chance, rates = world.chance, world.rates
    world.step(actor, f"hook {moment.point}")
    await world.pause(actor, "hook", risk=RISK)
    if chance.hit(rates.hook_slow):
        await asyncio.sleep(chance.one(SLOW_MS) / 1000)
    if chance.hit(rates.hook_raises):
        world.reached("hook_raised")
        raise ValueError("the hook broke")
    return None


async def guard(moment: Moment) -> Said:
    """Lets pass, or not."""
    await look(moment)
    world = ACTOR.get().world
    assert world is not None
    chance = world.chance
    if chance.hit(world.rates.hook_denies * (STRICT if moment.point in SELDOM_ASKED else 1)):
        return Denied(message="not now", fatal=chance.hit(0.2)) if chance.hit(0.8) else False
    return Allowed(message="as you wish") if moment.point == "permission" and chance.hit(0.5) else None


async def transform(moment: Moment) -> Said:
    """Makes something else of the value, now and then something that nobody can use."""
    await look(moment)
    world = ACTOR.get().world
    assert world is not None
    if not world.chance.hit(world.rates.hook_changes):
        return None
    made = _CHANGES[moment.point](moment.value)
    return Changed(value=_NONSENSE.get(moment.point, made) if world.chance.hit(0.1) else made)


def _argument(value: Any) -> Any:
    n = value.get("n") if isinstance(value, dict) else None
    return {**value, "n": n + CHANGED} if isinstance(n, int) else value


_CHANGES: dict[str, Callable[[Any], Any]] = {
    "prompt": lambda value: f"{value} (seen)",
    "before_model": lambda value: {**value, "settings": {"temperature": 0.5}},
    "before_tool": _argument,
    "after_tool": lambda value: {"ok": value["ok"], "text": "something else"},
}
_NONSENSE: dict[str, Any] = {
    "before_model": {"settings": {"temperature": "warm"}},
    "before_tool": {"n": "many"},
}


def hooks_of(chance: Chance) -> list[Hook]:
    """The hooks of one version of the agent's code."""
    hooks = [judge_guard("Be careful.", tool="p*")] if chance.hit(JUDGED) else []
    return hooks + [one_hook(chance) for _ in range(1 + chance.below(HOOKS_MAX))]


def one_hook(chance: Chance) -> Hook:
    """A hook of any kind at any point where it may stand."""
    priority = chance.one((50, 100))
    match chance.below(3):
        case 0:
            return Hook(point=chance.one(OBSERVERS), run=look, timeout_ms=TIMEOUT_MS, priority=priority)
        case 1:
            point = chance.one(GUARDS)
            return Hook(point=point, run=guard, kind="guard", timeout_ms=TIMEOUT_MS, priority=priority)
        case _:
            tool = chance.one(("*", "p*"))
            point = chance.one(TRANSFORMS)
            return Hook(point=point, run=transform, kind="transform", tool=tool, timeout_ms=TIMEOUT_MS)
