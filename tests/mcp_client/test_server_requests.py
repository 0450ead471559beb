"""What servers ask while a tool of theirs runs: people by forms, models, folders; and what they log. Granted by their
configuration alone, and on record."""

from __future__ import annotations

import asyncio
import json
import pathlib
from typing import Any

import pytest

import windlass
from tests.mcp_client.conftest import PATIENCE_S, Strange, patient
from tests.mcp_client.test_sessions import ALLOW, agent, at_work, events, of, said, until
from windlass.events.errors import UsageError
from windlass.events.questions import QuestionRequested, QuestionWithdrawn
from windlass.events.sessions import NoticeGiven
from windlass.events.tools.calls import ToolFinished
from windlass.events.tools.toolset import ToolsetChanged
from windlass.events.turns import ModelAsked, ModelRequested
from windlass.mcp.config import Mcp
from windlass.testing.scripted import ScriptedModel, call

FORM = {
    "message": "Who are\u200b you?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    },
}
SAMPLE = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "say hallo"}}],
    "systemPrompt": "be short",
    "maxTokens": 20,
}


def form_of(fields: int) -> Any:
    return {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(fields)}}


async def asked(session: windlass.Session) -> QuestionRequested:
    """Waits for a question, and gives it."""
    found: QuestionRequested = of(QuestionRequested, await until(session, QuestionRequested, 1))[0]
    return found


async def result(session: windlass.Session) -> Any:
    """What the server was told in the end."""
    await session.wait_idle()
    (finished,) = of(ToolFinished, await events(session))
    return json.loads(said(finished))


# --- people ---


async def test_a_form_is_answered_by_a_person(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    strange.tell("elicit.json", json.dumps(FORM))
    async with at_work(agent(strange, call("strange__elicits"), "done"), tmp_path) as session:
        await session.prompt("go")
        question = await asked(session)
        assert question.body is not None
        assert question.body.message == "The MCP server 'strange' asks: Who are you?"
        assert question.body.form == FORM["requestedSchema"]
        with pytest.raises(windlass.Refused, match="does not fit its form"):
            await session.answer(question.question_id, {"age": 3})
        await session.answer(question.question_id, {"name": "Ada", "age": 36})
        assert await result(session) == {"action": "accept", "content": {"name": "Ada", "age": 36}}


@pytest.mark.parametrize(("outcome", "action"), [("declined", "decline"), ("cancelled", "cancel")])
async def test_a_form_that_is_not_answered(strange: Strange, tmp_path: pathlib.Path, outcome: Any, action: str) -> None:
    strange.tell("able")
    strange.tell("elicit.json", json.dumps(FORM))
    async with at_work(agent(strange, call("strange__elicits"), "done"), tmp_path) as session:
        await session.prompt("go")
        await session.answer((await asked(session)).question_id, outcome=outcome)
        assert await result(session) == {"action": action}


async def test_an_address_is_shown_to_a_person(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    told = {"mode": "url", "message": "log in", "url": "https://example.invalid/in", "elicitationId": "e1"}
    strange.tell("elicit.json", json.dumps(told))
    async with at_work(agent(strange, call("strange__elicits"), "done"), tmp_path) as session:
        await session.prompt("go")
        question = await asked(session)
        assert question.body is not None
        assert question.body.url == "https://example.invalid/in"
        await session.answer(question.question_id, ["done"])
        assert await result(session) == {"action": "accept"}


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({**FORM, "requestedSchema": {"type": "object", "properties": {"a": {"type": "object"}}}}, "fields of a form"),
        ({**FORM, "requestedSchema": form_of(51)}, "a form is an object of at most 50 fields"),
        ({"mode": "url", "message": "x", "url": "http://example.invalid/", "elicitationId": "e"}, "addresses of https"),
    ],
)
async def test_what_no_person_is_asked(strange: Strange, tmp_path: pathlib.Path, told: Any, why: str) -> None:
    strange.tell("able")
    strange.tell("elicit.json", json.dumps(told))
    async with at_work(agent(strange, call("strange__elicits"), "done"), tmp_path) as session:
        await session.prompt("go")
        assert why in (await result(session))["message"]
        assert of(QuestionRequested, await events(session)) == []


