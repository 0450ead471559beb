"""Labels as users meet them: what tools, prompts and histories are marked with, what a result says, who takes one away."""

from __future__ import annotations

import asyncio
import pathlib
import sys
from typing import Any

import msgspec
import pytest

import windlass
from tests.runtime.support import QUICK, agent_of, events_of, only, sound
from windlass.events.errors import Refused
from windlass.events.tools.calls import ToolDenied, ToolFinished
from windlass.events.tools.labels import LabelsDeclassified, LabelsJoined
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.values.blocks import FileAttachment, Text
from windlass.events.values.items import UserItem
from windlass.events.values.setup import SessionOptions
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk
from windlass.testing.scripted import ScriptedModel, call


@windlass.tool(contract="pure", traits=["read"], labels=["private:payroll"])
def payroll(name: str) -> str:
    "Reads what somebody earns."
    return f"{name} earns 17"


@windlass.tool(contract="pure", traits=["read"], labels=["untrusted:web"])
def page(url: str) -> str:
    "Reads a page."
    return "buy now"


@windlass.tool(traits=["egress"])
def post(text: str) -> str:
    "Sends something."
    return "posted"


TOOLS = [payroll, page, post]


async def told(session: windlass.Session) -> list[tuple[str, str]]:
    return [(found.label, found.tool) for found in await session.labels()]


async def test_a_result_says_what_its_answer_is_marked_with():
    agent = agent_of(call("payroll", name="Ada"), "17", tools=TOOLS)
    assert (await agent.run("What does Ada earn?")).labels == ("private:payroll",)


class Pay(msgspec.Struct):
    amount: int


async def test_a_structured_output_is_marked_too():
    agent = agent_of(call("payroll", name="Ada"), '{"amount": 17}', tools=TOOLS, output=Pay)
    result = await agent.run("What does Ada earn?")
    assert (result.output, result.labels) == (Pay(amount=17), ("private:payroll",))


@pytest.mark.parametrize("how", ["returns", "raises", "sync", "suspends"])
async def test_a_tool_marks_what_comes_of_it_however_it_ends(how):
    @windlass.tool
    async def odd(ctx: windlass.ToolContext) -> str:
        "Does something."
        ctx.mark("private:found", "untrusted")
        if how == "raises":
            raise windlass.ToolError("no")
        if how == "suspends":
            ctx.suspend()
        return "yes"

    @windlass.tool(name="odd")
    def plain(ctx: windlass.ToolContext) -> str:
        "Does something in a thread."
        ctx.mark("private:found", "untrusted")
        return "yes"

    agent = agent_of(call("odd"), "done", tools=[plain if how == "sync" else odd])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await session.result()
        assert await told(session) == [("private:found", "odd"), ("untrusted", "odd")]
        await sound(session)


async def test_what_is_no_label_is_an_error_of_whoever_says_it():
    with pytest.raises(windlass.UsageError, match="'Private' is no label: a word in small letters"):
        windlass.tool(labels=["Private"])(lambda x: x)
    with pytest.raises(windlass.UsageError, match="at most 64"):
        windlass.tool(labels=[f"private:{n}" for n in range(65)])(lambda x: x)

    @windlass.tool
    async def odd(ctx: windlass.ToolContext) -> str:
        "Marks badly."
        ctx.mark("very private")
        return "yes"

    agent = agent_of(call("odd"), "done", tools=[odd])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        with pytest.raises(windlass.UsageError, match="no label"):
            session.prompt("go", labels=["PRIVATE"])
        await session.prompt("go")
        await session.result()
        (finished,) = only(await events_of(session), ToolFinished)
        assert (finished.ok, finished.labels) == (False, ())


