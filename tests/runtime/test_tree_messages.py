"""Sessions of a tree tell each other things by name: who is meant, what is refused, what comes along, and once each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import windlass
from windlass import flows
from windlass.events.commands import CommandRefused
from windlass.events.errors import Refused
from windlass.events.signals import SignalDisposed, SignalReceived
from windlass.events.tools.calls import ToolFinished
from windlass.runtime.trees import messages
from windlass.runtime.trees.tree_names import TreeNames
from windlass.store.base import IndexRow
from windlass.testing.scripted import ScriptedModel, by_history, call

from .support import QUICK, events_of, only, sound, until

WAIT_S = 60


class Held:
    """A tool that children sit in until the test lets them go on."""

    def __init__(self) -> None:
        self.gate, self.inside = asyncio.Event(), 0

        @windlass.tool(contract="pure")
        async def hold() -> str:
            """Takes its time."""
            self.inside += 1
            await self.gate.wait()
            return "let go"

        self.tool = hold


def agent(name: str, *turns: Any, **more: Any) -> windlass.Agent:
    more.setdefault("settings", QUICK)
    return windlass.Agent(name, ScriptedModel(by_history(list(turns))), description="helps", **more)


def spawn(name: str) -> Any:
    return call("spawn", agent=name, task="go")


async def signals_of(session: windlass.Session) -> list[SignalReceived]:
    return only(await events_of(session), SignalReceived)


async def heard(session: windlass.Session, number: int = 1) -> list[SignalReceived]:
    """What a session was told, once it is so much."""
    async with asyncio.timeout(WAIT_S):
        while len(found := await signals_of(session)) < number:
            await asyncio.sleep(0.01)
    return found


async def results_of(session: windlass.Session) -> list[str]:
    ends = only(await events_of(session), ToolFinished)
    return [end.body.content[0].text for end in ends if end.body is not None]


async def test_a_sibling_reads_a_message_at_its_next_turn_and_knows_whose_it_is():
    held, late = Held(), Held()
    reader = agent("reader", call("hold"), "read", tools=[held.tool])
    say = call("tell", to="reader", text="the key is 42")
    writer = agent("writer", call("hold"), say, "written", tools=["tell", late.tool])
    lead = agent("lead", [spawn("reader"), spawn("writer")], "done", agents=[reader, writer])
    async with windlass.open(agents=[lead]) as rt:
        session = await rt.session(lead, "s")
        await session.prompt("go")
        await until(lambda: held.inside == late.inside == 1)
        late.gate.set()
        below = {row.agent: await rt.get(row.session) for row in await rt.sessions(root="s") if row.parent}
        (told,) = await heard(below["reader"])
        held.gate.set()
        assert (await session.result()).text == "done"
        place = below["writer"].session_id.removeprefix("s~")
        assert told.source == f"writer ({place})"
        assert (told.kind, told.urgency, told.actor) == ("message", "normal", f"session:s~{place}")
        (disposed,) = only(await events_of(below["reader"]), SignalDisposed)
        assert (disposed.disposition, disposed.busy) == ("queued", "tools")
        shown = str(reader.model.requests[-1].items)  # type: ignore[union-attr]
        assert f"[signal message from writer ({place})] the key is 42" in shown
        for one in (session, *below.values()):
            await sound(one)


async def with_children(check: Callable[[windlass.Runtime, windlass.Session, list[windlass.Session]], Any]) -> None:
    """Two helpers at work below a root, all of whom may tell."""
    held = Held()
    helper = agent("helper", call("hold"), "helped", tools=[held.tool, "tell"])
    lead = agent("lead", [spawn("helper"), spawn("helper")], "done", agents=[helper], tools=["tell"])
    async with windlass.open(agents=[lead]) as rt:
        session = await rt.session(lead, "s")
        await session.prompt("go")
        await until(lambda: held.inside == 2)
        below = [await rt.get(name) for name in sorted(await session.children())]
        await check(rt, session, below)
        held.gate.set()
        assert (await session.result()).text == "done"


async def test_a_parent_the_root_a_numbered_name_a_place_and_an_id_are_all_understood():
    async def check(rt: windlass.Runtime, session: windlass.Session, below: list[windlass.Session]) -> None:
        one, two = below
        assert await one.tell("parent", "a") == "told lead (root)"
        assert await two.tell("root", "b") == "told lead (root)"
        assert [told.body.text for told in await heard(session, 2) if told.body is not None] == ["a", "b"]
        places = [each.session_id.removeprefix("s~") for each in below]
        told = [await session.tell(to, to) for to in ("helper-1", "helper-2", *places)]
        told.append(await session.tell(two, "by id"))
        assert len(set(told)) == 2
        assert all(any(place in each for each in told) for place in places)
        assert len(await heard(one, 2)) + len(await heard(two, 3)) == 5

    await with_children(check)


async def test_nobody_is_told_if_the_name_is_unknown_or_means_several_or_oneself():
    async def check(rt: windlass.Runtime, session: windlass.Session, below: list[windlass.Session]) -> None:
        there = ("helper-1 (", "helper-2 (")
        with pytest.raises(Refused, match="no session of this tree is called 'nobody'") as unknown:
            await session.tell("nobody", "x")
        with pytest.raises(Refused, match="several sessions are run by 'helper'") as several:
            await session.tell("helper", "x")
        with pytest.raises(Refused, match="'root' is this session itself") as own:
            await session.tell("root", "x")
        assert all(name in str(error.value) for error in (unknown, several, own) for name in there)
        with pytest.raises(Refused, match="no session of this tree is called 'other'"):
            await session.tell("other", "x")  # of another tree
        with pytest.raises(Refused, match="no session of this tree is called 'parent'"):
            await session.tell("parent", "x")
        with pytest.raises(Refused, match="at most 20000 characters, and this has 20001"):
            await session.tell(below[0], "x" * 20_001)
        assert [await signals_of(one) for one in (session, *below)] == [[], [], []]

    await with_children(check)


async def test_who_has_ended_is_told_nothing_and_the_names_left_are_told():
    first = agent("first", "ended")
    lead = agent("lead", spawn("first"), call("tell", to="first", text="x"), "done", agents=[first], tools=["tell"])
    async with windlass.open(agents=[lead]) as rt:
        session = await rt.session(lead, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        refused = (await results_of(session))[-1]
        assert refused.startswith("first (c")
        assert refused.endswith("has ended. There is no other session in this tree")


async def test_who_ends_before_it_reads_a_message_refuses_it_in_its_own_log(monkeypatch):
    async def unlooked(*_: Any) -> None:
        """As if the receiver ended just behind the look at it."""

    monkeypatch.setattr(messages.Messages, "_check_hears", unlooked)
    first = agent("first", "ended")
    lead = agent("lead", spawn("first"), call("tell", to="first", text="x"), "done", agents=[first], tools=["tell"])
    async with windlass.open(agents=[lead]) as rt:
        session = await rt.session(lead, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        (row,) = [row for row in await rt.sessions(root="s") if row.parent]
        below = await rt.get(row.session)
        async with asyncio.timeout(WAIT_S):
            while not (refused := only(await events_of(below), CommandRefused)):
                await asyncio.sleep(0.01)
        assert [one.code for one in refused] == ["ended"]
        assert refused[0].command_id.startswith("message:s~c")
        assert await rt.store.inbox.waiting(below.key) == []


async def test_a_session_that_carries_out_a_workflow_is_told_nothing():
    node = agent("node", call("tell", to="parent", text="x"), "done", tools=["tell"])
    flow = flows.Flow("grow", [flows.spawn("a", node, "go")])
    async with windlass.open(agents=[flow]) as rt:
        run = await rt.flow(flow, "f")
        assert (await run.result()).outputs == {"a": "done"}
        (row,) = [row for row in await rt.sessions(root="f") if row.parent]
        told = "grow (root) carries out a workflow, and is told nothing"
        assert await results_of(await rt.get(row.session)) == [told]
        assert await signals_of(run.session) == []


async def test_an_agent_whose_author_did_not_give_it_the_tool_tells_nobody():
    lead = agent("lead", "done")
    async with windlass.open(agents=[lead]) as rt:
        session = await rt.session(lead, "s")
        with pytest.raises(Refused, match="tell"):
            await session.tell("root", "x")


async def test_what_the_sender_has_seen_marks_the_receiver():
    mail = windlass.tool(contract="pure", labels=["untrusted:mail", "private:mail"])(_mail)
    below = agent("below", call("_mail"), call("tell", to="parent", text="read this"), "done", tools=[mail, "tell"])
    lead = agent("lead", call("spawn", agent="below", task="go", mode="detached"), "done", agents=[below])
    async with windlass.open(agents=[lead]) as rt:
        session = await rt.session(lead, "s")
        await session.prompt("go")
        (told,) = await heard(session)
        assert {"untrusted:mail", "private:mail"} <= set(told.labels)
        assert set(told.labels) <= set((await session.state()).labels.held)


def _mail() -> str:
    """Reads the mail."""
    return "a letter"


async def test_a_run_sends_so_many_messages_and_no_more(monkeypatch):
    monkeypatch.setattr(messages, "RUN_MAX", 2)
    tells = [call("tell", to="parent", text=str(number)) for number in range(3)]
    below = agent("below", *tells, "done", tools=["tell"])
    lead = agent("lead", spawn("below"), "done", agents=[below])
    async with windlass.open(agents=[lead]) as rt:
        session = await rt.session(lead, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        assert [told.body.text for told in await signals_of(session) if told.body is not None] == ["0", "1"]
        (row,) = [row for row in await rt.sessions(root="s") if row.parent]
        assert (await results_of(await rt.get(row.session)))[-1] == "this run has sent 2 messages, and may send no more"


async def test_who_has_too_much_to_read_is_told_nothing_more(monkeypatch):
    async def check(rt: windlass.Runtime, session: windlass.Session, below: list[windlass.Session]) -> None:
        monkeypatch.setattr(messages, "UNREAD_MAX", 0)
        with pytest.raises(Refused, match="has 0 messages that it has not read: say it later"):
            await session.tell(below[0], "x")

    await with_children(check)


async def test_a_call_that_is_done_again_sends_nothing_twice_though_its_name_means_others_by_now():
    held = Held()
    helper = agent("helper", call("hold"), "helped", tools=[held.tool])
    lead = agent("lead", "done", agents=[helper], tools=["tell"])
    async with windlass.open(agents=[lead]) as rt:
        session = await rt.session(lead, "s")
        await session.spawn("helper", "go", mode="background")
        await until(lambda: held.inside == 1)
        place = (await session.children())[0].removeprefix("s~")
        assert await session.tell("helper", "x", command_id="said") == f"told helper ({place})"
        taken = await rt.host.log.taken_at(session.key, "said")
        await session.spawn("helper", "go", mode="background")
        await until(lambda: held.inside == 2)
        driven = rt.host.trees.slots.driven_at(session.key)
        assert driven is not None
        again = rt.host.trees.tools(driven.owner).messages
        done = await again.perform(f"c{taken}.0", {"to": "helper", "text": "x"})
        other = await again.perform(f"c{taken}.1", {"to": "helper", "text": "x"})
        assert done.body is not None
        assert str(done.body.content[0].text) == f"told helper-1 ({place})"  # type: ignore[union-attr]
        assert (done.ok, other.ok) == (True, False)
        below = [await rt.get(name) for name in await session.children()]
        assert sum([len(await signals_of(one)) for one in below]) == 1
        held.gate.set()


def test_a_number_keeps_its_meaning_when_others_begin_or_end():
    def row(session: str, created_ms: int, state: str = "running") -> IndexRow:
        parent = "s" if "~" in session else None
        return IndexRow(session=session, agent="a", root="s", parent=parent, created_ms=created_ms, state=state)

    top = IndexRow(session="s", agent="lead", root="s")
    before = TreeNames("s", [top, row("s~c9.0", 1), row("s~c7.0", 2)])
    after = TreeNames("s", [top, row("s~c5.0~c2.0", 3), row("s~c9.0", 1, "idle"), row("s~c7.0", 2)])
    assert before.one("a-2", "s", None) == after.one("a-2", "s", None) == "s~c7.0"
    assert after.told("s") == "There are a-3 (c5.0~c2.0), a-2 (c7.0)"


def test_what_was_a_name_before_others_began_is_looked_for_among_all_of_them():
    rows = [IndexRow(session=name, agent="a", root="s", parent="s") for name in ("s~c1.0", "s~c2.0")]
    assert TreeNames("s", rows).meant("a", "s", None) == ["s~c1.0", "s~c2.0"]
