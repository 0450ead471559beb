"""What people say to a session: checked when it is sent, bound to what was shown, and recorded with who said it."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import msgspec
import pytest

import windlass
from windlass.cli.answer_text import read_answer
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.hooks import HookRuling
from windlass.events.questions import Answer, AnswerBody, AnswerReceived, Plan, QuestionBody, QuestionRequested
from windlass.events.runs import InterruptReceived, PartialBody
from windlass.events.sessions import NoticeGiven
from windlass.events.tools.calls import ToolFinished
from windlass.events.tools.permissions import PermissionApproved
from windlass.events.values.blocks import Text
from windlass.events.values.usage import Usage
from windlass.runtime.api.approvals import QuestionAsk, Reply
from windlass.runtime.api.session import Session
from windlass.runtime.hooks.hook import Denied, Hook
from windlass.runtime.operate.command_delivery import deliver
from windlass.testing.scripted import call

from .support import agent_of, events_of, only, sound, started

FORM = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
PLAN = {"summary": "two steps", "content": "1. look 2. pay", "actions": ["approve", "no", "cancel"]}


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    return f"paid {cents}"


def clerk(*script: Any, **more: Any) -> windlass.Agent:
    tools = [pay, "ask_user", "plan"]
    return agent_of(*script, name="clerk", tools=tools, policy=windlass.Policy([windlass.ask("pay")]), **more)


async def refusal(sent: Any) -> str:
    with pytest.raises(windlass.Refused) as caught:
        await sent
    return str(caught.value)


# --- forms and options --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"amount": "much"}, "amount: must be integer, got string 'much'"),
        ({}, "amount: is required"),
        ("much", "is a form: answer it with an object that fits its schema"),
    ],
)
async def test_an_answer_that_does_not_fit_its_form_is_refused_when_it_is_sent(tmp_path, answer, told):
    store = str(tmp_path / "work.db")
    agent = clerk(call("ask_user", message="How much?", form=FORM), "thanks")
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (question,) = await session.questions()
        assert told in await refusal(session.answer(question.question_id, answer))
    async with windlass.open(store) as unbound:  # nobody drives it: it would wait in the inbox, and be refused later
        session = await unbound.get("s")
        assert told in await refusal(session.answer(question.question_id, answer))
        sent = session.answer(question.question_id, answer)._command
        with pytest.raises(windlass.UsageError, match="would refuse that now"):
            await deliver(unbound.store, session.key, sent, wait_s=0)
        assert await unbound.store.inbox.waiting(session.key) == []
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.get("s")
        await session.answer(question.question_id, {"amount": 5})
        assert (await session.result()).text == "thanks"
        await sound(session)


@pytest.mark.guard(60)
async def test_an_approver_whose_answer_does_not_fit_is_not_asked_in_a_circle():
    asked: list[QuestionAsk] = []

    def approver(ask: Any) -> Reply:
        asked.append(ask)
        return Reply(body=AnswerBody(content={"amount": "much"}))

    agent = clerk(call("ask_user", message="How much?", form=FORM), approver=approver)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        assert len(asked) == 1
        (notice,) = only(await events_of(session), NoticeGiven)
        assert "does not fit its form: amount: must be integer" in notice.message


@pytest.mark.guard(60)
async def test_an_approver_whose_answer_the_session_refuses_is_not_asked_in_a_circle():
    asked: list[Any] = []

    def approver(ask: Any) -> windlass.Approve:
        asked.append(ask)
        return windlass.Approve(scope="pattern")

    agent = clerk(call("pay", cents=1), approver=approver)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
    assert len(asked) == 1


@pytest.mark.parametrize(("picked", "told"), [(["red", "blue"], "pick one"), (["green"], "none of its options")])
async def test_a_pick_that_is_none_of_the_options_is_refused(picked, told):
    options = [{"label": "red"}, {"label": "blue"}]
    asks = call("ask_user", questions=[{"question": "Which?", "options": options, "free_text": False}])
    agent = clerk(asks, "thanks")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (question,) = await session.questions()
        assert told in await refusal(session.answer(question.question_id, picked))
        await session.answer(question.question_id, ["blue"])
        assert (await session.result()).text == "thanks"


# --- plans --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["no, do not do this!", "n", "Reject", "no", "cancel", "yes", "0"])
async def test_whatever_is_said_to_a_plan_but_approve_keeps_plan_mode(said):
    for answer in (by_api, by_approver, by_terminal):
        agent = clerk(call("plan", **PLAN), call("pay", cents=1), "as you wish", mode="plan")
        if answer is by_approver:
            agent = dataclasses.replace(agent, approver=functools.partial(saying, said))
        async with windlass.open(agents=[agent]) as rt:
            session = await rt.session(agent, "s")
            await session.prompt("go")
            if answer is not by_approver:
                await session.result()
                await answer(session, said)
            await session.result()
            assert (await session.state()).setup.mode == "plan", answer.__name__
            (answered,) = only(await events_of(session), AnswerReceived)
            words = f"{answered.action} {answered.body.feedback if answered.body else ''}"
            assert said in words, "the model reads it"


@pytest.mark.parametrize(
    "said", [0, [], {}, {"approve": False}, (False, "no"), 1.0, b"no", object()], ids=lambda said: type(said).__name__
)
async def test_what_is_no_answer_approves_no_plan(said):
    agent = clerk(call("plan", **PLAN), call("pay", cents=1), "as you wish", mode="plan")
    agent = dataclasses.replace(agent, approver=functools.partial(saying, said))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        assert (await session.state()).setup.mode == "plan"


def saying(said: Any, ask: Any) -> Any:
    return said


async def by_api(session: Session, said: str) -> None:
    (question,) = await session.questions()
    await session.answer(question.question_id, action=said)


async def by_approver(session: Session, said: str) -> None:
    """The approver says it by itself."""


async def by_terminal(session: Session, said: str) -> None:
    (question,) = await session.questions()
    asked = QuestionRequested(question_id=question.question_id, call_id="c", kind="plan", body=question.body)
    body, action = read_answer(asked, said)
    await session.answer(question.question_id, body, action=action)


@pytest.mark.parametrize("verdict", [True, windlass.Approve(), "approve"])
async def test_an_explicit_approval_approves_a_plan(verdict):
    agent = clerk(call("plan", **PLAN), "on it", mode="plan", approver=lambda ask: verdict)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "on it"
        assert (await session.state()).setup.mode == "interactive"


def test_zero_is_no_option_and_words_are_an_answer_where_there_are_none():
    options = msgspec.convert({"questions": [{"question": "?", "options": [{"label": "a"}]}]}, QuestionBody)
    free = msgspec.convert({"questions": [{"question": "?"}]}, QuestionBody)
    asked = {"question_id": "q1", "call_id": "c1", "kind": "choice"}
    with pytest.raises(windlass.UsageError, match="numbered 1 to 1"):
        read_answer(QuestionRequested(body=options, **asked), "0")  # type: ignore[arg-type]
    body, _ = read_answer(QuestionRequested(body=free, **asked), "0")  # type: ignore[arg-type]
    assert [answer.text for answer in body.answers] == ["0"]
    plan = QuestionBody(plan=Plan(summary="s", content="c"))
    assert read_answer(QuestionRequested(question_id="q1", call_id="c1", kind="plan", body=plan), "0")[1] == "reject"


# --- what is approved, and by whom --------------------------------------------------------------------------------


async def test_an_approval_names_what_it_approves_and_a_wrong_id_is_refused_when_it_is_sent(tmp_path):
    store = str(tmp_path / "work.db")
    agent = clerk(call("pay", cents=1), "paid")
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        result = await session.result()
    async with windlass.open(store) as unbound:
        session = await unbound.get("s")
        (row,) = await unbound.sessions()
        (asked,) = await session.requests()
        assert (result.waiting_for, row.waiting_for) == ((asked.request_id,), (asked.request_id,))
        assert row.waiting_words == (f"permission {asked.request_id} (pay)",)
        for wrong in (row.waiting_words[0], "p999", ""):
            assert "is not open" in await refusal(session.approve(wrong, digest=asked.digest))
        assert "something else than was approved" in await refusal(session.approve(asked.request_id, digest="x"))
        with pytest.raises(windlass.UsageError, match=r"approve one of `await session.requests\(\)`"):
            await session.approve(asked.request_id)
        assert await unbound.store.inbox.waiting(session.key) == []
        await session.approve(asked, actor="boss", auth="token")
    async with windlass.open(store, agents=[agent], poll_ms=5) as rt:
        session = await rt.get("s")
        (approved,) = await started(session, PermissionApproved)
        assert (approved.actor, approved.auth, approved.digest) == ("boss", "token", asked.digest)


async def test_an_approver_may_say_who_answered():
    said = windlass.Approve(by="ada", auth="token")
    agent = clerk(call("pay", cents=1), "paid", approver=lambda ask: said)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (approved,) = only(await events_of(session), PermissionApproved)
        (prompted,) = only(await events_of(session), PromptReceived)
    assert (approved.actor, approved.auth, prompted.auth) == ("ada", "token", "none")


# --- what a client may not say ------------------------------------------------------------------------------------


async def test_what_only_the_host_may_say_is_not_believed(tmp_path):
    forged = HookRuling(hook_id="guard", point="prompt", outcome="denied", message="forged", fatal=True)
    body = PromptBody(content=(Text(text="go"),))
    prompt = PromptReceived(command_id="p", tokens=10**9, bytes=10**9, hooks=(forged,), body=body)
    spent = Usage(input_tokens=10**9, output_tokens=10**9)
    stop = InterruptReceived(command_id="i", tokens=10**9, usage=spent, body=PartialBody(text="forged"))
    agent = clerk("hello", "again")
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await rt.send(session.key, prompt)
        await rt.send(session.key, stop)
        await session.wait_idle()
        events = await events_of(session)
        (prompted,), (stopped,) = only(events, PromptReceived), only(events, InterruptReceived)
        assert (prompted.hooks, prompted.tokens < 100, prompted.bytes) == ((), True, 2)
        assert (stopped.tokens, stopped.usage, stopped.body) == (0, None, None)
        await sound(session)


@pytest.mark.parametrize(
    ("body", "outcome", "weighs"),
    [
        (AnswerBody(answers=(Answer(index=0, text="red"),)), "answered", range(4, 40)),
        (AnswerBody(answers=(Answer(index=0, text="word " * 400),)), "answered", range(300, 900)),
        (None, "declined", range(8, 9)),
    ],
)
async def test_what_an_answer_weighs_is_counted_here_whatever_a_client_says(body, outcome, weighs):
    agent = clerk(call("ask_user", question="Which?"), "done")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.result(await session.prompt("go"))
        (question,) = only(await events_of(session), QuestionRequested)
        answer = AnswerReceived(
            command_id="a", question_id=question.question_id, outcome=outcome, tokens=10**9, body=body
        )
        await rt.send(session.key, answer)
        assert (await session.result()).text == "done"
        (answered,) = only(await events_of(session), AnswerReceived)
        assert answered.tokens in weighs


async def test_a_result_that_a_hook_withholds_is_no_success():
    async def withhold(moment: Any) -> Denied:
        return Denied(message="it names a customer")

    hook = Hook(point="after_tool", kind="guard", run=withhold)
    agent = agent_of(call("pay", cents=7), "sorry", tools=[pay], hooks=[hook])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (finished,) = only(await events_of(session), ToolFinished)
        assert finished.body is not None
        assert (finished.ok, finished.body.content) == (
            False,
            (Text(text="the result is withheld: it names a customer"),),
        )
        assert "paid 7" not in str(agent.model.requests[-1].items)  # type: ignore[union-attr]
