"""What each format brings back: the same answer in the same words, streamed or whole, and back again unchanged."""

from __future__ import annotations

import base64
import hashlib

import msgspec
import pytest

from tests.models.wire_support import (
    ADD,
    ENDPOINT_OF,
    FORMATS,
    PNG,
    as_item,
    asked,
    endpoint_for,
    model_for,
    offline_model,
)
from windlass.events.values.blocks import CallSlot, GeneratedImage, Reasoning, Refusal, ServerTool, Text
from windlass.events.values.failures import FinishReason
from windlass.events.values.items import HistoryItem, ModelSettings, OutputSchema, ResultItem, ToolSchema, UserItem
from windlass.events.values.usage import Usage
from windlass.models.base import CallPartDelta, ReasoningPart, RefusalPart, Reply, Request, TextPart
from windlass.testing.model_server import (
    Answer,
    Call,
    Decline,
    Format,
    ModelServer,
    Picture,
    Say,
    ServerCall,
    Think,
    Tokens,
    Turn,
)

STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
ASKED: list[HistoryItem] = [UserItem(content=(Text(text="q"),))]
SCHEMA = {
    "type": "object",
    "properties": {"sum": {"type": "integer"}},
    "required": ["sum"],
    "additionalProperties": False,
}
OUTPUT = OutputSchema(name="result", json_schema=SCHEMA)
FULL = Answer(
    parts=(
        Think(text="let me think"),
        Say(text="Grüße, 世界 🌍!"),
        Call(name="add", args={"x": 1, "y": 2}),
        Call(name="add", args={"x": 3, "y": 4}),
    )
)


@STREAMED
@pytest.mark.parametrize("form", FORMATS)
async def test_text_reasoning_and_calls_arrive_whole_and_in_order(form: Format, stream: bool) -> None:
    async with ModelServer(script=[FULL]) as server:
        model = model_for(server, form, thinking=True)
        request = Request(
            model="m", items=ASKED, tools=(ADD,), stream=stream, settings=ModelSettings(thinking="low"), session="s"
        )
        deltas, reply = await asked(model, request)
        await model.close()
    assert isinstance(reply, Reply)
    kinds = [type(block) for block in reply.blocks]
    assert kinds == [Reasoning, Text, CallSlot, CallSlot]
    assert reply.blocks[1] == Text(text="Grüße, 世界 🌍!")
    assert [(call.tool, call.args) for call in reply.calls] == [("add", {"x": 1, "y": 2}), ("add", {"x": 3, "y": 4})]
    assert (reply.finish, reply.model, reply.provider) == ("tool_calls", "model-x", ENDPOINT_OF[form])
    assert reply.request_id
    assert reply.response_id
    assert reply.warnings == ()
    if stream:
        assert "".join(each.text for each in deltas if isinstance(each, TextPart)) == "Grüße, 世界 🌍!"
        assert "".join(each.text for each in deltas if isinstance(each, ReasoningPart)) == "let me think"
        pieces = [each for each in deltas if isinstance(each, CallPartDelta)]
        assert [each.tool for each in pieces if each.tool] == ["add", "add"]
        first = "".join(each.fragment for each in pieces if each.ordinal == 0)
        assert msgspec.json.decode(first) == {"x": 1, "y": 2}
        assert reply.first_output_ms is not None


@pytest.mark.parametrize("form", FORMATS)
async def test_streamed_and_whole_give_the_same_reply(form: Format) -> None:
    replies = []
    for stream in (True, False):
        async with ModelServer(script=[FULL]) as server:
            model = model_for(server, form)
            _, reply = await asked(model, Request(model="m", items=ASKED, tools=(ADD,), stream=stream))
            await model.close()
            assert isinstance(reply, Reply)
            replies.append((reply.blocks, reply.calls, reply.finish, reply.usage, reply.model))
    assert replies[0] == replies[1]


