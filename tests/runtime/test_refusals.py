"""Commands that cannot be taken: each is refused with a code, with what became of the thing, and with what to do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass
from windlass.events.base import Event, name_of
from windlass.events.commands import CommandRefused, PromptBody, QueueBody, QueueEdited
from windlass.events.questions import AnswerReceived, QuestionRequested, QuestionWithdrawn
from windlass.events.runs import InterruptReceived
from windlass.events.stored.codec import encode_command
from windlass.events.stored.record import EVENT_BYTES_MAX
from windlass.events.tools.calls import (
    CallReceived,
    ResultReceived,
    ToolCancelled,
    ToolDelegated,
    ToolDenied,
    ToolFinished,
    ToolOutcomeUnknown,
    ToolResolved,
    ToolSettled,
    ToolTimedOut,
)
from windlass.events.tools.permissions import (
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
    PermissionWithdrawn,
)
from windlass.events.trees.growth import NodesReceived
from windlass.events.values.blocks import FileAttachment, Text
from windlass.events.values.graphs import FlowNode
from windlass.events.values.ids import prompt_id
from windlass.runtime.api.sent_command import Sent
from windlass.runtime.api.session import Session
from windlass.runtime.commands.stale_answers import fate_in
from windlass.runtime.drive.mailbox import PARTIAL_CHARS_MAX
from windlass.runtime.hooks.hook import Changed
from windlass.store.base import InboxCommand
from windlass.testing.scripted import call, hang

from .support import agent_of, events_of, only, sound, started

HUGE = "x" * (EVENT_BYTES_MAX + 1)
OPEN_TAB = windlass.external_tool("open_tab", "Opens a tab.", {"type": "object", "properties": {}})


@windlass.tool
def pay(cents: int, note: str = "") -> str:
    "Pay."
    return "paid"


def clerk(*turns: Any, **more: Any) -> windlass.Agent:
    rules = windlass.Policy(rules=(windlass.ask("pay"), windlass.allow("open_tab")))
    return agent_of(*turns, name="clerk", tools=[pay, OPEN_TAB, "ask_user"], policy=rules, **more)


async def refusal(sending: Any) -> tuple[str, str]:
    with pytest.raises(windlass.Refused) as caught:
        await sending
    return caught.value.code, str(caught.value)


# --- too large ---

TOO_LARGE = (
    "this {} is larger than the 1048576 bytes that one event may have: send it in parts, or put it in a file and say "
    "where it is"
)


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_what_does_not_fit_one_event_is_refused_and_the_session_goes_on(tmp_path, elsewhere):
    store = str(tmp_path / "work.db")
    agent = clerk([call("open_tab"), call("ask_user", question="Which?")], "done", "more")
    async with windlass.open(store, agents=[agent], poll_ms=10) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        events = await events_of(session)
        (given,), (asked,) = only(events, ToolDelegated), only(events, QuestionRequested)
        async with windlass.open(store) as other:
            sender = await other.get("s") if elsewhere else session
            told = [
                await refusal(sender.prompt(HUGE)),
                await refusal(sender.answer(asked.question_id, HUGE)),
                await refusal(sender.tool_result(given.call_id, HUGE)),
                await refusal(sender.call_tool("pay", cents=1, note=HUGE)),
                await refusal(sender.signal("disk", HUGE)),
                await refusal(sender.deny("p1", HUGE)) if elsewhere else ("too_large", TOO_LARGE.format("permission")),
            ]
        names = ["prompt", "answer", "result", "call", "signal", "permission"]
        assert told == [("too_large", TOO_LARGE.format(name)) for name in names]
        assert await events_of(session) == events, "nothing was written"
        await session.tool_result(given.call_id, "tab 3")
        await session.answer(asked.question_id, "red")
        assert (await session.result()).text == "done"
        await session.prompt("x" * (EVENT_BYTES_MAX - 4_096))
        assert (await session.result()).text == "more"
        await sound(session)


async def test_many_entries_of_metadata_are_too_large_too():
    agent = clerk("x")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        many = {f"key{number}": "x" * 4_000 for number in range(300)}
        assert await refusal(session.set_metadata(**many)) == ("too_large", TOO_LARGE.format("change"))
        code, told = await refusal(session.set_metadata(team="x" * 5_000))
        assert (code, told) == ("too_large", "one entry of the metadata is at most 4096 characters")


async def test_what_json_cannot_say_is_refused_by_name():
    agent = clerk("x")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        code, told = await refusal(session.call_tool("pay", cents=object()))
        assert code == "malformed"
        assert told.startswith("this call holds what has no form in JSON: ")
        await session.prompt("still here")
        assert (await session.result()).text == "x"


async def test_a_prompt_that_a_hook_makes_too_large_is_refused():
    grow = windlass.Hook(point="prompt", run=lambda m: Changed(value=HUGE), kind="transform", name="grow")
    agent = clerk("x", hooks=[grow])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        assert await refusal(session.prompt("small")) == ("too_large", TOO_LARGE.format("prompt"))


async def test_an_interrupt_lands_however_much_was_written():
    agent = agent_of(["\x01" * (PARTIAL_CHARS_MAX + 5), hang()], "next")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        listener = rt.slots.subscribe(session.key)
        await session.prompt("go")
        async for told in listener:
            if isinstance(told, windlass.TextDelta):
                break
        listener.close()
        await session.interrupt()
        (stopped,) = only(await events_of(session), InterruptReceived)
        assert stopped.body.text == "\x01" * PARTIAL_CHARS_MAX
        await sound(session)


# --- too late ---


async def waiting(session: Session) -> tuple[str, str, str]:
    """The ids of the permission, the question and the client's call that wait."""
    await session.prompt("go")
    assert (await session.result()).status == "asked"
    events = await events_of(session)
    (asked,), (question,) = only(events, PermissionRequested), only(events, QuestionRequested)
    (given,) = only(events, ToolDelegated)
    return asked.request_id, question.question_id, given.call_id


