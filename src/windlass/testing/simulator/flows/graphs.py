"""The workflow of a simulated world: a graph that the seed draws, with nodes of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.values.policy import Policy, Rule
from windlass.events.values.settings import Settings
from windlass.models.base import Request
from windlass.runtime.api.agent import Agent, Budget
from windlass.runtime.flows import steps
from windlass.runtime.flows.flow import Flow
from windlass.testing.simulator.model import SimModel
from windlass.testing.simulator.tools import TOOLS, look, pay, put

if TYPE_CHECKING:
    from windlass.runtime.flows.steps import Step
    from windlass.testing.simulator.chance import Chance
    from windlass.testing.simulator.world import World

INPUT = ["one", "two", "three"]
NODES_MIN, NODES_MORE = 4, 7
NEEDS_MAX = 3
WINDOW = 100_000
ASK = Rule(action="ask", tool="pay", missing_ok=True)
TASK = "do your part"
TOURNAMENT = ("first way", "second way", "third way")
NOT_FITTING = "a word that fits nothing"
FITTING: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ('"pass"', ({"pass": True, "reason": "fine"}, {"pass": True, "reason": "fine"}, {"pass": False, "reason": "no"})),
    ('"done"', ({"done": True, "output": "a"}, {"done": False, "output": "b"})),
    ('"branch"', ({"branch": "left"}, {"branch": "right"})),
    ('"winner"', ({"winner": "A"}, {"winner": "B"})),
)
"""What a task that asks for a form asks for, by a word of it, and answers that have it."""
CONDITIONS = ("args.input.size() > 1", "args.input.size() > 5")


def answer(chance: Chance, request: Request) -> str:
    """What the agents of a workflow say: mostly what they were asked for."""
    asked = str(request.items[:2])
    for word, fitting in FITTING:
        if word in asked and not chance.hit(0.1):
            return msgspec.json.encode(chance.one(fitting)).decode()
    return chance.one((NOT_FITTING, "word " * 20, '["x", "y"]'))


def flow_of(world: World) -> Flow:
    """The workflow that every session of a world carries out."""
    chance = world.chance
    below = Agent(
        "below",
        model=SimModel(world, WINDOW, answers=answer),
        instructions="You are simulated, and work for a node.",
        description="does as it is told",
        tools=TOOLS,
        policy=Policy((ASK,) if chance.hit(0.5) else ()),
        settings=Settings(turns_max=20, sleep_over_ms=chance.one((1_000, 60_000)), losses_max=1_000),
    )
    return Flow(
        "sim",
        graph_of(chance),
        agents=[below],
        tools=[look, put, pay],
        policy=Policy((ASK,)),
        budget=Budget(turns=chance.one((30, 2_000)), calls=5_000, children=chance.one((10, 400))),
        on_failure="stop" if chance.hit(0.25) else "continue",
        parallel=chance.one((1, 3, 16)),
        settings=Settings(nodes_max=40, nodes_added_max=3, losses_max=1_000, sleep_over_ms=chance.one((1_000, 60_000))),
    )


def graph_of(chance: Chance) -> list[Step]:
    """Nodes, each of which needs some of those before it."""
    graph: list[Step] = []
    for number in range(NODES_MIN + chance.below(NODES_MORE)):
        graph += _nodes(chance, f"n{number}", [step.node.name for step in graph])
    return graph


def added(chance: Chance, name: str, there: Sequence[str]) -> Step:
    """A node that somebody adds while the workflow runs."""
    return _one(chance, name, _drawn(chance, there, 2))


def _nodes(chance: Chance, name: str, there: Sequence[str]) -> list[Step]:
    if chance.hit(0.2):
        return _classified(chance, name, _drawn(chance, there, 1))
    return [_one(chance, name, _drawn(chance, there, NEEDS_MAX))]


def _drawn(chance: Chance, there: Sequence[str], most: int) -> list[str]:
    wanted = min(len(there), chance.below(most + 1))
    return sorted({chance.one(there) for _ in range(wanted)})


def _classified(chance: Chance, name: str, needs: Sequence[str]) -> list[Step]:
    """A classifier, a node for each of its branches, and one behind both."""
    left, right = f"{name}l", f"{name}r"
    branches = {"left": [left], "right": [right]}
    more = _more(chance, needs)
    return [
        steps.classify(name, "below", TASK, branches, needs=needs, **more),
        steps.spawn(left, "below", TASK),
        steps.tool(right, "look", {"n": 1}),
        steps.reduce(f"{name}j", "concat", [left, right]),
    ]


def _more(chance: Chance, needs: Sequence[str]) -> dict[str, Any]:
    """What any node may say."""
    more: dict[str, Any] = {}
    if len(needs) > 1 and chance.hit(0.4):
        more["quorum"] = 1 + chance.below(len(needs))
    if chance.hit(0.4):
        more |= {"retries": 1 + chance.below(2), "retry_wait": chance.one((0, 2, 90))}
    if chance.hit(0.25):
        more["timeout"] = chance.one((3, 60, 600))
    return more


def _one(chance: Chance, name: str, needs: Sequence[str]) -> Step:
    """A node of some kind."""
    more: dict[str, Any] = _more(chance, needs)
    if len(needs) > 1 and "quorum" not in more and chance.hit(0.3):
        more["optional"] = needs[-1:]
        needs = needs[:-1]
    given: dict[str, Any] = {**more, "needs": needs}
    kind = chance.below(12)
    if kind < 3:
        return steps.spawn(name, "below", TASK, quarantine=chance.hit(0.2), **given)
    if kind == 3:
        return steps.verify(name, "below", TASK, **given)
    if kind == 4:
        return steps.loop(name, "below", TASK, rounds=3, **given)
    if kind == 5:
        return steps.map_over(name, agent="below", task="look at {item}", **given)
    if kind == 6:
        return steps.tournament(name, "below", TASK, TOURNAMENT, **given)
    if kind == 7:
        return steps.phase(name, "below", TASK, judge="below", rounds=2, **given)
    if kind == 8:
        return steps.gate(name, **{**given, **_passing(chance)})
    if kind == 9 and needs:
        return steps.reduce(name, chance.one(("concat", "count", "merge_json_arrays")), **given)
    return steps.tool(name, chance.one(("look", "put", "pay")), {"n": 1}, **given)


def _passing(chance: Chance) -> dict[str, str]:
    """How a gate lets pass: a person, or a condition."""
    return {"question": "Go on?"} if chance.hit(0.5) else {"when": chance.one(CONDITIONS)}
