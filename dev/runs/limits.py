"""Where work ends by rule: every budget warned of and reached, prices unknown, no progress, output that never fits."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

import windlass
from windlass.events.values.usage import Usage
from windlass.models.base import ModelInfo
from windlass.testing.scripted import ScriptedModel, call, call_malformed, fail, think, turn

from .stage import QUICK, Stage, priced, scripted

MUCH = Usage(input_tokens=900, output_tokens=100)


@windlass.tool(contract="pure")
async def step(n: int) -> str:
    "Does one step."
    await asyncio.sleep(0.03)
    return f"step {n}"


def steps(count: int) -> list[Any]:
    return [turn(call("step", n=n), usage=MUCH) for n in range(count)]


async def budgets(stage: Stage) -> None:
    """A run and a session for each kind of limit: warned of at its share, then stopped, with a wrap-up if that fits."""
    limits = {
        "tokens": windlass.Budget(tokens=9_000),
        "money": windlass.Budget(usd=0.05),
        "turns": windlass.Budget(turns=5),
        "calls": windlass.Budget(calls=5),
        "time": windlass.Budget(seconds=0.2),
    }
    for name, budget in limits.items():
        for scope in ("budget", "session_budget"):
            model = priced(*steps(12), "so far", max_output_tokens=1_000)
            bound: dict[str, Any] = {scope: budget}
            agent = windlass.Agent(f"{scope}-{name}", model=model, tools=[step], settings=QUICK, **bound)
            async with stage.open(agent, store=f"{scope}-{name}") as rt:
                session = await stage.session(rt, agent, f"{scope}_{name}")
                await stage.said(session, "do all the steps")
    unpriced = ScriptedModel(["never"], info=ModelInfo(name="dark", provider="scripted", model="dark"))
    agent = windlass.Agent("dark", model=unpriced, budget=windlass.Budget(usd=1), settings=QUICK)
    async with stage.open(agent, store="dark") as rt:
        await stage.said(await stage.session(rt, agent, "budget_price"), "go")


async def waits_within_budget(stage: Stage) -> None:
    """Retries that a time budget caps, and a floor that a rate limit sets."""
    failing = [fail("rate_limited", "slow down"), fail("server_error", "broken"), "fine"]
    settings = msgspec.structs.replace(QUICK, rate_limit_floor_ms=30, retry_base_ms=5_000, retry_cap_ms=9_000)
    agent = windlass.Agent(
        "hurried", model=scripted(*failing), budget=windlass.Budget(seconds=9),
        settings=msgspec.structs.replace(settings, retry_base_ms=20),
    )  # fmt: skip
    async with stage.open(agent) as rt:
        await stage.said(await stage.session(rt, agent, "floor"), "go")
    agent = windlass.Agent(
        "capped", model=scripted(fail("server_error", "broken"), "late"), budget=windlass.Budget(seconds=0.5),
        settings=settings,
    )  # fmt: skip
    async with stage.open(agent, store="capped") as rt:
        await stage.said(await stage.session(rt, agent, "capped"), "go")


class Sum(msgspec.Struct):
    """What is asked for."""

    total: int


async def output(stage: Stage) -> None:
    """An answer that fits at once, one that fits at the second try, one that never does."""
    agent = windlass.Agent(
        "adder", model=scripted('{"total": 3}', "three", '{"total": 3}', "no", "no", "no"), output=Sum, settings=QUICK
    )
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "output")
        for _ in range(3):
            await stage.said(session, "1 + 2")


async def ends(stage: Stage) -> None:
    """Runs that end for every other reason."""
    bad = [call_malformed("step", "{") for _ in range(4)]
    plans: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "end_of_turns": (steps(4), {"settings": msgspec.structs.replace(QUICK, turns_max=2)}),
        "end_of_progress": ([call("step", n=1)] * 9, {}),
        "end_of_retries": ([fail("server_error", "broken")] * 9, {}),
        "end_of_arguments": (bad, {}),
        "end_of_credentials": ([fail("auth", "no such key")], {}),
        "end_of_length": ([turn("so far", finish="length")], {}),
        "end_of_empty": ([turn(think("hm"))] * 5, {}),
        "end_of_autopilot": (["I am done"] * 5, {"mode": "autopilot"}),
        "end_of_task": ([call("complete_task", summary="could not", success=False)], {"mode": "autopilot"}),
    }
    for name, (turns, more) in plans.items():
        more = {"settings": QUICK, **more}
        agent = windlass.Agent(name, model=scripted(*turns), tools=[step, "complete_task"], **more)
        async with stage.open(agent, store=name) as rt:
            await stage.said(await stage.session(rt, agent, name), "go")


SCENARIOS = {"budgets": budgets, "waits": waits_within_budget, "output": output, "ends": ends}