ALL = [call("pay", cents=5), call("ask_user", question="Which?"), call("open_tab")]


async def test_whoever_answers_too_late_learns_who_answered_and_how():
    agent = clerk(ALL, "done")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        permission, question, call_id = await waiting(session)
        await session.approve((await session.requests())[0], actor="boss")
        await session.answer(question, "red", actor="ann")
        await session.tool_result(call_id, "tab 3", actor="browser")
        assert (await session.result()).text == "done"
        approved = f"permission {permission} is not open any more: boss approved it"
        assert await refusal(session.approve(permission, digest="x")) == ("not_open", approved)
        assert await refusal(session.deny(permission)) == ("not_open", approved)
        answered = f"question {question} is not open any more: ann answered it"
        assert await refusal(session.answer(question, "blue")) == ("not_open", answered)
        given = f"call {call_id} is not open any more: browser gave its result"
        assert await refusal(session.tool_result(call_id, "tab 4")) == ("not_open", given)
        assert await refusal(session.settle(call_id, "happened")) == ("not_open", given)
        await sound(session)


async def test_whoever_answers_what_was_withdrawn_learns_why():
    agent = clerk(ALL, "next")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        permission, question, call_id = await waiting(session)
        await session.cancel()
        withdrawn = "is not open any more: it was withdrawn (cancelled)"
        assert await refusal(session.approve(permission, digest="x")) == (
            "not_open",
            f"permission {permission} {withdrawn}",
        )
        assert await refusal(session.answer(question)) == ("not_open", f"question {question} {withdrawn}")
        gone = f"call {call_id} is not open any more: it was given up (cancelled)"
        assert await refusal(session.tool_result(call_id, "x")) == ("not_open", gone)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (PermissionApproved(command_id="x", request_id="p1", actor="ada"), "ada approved it"),
        (PermissionDenied(command_id="x", request_id="p1"), "someone denied it"),
        (PermissionWithdrawn(request_id="p1", reason="superseded"), "it was withdrawn (superseded)"),
        (AnswerReceived(command_id="x", question_id="q1", outcome="declined"), "someone declined it"),
        (QuestionWithdrawn(question_id="q1", reason="cancelled"), "it was withdrawn (cancelled)"),
        (ResultReceived(command_id="x", call_id="c1.0", actor="tab"), "tab gave its result"),
        (ToolSettled(command_id="x", call_id="c1.0", outcome="did_not_happen"), "someone settled it (did not happen)"),
        (ToolTimedOut(call_id="c1.0", timeout_ms=5), "it timed out"),
        (ToolTimedOut(call_id="c1.0", timeout_ms=5, settle=True), None),
        (ToolFinished(call_id="c1.0"), "it has its result"),
        (ToolResolved(call_id="c1.0", text="done"), "it has its result"),
        (ToolCancelled(call_id="c1.0", reason="not_carried_over"), "it was given up (not carried over)"),
        (ToolDenied(call_id="c1.0", reason="no_approver"), "it was denied (no approver)"),
        (ToolOutcomeUnknown(call_id="c1.0"), "it was cut off, and the model was told that its outcome is unknown"),
        (ToolOutcomeUnknown(call_id="c1.0", settle=True), None),
        (ToolDelegated(call_id="c1.0"), None),
    ],
    ids=lambda given: name_of(given) if isinstance(given, Event) else "",
)
def test_each_end_of_a_request_is_told_to_whoever_is_late_and_what_is_to_be_settled_is_no_end(event, told):
    assert fate_in(event) == told


async def test_nodes_for_a_session_that_carries_out_no_workflow_are_refused_with_the_reason():
    agent = agent_of("hello")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.result(await session.prompt("hi"))
        sent = rt.send(session.key, NodesReceived(command_id="n", nodes=(FlowNode(name="more"),)))
        assert await refusal(sent) == ("no_flow", "'s' is no workflow that has begun")
        await sound(session)


