"""What a model sees of the past: elision, summaries, cuts, pages, pins, undo, rewind, forks."""

from __future__ import annotations

from typing import Any

import msgspec

import windlass
from windlass.events.changes import ChangePins
from windlass.events.commands import PromptReceived
from windlass.events.context import CompactionStarted, ContextArchived, ContextPagedOut
from windlass.events.values.usage import Usage
from windlass.models.base import ModelInfo, Request
from windlass.testing.model_server import fault
from windlass.testing.scripted import ScriptedModel, call, fail, hang, turn

from .stage import PRICE, QUICK, Stage

LITTLE = Usage(input_tokens=1, output_tokens=5)
PARTLY_CACHED = Usage(input_tokens=1, output_tokens=5, cache_read_tokens=1)
KEEP_TWO = msgspec.structs.replace(QUICK, keep_exchanges=2)


@windlass.tool(contract="pure")
def page(n: int) -> str:
    "A page of the book."
    return f"page {n}: " + "and so on " * 240


def small(answer: Any, window: int = 6_000) -> ScriptedModel:
    known = ModelInfo(
        name="scripted/small",
        provider="scripted",
        model="small",
        window_tokens=window,
        max_output_tokens=500,
        price=PRICE,
    )
    return ScriptedModel(answer, info=known, usage=LITTLE)


class Shelf:
    """An archive that takes the first pages, and then is full."""

    def __init__(self) -> None:
        self.pages: list[Any] = []

    async def put(self, session: str, pages: Any) -> None:
        if self.pages:
            raise RuntimeError("the shelf is full")
        self.pages += pages

    async def search(self, session: str, query: str, limit: int) -> Any:
        raise RuntimeError("the shelf is locked")

    async def get(self, session: str, page_ids: Any) -> Any:
        raise RuntimeError("the shelf is locked")


async def compaction(stage: Stage) -> None:
    """A history that outgrows its window: elided, summarised, undone, paged out and in again, rewound, cleared."""
    turns: list[Any] = [call("page", n=n) for n in range(9)]
    script: dict[str, list[Any]] = {
        "main": [*turns, "read it all", *["noted"] * 12],
        "compact": [
            *[turn("nine pages were read", usage=PARTLY_CACHED), "in short: pages"],
            fail("invalid_request", "no"),
            "   ",
            hang(),
            "short",
        ],
    }

    def answer(request: Request) -> Any:
        return script[request.lane].pop(0)

    agent = windlass.Agent(
        "reader",
        model=small(answer),
        tools=[page, "recall"],
        settings=KEEP_TWO,
        archive=Shelf(),  # type: ignore[arg-type]
    )
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "compaction")
        await stage.said(session, "read the book")
        prompts = await stage.until(session, PromptReceived)
        first = next([record.seq async for record in session.records() if record.event == prompts[0]].__iter__())
        await session.change(ChangePins(pin=(first,)))
        for text in ("one", "two", "three"):
            await stage.said(session, text)
        await session.compact("keep the numbers")
        await session.wait_idle()
        await stage.until(session, ContextPagedOut)
        await stage.until(session, ContextArchived)
        await session.undo_compact()
        await session.change(ChangePins(unpin=(first,)))
        for text in ("four", "five"):
            await stage.said(session, text)
        for _ in range(3):
            await session.compact()
            await session.wait_idle()
        await session.page_in("page 3")
        for text in ("six", "seven", "eight"):
            await stage.said(session, text)
        begun = len(await stage.until(session, CompactionStarted))
        await session.compact()
        await stage.until(session, CompactionStarted, begun + 1)
        await session.interrupt("no summary now")
        await session.wait_idle()
        await session.rewind(first + 20)
        await session.clear()


async def cut(stage: Stage) -> None:
    """Histories that are cut by rule: no summary wanted, none to be had, too many bytes, a provider that overflows."""
    plain = msgspec.structs.replace(KEEP_TWO, summarise=False)
    reading = [call("page", n=n) for n in range(9)]
    agent = windlass.Agent("cutter", model=small([*reading, "read"], 5_000), tools=[page], settings=plain)
    async with stage.open(agent) as rt:
        await stage.said(await stage.session(rt, agent, "cut_by_policy"), "read the book")

    def failing(request: Request) -> Any:
        return fail("invalid_request", "no summaries here") if request.lane == "compact" else fed.pop(0)

    fed: list[Any] = [*reading, "read", *["noted"] * 9]
    agent = windlass.Agent(
        "failer", model=small(failing), tools=[page], settings=msgspec.structs.replace(KEEP_TWO, compact_bytes=6_000)
    )
    async with stage.open(agent, store="failing") as rt:
        await stage.said(await stage.session(rt, agent, "cut_without_summary"), "read the book")
    async with stage.serving(
        *["noted"] * 4, fault("400_context"), fault("400_context"), "fine", window_tokens=9_000
    ) as server:
        agent = windlass.Agent("filler", model=stage.model(server), settings=KEEP_TWO)
        async with stage.open(agent, store="overflow") as rt:
            session = await stage.session(rt, agent, "cut_on_overflow")
            for _ in range(4):
                await stage.said(session, "remember this " * 20)
            await stage.said(session, "and this")


async def branches(stage: Stage) -> None:
    """A fork while something is open, what was open there, and an erasure."""
    from windlass.events.tools.permissions import PermissionRequested

    @windlass.tool
    def pay(cents: int) -> str:
        "Pay."
        return "paid"

    def model() -> ScriptedModel:
        first = [call("wait", for_ms=3_600_000), call("pay", cents=5), call("ask_user", question="sure?")]
        return ScriptedModel([first, "another way", turn("later")])

    agent = windlass.Agent(
        "clerk",
        model=model(),
        tools=[pay, "wait", "ask_user"],
        policy=windlass.Policy(rules=[windlass.ask("pay")]),
        settings=QUICK,
    )
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "origin", title="the first", metadata={"team": "a"})
        await session.prompt("pay")
        await session.result()
        await stage.until(session, PermissionRequested)
        fork = await session.fork("fork")
        stage.listen(rt, fork)
        await stage.said(fork, "another way")
        seq = next([r.seq async for r in fork.records() if isinstance(r.event, PromptReceived)].__iter__())
        own = [r.seq async for r in fork.records() if isinstance(r.event, PromptReceived)][-1]
        assert own > seq
        await fork.erase(own, "a card number", actor="ada")
        await fork.set_title("the branch")
        await fork.set_metadata(team="b", other="x")
        await fork.set_metadata(other=None)


async def held_fork(stage: Stage) -> None:
    """A session that is put into plan mode, and a fork to before that: it is held to the same."""
    agent = windlass.Agent("clerk", model=ScriptedModel(["read", "planned"]), settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "held_origin")
        await session.prompt("read")
        await session.result()
        before = [record.seq async for record in session.records()][-1]
        await session.set_mode("plan")
        fork = await session.fork("held_fork", at_seq=before)
        stage.listen(rt, fork)
        await stage.said(fork, "and now?")


SCENARIOS = {"compaction": compaction, "cut": cut, "branches": branches, "held_fork": held_fork}
