"""Tools for models without tools: what they are told, what they write, and what becomes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.events.values.blocks import CallSlot, Image, Reasoning, Terminal, Text
from windlass.events.values.failures import Failure
from windlass.events.values.items import (
    AssistantItem,
    CallPart,
    ModelSettings,
    OutputSchema,
    ProposedCall,
    ResultItem,
    ToolSchema,
    UserItem,
)
from windlass.events.values.usage import Usage
from windlass.models.base import CallPartDelta, Model, ModelInfo, ReasoningPart, Reply, Request, TextPart
from windlass.models.embedded.constrained import ConstrainedModel
from windlass.models.embedded.json_reply import Watch, read_reply, unescaped
from windlass.models.embedded.tool_prompt import (
    Example,
    default_examples,
    example_items,
    in_words,
    reply_schema,
    tool_words,
)
from windlass.testing.scripted import ScriptedModel, fail, hang, think, turn

ADD = ToolSchema(
    name="add",
    description="Add two numbers.",
    parameters={
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x", "y"],
        "additionalProperties": False,
    },
)
NOTE = ToolSchema(
    name="note", description="Keep a note.", parameters={"type": "object", "properties": {"text": {"type": "string"}}}
)
PATCH = ToolSchema(name="patch", description="Apply a patch.", grammar={"type": "grammar"})
TOOLS = (ADD, NOTE)
UNCONSTRAINED = ModelInfo(name="plain", provider="scripted", model="plain", tools=False, native_output=False)
CALL = '{"tool": "add", "arguments": {"x": 17, "y": 28}}'
ANSWER = '{"tool": "answer", "arguments": {"text": "It is 45."}}'


def asked(*tools: ToolSchema, items=None, **more) -> Request:
    return Request(model="m", items=items or [UserItem(content=(Text(text="17 + 28?"),))], tools=tools or TOOLS, **more)


async def ask(script, request: Request | None = None, **more) -> tuple[list[object], ScriptedModel]:
    inner = script if isinstance(script, ScriptedModel) else ScriptedModel(script)
    return [piece async for piece in ConstrainedModel(inner, **more).stream(request or asked())], inner


async def test_json_becomes_a_call_and_its_name_is_seen_before_its_arguments():
    pieces, _ = await ask([[CALL[:20], CALL[20:30], CALL[30:]]])
    reply = pieces[-1]
    assert pieces[:-1] == [
        CallPartDelta(ordinal=0, tool="add"),
        CallPartDelta(ordinal=0, fragment='{"x":17,"y":28}'),
    ]
    assert isinstance(reply, Reply)
    assert reply.blocks == (CallSlot(ordinal=0),)
    assert reply.calls == (ProposedCall(ordinal=0, tool="add", args={"x": 17, "y": 28}),)
    assert reply.finish == "tool_calls"


async def test_answer_is_streamed_as_text_while_the_json_grows():
    pieces, _ = await ask([list(ANSWER)])
    assert "".join(piece.text for piece in pieces[:-1] if isinstance(piece, TextPart)) == "It is 45."
    assert len(pieces) > 5
    assert isinstance(pieces[-1], Reply)
    assert (pieces[-1].blocks, pieces[-1].calls, pieces[-1].finish) == ((Text(text="It is 45."),), (), "stop")


async def test_inner_model_is_asked_in_words_and_bound_to_a_schema():
    _, inner = await ask([CALL], asked(instructions="Be brief.", knowledge=("k",), task_state="s"))
    (request,) = inner.requests
    assert (request.tools, request.knowledge, request.task_state) == ((), ("k",), "s")
    assert request.instructions.startswith("Be brief.\n\nYou pick one tool")
    assert "- add(x: integer, y: integer): Add two numbers." in request.instructions
    assert request.output == OutputSchema(
        name="reply", json_schema=reply_schema(TOOLS, "answer", {"type": "string"}, loose=False), strict=False
    )
    assert request.items[-1] == UserItem(content=(Text(text="17 + 28?"),))


def test_schema_offers_each_tool_and_the_answer():
    schema = reply_schema((ADD,), "answer", {"type": "string"}, loose=False)
    first, last = schema["oneOf"]
    assert first["properties"] == {"tool": {"const": "add"}, "arguments": ADD.parameters}
    assert last["properties"]["tool"] == {"const": "answer"}
    assert last["properties"]["arguments"]["properties"] == {"text": {"type": "string"}}
    assert [branch["required"] for branch in (first, last)] == [["tool", "arguments"]] * 2


def test_definitions_of_each_tool_keep_to_themselves():
    def tool(name: str, kind: str) -> ToolSchema:
        parameters = {
            "type": "object",
            "properties": {"p": {"$ref": "#/$defs/P"}, "list": {"type": "array", "items": {"$ref": "#/$defs/P"}}},
            "$defs": {"P": {"type": kind, "next": {"$ref": "#/$defs/P"}}},
        }
        return ToolSchema(name=name, description="", parameters=parameters)

    schema = reply_schema((tool("a", "string"), tool("b", "integer")), "", {}, loose=False)
    assert schema["$defs"] == {
        "tool0_P": {"type": "string", "next": {"$ref": "#/$defs/tool0_P"}},
        "tool1_P": {"type": "integer", "next": {"$ref": "#/$defs/tool1_P"}},
    }
    fields = schema["oneOf"][1]["properties"]["arguments"]["properties"]
    assert fields == {"p": {"$ref": "#/$defs/tool1_P"}, "list": {"type": "array", "items": {"$ref": "#/$defs/tool1_P"}}}


@pytest.mark.parametrize(
    ("choice", "names"),
    [("auto", ["add", "note", "answer"]), ("required", ["add", "note"]), ("note", ["note"])],
)
async def test_tool_choice_decides_what_may_be_written(choice: str, names: list[str]):
    _, inner = await ask(
        ['{"tool": "note", "arguments": {}}'], asked(settings=ModelSettings(tool_choice=choice, parallel_calls=True))
    )
    output = inner.requests[0].output
    assert output is not None
    assert [branch["properties"]["tool"]["const"] for branch in output.json_schema["oneOf"]] == names
    assert (inner.requests[0].settings.tool_choice, inner.requests[0].settings.parallel_calls) == ("auto", None)


@pytest.mark.parametrize("request_", [asked(settings=ModelSettings(tool_choice="none")), Request(model="m")])
async def test_request_without_tools_passes_through(request_: Request):
    pieces, inner = await ask(["plain text"], request_)
    assert pieces[0] == TextPart(text="plain text")
    assert (inner.requests[0].output, inner.requests[0].tools) == (None, ())


async def test_own_output_schema_shapes_the_answer():
    shape = {"type": "object", "properties": {"sum": {"type": "integer"}}}
    request = asked(output=OutputSchema(name="sum", json_schema=shape))
    pieces, inner = await ask(['{"tool": "answer", "arguments": {"text": {"sum": 45}}}'], request)
    assert isinstance(pieces[-1], Reply)
    assert pieces[-1].blocks == (Text(text='{"sum":45}'),)
    assert pieces[0] == TextPart(text='{"sum":45}')
    output = inner.requests[0].output
    assert output is not None
    assert output.json_schema["oneOf"][-1]["properties"]["arguments"]["properties"] == {"text": shape}


async def test_answer_gets_another_name_where_a_tool_has_it():
    taken = ToolSchema(name="answer", description="Answer the phone.")
    pieces, _ = await ask(['{"tool": "answer", "arguments": {}}'], asked(taken))
    assert isinstance(pieces[-1], Reply)
    assert pieces[-1].calls == (ProposedCall(ordinal=0, tool="answer", args={}),)
    pieces, _ = await ask(['{"tool": "final_answer", "arguments": {"text": "hi"}}'], asked(taken))
    assert isinstance(pieces[-1], Reply)
    assert pieces[-1].blocks == (Text(text="hi"),)


async def test_grammar_tool_takes_its_text():
    pieces, _ = await ask(['{"tool": "patch", "arguments": {"input": "*** Begin"}}'], asked(PATCH))
    assert isinstance(pieces[-1], Reply)
    assert pieces[-1].calls == (ProposedCall(ordinal=0, tool="patch", text="*** Begin"),)
    assert pieces[-2] == CallPartDelta(ordinal=0, fragment="*** Begin")


async def test_reasoning_is_kept():
    pieces, _ = await ask([[think("so"), CALL]])
    assert pieces[0] == ReasoningPart(text="so")
    assert isinstance(pieces[-1], Reply)
    assert pieces[-1].blocks == (Reasoning(text="so"), CallSlot(ordinal=0))


# --- models that nobody constrains -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [CALL, f"Sure!\n```json\n{CALL}\n```\nDone.", f"```\n{CALL}```", f"I will add them: {CALL}"],
)
async def test_call_is_found_in_prose(written: str):
    pieces, _ = await ask(ScriptedModel([written], info=UNCONSTRAINED))
    assert isinstance(pieces[-1], Reply)
    assert pieces[-1].calls == (ProposedCall(ordinal=0, tool="add", args={"x": 17, "y": 28}),)
    assert pieces[0] == CallPartDelta(ordinal=0, tool="add")


async def test_prose_without_json_is_an_answer():
    pieces, _ = await ask(ScriptedModel(["  It is 45.  "], info=UNCONSTRAINED))
    assert isinstance(pieces[-1], Reply)
    assert pieces[-1].blocks == (Text(text="It is 45."),)
    assert pieces[0] == TextPart(text="It is 45.")


@pytest.mark.parametrize(
    ("written", "error"),
    [
        ('{"tool": "sub", "arguments": {}}', "there is no tool 'sub', only add, note"),
        ('{"tool": 5, "arguments": {}}', "there is no tool 5, only add, note"),
        ('{"tool": "add", "arguments": [1]}', "the arguments of 'add' must be an object"),
        ('{"tool": "answer", "arguments": {}}', "'answer' needs 'text' in its arguments"),
        ('{"hello": 1}', "the object needs 'tool' and 'arguments'"),
        ('{"tool": "add", "arguments": {x: 1}}', "arguments must be valid JSON"),
    ],
)
async def test_unusable_answer_is_asked_about_again(written: str, error: str):
    inner = ScriptedModel([written, CALL], info=UNCONSTRAINED, usage=Usage(input_tokens=5, output_tokens=2))
    pieces, _ = await ask(inner)
    assert isinstance(pieces[-1], Reply)
    assert pieces[-1].calls[0].args == {"x": 17, "y": 28}
    assert pieces[-1].usage == Usage(input_tokens=10, output_tokens=4)
    wrote, told = inner.requests[1].items[-2:]
    assert wrote == AssistantItem(content=(Text(text=written),))
    assert isinstance(told, UserItem)
    assert isinstance(told.content[0], Text)
    assert error in told.content[0].text


async def test_attempts_are_bounded():
    inner = ScriptedModel(["{"] * 3, info=UNCONSTRAINED)
    pieces, _ = await ask(inner)
    (end,) = pieces
    assert isinstance(end, Failure)
    assert (end.kind, end.retryable) == ("malformed_reply", True)
    assert end.message.startswith("no usable answer after 3 attempts: arguments must be valid JSON")
    assert len(inner.requests[2].items) == len(inner.requests[1].items)


async def test_required_call_is_not_replaced_by_prose():
    inner = ScriptedModel(["no", "no"], info=UNCONSTRAINED)
    pieces, _ = await ask(inner, asked(settings=ModelSettings(tool_choice="required")), attempts_max=2)
    assert isinstance(pieces[-1], Failure)


async def test_empty_answer_is_asked_again():
    pieces, inner = await ask(ScriptedModel(["", CALL], info=UNCONSTRAINED))
    assert isinstance(pieces[-1], Reply)
    assert inner.requests[1].items[-2] == AssistantItem(content=(Text(text="..."),))


async def test_nothing_is_asked_again_once_something_was_seen():
    pieces, inner = await ask([['{"tool": "answer", "arguments": {"text": "half', "}"], "never"])
    assert isinstance(pieces[-1], Failure)
    assert pieces[-1].kind == "malformed_reply"
    assert inner.turns_taken == 1


# --- failures, limits, cancellation ------------------------------------------------------------------------------


async def test_failure_is_passed_on():
    pieces, inner = await ask([fail("rate_limited")])
    assert [type(piece) for piece in pieces] == [Failure]
    assert inner.turns_taken == 1


async def test_schema_that_the_engine_cannot_follow_is_loosened_once():
    pieces, inner = await ask([fail("invalid_request", "no such ref"), CALL])
    assert isinstance(pieces[-1], Reply)
    output = inner.requests[1].output
    assert output is not None
    assert output.json_schema["oneOf"][0]["properties"]["arguments"] == {"type": "object"}
    pieces, inner = await ask([fail("invalid_request"), fail("invalid_request")])
    assert isinstance(pieces[-1], Failure)
    assert inner.turns_taken == 2


async def test_call_cut_off_by_the_limit_is_malformed_and_never_run():
    pieces, _ = await ask([turn(CALL[:40], finish="length")])
    assert isinstance(pieces[-1], Reply)
    assert pieces[-1].finish == "length"
    assert pieces[-1].calls == (
        ProposedCall(ordinal=0, tool="add", malformed=CALL[:40], error="the call was cut off before its end"),
    )


async def test_answer_cut_off_by_the_limit_keeps_its_text():
    pieces, _ = await ask([turn('{"tool": "answer", "arguments": {"text": "so } far', finish="length")])
    assert isinstance(pieces[-1], Reply)
    assert (pieces[-1].blocks, pieces[-1].finish) == ((Text(text="so } far"),), "length")


async def test_leaving_closes_the_inner_stream():
    inner = ScriptedModel([['{"tool": "add"', hang()]])
    model = ConstrainedModel(inner)
    stream = model.stream(asked())
    assert await anext(stream) == CallPartDelta(ordinal=0, tool="add")
    await stream.aclose()  # type: ignore[attr-defined]
    assert inner.cancelled == 1
    await model.close()
    assert inner.closed
    assert isinstance(model, Model)
    assert model.info.tools


# --- words -------------------------------------------------------------------------------------------------------


def test_history_is_put_into_words():
    call = AssistantItem(key="2", content=(Text(text="ok"), CallPart(call_id="c", tool="add", args={"x": 1})))
    assert in_words(call) == AssistantItem(
        key="2", content=(Text(text="ok"), Text(text='{"tool": "add", "arguments": {"x": 1}}'))
    )
    custom = AssistantItem(content=(CallPart(call_id="c", tool="patch", text="p"),))
    assert in_words(custom) == AssistantItem(content=(Text(text='{"tool": "patch", "arguments": {"input": "p"}}'),))
    image = Image(media_type="image/png", data="AA==")
    result = ResultItem(key="3", call_id="c", tool="add", content=(Terminal(text="1"), image), is_error=True)
    assert in_words(result) == UserItem(
        key="3", origin="result", content=(Text(text="add failed:"), Text(text="1"), image)
    )
    plain = AssistantItem(content=(Text(text="ok"),))
    assert in_words(plain) is plain


def test_tool_with_more_than_plain_fields_shows_its_schema():
    tool = ToolSchema(
        name="set",
        description="",
        parameters={"type": "object", "properties": {"mode": {"enum": ["a"]}, "n": {"type": ["integer", "null"]}}},
    )
    assert '- set(mode, n) with arguments like {"type": "object"' in tool_words((tool,), "")
    assert ": no description" in tool_words((tool,), "")


def test_default_examples_come_from_the_tools_first_tool_last():
    shown = default_examples((ADD, NOTE, PATCH), True)
    assert [example.tool for example in shown] == [None, "patch", "note", None, "add"]
    assert shown[-1] == Example(asked="Add two numbers. x: 3, y: 14", tool="add", arguments={"x": 3, "y": 14})
    assert [example.tool for example in default_examples((ADD, NOTE), False)] == ["note", "add"]


def test_example_with_a_result_shows_the_whole_way():
    example = Example(asked="1 + 2", tool="add", arguments={"x": 1}, result="3", answer="It is 3.")
    texts = [item.content[0].text for item in example_items(example, "answer")]  # type: ignore[union-attr]
    assert texts == [
        "1 + 2",
        '{"tool": "add", "arguments": {"x": 1}}',
        "add returned:\n3",
        '{"tool": "answer", "arguments": {"text": "It is 3."}}',
    ]


async def test_own_examples_replace_the_default_ones():
    _, inner = await ask([CALL], examples=[Example(asked="hi", answer="ho")])
    assert len(inner.requests[0].items) == 3
    _, inner = await ask([CALL], examples=[])
    assert len(inner.requests[0].items) == 1


@given(st.text(), st.integers(1, 7))
def test_text_streams_whole_however_it_is_cut(text: str, size: int):
    import json

    for ascii_only in (True, False):
        if not ascii_only and any(0xD800 <= ord(char) < 0xE000 for char in text):
            continue
        written = json.dumps({"tool": "answer", "arguments": {"text": text}}, ensure_ascii=ascii_only)
        watch = Watch("answer")
        seen = []
        for start in range(0, len(written), size):
            for delta in watch.feed(TextPart(text=written[start : start + size])):
                assert isinstance(delta, TextPart)
                seen.append(delta.text)
        whole = "".join(seen)
        clean = "".join("\ufffd" if 0xD800 <= ord(char) < 0xE000 else char for char in text)
        assert whole in (text, clean)


@pytest.mark.parametrize(
    ("inside", "text", "used"),
    [
        ("a\\", "a", 1),
        ("a\\u00", "a", 1),
        ("\\ud83c", "", 0),
        ("\\ud83c\\udf89!", "🎉!", 13),
        ("\\udf89x", "\ufffdx", 7),
        ("\\ud83cxxxxxx", "\ufffdxxxxxx", 12),
        ("\\uzzzz", "\ufffd", 6),
        ('a"b', "a", 1),
        ("\\n\\t\\q", "\n\tq", 6),
    ],
)
def test_unescaped(inside: str, text: str, used: int):
    assert unescaped(inside) == (text, used)


@given(st.text())
def test_no_answer_makes_the_reader_raise(written: str):
    for cut in (True, False):
        read_reply(written, {"add": ADD}, "answer", cut=cut)