@pytest.mark.parametrize("name", ["p99", "c99.0", "nonsense"])
async def test_what_was_never_asked_is_told_apart(name):
    agent = clerk(ALL)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        _, _, call_id = await waiting(session)
        told = "{} {!r} is not open: this session has none of that id"
        assert await refusal(session.approve(name, digest="x")) == ("not_open", told.format("permission", name))
        assert await refusal(session.answer(name)) == ("not_open", told.format("question", name))
        assert await refusal(session.tool_result(name, "x")) == ("not_open", told.format("call", name))
        busy = f"call {call_id} does not wait for a word on its outcome: it is delegated"
        assert await refusal(session.settle(call_id, "happened")) == ("not_open", busy)


async def test_a_late_answer_from_another_process_is_refused_where_it_is_sent(tmp_path):
    store = str(tmp_path / "work.db")
    agent = clerk(ALL, "done")
    async with windlass.open(store, agents=[agent], poll_ms=10) as rt:
        session = await rt.session(agent, "s")
        permission, _, _ = await waiting(session)
        await session.deny(permission, actor="boss")
        async with windlass.open(store) as other:
            elsewhere = await other.get("s")
            told = f"permission {permission} is not open any more: boss denied it"
            assert await refusal(elsewhere.approve(permission, digest="x", actor="late")) == ("not_open", told)


async def test_a_late_answer_that_is_on_its_way_already_is_refused_on_record(tmp_path):
    store = str(tmp_path / "work.db")
    agent = clerk(ALL, "done")
    async with windlass.open(store, agents=[agent], poll_ms=10) as rt:
        session = await rt.session(agent, "s")
        permission, _, _ = await waiting(session)
        await session.deny(permission, actor="boss")
        late = PermissionApproved(command_id="late", actor="late", request_id=permission)
        await rt.store.inbox.send(session.key, InboxCommand(command_id="late", at_ms=0, data=encode_command(late)))
        refused = await started(session, CommandRefused)
        told = f"permission {permission} is not open any more: boss denied it"
        assert refused == [CommandRefused(command_id="late", code="not_open", message=told)]


async def test_an_answer_behind_another_ones_in_the_inbox_is_told_what_came_first(tmp_path):
    store = str(tmp_path / "work.db")
    agent = clerk(ALL, "done")
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        permission, question, call_id = await waiting(session)
    async with windlass.open(store) as unbound:  # nobody drives it: what is sent waits
        session = await unbound.get("s")
        (request,) = await session.requests()
        await session.approve(request, actor="ada", command_id="yes")
        await session.answer(question, "blue", actor="ada")
        await session.tool_result(call_id, "open", actor="ada")
        told = "{} has an answer that waits in the inbox: ada {}; the first counts"
        late = [
            (session.deny(permission), told.format(f"permission {permission}", "approved it")),
            (session.approve(request), told.format(f"permission {permission}", "approved it")),
            (session.answer(question, "red"), told.format(f"question {question}", "answered it")),
            (session.tool_result(call_id, "shut"), told.format(f"call {call_id}", "gave its result")),
        ]
        for sent, message in late:
            assert await refusal(sent) == ("not_open", message)
        assert await session.approve(request, actor="ada", command_id="yes") == "yes"  # the same one, sent again
        assert len(await unbound.store.inbox.waiting(session.key)) == 3


async def test_the_same_answer_sent_again_is_acknowledged_again():
    agent = clerk(ALL, "done")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await waiting(session)
        (request,) = await session.requests()
        first = await session.approve(request, command_id="yes")
        await asyncio.sleep(0)
        assert await session.approve(request, command_id="yes") == first


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_a_prompt_that_says_nothing_is_refused(text):
    agent = agent_of("never asked")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        assert await refusal(session.prompt(text)) == (
            "no_content",
            "a prompt needs content: give it words, or attach something",
        )
        assert only(await events_of(session), CommandRefused) == []


async def test_a_call_without_arguments_is_refused():
    agent = clerk("never asked")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        sent = Sent(session, CallReceived(command_id="c", tool="pay"))
        assert await refusal(sent) == ("no_content", "a call needs its arguments")


async def test_what_no_model_may_see_cannot_be_attached_to_a_prompt_that_waits(tmp_path):
    (tmp_path / "server.pem").write_text("hunter2")
    agent = agent_of(hang(), policy=windlass.Policy(exclude=["*.pem"]))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("begin")
        await session.prompt("and then this")
        (prompt,) = [prompt_id(given.seq) for given in (await session.state()).queue.inputs.values()]
        secret = FileAttachment(path=str(tmp_path / "server.pem"), content=Text(text="hunter2"))
        edited = QueueBody(edits={prompt: PromptBody(content=(Text(text="look"),), attachments=(secret,))})
        code, told = await refusal(Sent(session, QueueEdited(command_id="q", order=(prompt,), body=edited)))
        assert code == "content_excluded"
        assert "excludes '*.pem'" in told
        empty = QueueBody(edits={prompt: PromptBody(content=(Text(text=" "),))})
        code, _ = await refusal(Sent(session, QueueEdited(command_id="r", order=(prompt,), body=empty)))
        assert code == "no_content"
