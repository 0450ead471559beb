"""Message lists of the four formats come in as items and go out as they were."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.wire_support import PDF, PNG
from windlass.events.errors import UsageError
from windlass.events.values.blocks import Image, Reasoning, Text
from windlass.events.values.items import AssistantItem, CallPart, HistoryItem, ResultItem, UserItem
from windlass.models.convert import HistoryFormat, detect_format, export_history, import_history

DATA_URL = f"data:image/png;base64,{PNG}"
PDF_URL = f"data:application/pdf;base64,{PDF}"

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be exact."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": DATA_URL}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF_URL}},
        ],
    },
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"deep":true}'}},
            {"id": "call_2", "type": "custom", "custom": {"name": "patch", "input": "*** begin"}},
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "a dot"},
    {"role": "tool", "tool_call_id": "call_2", "content": "done"},
    {"role": "assistant", "content": "A dot."},
    {"role": "user", "content": "Thanks."},
]
MESSAGES: list[dict[str, Any]] = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                "title": "a",
            },
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "hidden"},
            {"type": "text", "text": "I look."},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "dot"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"deep": True}},
            {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "toolu_1",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                ],
            },
            {
                "type": "tool_result",
                "tool_use_id": "toolu_2",
                "is_error": True,
                "content": [{"type": "text", "text": "no"}],
            },
            {"type": "text", "text": "Well?"},
        ],
    },
]
RESPONSES: list[dict[str, Any]] = [
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": DATA_URL, "detail": "auto"},
        ],
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "sealed",
    },
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
    },
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "dot"}},
    {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"deep":true}'},
    {"type": "custom_tool_call", "call_id": "call_2", "name": "patch", "input": "*** begin"},
    {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": [
            {"type": "input_text", "text": "see"},
            {"type": "input_image", "image_url": DATA_URL, "detail": "auto"},
        ],
    },
    {"type": "custom_tool_call_output", "call_id": "call_2", "output": "done"},
]
GEMINI: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"text": "What is this?"}, {"inlineData": {"mimeType": "image/png", "data": PNG}}]},
    {
        "role": "model",
        "parts": [
            {"text": "hm", "thought": True, "thoughtSignature": "s1"},
            {"text": "I look.", "thoughtSignature": "s2"},
            {"functionCall": {"id": "fc1", "name": "look", "args": {"deep": True}}, "thoughtSignature": "s3"},
            {"functionCall": {"id": "fc2", "name": "look", "args": {}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "fc1", "name": "look", "response": {"output": "a dot"}}},
            {"functionResponse": {"id": "fc2", "name": "look", "response": {"error": "no"}}},
        ],
    },
    {"role": "model", "parts": [{"executableCode": {"language": "PYTHON", "code": "1"}}, {"text": "A dot."}]},
    {"role": "user", "parts": [{"text": "Thanks."}]},
]
LISTS: dict[HistoryFormat, list[dict[str, Any]]] = {
    "openai_chat": CHAT,
    "anthropic": MESSAGES,
    "openai_responses": RESPONSES,
    "gemini": GEMINI,
}


@pytest.mark.parametrize("form", LISTS)
def test_a_message_list_comes_back_as_it_was(form: HistoryFormat) -> None:
    imported = import_history(LISTS[form])
    assert export_history(imported.items, form, instructions="\n".join(imported.instructions)) == LISTS[form]


@pytest.mark.parametrize("form", LISTS)
def test_the_format_is_recognised(form: HistoryFormat) -> None:
    assert detect_format(LISTS[form]) == form


@pytest.mark.parametrize(
    ("body", "form"),
    [
        ({"contents": [{"role": "user", "parts": [{"text": "x"}]}]}, "gemini"),
        ({"input": "x", "instructions": "y"}, "openai_responses"),
        ({"system": "y", "messages": [{"role": "user", "content": "x"}]}, "anthropic"),
        ({"messages": [{"role": "system", "content": "y"}, {"role": "user", "content": "x"}]}, "openai_chat"),
        ({"contents": [{"parts": [{"text": "x"}]}], "systemInstruction": {"parts": [{"text": "y"}]}}, "gemini"),
    ],
)
def test_a_whole_request_body_is_taken_with_its_instructions(body: dict[str, Any], form: str) -> None:
    imported = import_history(body)
    assert imported.items == [UserItem(key="import-1", content=(Text(text="x"),))]
    assert imported.instructions == ([] if form == "gemini" and "systemInstruction" not in body else ["y"])


def test_reasoning_belongs_to_whoever_gave_it() -> None:
    own = import_history(MESSAGES, provider="bedrock").items[1]
    assert isinstance(own, AssistantItem)
    assert own.content[0] == Reasoning(text="hm", opaque="sig", provider="bedrock")
    exported = export_history(import_history(MESSAGES).items, "openai_chat")
    assert "sig" not in repr(exported)
    assert "hidden" not in repr(exported)


@pytest.mark.parametrize("form", LISTS)
def test_what_comes_from_one_format_goes_out_in_the_others(form: HistoryFormat) -> None:
    items = import_history(LISTS[form]).items
    for other in LISTS:
        again = import_history(export_history(items, other), other).items
        assert texts_of(again) == texts_of(items)
        assert [call.tool for call in calls_of(again)] == [call.tool for call in calls_of(items)]
        assert [call.call_id for call in calls_of(again)] == [call.call_id for call in calls_of(items)]


def texts_of(items: list[HistoryItem]) -> list[str]:
    return [
        part.text
        for item in items
        if isinstance(item, AssistantItem)
        for part in item.content
        if isinstance(part, Text)
    ]


def calls_of(items: list[HistoryItem]) -> list[CallPart]:
    return [
        part for item in items if isinstance(item, AssistantItem) for part in item.content if isinstance(part, CallPart)
    ]


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        (CHAT[:3], "calls without results"),
        ([CHAT[3]], "no such call"),
        ([MESSAGES[0], MESSAGES[1]], "calls without results"),
        (RESPONSES[:5], "calls without results"),
        ([GEMINI[2]], "no such call"),
        (["hello"], "list of message objects"),
    ],
)
def test_a_history_that_no_provider_would_take_is_refused(messages: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        import_history(messages)


def test_calls_with_the_same_id_get_their_own() -> None:
    call = {"id": "run:0", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    turn: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "run:0", "content": "x"},
    ]
    items = import_history([{"role": "user", "content": "go"}, *turn, *turn]).items
    assert [call.call_id for call in calls_of(items)] == ["run:0", "import-4-0"]
    assert [item.call_id for item in items if isinstance(item, ResultItem)] == ["run:0", "import-4-0"]


def test_arguments_that_do_not_parse_are_kept_and_marked() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": '{"a": '}}
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "bad"},
    ]
    part = calls_of(import_history(messages).items)[0]
    assert (part.args, part.malformed) == ({}, '{"a": ')


words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip)
arguments = st.dictionaries(words, st.one_of(words, st.integers(-9, 9), st.booleans()), max_size=2)


@st.composite
def simple_histories(draw: st.DrawFn) -> list[HistoryItem]:
    items: list[HistoryItem] = []
    for number in range(draw(st.integers(1, 4))):
        picture = (Image(media_type="image/png", data=PNG),) if draw(st.booleans()) else ()
        items.append(UserItem(content=(Text(text=draw(words)), *picture)))
        calls = draw(st.lists(arguments, max_size=3))
        said = (Text(text=draw(words)),) if not calls or draw(st.booleans()) else ()
        parts = [CallPart(call_id=f"c{number}-{at}", tool="t", args=args) for at, args in enumerate(calls)]
        items.append(AssistantItem(content=(*said, *parts)))
        for part in parts:
            items.append(ResultItem(call_id=part.call_id, tool="t", content=(Text(text=draw(words)),)))
    items.append(UserItem(content=(Text(text=draw(words)),)))
    return items


@settings(max_examples=150)
@given(items=simple_histories())
def test_items_survive_every_format(items: list[HistoryItem]) -> None:
    for form in LISTS:
        assert bare(import_history(export_history(items, form), form).items) == bare(items)


def bare(items: list[HistoryItem]) -> list[Any]:
    """The items without what an import adds."""
    out: list[Any] = []
    for item in items:
        changes: dict[str, Any] = {"key": ""}
        if isinstance(item, ResultItem):
            changes["provider_call_id"] = None
        if isinstance(item, AssistantItem):
            parts = [
                msgspec.structs.replace(part, provider_call_id=None) if isinstance(part, CallPart) else part
                for part in item.content
            ]
            changes |= {"provider": None, "content": tuple(parts)}
        out.append(msgspec.structs.replace(item, **changes))
    return out
