"""What a model sees: valid for every provider, and each request begins with the one before."""

from __future__ import annotations

import msgspec
import pytest

from tests.kernel.session import ASK_PAY, Session, call, malformed, names
from windlass.events.errors import KernelError
from windlass.events.runs import WakeReceived
from windlass.events.tools.calls import (
    ResultBody,
    ToolCancelled,
    ToolDenied,
    ToolFinished,
    ToolResolved,
    ToolTimedOut,
)
from windlass.events.turns import ModelReplied, PrefixChanged, ReplyBody, ReplyCall
from windlass.events.values.blocks import BlobRef, CallSlot, GeneratedImage, Reasoning, Refusal, Text
from windlass.events.values.items import AssistantItem, CallPart, HistoryItem, ImagePart, ResultItem, UserItem
from windlass.events.values.setup import ItemRef, Origin
from windlass.events.values.usage import Usage
from windlass.kernel.render import item, render
from windlass.testing.invariants import Broken, check_items


def test_a_tool_run_as_items():
    session = Session()
    session.prompt("What is 17 + 28?")
    session.reply("Let me see.", call("add", {"x": 17, "y": 28}, provider_call_id="call_1"))
    session.finish(text="45")
    session.reply("45")
    assert session.items() == [
        UserItem(key="2", content=(Text(text="What is 17 + 28?"),)),
        AssistantItem(
            key="6",
            content=(
                Text(text="Let me see."),
                CallPart(call_id=session.called(), tool="add", args={"x": 17, "y": 28}, provider_call_id="call_1"),
            ),
            provider="test",
            model="test/model",
        ),
        ResultItem(
            key=f"10:{session.called()}",
            call_id=session.called(),
            tool="add",
            content=(Text(text="45"),),
            provider_call_id="call_1",
        ),
        AssistantItem(key="14", content=(Text(text="45"),), provider="test", model="test/model"),
    ]


def test_the_parts_of_a_reply_keep_their_order():
    session = Session()
    session.prompt()
    image = GeneratedImage(blob=BlobRef(digest="d", size=9, media_type="image/png"), width=4, height=3)
    body = ReplyBody(
        blocks=(Reasoning(text="hm", opaque="sig"), CallSlot(ordinal=0), Text(text="then"), image, Refusal(text="no")),
        calls=(call("add"), ReplyCall(call=msgspec.structs.replace(call("put").call, ordinal=1))),
    )
    session.take(
        ModelReplied(
            request_id=session.requested(), finish="tool_calls", usage=Usage(input_tokens=1), calls=2, body=body
        )
    )
    reply = session.items()[1]
    assert isinstance(reply, AssistantItem)
    assert [type(part) for part in reply.content] == [Reasoning, CallPart, Text, ImagePart, Refusal, CallPart]
    assert reply.content[3] == ImagePart(media_type="image/png", note="[generated image 4x3]")
    check_items(session.items())


def test_a_custom_call_is_carried_as_text():
    session = Session()
    session.prompt()
    custom = ReplyCall(call=msgspec.structs.replace(call("add").call, args=None, text="print(1)"))
    session.reply("", custom)
    reply = session.items()[1]
    assert isinstance(reply, AssistantItem)
    assert reply.content == (CallPart(call_id=session.called(), tool="add", text="print(1)"),)


def test_open_calls_are_closed_by_a_placeholder():
    session = Session()
    session.prompt()
    session.reply("", call("add"), call("put"))
    session.finish(session.called(1), "second")
    shown = [(i.call_id, i.content[0].text, i.is_error) for i in session.results()]
    assert shown == [(session.called(), "[this call has no result yet]", True), (session.called(1), "second", False)]


def test_every_record_of_a_log_could_be_its_last():
    from tests.kernel.chaos import Prefixes

    session = Session(policy=ASK_PAY)
    session.prompt()
    session.reply("", call("pay"), malformed("add", "{"), call("ui"), call("todo", {"todos": []}))
    session.interrupt()
    session.prompt("go on")
    session.reply("", call("put"), call("risky"))
    session.crash()
    assert Prefixes(session).check() == session.state.seq