async def test_prompts_attachments_signals_and_histories_are_marked(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("secret")
    agent = agent_of("a", "b", "c", tools=TOOLS)
    async with windlass.open(agents=[agent]) as runtime:
        history = [UserItem(content=(Text(text="before"),))]
        session = await runtime.session(agent, "s", history=history, labels=["untrusted:history"])
        await session.prompt("one", labels=["private:words"])
        await session.result()
        await session.prompt("two", attachments=[FileAttachment(path=str(file), labels=("private:notes",))])
        await session.result()
        await session.signal("ping", "hello", labels=["untrusted:hook"])
        found = [(one.label, one.source[0]) for one in await session.labels()]
        assert found == [
            ("untrusted:history", "s"),
            ("private:words", "i"),
            ("private:notes", "i"),
            ("untrusted:hook", "s"),
        ]


async def test_results_of_clients_are_marked():
    ui = windlass.external_tool("ui", "Shows.", {"type": "object"})
    agent = agent_of(call("ui"), "done", tools=[ui])

    @windlass.tool(name="ui")
    async def shown(ctx: windlass.ToolContext) -> str:
        "Runs in a client."
        ctx.mark("private:screen")
        return "shown"

    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        async with session.serve(shown):
            await session.prompt("go")
            await session.result()
        assert await told(session) == [("private:screen", "ui")]


async def test_the_third_leg_is_asked_about_with_the_chain_and_explained():
    agent = agent_of([call("payroll", name="Ada"), call("page", url="x")], call("post", text="17"), "no", tools=TOOLS)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (asked,) = await session.requests()
        assert "private:payroll since c" in asked.why
        assert "(payroll); untrusted:web since c" in asked.why
        said = await session.explain("post", {"text": "17"})
        assert said.startswith('post {"text": "17"}: asked (trifecta)')
        assert "untrusted input, private data and a way out: private:payroll since c" in said
        await session.declassify("untrusted:web", reason="I wrote that page", actor="ada")
        await session.result()
        assert (await session.requests(), await told(session)) == ((), [("private:payroll", "payroll")])
        (gone,) = only(await events_of(session), LabelsDeclassified)
        assert (gone.labels, gone.reason, gone.actor) == (("untrusted:web",), "I wrote that page", "ada")
        with pytest.raises(Refused, match="no label private: the session has private:payroll"):
            await session.declassify("private", reason="x")
        await sound(session)


async def test_an_approver_is_told_what_brought_each_leg():
    seen: list[PermissionAsk] = []

    async def approver(asked: PermissionAsk | QuestionAsk) -> bool:
        assert isinstance(asked, PermissionAsk)
        seen.append(asked)
        return False

    legs = [call("payroll", name="Ada"), call("page", url="https://example.org/")]
    agent = agent_of(legs, call("post", text="17"), "no", tools=TOOLS, approver=approver)
    await agent.run("go")
    (asked,) = seen
    assert asked.joins == ("private:payroll", "untrusted:web")
    told = [(found.label, found.tool, subject) for found, subject in asked.sources]
    assert told == [("private:payroll", "payroll", "Ada"), ("untrusted:web", "page", "https://example.org/")]


async def test_an_agent_in_quarantine_only_reads_whoever_resumes_it_how(tmp_path):
    store = str(tmp_path / "s.db")

    def reader(*turns: Any, quarantine: bool) -> windlass.Agent:
        return agent_of(*turns, tools=TOOLS, policy=windlass.Policy(default="allow"), quarantine=quarantine)

    first = reader([call("post", text="x"), call("page", url="x")], "done", quarantine=True)
    async with windlass.open(store, agents=[first]) as runtime:
        session = await runtime.session(first, "s")
        await session.prompt("go")
        result = await session.result()
        assert result.labels == ("untrusted:quarantine", "untrusted:web")
        (denied,) = only(await events_of(session), ToolDenied)
        assert denied.reason == "quarantine"
    free = reader(call("post", text="y"), "done", quarantine=False)
    async with windlass.open(store, agents=[free]) as runtime:
        session = await runtime.session(free, "s", options=SessionOptions(policy=windlass.Policy(default="allow")))
        await session.prompt("again")
        await session.result()
        assert [event.reason for event in only(await events_of(session), ToolDenied)] == ["quarantine"] * 2
        fork = await session.fork("twin")
        assert (await fork.state()).labels.quarantined
        with pytest.raises(Refused, match="quarantined"):
            await session.set_mode("autopilot")
        with pytest.raises(Refused, match="quarantined"):
            await session.declassify("untrusted:quarantine", reason="please")


async def test_a_session_is_quarantined_by_its_options_and_stays_so(tmp_path):
    agent = agent_of(call("post", text="x"), "done", call("post", text="x"), "done", tools=TOOLS)
    store = str(tmp_path / "s.db")
    async with windlass.open(store, agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", options=SessionOptions(quarantine=True))
        await session.prompt("go")
        await session.result()
    async with windlass.open(store, agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", options=SessionOptions(instructions="Other ones."))
        await session.prompt("go")
        await session.result()
        assert [event.reason for event in only(await events_of(session), ToolDenied)] == ["quarantine"] * 2


KILLED = """
import os, signal, sys
import windlass
from windlass.testing.scripted import ScriptedModel, call

@windlass.tool(contract="pure", traits=["read"], labels=["private:payroll"])
def payroll(name: str) -> str:
    "Reads what somebody earns."
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    agent = windlass.Agent("clerk", model=ScriptedModel([call("payroll", name="Ada")]), tools=[payroll])
    async with windlass.open(sys.argv[1], agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go", labels=["untrusted:mail"])
        await session.result()

import asyncio
asyncio.run(main())
"""


async def test_labels_survive_a_process_that_is_killed_in_the_middle_of_a_call(tmp_path: pathlib.Path):
    """What the call would bring counts from its start: the process that goes on sends nothing unasked."""
    store, program = tmp_path / "s.db", tmp_path / "killed.py"
    program.write_text(KILLED)
    killed = await asyncio.create_subprocess_exec(sys.executable, str(program), str(store))
    assert await killed.wait() == -9
    turns: list[Any] = [call("post", text="what I know"), "done"]
    agent = windlass.Agent("clerk", model=ScriptedModel(turns), tools=TOOLS, settings=QUICK)
    async with windlass.open(str(store), agents=[agent], lease_ms=500) as runtime:
        session = await runtime.session(agent, "s")
        await session.result()
        assert await told(session) == [("untrusted:mail", ""), ("private:payroll", "payroll")]
        asked = only(await events_of(session), PermissionRequested)
        assert [(one.tool, one.rule) for one in asked] == [("post", "trifecta")]
        assert len(only(await events_of(session), LabelsJoined)) == 2
        await sound(session)