@STREAMED
@pytest.mark.parametrize("form", FORMATS)
async def test_a_reply_goes_back_with_its_results_and_is_accepted(form: Format, stream: bool) -> None:
    search = ServerCall(query="dots", result="a page")
    script: list[Turn] = [
        Answer(parts=(Think(text="hm"), search, *FULL.parts[1:])) if form == "anthropic" else FULL,
        "done",
    ]
    async with ModelServer(script=script) as server:
        model = model_for(server, form, thinking=True)
        settings = ModelSettings(thinking="low", cache=False)
        ask = Request(model="m", items=[*ASKED], tools=(ADD,), settings=settings, stream=stream, session="s")
        _, reply = await asked(model, ask)
        assert isinstance(reply, Reply)
        item = as_item(reply, "a1")
        ask.items += [item, *(ResultItem(call_id=f"a1:{at}", tool="add", content=(Text(text="3"),)) for at in (0, 1))]
        _, end = await asked(model, ask)
        await model.close()
        assert server.refusals == []
        assert server.prefix_violations() == []
    assert isinstance(end, Reply)
    assert end.blocks == (Text(text="done"),)


@STREAMED
@pytest.mark.parametrize("form", ["openai", "responses"])
async def test_a_refusal_is_a_block_of_its_own(form: Format, stream: bool) -> None:
    async with ModelServer(script=[Answer(parts=(Decline(text="I cannot help with that."),))]) as server:
        model = model_for(server, form)
        deltas, reply = await asked(model, Request(model="m", items=ASKED, stream=stream))
        await model.close()
    assert isinstance(reply, Reply)
    assert (reply.blocks, reply.finish) == ((Refusal(text="I cannot help with that."),), "refusal")
    if stream:
        assert "".join(each.text for each in deltas if isinstance(each, RefusalPart)) == "I cannot help with that."


@STREAMED
@pytest.mark.parametrize("form", ["responses", "gemini"])
async def test_a_generated_image_is_handed_over_by_its_digest(form: Format, stream: bool) -> None:
    async with ModelServer(script=[Answer(parts=(Say(text="here"), Picture(data=PNG)))]) as server:
        model = model_for(server, form)
        _, reply = await asked(model, Request(model="m", items=ASKED, stream=stream))
        await model.close()
    assert isinstance(reply, Reply)
    image = next(block for block in reply.blocks if isinstance(block, GeneratedImage))
    raw = base64.b64decode(PNG)
    digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
    assert (image.blob.digest, image.blob.size, image.blob.media_type) == (digest, len(raw), "image/png")
    assert reply.generated == {digest: raw}


@STREAMED
@pytest.mark.parametrize("form", ["anthropic", "responses"])
async def test_what_the_provider_ran_is_kept_as_it_came(form: Format, stream: bool) -> None:
    async with ModelServer(
        script=[Answer(parts=(ServerCall(query="dots", result="a page"), Say(text="ok")))]
    ) as server:
        model = model_for(server, form)
        _, reply = await asked(model, Request(model="m", items=ASKED, stream=stream))
        await model.close()
    assert isinstance(reply, Reply)
    tools = [block for block in reply.blocks if isinstance(block, ServerTool)]
    assert tools
    assert all(tool.provider == ENDPOINT_OF[form] for tool in tools)
    assert "dots" in repr(tools)


@pytest.mark.parametrize("form", FORMATS)
async def test_usage_means_the_same_everywhere(form: Format) -> None:
    tokens = Tokens(input=100, output=20, cache_read=60, reasoning=5)
    answer = Answer(parts=(Say(text="hello there"),), tokens=tokens)
    async with ModelServer(script=[answer, answer]) as server:
        model = model_for(server, form)
        for stream in (True, False):
            _, reply = await asked(model, Request(model="m", items=ASKED, stream=stream))
            assert isinstance(reply, Reply)
            usage = reply.usage
            assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (100, 60, 20)
            assert not usage.estimated
        await model.close()


