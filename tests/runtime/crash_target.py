"""What lives and dies in the crash suite: one session's work in a real process, over a real file.

Each life opens the store, sends the same commands under the same ids, and goes on until the work is done. What the
outside world saw of it (requests, effects, acknowledgements) is written to a file, which outlives every life.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from typing import Any

import msgspec

import windlass
from windlass.events.errors import NotFound
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.values.blocks import Text
from windlass.events.values.settings import Settings
from windlass.events.values.usage import Usage
from windlass.models.base import ModelInfo, Request
from windlass.models.catalogue.endpoints import ENDPOINTS
from windlass.models.transport.http_model import WireModel
from windlass.runtime.api.session import Session
from windlass.runtime.host.ports import SystemPorts
from windlass.testing.kill_rig import Acks, Child
from windlass.testing.scripted import ScriptedModel, by_history, call, fail, turn

POINTS = (
    "began",
    "before_append",
    "after_append",
    "before_model",
    "request_sent",
    "in_stream",
    "after_model",
    "before_tool",
    "effect_done",
    "after_tool",
    "before_snapshot",
    "after_snapshot",
    "before_fork",
    "after_fork",
    "closing",
)
"""Every named crash point; a life's mark is the number of the last one that it passed."""

LIVES_MAX = 10_000
LEASE_MS = 1
"""A dead process cannot give its lease back, so it holds it only for a moment."""

LONG_TEXT = [f"word{number} " for number in range(12)]
SCENARIOS = ("tools", "parallel", "approval", "stream", "sleep", "compaction", "queue", "fork", "consult")
COMMANDS = {"queue": ("p1", "p2", "p3"), "compaction": tuple(f"p{n}" for n in range(1, 8))}


def commands_of(scenario: str) -> tuple[str, ...]:
    return COMMANDS.get(scenario, ("p1",))


def turns_of(scenario: str) -> list[Any]:
    """What the model says, by how often it has spoken."""
    match scenario:
        case "tools":
            return [call("look", name="a"), call("put", name="a"), call("pay", name="a"), "done"]
        case "parallel":
            batch = [call("look", name="a"), call("put", name="b"), call("pay", name="c"), call("look", name="d")]
            return [batch, "done"]
        case "approval":
            return [[call("ask_first", name="a"), call("look", name="b")], "done"]
        case "stream":
            return [LONG_TEXT, "done"]
        case "sleep":
            return [call("wait", for_ms=15), "sleeping", "done"]
        case "queue":
            return [call("put", name="a"), "one", "two", "three"]
        case "consult":
            return [[call("think", name="a"), call("think_once", name="b")], "done"]
        case "fork":
            return [call("put", name="a"), "done", "in the fork"]
        case _:
            return [turn("with many words " * 30, usage=Usage(input_tokens=10, output_tokens=130))]


class Witness:
    """Writes down what the world saw, and is where a life ends."""

    def __init__(self, child: Child, path: str) -> None:
        self._child = child
        self._acks = Acks(path)

    def say(self, *words: object) -> None:
        self._acks.say(" ".join(str(word) for word in words))

    def point(self, name: str) -> None:
        self._child.mark(POINTS.index(name))
        self._child.point()


class CrashPorts(SystemPorts):
    """The real world, with a death at the chosen point."""

    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self._witness = witness

    def point(self, name: str) -> None:
        self._witness.point(name)


class CountingModel(ScriptedModel):
    """A scripted model that a provider's bill could be written from."""

    def __init__(self, script: Any, witness: Witness, info: ModelInfo | None = None) -> None:
        super().__init__(script, info=info)
        self._witness = witness

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        self._witness.say("request", request.session, request.lane, request.attempt)
        self._witness.point("request_sent")
        async for piece in super().stream(request):
            self._witness.point("in_stream")
            await asyncio.sleep(0)
            yield piece


def tools_of(witness: Witness, *, pays: Any = "at_most_once") -> list[Any]:
    async def act(ctx: windlass.ToolContext, name: str) -> str:
        witness.say("effect", ctx.tool, name, ctx.idempotency_key, ctx.attempt)
        witness.point("effect_done")
        await asyncio.sleep(0)
        return f"{ctx.tool} {name} ok"

    @windlass.tool(contract="pure")
    async def look(ctx: windlass.ToolContext, name: str) -> str:
        "Look."
        return await act(ctx, name)

    @windlass.tool(contract="idempotent")
    async def put(ctx: windlass.ToolContext, name: str) -> str:
        "Put."
        return await act(ctx, name)

    @windlass.tool(contract=pays)
    async def pay(ctx: windlass.ToolContext, name: str) -> str:
        "Pay."
        return await act(ctx, name)

    @windlass.tool
    async def ask_first(ctx: windlass.ToolContext, name: str) -> str:
        "Ask before."
        return await act(ctx, name)

    @windlass.tool(contract="pure")
    async def think(ctx: windlass.ToolContext, name: str) -> str:
        "Think twice."
        heard = [(await ctx.model(f"{name} {number}")).text for number in range(2)]
        return f"{await act(ctx, name)}: {heard}"

    @windlass.tool
    async def think_once(ctx: windlass.ToolContext, name: str) -> str:
        "Think, and act once."
        heard = await ctx.model(f"once {name}")
        return f"{await act(ctx, name)}: {heard.text}"

    return [look, put, pay, ask_first, think, think_once, "wait"]


