"""The agents of a simulated tree: four deep, each with the next one as its specialist, all under one budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.values.policy import Policy, Rule
from windlass.events.values.settings import Settings
from windlass.runtime.api.agent import Agent, Budget
from windlass.testing.simulator.model import SimModel
from windlass.testing.simulator.tools import TOOLS

if TYPE_CHECKING:
    from windlass.testing.simulator.chance import Chance, Rates
    from windlass.testing.simulator.world import World

NAMES = ("third", "second", "first")
"""The specialists, the deepest one first."""
WINDOW = 100_000
ASK = Rule(action="ask", tool="pay", missing_ok=True)
LEFT_OUT = (
    *("forks", "erases", "mounts", "serves", "recodes", "pages_in", "labels", "shuts_down", "options"),
    *("hook_raises", "hook_slow", "hook_denies", "hook_changes", "archive_fails", "archive_slow"),
)
"""What does not happen in worlds of trees: other worlds are full of it."""

CALLS_MIN = 0.6
"""How often models call something, at the least: a tree grows by calls."""


def rates_of(rates: Rates) -> Rates:
    """The troubles of a world of trees."""
    calls = max(rates.calls, CALLS_MIN)
    return msgspec.structs.replace(rates, calls=calls, **dict.fromkeys(LEFT_OUT, 0.0))


ROOMY, TIGHT = (12, 90, 300), (10, 16, 24)
"""How many turns a tree may have: most will do, or those below soon meet their limits."""


def tree_of(world: World, turns: tuple[int, ...] = ROOMY, *, asks: bool = False, talks: bool = False) -> Agent:
    """The agent at the root. Somebody in the tree is asked about every payment; not all agents have the rule. `asks`:
    children ask for more before they end at their limits. `talks`: all tell each other things, and some children read
    what their parents saw."""
    chance = world.chance
    tools: tuple[Any, ...] = (*TOOLS, "tell") if talks else TOOLS
    below: tuple[Agent, ...] = ()
    for name in NAMES:
        below = (
            Agent(
                name,
                model=_model(world, below, 0.8, talks=talks),
                instructions="You are simulated, and work for another.",
                description="does as it is told",
                tools=tools,
                policy=Policy((ASK,) if chance.hit(0.5) else ()),
                agents=below,
                settings=_settings(world, asks=asks),
            ),
        )
    budget = Budget(
        turns=chance.one(turns),
        calls=chance.one((20, 200)),
        children=chance.one((3, 20)),
        tokens=chance.one((60_000, 400_000)),
    )
    return Agent(
        "sim",
        model=_model(world, below, 0.5, talks=talks),
        instructions="You are simulated.",
        tools=tools,
        policy=Policy((ASK,)),
        agents=below,
        session_budget=budget,
        settings=_settings(world),
    )


def _model(world: World, below: tuple[Agent, ...], eager: float, *, talks: bool = False) -> SimModel:
    names = tuple(agent.name for agent in below)
    if not talks:
        return SimModel(world, WINDOW, spawns=names, eager=eager)
    return SimModel(world, WINDOW, spawns=names, eager=eager, contexts=CONTEXTS, ways=TALKS)


def _tells(chance: Chance) -> dict[str, Any]:
    """What somebody says to somebody, who may not be there."""
    return {"to": chance.one(ADDRESSEES), "text": "word", "urgency": chance.one(("low", "normal"))}


def _reads(chance: Chance) -> dict[str, Any]:
    """What somebody reads of its parent."""
    return chance.one(({}, {}, {"after": 3}, {"query": "word"}))


TALKS: dict[str, Callable[[Chance], Any]] = {"tell": _tells, "read_parent": _reads}
CONTEXTS = ("fresh", "shared_read", "shared_read")
"""What a child begins with, in a world in which they read what their parents saw."""
ADDRESSEES = ("parent", "root", *NAMES, *("s0", "s1") * 4)
"""Whom somebody may mean: one of the own tree, or the root of another one."""


def _settings(world: World, *, asks: bool = False) -> Settings:
    chance = world.chance
    return Settings(
        on_busy=chance.one(("enqueue", "steer", "interrupt")),
        tool_order=chance.one(("parallel", "parallel", "sequential")),
        sleep_over_ms=chance.one((1_000, 60_000)),
        turns_max=chance.one((10, 50)),
        parallel_tools_max=chance.one((1, 3, 8)),
        children_wake=chance.hit(0.7),
        losses_max=1_000,
        budget_asked=asks,
    )