@STREAMED
@pytest.mark.parametrize("native", [True, False], ids=["native", "by_tool"])
@pytest.mark.parametrize("form", FORMATS)
async def test_structured_output_is_text_either_way(form: Format, native: bool, stream: bool) -> None:
    answer = Say(text='{"sum":3}') if native else Call(name="result", args={"sum": 3})
    async with ModelServer(script=[Answer(parts=(answer,))]) as server:
        model = model_for(server, form, native_output=native)
        _, reply = await asked(model, Request(model="m", items=ASKED, output=OUTPUT, stream=stream))
        await model.close()
        assert server.refusals == []
    assert isinstance(reply, Reply)
    assert (reply.blocks, reply.calls, reply.finish) == ((Text(text='{"sum":3}'),), (), "stop")


@pytest.mark.parametrize("form", FORMATS)
async def test_a_tool_with_a_grammar_takes_text(form: Format) -> None:
    grammar = {"syntax": "regex", "definition": ".*"}
    tool = ToolSchema(name="patch", description="Applies a patch.", grammar=grammar)
    native = form in ("openai", "responses")
    call = Call(name="patch", args="*** x", custom=True) if native else Call(name="patch", args={"input": "*** x"})
    async with ModelServer(script=[Answer(parts=(call,)), "done"]) as server:
        model = model_for(server, form)
        ask = Request(model="m", items=[*ASKED], tools=(tool,))
        _, reply = await asked(model, ask)
        assert isinstance(reply, Reply), reply
        assert (reply.calls[0].text, reply.calls[0].args) == ("*** x", None)
        ask.items += [as_item(reply, "a"), ResultItem(call_id="a:0", tool="patch", content=(Text(text="ok"),))]
        _, end = await asked(model, ask)
        await model.close()
        assert server.refusals == []
    assert isinstance(end, Reply)


@STREAMED
@pytest.mark.parametrize("finish", ["length", "content_filter"])
@pytest.mark.parametrize("form", FORMATS)
async def test_a_call_that_was_cut_off_is_never_usable_even_if_it_parses(
    form: Format, finish: FinishReason, stream: bool
) -> None:
    calls = (Call(name="add", args={"x": 1, "y": 2}), Call(name="add", args={}))
    async with ModelServer(script=[Answer(parts=calls, finish=finish)]) as server:
        model = model_for(server, form)
        _, reply = await asked(model, Request(model="m", items=ASKED, tools=(ADD,), stream=stream))
        await model.close()
    assert isinstance(reply, Reply)
    whole, cut = reply.calls
    assert (whole.args, whole.error) == ({"x": 1, "y": 2}, None)
    assert (cut.args, cut.text) == (None, None)
    assert cut.malformed is not None
    assert cut.error is not None


async def test_with_server_state_only_what_is_new_is_sent() -> None:
    async with ModelServer(script=[FULL, "done", "again"]) as server:
        endpoint = endpoint_for(server, "responses")
        endpoint = msgspec.structs.replace(endpoint, quirks=msgspec.structs.replace(endpoint.quirks, server_state=True))
        model = offline_model(endpoint, credential="k-state")
        ask = Request(model="m", items=[*ASKED], tools=(ADD,), session="s")
        _, first = await asked(model, ask)
        assert isinstance(first, Reply)
        item = as_item(first, "a1")
        results = [
            ResultItem(
                call_id=f"a1:{at}",
                tool="add",
                content=(Text(text="3"),),
                provider_call_id=first.calls[at].provider_call_id,
            )
            for at in (0, 1)
        ]
        ask.items += [item, *results]
        _, second = await asked(model, ask)
        assert isinstance(second, Reply), second
        body = server.requests[-1].body
        assert body["previous_response_id"] == first.response_id
        assert [each["type"] for each in body["input"]] == ["function_call_output"] * 2
        ask.items = [*ASKED, UserItem(content=(Text(text="anew"),))]
        _, third = await asked(model, ask)
        assert isinstance(third, Reply)
        assert "previous_response_id" not in server.requests[-1].body
        await model.close()


