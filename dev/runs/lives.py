"""What outlives a process: folders, other code, tools that come and go, a process that is killed in the middle."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import msgspec

import windlass
from windlass.events.changes import ChangeMode
from windlass.events.commands import CommandRefused, PromptBody, PromptReceived, QueueChanged
from windlass.events.live import StreamTruncated
from windlass.events.tools.calls import ToolOutcomeUnknown, ToolStarted
from windlass.events.tools.permissions import PermissionApproved, PermissionRequested
from windlass.events.values.blocks import Text
from windlass.events.values.items import ModelSettings
from windlass.events.values.setup import Limits, RunOptions
from windlass.events.values.usage import Usage
from windlass.runtime.hooks.hook import Hook, Moment
from windlass.store.base import Key
from windlass.testing.scripted import ScriptedModel, call, fail, hang, turn

from .stage import QUICK, Stage, priced, scripted

LEASE_MS = 50
CACHED = Usage(input_tokens=900, output_tokens=10, cache_read_tokens=800)


@windlass.tool(contract="pure", traits=("write",))
def look(name: str) -> str:
    "Look at something."
    return f"saw {name}"


async def folder(stage: Stage) -> None:
    """A session in a repository: its branch, its instruction files, and what changes in them."""
    place = stage.folder / "repository"
    (place / ".git").mkdir(parents=True)
    (place / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (place / ".git" / "config").write_text('[remote "origin"]\n\turl = https://example.com/team/book.git\n')
    (place / "AGENTS.md").write_text("Be brief.\n")
    agent = windlass.Agent("worker", model=scripted("one", "two", "three"), instructions="Be kind.", settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "folder", workspace=place, trusted=True)
        await stage.said(session, "begin")
        (place / ".git" / "HEAD.lock").write_text("ref: refs/heads/other\n")
        (place / ".git" / "HEAD.lock").replace(place / ".git" / "HEAD")
        (place / "AGENTS.md").write_text("Be very brief.\n")
        await stage.said(session, "go on")
    stage.logs.clear()
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "folder", workspace=place, trusted=True)
        await stage.said(session, "once more")
        await session.close("the branch is gone", error=True)


@windlass.tool(contract="pure")
def double(n: int) -> int:
    "Double a number."
    return 2 * n


@windlass.tool(contract="pure", deferred=True)
def rare(n: int) -> int:
    "Rarely used."
    return n


@windlass.tool(contract="pure", deferred=True)
def seldom(n: int) -> int:
    "Used even less."
    return n


async def terms(stage: Stage) -> None:
    """The same session under other code: agent, tools, policy, budgets, model settings, mode."""
    first = windlass.Agent("worker", model=scripted("one"), tools=[look, double], settings=QUICK)
    async with stage.open(first) as rt:
        await stage.said(await stage.session(rt, first, "terms"), "begin")

    @windlass.tool(name="double", contract="pure")
    def other(n: int, times: int = 2) -> int:
        "Double a number, or more."
        return times * n

    second = windlass.Agent(
        "worker",
        model=priced("two", window_tokens=64_000),
        instructions="Be brief.",
        knowledge=["water is wet"],
        tools=[other, rare],
        policy=windlass.READ_ONLY,
        budget=windlass.Budget(turns=7),
        session_budget=windlass.Budget(tokens=900_000),
        settings=msgspec.structs.replace(QUICK, turns_max=8),
        model_settings=ModelSettings(thinking="low", temperature=0.5),
        mode="autopilot",
    )
    async with stage.open(second) as rt:
        session = await rt.get("terms")
        await session.change(ChangeMode(mode="interactive"))
        await stage.said(session, "go on")


async def toolset(stage: Stage) -> None:
    """Tools mounted, replaced, loaded, drained, forced away, refused; a run with fewer tools."""
    entered, release = asyncio.Event(), asyncio.Event()

    @windlass.tool(contract="pure")
    async def gate() -> str:
        "Waits."
        entered.set()
        await release.wait()
        return "passed"

    model = scripted(
        call("rare", n=1), call("load_tools", names=["rare"]), call("rare", n=1), call("gate"), call("gate"), "done",
        call("gate"), "left", [call("look", name="a"), call("double", n=1)], "fewer", call("look", name="b"),
        "gone", "x",
    )  # fmt: skip
    policy = windlass.Policy(rules=[windlass.ask("look", missing_ok=True)])
    agent = windlass.Agent("worker", model=model, tools=[rare, gate], policy=policy, settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "toolset")
        await session.mount(double)
        await session.mount(seldom)
        await session.mount(look)
        await session.prompt("use them")
        await entered.wait()
        await session.mount(windlass.tool(name="shout", alias="clash")(lambda text: text))
        await session.mount(windlass.tool(name="cry", alias="clash")(lambda text: text))
        await session.unmount("gate")
        release.set()
        await session.wait_idle()
        release.clear()
        entered.clear()
        await session.mount(gate)
        await session.prompt("again")
        await entered.wait()
        await session.unmount("gate", force=True)
        await session.wait_idle()
        options = RunOptions(tools=("look",), limits=Limits(turns=9), output_required=False)
        await session.prompt("with fewer", options=options)
        await session.wait_idle()
        asked = await stage.until(session, PermissionRequested)
        await session.deny(asked[-1].request_id)
        await session.wait_idle()
        await session.prompt("take it away")
        await stage.until(session, PermissionRequested, 2)
        await session.wait_idle()
        await session.unmount("look", force=True)
        await session.wait_idle()


CHILD = """
import asyncio, os, signal, sys
sys.path[:0] = {path!r}
import windlass
from dev.runs import lives
from dev.runs.stage import StagePorts