def agent_for(scenario: str, witness: Witness, plant: str = "", url: str = "") -> windlass.Agent:
    small = scenario == "compaction"
    info = ModelInfo(name="m", provider="p", model="m", window_tokens=900, max_output_tokens=200) if small else None
    turns = turns_of(scenario)

    def answer(request: Request) -> Any:
        if request.lane == "compact":
            return "a summary of what was said"
        if request.lane == "tool":
            (asked,) = request.items[0].content
            return f"a thought about {asked.text}" if isinstance(asked, Text) else fail("invalid_request")
        if plant == "pays_for_all_again":
            witness.say("request", request.session, request.lane, request.attempt)
        return turns[0] if small else by_history(turns)(request)

    return windlass.Agent(
        "worker",
        model=model_at(url) if url else CountingModel(answer, witness, info),
        tools=[] if small else tools_of(witness, pays="pure" if plant == "runs_again" else "at_most_once"),
        policy=windlass.Policy(rules=(windlass.ask("ask_first", missing_ok=True),)),
        # A campaign kills more owners in a row than anybody's tool does: it is no reason to park here.
        settings=Settings(keep_exchanges=2, losses_max=LIVES_MAX) if small else Settings(losses_max=LIVES_MAX),
    )


def model_at(url: str) -> WireModel:
    """The model behind a real server."""
    endpoint = msgspec.structs.replace(ENDPOINTS["openai"], base_url=url)
    return WireModel(
        endpoint, "m", credential="sk-crash", info=ModelInfo(name="openai/m", provider="openai", model="m")
    )


def live(child: Child, arguments: dict[str, Any]) -> None:
    """One life: goes on with the work in `place` until it is done."""
    witness = Witness(child, os.path.join(arguments["place"], "witness"))
    witness.point("began")
    child.ready()
    asyncio.run(_live(witness, **arguments))


async def _live(witness: Witness, place: str, scenario: str, plant: str = "", url: str = "") -> None:
    agent = agent_for(scenario, witness, plant, url)
    store = os.path.join(place, "work.db")
    every = 20 if scenario == "compaction" else 1_000
    settings: dict[str, Any] = {
        "ports": CrashPorts(witness),
        "poll_ms": 5,
        "lease_ms": LEASE_MS,
        "snapshot_every": every,
    }
    async with windlass.open(store, agents=[agent], **settings) as rt:
        session = await rt.session(agent, "s")
        for command in commands_of(scenario):
            if plant == "acknowledges_early":
                witness.say("acked", command)
            given = None if plant == "forgets_the_id" else command
            await session.prompt(f"please {command}", command_id=given)
            if plant != "forgets_the_id":
                witness.say("acked", command)
            if scenario == "compaction":
                await _finish(session, witness)
        await _finish(session, witness)
        if scenario == "fork":
            await _fork(session, witness)
        witness.point("closing")
    if agent.model is not None and not isinstance(agent.model, str):
        await agent.model.close()
    witness.say("finished")


async def _finish(session: Session, witness: Witness) -> None:
    """Waits for the end, answering what is asked."""
    while True:
        result = await session.result()
        state = await session.state()
        if result.status == "asked":
            asked = [r.event async for r in session.records() if isinstance(r.event, PermissionRequested)]
            await session.approve(asked[0], command_id="approval")
            witness.say("acked", "approval")
        elif result.status == "sleeping" or state.queue.waiting or state.active:
            await asyncio.sleep(0.003)
        else:
            assert result.status == "completed", result
            return


async def _fork(session: Session, witness: Witness) -> None:
    witness.point("before_fork")
    rt = session.runtime
    try:
        branch = await rt.get("branch")
    except NotFound:
        branch = await session.fork("branch")
    witness.point("after_fork")
    await branch.prompt("and now", command_id="b1")
    witness.say("acked", "b1")
    await _finish(branch, witness)


class Calm(Child):
    """A child that nobody kills."""

    def __init__(self) -> None:
        """Shares nothing."""

    def ready(self) -> None: ...

    def mark(self, value: int) -> None: ...

    def point(self) -> None: ...


if os.path.basename(sys.argv[0]) == "kill_rig.py":
    # In the fork server: live once before the forks, so that no life pays for what is imported on first use.
    with tempfile.TemporaryDirectory() as folder:
        live(Calm(), {"place": folder, "scenario": "approval"})