def test_a_request_begins_with_the_items_of_the_one_before():
    session = Session(policy=ASK_PAY)
    sent: list[list[HistoryItem]] = []

    def look(events):
        if names(events)[-1] == "model.requested":
            changed = any(isinstance(event, PrefixChanged) for event in events)
            if sent and not changed:
                assert session.items()[: len(sent[-1])] == sent[-1]
            sent.append(session.items())

    look(session.prompt("one"))
    look(session.reply("", call("add"), malformed("put", "{")))
    session.signal()
    look(session.finish())
    look(session.model_fails())
    look(session.run_tool("add", {"n": 3}))
    look(session.finish(text="3"))
    look(session.fire())
    look(session.crash())
    look(session.reply("", call("pay")))
    look(session.nobody())
    look(session.prompt("never mind", behavior="steer"))
    look(session.interrupt("half"))
    look(session.wake())
    look(session.reply("done"))
    look(session.prompt("two"))
    assert len(sent) == 7
    assert [len(items) for items in sent] == sorted(len(items) for items in sent)


def test_the_same_log_renders_the_same_way_every_time():
    session = Session()
    session.prompt()
    session.reply("", call("add", {"b": 1, "a": 2}))
    session.finish()
    first = msgspec.json.encode(session.items())
    session.crash()
    assert msgspec.json.encode(render(session.folded(), session.event))[: len(first) - 1] == first[:-1]


def test_prompts_say_where_they_come_from():
    session = Session()
    session.prompt("tick", origin=Origin(kind="schedule", name="daily", hidden=True))
    assert session.items() == [UserItem(key="2", content=(Text(text="tick"),), origin="schedule")]


@pytest.mark.parametrize(
    ("event", "said", "failed"),
    [
        (ToolFinished(call_id="c", body=ResultBody(content=(Text(text="x"),))), "x", False),
        (ToolFinished(call_id="c", ok=False, body=None), "[this content was erased]", True),
        (ToolTimedOut(call_id="c", timeout_ms=7), "timed out after 7 ms", True),
        (ToolResolved(call_id="c", text="saved"), "saved", False),
        (ToolDenied(call_id="c", reason="rules", detail="never"), "not run (rules): never", True),
        (ToolCancelled(call_id="c", reason="cancelled"), "cancelled by the user", True),
        (
            ToolCancelled(call_id="c", reason="not_carried_over", started=True),
            "not carried over into this fork of the session; it had started, so it may have had effects",
            True,
        ),
    ],
)
def test_every_end_of_a_call_has_words(event, said, failed):
    reference = ItemRef(seq=1, kind="result", part="c")
    shown = item(reference, lambda seq: event, {"c": ("add", "p1")})
    assert shown == ResultItem(
        key="1:c", call_id="c", tool="add", content=(Text(text=said),), is_error=failed, provider_call_id="p1"
    )


def test_a_reference_to_the_wrong_kind_of_event_is_our_bug():
    for kind in ("user", "assistant", "result", "summary", "import"):
        with pytest.raises(KernelError):
            item(ItemRef(seq=1, kind=kind, part="0"), lambda seq: WakeReceived(command_id="x"), {})


# --- the judge of the items can fail ---

CALL = CallPart(call_id="c1", tool="add", args={})
ASKED = AssistantItem(key="a", content=(CALL,))
DONE = ResultItem(key="r", call_id="c1", tool="add", content=())


@pytest.mark.parametrize(
    ("items", "rule"),
    [
        ([ASKED], "each call has exactly one result"),
        ([ASKED, UserItem(content=(Text(text="x"),))], "each call has exactly one result"),
        ([ASKED, DONE, DONE], "results follow their calls in order"),
        ([DONE], "results follow their calls in order"),
        ([ASKED, DONE, ASKED, DONE], "call ids are unique in a request"),
        ([UserItem(content=())], "no empty items"),
        ([AssistantItem(content=())], "no empty items"),
    ],
)
def test_a_history_that_a_provider_would_refuse_is_found(items, rule):
    with pytest.raises(Broken) as broken:
        check_items(items)
    assert broken.value.rule == rule
