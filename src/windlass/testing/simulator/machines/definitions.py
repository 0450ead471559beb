"""The machine of a simulated world: states of every kind, and programs that are no programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.values.blocks import Text
from windlass.events.values.policy import Policy, Rule
from windlass.events.values.settings import Settings
from windlass.runtime.api.agent import Agent
from windlass.runtime.machines import drafts
from windlass.runtime.machines.machine import AUTO, Machine
from windlass.testing.simulator.loop import ACTOR
from windlass.testing.simulator.model import SimModel
from windlass.testing.simulator.tools import TIMEOUT_MS, TOOLS, perform
from windlass.tools.context import ToolContext
from windlass.tools.planes.results import ToolResult
from windlass.tools.tool import tool

if TYPE_CHECKING:
    from windlass.testing.simulator.chance import Chance
    from windlass.testing.simulator.world import World

WINDOW = 100_000
ASK = Rule(action="ask", tool="pay", missing_ok=True)
NOT_YET = 0.6
"""How often a poll does not find what it waits for."""
FAILS = 0.2
"""How often a program ends badly."""
STATES = ("work", "open", "checks", "review", "merge", "settle", "done", "stuck", "dropped")
DELAY_S = 40
"""A machine that a model wrote may not look again sooner than that."""


def agent_of(world: World) -> Agent:
    """The agent whose sessions go through the machine; in some worlds its model writes the machine itself."""
    chance = world.chance
    machine = machine_of(chance)
    ways = {
        "select_state": lambda chance: {"state": chance.one(STATES)},
        "machine_state": lambda chance: {},
        "create_machine": lambda chance: _authored(machine),
    }
    return Agent(
        "sim",
        model=SimModel(world, WINDOW, ways=ways),
        instructions="You are simulated.",
        tools=(*TOOLS, run_state, poll_state),
        policy=Policy((ASK,)),
        machine=AUTO if chance.hit(0.2) else machine,
        settings=Settings(
            on_busy=chance.one(("enqueue", "steer", "interrupt")),
            sleep_over_ms=chance.one((1_000, 60_000)),
            turns_max=50,
            losses_max=1_000,
        ),
    )


def machine_of(chance: Chance) -> Machine:
    """A change that is made, opened, checked, reviewed, merged and watched for a while."""
    misfire: dict[str, Any] = {"misfire": "fail", "late": "1s"} if chance.hit(0.4) else {}
    return Machine(
        "change",
        [
            drafts.agent("work", "Do it.", next=chance.one((["open"], ["open", "checks"], []))),
            drafts.script("open", ["open"], next="checks", on_failure=chance.one(("work", "stuck", ""))),
            drafts.poll(
                "checks",
                ["test"],
                every=chance.one((DELAY_S, 90)),
                give_up=chance.one(("3m", "20m")),
                next="review",
                on_failure="stuck",
            ),
            drafts.park("review", "Merge it?", next=["merge", "work", "dropped"]),
            drafts.script("merge", ["merge"], next="settle", on_failure="review"),
            drafts.timer("settle", after=chance.one((DELAY_S, 600)), next="done", on_failure="stuck", **misfire),
            drafts.completed("done", "it is merged"),
            drafts.failed("stuck", "it cannot be made"),
            drafts.cancelled("dropped", "nobody wants it"),
        ],
        visits_max=chance.one((4, 20)),
    )


def _authored(machine: Machine) -> dict[str, Any]:
    """The machine as a model writes it."""
    spec = msgspec.json.decode(msgspec.json.encode(machine.spec))
    return {"name": spec["name"], "states": spec["states"], "first": spec["first"], "input": {"task": "a change"}}


@tool(name="run_state", traits=("read", "write", "execute", "egress"), timeout_ms=TIMEOUT_MS)
async def run_state(
    ctx: ToolContext,
    argv: list[str],
    env: dict[str, str] = {},  # noqa: B006 - never changed
    cwd: str = ".",
    timeout_ms: int = 0,
    success_codes: list[int] = [0],  # noqa: B006 - never changed
) -> Any:
    "Runs the program of a state, which is simulated."
    return await _run(ctx, "run_state", FAILS)


@tool(name="poll_state", contract="idempotent", traits=("read", "write", "execute", "egress"), timeout_ms=TIMEOUT_MS)
async def poll_state(
    ctx: ToolContext,
    argv: list[str],
    env: dict[str, str] = {},  # noqa: B006 - never changed
    cwd: str = ".",
    timeout_ms: int = 0,
    success_codes: list[int] = [0],  # noqa: B006 - never changed
) -> Any:
    "Runs the program of a poll, which is simulated."
    return await _run(ctx, "poll_state", NOT_YET)


async def _run(ctx: ToolContext, name: str, not_met: float) -> Any:
    world = ACTOR.get().world
    assert world is not None
    said = await perform(ctx, name, 0)
    if world.chance.hit(not_met):
        return ToolResult(value=Text(text=str(said)), ok=False, error_code="exit_code")
    return said
