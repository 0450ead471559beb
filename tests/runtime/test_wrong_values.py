"""Values that people give: a wrong one is named at once, and none can make a log that nobody can read."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from windlass.events.sessions import NoticeGiven
from windlass.events.values.blocks import Text
from windlass.events.values.items import ModelSettings
from windlass.events.values.policy import Policy, Rule
from windlass.events.values.usage import Usage
from windlass.runtime.api.approvals import Approve, Deny
from windlass.testing.scripted import ScriptedModel, call, turn
from windlass.tools.context import Suspend, ToolContext

from .support import agent_of, events_of, only, sound

WRONG = {
    "name": 5,
    "instructions": lambda: "late",
    "model": ScriptedModel,
    "tools": "read",
    "knowledge": "one fact",
    "hooks": [print],
    "approver": True,
    "policy": [windlass.allow("*")],
    "budget": {"usd": 1},
    "session_budget": 5,
    "mode": "careless",
    "settings": windlass.Settings(turns_max=0),
    "model_settings": ModelSettings(temperature="hot"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("field", WRONG)
def test_an_agent_with_a_wrong_value_is_refused_by_the_name_of_the_field(field):
    given: Any = {"name": "a", "model": ScriptedModel(["hi"]), field: WRONG[field]}
    with pytest.raises(windlass.UsageError, match=field.removesuffix("s")):
        windlass.Agent(**given)


@pytest.mark.parametrize(
    "policy",
    [Policy(default="maybe"), Policy([Rule(action="perhaps")]), Policy(["deny"])],  # type: ignore[arg-type,list-item]
)
def test_a_policy_that_says_what_nobody_understands_is_refused(policy):
    with pytest.raises(windlass.UsageError, match="policy"):
        windlass.Agent("a", policy=policy)


@pytest.mark.parametrize(
    "given", [{"usd": -1}, {"usd": float("nan")}, {"seconds": "1"}, {"turns": 1.5}, {"tokens": True}]
)
def test_a_budget_counts_to_numbers_that_can_be_reached(given):
    with pytest.raises(windlass.UsageError, match=f"budget {next(iter(given))}"):
        windlass.Budget(**given)


@pytest.mark.parametrize("prompt", [5, None, ["a", "b"], {"text": "a"}])
async def test_a_prompt_that_is_no_text_and_no_blocks_is_refused_at_once(prompt):
    async with windlass.open(agents=[agent := agent_of("hi")]) as runtime:
        session = await runtime.session(agent)
        with pytest.raises(windlass.UsageError, match="a prompt is a text or a list of blocks"):
            session.prompt(prompt)


async def test_what_cannot_be_kept_is_refused_and_the_session_goes_on(tmp_path):
    agent = agent_of("hi")
    async with windlass.open(str(tmp_path / "s.db"), agents=[agent]) as runtime:
        with pytest.raises(windlass.UsageError, match=r"cannot begin like this.*title"):
            await runtime.session(agent, "s", title=5)  # type: ignore[arg-type]
        with pytest.raises(windlass.UsageError, match=r"cannot begin like this.*metadata"):
            await runtime.session(agent, "s", metadata={"a": 5})  # type: ignore[dict-item]
        session = await runtime.session(agent, "s")
        with pytest.raises(windlass.Refused, match=r"cannot be kept.*behavior"):
            await session.prompt("x", behavior="shout")  # type: ignore[arg-type]
        with pytest.raises(windlass.Refused, match="cannot be kept"):
            await session.set_title(5)  # type: ignore[arg-type]
        await session.prompt("go on")
        assert (await session.result()).text == "hi"
        await sound(session)


def _raising(error):
    def tool():
        raise error

    return tool


def _counting(context: ToolContext):
    context.changed("a.txt", lines_added=1.5)  # type: ignore[arg-type]


async def _asking(context: ToolContext):
    await context.ask("which?", options=[1, 2])  # type: ignore[list-item]


async def _consulting(context: ToolContext):
    await context.model("say", max_output_tokens=-1)


class Broken(windlass.ToolError):
    @property
    def told(self):
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_raising(windlass.ToolError("gone", code=404)), "gone"),
        (_raising(windlass.ToolError(ValueError("out of range"))), "out of range"),  # type: ignore[arg-type]
        (_raising(Broken("x")), "the tool failed (Broken)"),
        (_raising(Suspend([1])), "payload cannot be kept"),  # type: ignore[arg-type]
        (_counting, "the tool failed (UsageError)"),
        (_asking, "cannot be kept"),
        (_consulting, "cannot be kept"),
    ],
)
async def test_whatever_a_tool_says_the_run_and_its_log_live(tmp_path, function, told):
    model = ScriptedModel([call("t"), "done"])
    agent = windlass.Agent("a", model=model, tools=[windlass.tool(name="t")(function)])
    async with windlass.open(str(tmp_path / "s.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        await sound(session)
    [shown] = model.requests[1].items[-1].content
    assert isinstance(shown, Text)
    assert told in shown.text


@pytest.mark.parametrize("verdict", [Approve(scope="for ever"), Deny(feedback=5), "yes", 7])  # type: ignore[arg-type]
async def test_an_approver_that_says_what_nobody_understands_leaves_the_question_open(tmp_path, verdict):
    async def approver(asked):
        return verdict

    agent = agent_of(
        call("t"),
        "done",
        tools=[windlass.tool(name="t")(lambda: "ok")],
        policy=Policy([windlass.ask("t")]),
        approver=approver,
    )
    async with windlass.open(str(tmp_path / "s.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        result = await session.result()
        assert result.status == "asked"
        assert [notice.code for notice in only(await events_of(session), NoticeGiven)] == ["approver_failed"]
        await session.approve((await session.requests())[0])
        assert (await session.result()).text == "done"
        await sound(session)


async def test_an_approver_may_be_a_plain_function():
    agent = agent_of(
        call("t"), "done", tools=[windlass.tool(name="t")(lambda: "ok")], policy=Policy([windlass.ask("t")])
    )
    assert (await agent.run("go", approver=lambda asked: True)).text == "done"


async def test_a_model_that_reports_what_cannot_be_kept_fails_its_run_and_not_its_session(tmp_path):
    wrong = turn("hi", usage=Usage(input_tokens=1.5))  # type: ignore[arg-type]
    agent = agent_of(wrong, "better")
    async with windlass.open(str(tmp_path / "s.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "failed"
        await session.prompt("again")
        assert (await session.result()).text == "better"
        await sound(session)


async def test_what_belongs_to_an_audit_note_is_on_record():
    class Odd:
        def __repr__(self):
            return "<odd>"

    def pay(context: ToolContext) -> str:
        context.note("paid", cents=250, to="ada", odd=Odd())
        context.note("much", text="x" * 100_000)
        return "ok"

    agent = agent_of(call("pay"), "done", tools=[windlass.tool(pay)])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        await session.prompt("go")
        await session.result()
        first, second = only(await events_of(session), NoticeGiven)
        assert (first.code, first.message, first.data) == ("audit", "paid", {"cents": 250, "to": "ada", "odd": "<odd>"})
        assert list(second.data) == ["cut"]


async def test_a_tool_is_called_with_arguments_of_any_name():
    def echo(tool: str, actor: str, self: str = "-") -> str:
        return f"{tool} {actor} {self}"

    agent = agent_of("hi", tools=[windlass.tool(echo)])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        await session.call_tool("echo", {"actor": "a"}, tool="t", self="s")
        await session.result()
        [finished] = only(await events_of(session), windlass.ToolFinished)
        assert finished.body.content[0].text == "t a s"


async def test_an_empty_session_id_is_refused_and_not_replaced(tmp_path):
    agent = agent_of("hi")
    with pytest.raises(windlass.UsageError, match="a session id must have 1 to 200 characters, not 0"):
        await agent.run("x", store=tmp_path / "s.db", session="")
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        with pytest.raises(windlass.UsageError, match="a session id must have 1 to 200 characters, not 0"):
            await session.fork("")


async def test_a_filter_that_means_nothing_is_refused_and_not_taken_for_no_sessions():
    async with windlass.open() as runtime:
        with pytest.raises(windlass.UsageError, match=r"write states=\('asked',\)"):
            await runtime.sessions(states="asked")
        for name in ("state", "tenant"):
            with pytest.raises(windlass.UsageError, match=f"knows no filter '{name}': there are states, agent"):
                await runtime.sessions(**{name: "x"})
        assert await runtime.sessions(states=("asked",), limit=5) == []


async def test_what_is_no_agent_is_refused_where_an_agent_is_wanted():
    agent: Any = agent_of("hi")
    with pytest.raises(windlass.UsageError, match=r"agents is a list: write agents=\[...\]"):
        windlass.open(agents=agent)
    async with windlass.open() as rt:
        with pytest.raises(windlass.UsageError, match=r"an agent is a windlass\.Agent, not 'march': .* by get"):
            await rt.session("march")