async def test_a_provider_that_forgot_is_told_everything_again() -> None:
    async with ModelServer(script=lambda request: "fine") as server:
        endpoint = endpoint_for(server, "responses")
        endpoint = msgspec.structs.replace(endpoint, quirks=msgspec.structs.replace(endpoint.quirks, server_state=True))
        model = offline_model(endpoint, credential="k-forgot")
        ask = Request(model="m", items=[*ASKED], session="s")
        _, first = await asked(model, ask)
        assert isinstance(first, Reply)
        ask.items += [as_item(first, "a1"), UserItem(content=(Text(text="more"),))]
        server.inject("404", code="previous_response_not_found", message="Previous response not found.")
        _, failed = await asked(model, ask)
        assert failed.retryable  # type: ignore[union-attr]
        _, again = await asked(model, ask)
        await model.close()
    assert isinstance(again, Reply)
    assert "previous_response_id" not in server.requests[-1].body
    assert len(server.requests[-1].body["input"]) == 3


def test_an_empty_usage_is_not_an_estimate() -> None:
    assert not Usage().estimated


BESIDE: dict[Format, dict[str, object]] = {
    "anthropic": {"usage": {"service_tier": "standard"}},
    "openai": {"service_tier": "default", "system_fingerprint": "fp_windlass"},
    "responses": {"service_tier": "default", "phase": "final_answer"},
    "gemini": {"usage": {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 7}]}},
}


@STREAMED
@pytest.mark.parametrize("form", FORMATS)
async def test_what_a_provider_says_beside_its_answer_is_kept_as_sent(form: Format, stream: bool) -> None:
    async with ModelServer(script=[Answer(parts=(Say(text="fine"),), tokens=Tokens(input=7, output=1))]) as server:
        model = model_for(server, form)
        _, reply = await asked(model, Request(model="m", items=ASKED, stream=stream))
        await model.close()
    assert isinstance(reply, Reply)
    assert reply.provider_data == BESIDE[form]


@pytest.mark.parametrize("form", ["anthropic", "openai", "gemini"])
async def test_a_bill_of_an_endpoints_own_is_kept_and_one_that_is_too_long_is_not(form: Format) -> None:
    bill = {"copilot_usage": {"total_nano_aiu": 12_000, "token_details": [{"token_count": 7, "token_type": "input"}]}}
    long = {"trace": ["x" * 100] * 100}
    async with ModelServer(script=[Answer(parts=(Say(text="a"),), beside=each) for each in (bill, long)]) as server:
        model = model_for(server, form)
        _, billed = await asked(model, Request(model="m", items=ASKED))
        _, flooded = await asked(model, Request(model="m", items=ASKED))
        await model.close()
    assert isinstance(billed, Reply)
    assert isinstance(flooded, Reply)
    assert billed.provider_data is not None
    assert billed.provider_data["copilot_usage"] == bill["copilot_usage"]
    assert flooded.provider_data is None
    assert flooded.warnings == ("what the provider said beside its answer is too long and is left out",)


QUOTAS: dict[Format, list[str]] = {
    "anthropic": ["requests", "tokens", "input_tokens", "output_tokens"],
    "openai": ["requests", "tokens"],
    "responses": ["requests", "tokens"],
    "gemini": [],
}


@pytest.mark.parametrize("form", FORMATS)
async def test_limits_come_with_the_answers_of_the_vendors_that_send_them(form: Format) -> None:
    async with ModelServer(script=["fine"]) as server:
        model = model_for(server, form)
        _, reply = await asked(model, Request(model="m", items=ASKED))
        await model.close()
    assert isinstance(reply, Reply)
    assert [quota.name for quota in reply.quotas] == QUOTAS[form]
    for quota in reply.quotas:
        assert quota.limit is not None
        assert quota.remaining is not None
        assert (quota.used, quota.limit) == (quota.limit - quota.remaining, quota.limit)
        assert (quota.resets_at_ms or 0) > 1_700_000_000_000
