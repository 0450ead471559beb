"""The tools of the simulated agent, one of each contract, and the count of what they really did.

They are made once for all worlds; which world a call belongs to is known from the actor that runs it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from windlass.tools.context import Suspend, ToolContext, ToolError
from windlass.tools.tool import AnyTool, Options, Tool, external_tool, tool

from .chance import SELDOM
from .loop import ACTOR

TIMEOUT_MS = 20_000
SLOW_MS = (50, 700, 4_000)
RESULT_WORDS = (1, 5, 60, 400)


class Effects:
    """How often each call changed the world, by (session, call)."""

    def __init__(self) -> None:
        self.done: Counter[tuple[str, str]] = Counter()


async def perform(ctx: ToolContext, name: str, n: int, version: AnyTool | None = None) -> str:
    """What every tool does: looks around, has its effect, dawdles, and says something. `version` is the tool whose
    code this is, where there are several of one name."""
    actor = ACTOR.get()
    world = actor.world
    assert world is not None
    chance, rates = world.chance, world.rates
    world.watch.tool_began(actor, ctx, name, n, version.spec.digest if version is not None else None)
    world.step(actor, f"tool {name}")
    await world.pause(actor, "tool.begun")
    if chance.hit(rates.tool_consults):
        await ctx.model(f"what of {name}?", max_output_tokens=chance.one((None, 50)))
    if chance.hit(rates.tool_raises):
        raise ToolError("it did not work") if chance.hit(0.5) else ValueError("it broke")
    if chance.hit(rates.tool_slow):
        await asyncio.sleep(chance.one(SLOW_MS) / 1000)
    world.watch.effect(actor, ctx, name)
    await world.pause(actor, "tool.done")
    if chance.hit(rates.tool_hangs):
        world.reached("tool_hangs")
        await world.healed.wait()
    if name in ("pay", "risky") and chance.hit(rates.tool_suspends):
        raise Suspend({"ticket": ctx.call_id})
    if chance.hit(rates.tool_asks):
        ctx.note("about to ask")
        answer = await ctx.ask("Really?", options=["yes", "no"])
        return f"{name} was told {answer.outcome}"
    ctx.progress("nearly there", fraction=0.9)
    return f"{name} " + "word " * chance.one(RESULT_WORDS)


@tool(contract="pure", traits=("read",), timeout_ms=TIMEOUT_MS)
async def look(ctx: ToolContext, n: int) -> str:
    "Looks at something."
    return await perform(ctx, "look", n, look)


@tool(contract="idempotent", traits=("write",), timeout_ms=TIMEOUT_MS)
async def put(ctx: ToolContext, n: int) -> str:
    "Puts something, safely twice."
    return await perform(ctx, "put", n)


@tool(traits=("write",), timeout_ms=TIMEOUT_MS)
async def pay(ctx: ToolContext, n: int) -> str:
    "Pays, at most once."
    return await perform(ctx, "pay", n)


@tool(traits=("write",), settle=True, timeout_ms=TIMEOUT_MS)
async def risky(ctx: ToolContext, n: int) -> str:
    "Does something that a person settles where its outcome is unknown."
    return await perform(ctx, "risky", n)


@tool(exclusive=True, timeout_ms=TIMEOUT_MS)
async def alone(ctx: ToolContext, n: int) -> str:
    "Runs alone."
    return await perform(ctx, "alone", n)


@tool(contract="pure", traits=("read",))
def count(n: int) -> int:
    "Counts without waiting."
    return n + 1


@tool(name="look", traits=("read",), timeout_ms=TIMEOUT_MS)
async def look_harder(ctx: ToolContext, n: int) -> str:
    "Looks at something, as later code does it: not twice."
    return await perform(ctx, "look", n, look_harder)


def extra(number: int) -> AnyTool:
    """A version of the tool that is mounted while sessions live."""

    async def run(ctx: ToolContext, n: int) -> str:
        return await perform(ctx, "extra", n, made)

    made: AnyTool = tool(name="extra", description=f"Does more, version {number}.", timeout_ms=TIMEOUT_MS)(run)
    return made


EXTRAS = (extra(1), extra(2))

_N = {"type": "object", "properties": {"n": {"type": "integer"}}}
_ANY: dict[str, Any] = {"type": "object"}

ui = external_tool("ui", "Shows something in a client.", _N)
tab = external_tool("tab", "Opens something in a client.", _N, contract="idempotent")


async def serve(ctx: ToolContext, n: int) -> str:
    """What a client does for a session: takes its time, fails, and says something."""
    actor = ACTOR.get()
    world = actor.world
    assert world is not None
    chance, rates = world.chance, world.rates
    world.watch.served(actor, ctx)
    world.step(actor, f"serves {ctx.tool}")
    await world.pause(actor, "client.serves", risk=SELDOM)
    if chance.hit(rates.tool_slow):
        await asyncio.sleep(chance.one(SLOW_MS) / 1000)
    if chance.hit(rates.tool_raises):
        raise ToolError("the client could not")
    return f"{ctx.tool} was shown"


SERVED: tuple[AnyTool, ...] = tuple(
    tool(name=name, description="Runs in a client.", contract="idempotent")(serve) for name in ("ui", "tab")
)


def kernel_tool(name: str) -> AnyTool:
    """One that the kernel performs itself."""
    return Tool(None, Options(name=name, description=name, runs="kernel", contract="pure", parameters=_ANY))


KERNEL_TOOLS = tuple(kernel_tool(name) for name in ("ask_user", "todo", "plan", "task", "complete_task", "wait"))
TOOLS: tuple[AnyTool, ...] = (look, put, pay, risky, alone, count, ui, *KERNEL_TOOLS)
CONTRACTS = {each.name: each.options.contract for each in (*TOOLS, *EXTRAS)}