async def main():
    agent = lives.clerk()
    more = dict(durability="normal", lease_ms=lives.LEASE_MS, ports=StagePorts())
    async with windlass.open({place!r}, agents=[agent], **more) as rt:
        session = await rt.session(agent, "killed")
        await session.prompt("pay and wait", command_id="p1")
        await asyncio.sleep(60)

asyncio.run(main())
"""


@windlass.tool(settle=True)
async def pay(ctx: windlass.ToolContext, invoice: str) -> str:
    "Pay an invoice."
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@windlass.tool
async def send(ctx: windlass.ToolContext, to: str) -> str:
    "Send a letter."
    await asyncio.sleep(60)
    return "never"


@windlass.tool(contract="idempotent")
async def put(ctx: windlass.ToolContext, name: str) -> str:
    "Put something down."
    if ctx.attempt == 1:
        await asyncio.sleep(60)
    return f"put {name}"


def clerk(*turns: Any) -> windlass.Agent:
    first = [call("put", name="a"), call("send", to="bob"), call("pay", invoice="a")]
    return windlass.Agent(
        "clerk", model=scripted(*(turns or [first])), tools=[pay, send, put], policy=windlass.ALLOW_ALL, settings=QUICK
    )


async def killed(stage: Stage) -> None:
    """A process killed while it pays: the next one says what is unknown, and a person settles it."""
    place = str(stage.folder / "work.db")
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD.format(path=sys.path, place=place))
    assert await child.wait() == -signal.SIGKILL
    agent = clerk("settled", "again")
    async with stage.open(agent, lease_ms=1_000) as rt:
        session = await rt.get("killed")
        stage.listen(rt, session)
        unknown = await stage.until(session, ToolOutcomeUnknown, 2)
        await session.wait_idle()
        await session.settle(next(each.call_id for each in unknown if each.settle), "happened", "the bank says paid")
        await session.wait_idle()


async def spent(stage: Stage) -> None:
    """What runs used that ended asked, asleep and interrupted, the provider's cache included."""
    model = priced(
        turn(call("ask_user", question="which?"), usage=CACHED),
        turn("thanks", usage=CACHED),
        turn(call("wait", for_ms=3_600_000), usage=CACHED),
        turn("later", usage=CACHED),
        turn(call("look", name="a"), usage=CACHED),
        ["so far ", hang()],
    )
    agent = windlass.Agent("worker", model=model, tools=["ask_user", "wait", look], settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "spent")
        await session.prompt("ask")
        await session.result()
        await session.prompt("never mind", behavior="steer")
        await session.result()
        await session.prompt("wait")
        await session.result()
        await session.prompt("look")
        await stage.heard(session, "so far ")
        await session.interrupt("enough")
        await session.wait_idle()


