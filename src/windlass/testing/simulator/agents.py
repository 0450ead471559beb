"""The agent of a simulated world, in all versions of its code: processes start with one or another of them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.values.policy import Policy, Rule
from windlass.events.values.settings import Settings
from windlass.runtime.api.agent import Agent, Budget

from .archive import SimArchive
from .chance import Chance
from .hooks import hooks_of
from .model import SimModel
from .tools import MARKING, TOOLS, look_harder, pay_retold, pay_safely, put_once

if TYPE_CHECKING:
    from .world import World

VERSIONS = 3
RULES = (
    Rule(action="ask", tool="pay", missing_ok=True),
    Rule(action="ask", tool="put", name="ask about put", missing_ok=True),
)
DENIALS = (
    Rule(action="deny", tool="risky", reason="too risky", missing_ok=True),
    Rule(action="deny", tool="pay", reason="nothing is paid any more", missing_ok=True),
    Rule(action="deny", tool="put", reason="nothing is put any more", missing_ok=True),
)
WINDOWS = (2_500, 2_500, 8_000, 100_000)


class Verdict(msgspec.Struct):
    """What the agent is to answer with, where it has an output type."""

    fine: bool
    score: int = 0


def versions_of(world: World) -> list[Agent]:
    """The versions of the agent's code in a world: the first one, and others where code changes there."""
    first = _first(world)
    if not world.rates.recodes:
        return [first]
    return [first, *(_changed(world, first) for _ in range(VERSIONS - 1))]


def _first(world: World) -> Agent:
    chance = world.chance
    tools: tuple[Any, ...] = (*TOOLS, "recall") if chance.hit(0.15) else TOOLS
    tools = (*tools, *MARKING) if world.rates.labels else tools
    return Agent(
        "sim",
        model=SimModel(world, chance.one(WINDOWS)),
        instructions="You are simulated.",
        tools=tools,
        policy=Policy(RULES[: chance.below(3)]),
        budget=_budget(chance) if chance.hit(0.3) else Budget(),
        session_budget=_session_budget(chance) if chance.hit(0.1) else Budget(),
        settings=_settings(chance),
        mode=chance.one(("interactive", "interactive", "interactive", "plan", "autopilot")),
        output=Verdict if chance.hit(0.2) else None,
        hooks=hooks_of(chance) if chance.hit(0.4) else [],
        archive=SimArchive(world) if chance.hit(0.3) else None,
    )


def _settings(chance: Chance) -> Settings:
    return Settings(
        on_busy=chance.one(("enqueue", "enqueue", "steer", "interrupt", "reject")),
        tool_order=chance.one(("parallel", "parallel", "sequential")),
        keep_exchanges=chance.one((1, 2, 4)),
        sleep_over_ms=chance.one((1_000, 10_000, 60_000)),
        turns_max=chance.one((5, 50)),
        parallel_tools_max=chance.one((1, 3, 8)),
        archive=chance.hit(0.5),
        summarise=chance.hit(0.9),
        continue_on_length=chance.hit(0.3),
    )


def _budget(chance: Chance) -> Budget:
    """A limit of one kind for each run."""
    return chance.one(
        (
            Budget(turns=chance.one((3, 20))),
            Budget(calls=chance.one((2, 10))),
            Budget(tokens=chance.one((3_000, 20_000))),
            Budget(usd=chance.one((0.002, 0.05))),
            Budget(seconds=chance.one((2.0, 60.0))),
        )
    )


def _session_budget(chance: Chance) -> Budget:
    return chance.one((Budget(turns=15), Budget(calls=10), Budget(tokens=40_000), Budget(usd=0.05), Budget(seconds=60)))


def _changed(world: World, first: Agent) -> Agent:
    """The same agent as its author left it later."""
    chance = world.chance
    changes: dict[str, Any] = {}
    deployed = world.rates.recodes >= 1.0
    if chance.hit(0.7 if deployed else 0.5):
        changes["policy"] = Policy((*RULES[: chance.below(3)], chance.one(DENIALS))[: 1 + chance.below(3)])
    if chance.hit(0.4):
        changes["model"] = SimModel(world, chance.one(WINDOWS), name=chance.one(("model", "other")))
    if chance.hit(0.4):
        changes["budget"] = _budget(chance)
    if chance.hit(0.2):
        changes["session_budget"] = _session_budget(chance)
    if chance.hit(0.4):
        changes["settings"] = _settings(chance)
    if chance.hit(0.2):
        changes["mode"] = chance.one(("interactive", "plan", "autopilot"))
    if chance.hit(0.2):
        changes["output"] = None if first.output is not None else Verdict
    if chance.hit(0.3):
        changes["hooks"] = hooks_of(chance)
    if chance.hit(0.8 if deployed else 0.4):
        changes["tools"] = _other_tools(chance, first)
    if chance.hit(0.2):
        changes["instructions"] = "You are simulated, and wiser now."
    return dataclasses.replace(first, **changes)


def _other_tools(chance: Chance, first: Agent) -> tuple[Any, ...]:
    """One tool does something else, promises something else, is told in other words, or is gone."""
    if chance.hit(0.7):
        other = chance.one((look_harder, pay_safely, pay_safely, pay_safely, put_once, pay_retold))
        return tuple(other if getattr(tool, "name", tool) == other.name else tool for tool in first.tools)
    gone = chance.one(("put", "risky", "ui", "wait"))
    return tuple(tool for tool in first.tools if getattr(tool, "name", tool) != gone)
