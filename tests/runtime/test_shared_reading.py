"""Children that read their parent's conversation: nothing is copied, nothing is changed, and what they read marks them."""

from __future__ import annotations

import asyncio
from typing import Any

import windlass
from tests.runtime.support import events_of, only, sound, started
from windlass.events.sessions import SessionStarted
from windlass.events.tools.calls import ToolDenied, ToolFinished
from windlass.events.trees.children import ChildFinished, ChildStarted
from windlass.events.values.items import ResultItem
from windlass.models.base import Request
from windlass.testing.scripted import ScriptedModel, by_history, call


@windlass.tool(contract="pure", labels=("untrusted:web",))
def fetched() -> str:
    "Looks something up."
    return "The key is 4711."


def reader(*turns: Any, **more: Any) -> windlass.Agent:
    return windlass.Agent("reader", ScriptedModel(by_history(list(turns))), description="reads", **more)


def lead(child: windlass.Agent, *turns: Any) -> windlass.Agent:
    return windlass.Agent("lead", ScriptedModel(by_history(list(turns))), agents=[child], tools=[fetched])


def results(events: list[Any]) -> list[ToolFinished]:
    return only(events, ToolFinished)


def text_of(finished: ToolFinished) -> str:
    assert finished.body is not None
    return "".join(getattr(block, "text", "") for block in finished.body.content)


async def test_a_child_reads_what_its_parent_was_told_and_found_and_begins_with_its_task_alone():
    seen: list[int] = []

    def looks(request: Request) -> Any:
        seen.append(len(request.items))
        return call("read_parent") if len(request.items) == 1 else "4711"

    child = windlass.Agent("reader", ScriptedModel(looks), description="reads")
    spawned = call("spawn", agent="reader", task="What is the key?", context="shared_read")
    async with windlass.open(agents=[agent := lead(child, call("fetched"), spawned, "It is 4711.")]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("Find the key.")
        assert (await session.result()).text == "It is 4711."
        (started,) = only(await events_of(session), ChildStarted)
        below = await runtime.get(started.child_id)
        (begun, *_), (read,) = only(await events_of(below), SessionStarted), results(await events_of(below))
        told = text_of(read)
        assert "user: Find the key." in told
        assert "The key is 4711." in told
        assert "What is the key?" not in told, "what is open is no part of it yet"
        assert seen[0] == 1, "its task alone"
        assert begun.setup.options.tools == ("read_parent",)
        assert read.labels == ("untrusted:web",), "what its parent had seen comes with what is read"
        await sound(below)


async def test_what_the_parent_meets_later_is_there_for_a_child_in_the_background(tmp_path):
    found = asyncio.Event()

    async def leads(request: Request) -> Any:
        results = [item for item in request.items if isinstance(item, ResultItem)]
        if any("4711" in str(item.content) for item in results):
            found.set()
            return "found"
        spawned = call("spawn", agent="reader", task="Read on.", context="shared_read", mode="background")
        return call("fetched") if results else spawned

    async def reads(request: Request) -> Any:
        await found.wait()
        return call("read_parent", after=2) if len(request.items) == 1 else "read"

    child = windlass.Agent("reader", ScriptedModel(reads), description="reads")
    agent = windlass.Agent("lead", ScriptedModel(leads), agents=[child], tools=[fetched])
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await started(session, ChildFinished)
        (below,) = [row.session for row in await runtime.sessions(root="s") if row.parent]
        (read,) = results(await events_of(await runtime.get(below)))
        assert "The key is 4711." in text_of(read)
        assert "user: go" not in text_of(read), "that is before the place it asked for"


async def test_it_is_read_part_by_part_and_by_words():
    parts = [call("read_parent", chars=30), call("read_parent", query="KEY is"), call("read_parent", after=10_000)]
    spawned = call("spawn", agent="reader", task="Read.", context="shared_read")
    async with windlass.open(
        agents=[agent := lead(reader(*parts, "read"), call("fetched"), spawned, "well")]
    ) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("A prompt that is rather long, and then goes on for a while.")
        await session.result()
        (started,) = only(await events_of(session), ChildStarted)
        first, found, behind = [text_of(one) for one in results(await events_of(await runtime.get(started.child_id)))]
        assert "characters left out" in first
        assert "[there is more: read on with after=2]" in first
        assert "The key is 4711." in found
        assert "rather long" not in found
        assert behind == "[nothing there, as it is now]"


async def test_a_child_that_was_not_begun_to_read_its_parent_cannot():
    child = reader(call("read_parent"), "read", tools=["read_parent"])
    agent = lead(child, call("spawn", agent="reader", task="Read."), "well")
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (started,) = only(await events_of(session), ChildStarted)
        (read,) = results(await events_of(await runtime.get(started.child_id)))
        assert not read.ok
        assert "was not begun to read its parent" in text_of(read)


async def test_a_policy_may_forbid_it_and_code_may_ask_for_it():
    denies = windlass.Policy(rules=[windlass.deny("read_parent", missing_ok=True)])
    agent = lead(reader(call("read_parent"), "no", policy=denies), "well")
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        child = await session.spawn("reader", "Read.", context="shared_read")
        assert (await child.result()).text == "no"
        assert len(only(await events_of(child), ToolDenied)) == 1