async def heard(stage: Stage) -> None:
    """Observers at every point, and a reader that is too slow."""
    points = (
        "session_start", "session_end", "session_save", "run_start", "run_end", "turn_start", "turn_end", "steer",
        "before_compaction", "after_compaction", "permission", "error", "before_model", "after_model", "before_tool",
        "after_tool", "prompt",
    )  # fmt: skip

    def note(moment: Moment) -> None:
        return None

    def judged(request: Any) -> Any:
        if request.lane == "compact":
            return "in short"
        return ["a "] * 3_000 if "write a lot" in str(request.items[-1]) else script.pop(0)

    script: list[Any] = [
        fail("server_error", "broken"), call("look", name="a"), call("wait_a_bit"), "done", *["noted"] * 6,
    ]  # fmt: skip

    released = asyncio.Event()

    @windlass.tool(contract="pure")
    async def wait_a_bit() -> str:
        "Waits a bit."
        await released.wait()
        return "waited"

    agent = windlass.Agent(
        "watched",
        model=ScriptedModel(judged),
        tools=[look, wait_a_bit],
        hooks=[Hook(point=point, run=note) for point in points],  # type: ignore[arg-type]
        policy=windlass.Policy(rules=[windlass.ask("look")]),
        settings=msgspec.structs.replace(QUICK, keep_exchanges=1),
        approver=lambda asked: True,
    )
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "heard")
        await session.prompt("look")
        await stage.until(session, ToolStarted, 2)
        await session.prompt("and quickly", behavior="steer")
        released.set()
        await session.result()
        for text in ("one", "two", "three"):
            await stage.said(session, text)
        await session.compact()
        await session.wait_idle()
        slow = session.events(after=await session.cursor())
        await session.prompt("write a lot")
        await anext(slow)
        await session.wait_idle()
        async for event in slow:
            if isinstance(event, StreamTruncated):
                stage.live["heard"].append(event)
                break
        await session.close()


async def edited(stage: Stage) -> None:
    """A queue whose prompts get new words, commands that are refused, and one that comes too late."""
    model = scripted(["so far ", hang()], "second", "x")
    agent = windlass.Agent("worker", model=model, tools=[look], settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "edited")
        await session.prompt("first")
        await stage.heard(session, "so far ")
        await session.prompt("second")
        (queued,) = await stage.until(session, QueueChanged)
        await session.edit_queue(*queued.prompt_ids, texts={queued.prompt_ids[0]: "another second"})
        await session.interrupt("go on")
        await session.wait_idle()
        await session.wake()
        await session.wait_idle()
        await session.call_tool("look", {"name": "b"})
        await session.wait_idle()
    late = PermissionApproved(command_id="late", actor="bob", request_id="p998")
    await stage.leave(KEY_OF_EDITED, late)
    async with stage.open(agent) as rt:
        session = await rt.get("edited")
        await session.wake()
        await stage.until(session, CommandRefused)
        await session.wait_idle()
    await stage.leave(KEY_OF_EDITED, prompt_of("later"), export=True)


KEY_OF_EDITED = Key("default", "edited")


def prompt_of(command_id: str) -> PromptReceived:
    return PromptReceived(command_id=command_id, actor="cli", body=PromptBody(content=(Text(text="and later"),)))


SCENARIOS = {
    "folder": folder,
    "terms": terms,
    "toolset": toolset,
    "killed": killed,
    "spent": spent,
    "heard": heard,
    "edited": edited,
}