async def test_a_question_whose_server_has_gone_is_withdrawn(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    strange.tell("elicit.json", json.dumps(FORM))
    async with at_work(agent(strange, call("strange__elicits"), "done"), tmp_path) as session:
        await session.prompt("go")
        question = await asked(session)
        kill(strange)
        await until(session, QuestionWithdrawn, 1)
        await session.wait_idle()
        (finished,) = of(ToolFinished, await events(session))
        assert (finished.error_code, finished.ok) == ("mcp_lost", False)
        with pytest.raises(windlass.Refused):
            await session.answer(question.question_id, {"name": "Ada"})


async def test_an_answer_outlives_the_server_of_a_call_that_is_made_again(
    strange: Strange, tmp_path: pathlib.Path
) -> None:
    """The call is made once more, the server asks the same, and nobody is asked twice."""
    strange.tell("able")
    strange.tell("elicit.json", json.dumps(FORM))
    helper = agent(strange, call("strange__elicits"), "done", contracts={"*": "idempotent"})
    async with at_work(helper, tmp_path) as session:
        await session.prompt("go")
        question = await asked(session)
        kill(strange)
        await strange.noted("asks elicitation/create", 2)
        await session.answer(question.question_id, {"name": "Ada"})
        assert await result(session) == {"action": "accept", "content": {"name": "Ada"}}
        assert len(of(QuestionRequested, await events(session))) == 1


def kill(strange: Strange) -> None:
    import os
    import signal

    os.kill(int(strange.notes("begins")[-1].split()[1]), signal.SIGKILL)


# --- models ---


async def test_a_model_is_asked_once_a_person_agreed(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    strange.tell("sample.json", json.dumps(SAMPLE))
    helper = agent(strange, call("strange__samples"), "hallo", "done", sampling="ask")
    async with at_work(helper, tmp_path) as session:
        await session.prompt("go")
        question = await asked(session)
        assert question.body is not None
        assert question.body.message.endswith(
            "wants the session's model asked this, for an answer of at most 20 tokens that it is given:\n"
            "be short\n\nsay hallo"
        )
        await session.answer(question.question_id, ["allow"])
        told = await result(session)
        (request,) = of(ModelAsked, await events(session))
    assert told["content"] == {"type": "text", "text": "hallo"}
    assert (request.lane, request.max_output_tokens, request.body.prompt) == ("tool", 20, "say hallo")


async def test_a_model_is_not_asked_if_a_person_does_not_agree(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    strange.tell("sample.json", json.dumps(SAMPLE))
    async with at_work(agent(strange, call("strange__samples"), "done", sampling="ask"), tmp_path) as session:
        await session.prompt("go")
        await session.answer((await asked(session)).question_id, ["deny"])
        assert (await result(session))["message"] == "the user did not agree"
        assert of(ModelAsked, await events(session)) == []


async def test_a_model_is_asked_without_a_person_if_that_is_allowed(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    strange.tell("sample.json", json.dumps(SAMPLE))
    async with at_work(
        agent(strange, call("strange__samples"), "hallo", "done", sampling="allow"), tmp_path
    ) as session:
        await session.prompt("go")
        assert (await result(session))["content"]["text"] == "hallo"
        spent = (await session.state()).budget.spent
    assert spent.usage.output_tokens > 0


async def test_what_is_not_granted_is_not_offered(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    strange.tell("sample.json", json.dumps(SAMPLE))
    helper = agent(strange, [call("strange__samples"), call("strange__roots")], "done", elicitation=False)
    async with at_work(helper, tmp_path) as session:
        await session.prompt("go")
        await session.wait_idle()
        told = {json.loads(said(each))["message"] for each in of(ToolFinished, await events(session))}
    assert told == {"Sampling not supported", "List roots not supported"}  # the calls run side by side
    assert json.loads(strange.notes("client")[0].removeprefix("client ")) == {}


@pytest.mark.parametrize(
    ("rule", "sampling", "comes"),
    [
        (windlass.deny("strange__sampling", reason="no models"), "allow", "denied"),
        (windlass.deny("strange__sampling"), "ask", "denied"),
        (windlass.deny("*__sampling", kinds=["mcp"]), "allow", "denied"),
        (windlass.deny(traits=["egress"], sources=["mcp:strange"], modes=["plan"]), "allow", "asked the model"),
        (windlass.ask("strange__sampling"), "allow", "asked a person"),
        (windlass.ask("strange__sampli*", when="args.max_tokens > 10"), "allow", "asked a person"),
        (windlass.ask("strange__samp*g", when="args.max_tokens > 100"), "allow", "asked the model"),
        (windlass.allow("strange__sampling"), "ask", "asked a person"),
        (windlass.allow("*"), "off", "not supported"),
        (windlass.deny("strange__elicitation"), "allow", "asked the model"),
    ],
)
async def test_a_policy_says_whether_a_server_may_have_a_model_asked_and_never_loosens(
    strange: Strange, tmp_path: pathlib.Path, rule: Any, sampling: Any, comes: str
) -> None:
    strange.tell("able")
    strange.tell("sample.json", json.dumps(SAMPLE))
    model = ScriptedModel([call("strange__samples"), "hallo", "done"])
    policy = windlass.Policy((rule,), default="allow")
    helper = windlass.Agent("helper", model, policy=policy, mcp=patient(strange.server(sampling=sampling)))
    async with at_work(helper, tmp_path) as session:
        await session.prompt("go")
        if comes == "asked a person":
            await session.answer((await asked(session)).question_id, ["deny"])
            assert (await result(session))["message"] == "the user did not agree"
        elif comes == "asked the model":
            assert (await result(session))["content"]["text"] == "hallo"
        else:
            why = {"denied": f"the policy denies it ({rule.name})", "not supported": "Sampling not supported"}[comes]
            assert why in (await result(session))["message"]
            assert rule.reason in (await result(session))["message"]
        found = await events(session)
    assert len(of(ModelAsked, found)) == (comes == "asked the model")
    assert len(of(QuestionRequested, found)) == (comes == "asked a person")


async def test_a_policy_says_whether_a_server_may_ask_people(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    strange.tell("elicit.json", json.dumps(FORM))
    model = ScriptedModel([call("strange__elicits"), "done"])
    policy = windlass.Policy((windlass.deny("strange__elicitation", when="args.mode == 'form'"),), default="allow")
    helper = windlass.Agent("helper", model, policy=policy, mcp=patient(strange.server()))
    async with at_work(helper, tmp_path) as session:
        await session.prompt("go")
        assert (await result(session))["message"].startswith("the policy denies it (deny strange__elicitation)")
        assert of(QuestionRequested, await events(session)) == []


def test_a_rule_about_what_a_server_asks_names_a_server_that_is_there(strange: Strange) -> None:
    with pytest.raises(UsageError, match="matches none of its tools"):
        windlass.Agent(
            "helper", ScriptedModel([]), policy=windlass.Policy((windlass.deny("other__sampling"),)),
            mcp=patient(strange.server()),
        )  # fmt: skip


async def test_a_call_may_have_so_many_tokens_of_a_model(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    strange.tell("sample.json", json.dumps(SAMPLE))
    helper = agent(strange, call("strange__samples"), "done", sampling="allow", sampling_tokens=24)
    async with at_work(helper, tmp_path) as session:
        await session.prompt("go")
        told = await result(session)
        assert told["message"] == "a call may have 24 tokens of a model in all, and this asks for up to 26 more"
        assert of(ModelAsked, await events(session)) == []


async def test_what_is_asked_in_any_language_counts_as_much_as_it_may_cost(
    strange: Strange, tmp_path: pathlib.Path
) -> None:
    """One sign of Chinese is a token or more, not a third of one."""
    strange.tell("able")
    words = {"role": "user", "content": {"type": "text", "text": "說" * 60_000}}
    strange.tell("sample.json", json.dumps({**SAMPLE, "messages": [words]}))
    async with at_work(agent(strange, call("strange__samples"), "done", sampling="allow"), tmp_path) as session:
        await session.prompt("go")
        assert "this asks for up to 60023 more" in (await result(session))["message"]


async def test_a_server_is_held_to_what_is_left_of_the_budget(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    strange.tell("sample.json", json.dumps({**SAMPLE, "maxTokens": 5_000}))
    model = ScriptedModel([call("strange__samples"), "hallo", "done"])
    servers = patient(strange.server(sampling="allow"))
    helper = windlass.Agent("helper", model, policy=ALLOW, mcp=servers, budget=windlass.Budget(tokens=3_000))
    async with at_work(helper, tmp_path) as session:
        await session.prompt("go")
        await session.wait_idle()
        requests = of(ModelRequested, await events(session))
        spent = (await session.state()).budget.spent.usage
    (asked_for,) = [each for each in requests if each.lane == "tool"]
    assert 0 < asked_for.output_tokens < 3_000
    assert (len(requests), spent.input_tokens) == (3, 30)  # ten for each, and the server's is one of them


async def test_what_a_person_could_not_be_shown_whole_is_not_asked(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    hidden = "say hallo" + " " * 20_000 + "and tell me all"
    words = {"role": "user", "content": {"type": "text", "text": hidden}}
    strange.tell("sample.json", json.dumps({**SAMPLE, "messages": [words]}))
    async with at_work(agent(strange, call("strange__samples"), "done", sampling="ask"), tmp_path) as session:
        await session.prompt("go")
        assert (await result(session))["message"] == "a person is asked about 20000 characters at most"
        assert of(QuestionRequested, await events(session)) == []


async def test_what_is_too_much_for_a_model_is_refused(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    strange.tell("sample.json", json.dumps({**SAMPLE, "messages": [{"role": "user", "content": image}]}))
    async with at_work(agent(strange, call("strange__samples"), "done", sampling="allow"), tmp_path) as session:
        await session.prompt("go")
        assert (await result(session))["message"] == "a model is asked in text, not in image"


# --- folders and logs ---


async def test_the_folder_is_told_to_a_server_that_may_know_it(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    folder = tmp_path / "a project"
    folder.mkdir()
    model = ScriptedModel([call("strange__roots"), "done"])
    helper = windlass.Agent("helper", model, policy=ALLOW, mcp=patient(strange.server(roots=True)))
    async with windlass.open(str(tmp_path / "work.db"), agents=[helper]) as runtime:
        session = await runtime.session(helper, "one", workspace=str(folder))
        await session.prompt("go")
        told = await result(session)
    assert told == {"roots": [{"uri": folder.resolve().as_uri(), "name": "a project"}]}


async def test_what_a_server_logs_is_put_on_record_within_bounds(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    lines = [
        ["info", "small"],
        ["warning", "hm\u200b"],
        ["critical", {"a": 1}],
        *[["error", f"e{n}"] for n in range(60)],
    ]
    strange.tell("log.json", json.dumps(lines))
    async with at_work(agent(strange, call("strange__logs"), "done"), tmp_path) as session:
        await session.prompt("go")
        await session.wait_idle()
        found = [each for each in of(NoticeGiven, await until(session, NoticeGiven, 51)) if each.code == "mcp_log"]
    assert [(each.level, each.message) for each in found[:2]] == [
        ("warning", "MCP server 'strange' (l) says: hm"),
        ("error", "MCP server 'strange' (l) says: {\"a\":1}"),
    ]
    assert len(found) == 51
    assert found[-1].message == "MCP server 'strange' says more than the 50 lines that are kept"
    assert strange.notes("level") == ["level warning"]


# --- a server that says nothing ---


async def test_a_silent_server_does_not_hold_up_a_session(strange: Strange, tmp_path: pathlib.Path) -> None:
    """The session is opened and works; that the server is not there is said when its time is over."""
    strange.tell("silent")
    other = Strange(tmp_path / "other")
    other.folder.mkdir()
    model = ScriptedModel([call("other__echo", text="x"), "done"])
    servers = [strange.server(start_timeout_ms=3_600_000), windlass_other(other)]
    helper = windlass.Agent("helper", model, policy=ALLOW, mcp=Mcp(servers=tuple(servers), wait_ms=1))
    async with windlass.open(str(tmp_path / "work.db"), agents=[helper]) as runtime:
        session = await runtime.session(helper, "one")
        await until(session, ToolsetChanged, 2)  # the other one is there, although nobody waited for it
        async with asyncio.timeout(PATIENCE_S):
            await session.prompt("go")
            await session.wait_idle()
        (finished,) = of(ToolFinished, await events(session))
        assert said(finished) == "x"
        assert list((await session.state()).mcp.servers) == ["other"]


def windlass_other(other: Strange) -> Any:
    import msgspec

    return msgspec.structs.replace(other.server(), name="other")
