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
from .jobs import in_background
from .loop import ACTOR

TIMEOUT_MS = 20_000
CONSULTS_MAX = 3
"""How often a tool asks a model in one call, if it does at all."""
SLOW_MS = (50, 700, 4_000)
RESULT_WORDS = (1, 5, 60, 400)
MARKS = ("untrusted:tool", "private:tool", "pii")


class Effects:
    """How often each call changed the world, by (session, call)."""

    def __init__(self) -> None:
        self.done: Counter[tuple[str, str]] = Counter()


async def _group_fails() -> None:
    """Has a child that fails, as a correct tool may, and deals with it."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_fails())
    except* ValueError:
        await asyncio.sleep(0)


async def _fails() -> None:
    await asyncio.sleep(0)
    raise ValueError("a child failed")


async def _cancels_and_goes_on() -> None:
    """Cancels the task it runs in, and does not notice."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def _cancels_and_waits() -> None:
    """Cancels the task it runs in, and waits for that."""
    await _cancels_and_goes_on()
    await asyncio.sleep(1)


CANCELS = (_group_fails, _cancels_and_goes_on, _cancels_and_waits)
"""What code of users does to the task that it runs in."""


async def perform(ctx: ToolContext, name: str, n: int, version: AnyTool | None = None) -> Any:
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
        for _ in range(1 + chance.below(CONSULTS_MAX)):
            await ctx.model(f"what of {name}?", max_output_tokens=chance.one((None, 50)))
    if chance.hit(rates.tool_raises):
        raise ToolError("it did not work") if chance.hit(0.5) else ValueError("it broke")
    if chance.hit(rates.tool_slow):
        await asyncio.sleep(chance.one(SLOW_MS) / 1000)
    if chance.hit(rates.tool_cancels):
        world.reached("tool_cancels_itself")
        await chance.one(CANCELS)()
    world.watch.effect(actor, ctx, name)
    await world.pause(actor, "tool.done")
    if chance.hit(rates.tool_hangs):
        world.reached("tool_hangs")
        await world.healed.wait()
    if chance.hit(rates.labels * 0.5):
        ctx.mark(chance.one(MARKS))
    if name in ("pay", "risky") and chance.hit(rates.tool_suspends):
        raise Suspend({"ticket": ctx.call_id})
    if name in ("pay", "alone", "risky") and chance.hit(rates.tool_jobs):
        return await in_background(ctx)
    if chance.hit(rates.tool_asks):
        ctx.note("about to ask")
        answer = await ctx.ask("Really?", options=["yes", "no"])
        return f"{name} was told {answer.outcome}"
    ctx.progress("nearly there", fraction=0.9)
    return f"{name} " + "word " * chance.one(RESULT_WORDS)


@tool(contract="pure", traits=("read",), timeout_ms=TIMEOUT_MS)
async def look(ctx: ToolContext, n: int) -> Any:
    "Looks at something."
    return await perform(ctx, "look", n, look)


@tool(contract="idempotent", traits=("write",), timeout_ms=TIMEOUT_MS)
async def put(ctx: ToolContext, n: int) -> Any:
    "Puts something, safely twice."
    return await perform(ctx, "put", n)


@tool(traits=("write",), timeout_ms=TIMEOUT_MS)
async def pay(ctx: ToolContext, n: int) -> Any:
    "Pays, at most once."
    return await perform(ctx, "pay", n)


@tool(traits=("write",), settle=True, timeout_ms=TIMEOUT_MS)
async def risky(ctx: ToolContext, n: int) -> Any:
    "Does something that a person settles where its outcome is unknown."
    return await perform(ctx, "risky", n)


@tool(exclusive=True, timeout_ms=TIMEOUT_MS)
async def alone(ctx: ToolContext, n: int) -> Any:
    "Runs alone."
    return await perform(ctx, "alone", n)


@tool(contract="pure", traits=("read",))
def count(n: int) -> int:
    "Counts without waiting."
    return n + 1


@tool(contract="pure", traits=("read",), labels=("private:files",), timeout_ms=TIMEOUT_MS)
async def files(ctx: ToolContext, n: int) -> Any:
    "Reads what is private."
    return await perform(ctx, "files", n)


@tool(contract="idempotent", traits=("read", "egress"), labels=("untrusted:web",), timeout_ms=TIMEOUT_MS)
async def fetch(ctx: ToolContext, n: int) -> Any:
    "Reads what is untrusted, and leads out."
    return await perform(ctx, "fetch", n)


@tool(traits=("egress",), timeout_ms=TIMEOUT_MS)
async def send(ctx: ToolContext, n: int) -> Any:
    "Leads out."
    return await perform(ctx, "send", n)


@tool(name="look", traits=("read",), timeout_ms=TIMEOUT_MS)
async def look_harder(ctx: ToolContext, n: int) -> Any:
    "Looks at something, as later code does it: not twice."
    return await perform(ctx, "look", n, look_harder)


@tool(name="pay", contract="idempotent", traits=("write",), timeout_ms=TIMEOUT_MS)
async def pay_safely(ctx: ToolContext, n: int) -> Any:
    "Pays, as later code believes that it may: twice under one key."
    return await perform(ctx, "pay", n, pay_safely)


@tool(name="put", traits=("write",), timeout_ms=TIMEOUT_MS)
async def put_once(ctx: ToolContext, n: int) -> Any:
    "Puts something, as later code has it: at most once."
    return await perform(ctx, "put", n, put_once)


assert pay.function is not None
pay_retold: AnyTool = tool(name="pay", description="Pays what is due.", traits=("write",), timeout_ms=TIMEOUT_MS)(
    pay.function
)
"""The very same code, told in other words."""


def extra(number: int) -> AnyTool:
    """A version of the tool that is mounted while sessions live."""

    async def run(ctx: ToolContext, n: int) -> Any:
        return await perform(ctx, "extra", n, made)

    made: AnyTool = tool(name="extra", description=f"Does more, version {number}.", timeout_ms=TIMEOUT_MS)(run)
    return made


EXTRAS = (extra(1), extra(2))

_N = {"type": "object", "properties": {"n": {"type": "integer"}}}
_ANY: dict[str, Any] = {"type": "object"}

ui = external_tool("ui", "Shows something in a client.", _N)
tab = external_tool("tab", "Opens something in a client.", _N, contract="idempotent")


async def serve(ctx: ToolContext, n: int) -> Any:
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
MARKING: tuple[AnyTool, ...] = (files, fetch, send)
TOOLS: tuple[AnyTool, ...] = (look, put, pay, risky, alone, count, ui, *KERNEL_TOOLS)
