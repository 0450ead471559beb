"""Every way in which a provider can fail gives its typed failure: streamed and whole, in every format, never a hang,
and never a part of a call that could be executed."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.models.wire_support import ADD, FORMATS, asked, endpoint_for, model_for, offline_model
from tests.virtual_time import in_virtual_time
from windlass.events.values.blocks import Text
from windlass.events.values.failures import Failure, failure
from windlass.events.values.items import UserItem
from windlass.models.base import Reply, Request
from windlass.models.catalogue.credentials import CredentialError
from windlass.models.catalogue.endpoints import ENDPOINTS
from windlass.models.transport.timeouts import Timeouts
from windlass.testing.model_server import FAULTS, Answer, Call, Format, ModelServer, Say, closed_port

WATCHDOG_S = 20.0
QUICK = Timeouts(connect=0.5, headers=0.8, first_output=0.6, idle=0.6, total=5)
"""Short, because some faults (pings, drips) last for seconds only. Time is virtual, so no busy machine comes near."""
DAY_MS = 86_400_000
ANSWER = Answer(parts=(Say(text="hellö wörld, and a good deal more of it"), Call(name="add", args={"x": 1, "y": 2})))

KINDS: dict[str, str] = {
    "429_seconds": "rate_limited",
    "429_date": "rate_limited",
    "429_ms": "rate_limited",
    "429_in_body": "rate_limited",
    "429_none": "rate_limited",
    "429_hour": "rate_limited",
    "429_day": "rate_limited",
    "429_negative": "rate_limited",
    "429_garbage": "rate_limited",
    "429_quota": "quota_exhausted",
    "500": "server_error",
    "502": "server_error",
    "503": "overloaded",
    "503_retry_after": "overloaded",
    "504": "server_error",
    "529": "overloaded",
    "400": "invalid_request",
    "400_context": "context_exceeded",
    "400_content_filter": "content_filtered",
    "401": "auth",
    "402": "quota_exhausted",
    "403": "permission",
    "404": "invalid_model",
    "410": "invalid_model",
    "413": "request_too_large",
    "headers_late": "headers_timeout",
    "first_output_late": "first_output_timeout",
    "stall": "idle_timeout",
    "drip": "first_output_timeout",
    "ping_only": "first_output_timeout",
    "truncated": "truncated_reply",
    "closed": "truncated_reply",
    "reset": "truncated_reply",
    "reset_at_once": "truncated_reply",
    "cut_in_utf8": "truncated_reply",
    "cut_in_json": "truncated_reply",
    "no_end_marker": "truncated_reply",
    "error_event": "server_error",
    "error_event_overloaded": "overloaded",
    "error_event_rate_limited": "rate_limited",
    "empty_reply": "empty_reply",
    "empty_text": "empty_reply",
    "only_reasoning": "empty_reply",
    "huge_reply": "reply_too_large",
    "huge_line": "reply_too_large",
    "wrong_content_type": "malformed_reply",
    "html_error": "server_error",
    "html_ok": "malformed_reply",
    "gzip_bomb": "reply_too_large",
    "redirect": "redirected",
    "redirect_302": "redirected",
}
"""What each fault must be called. The rest of the faults still give a reply and are listed in `REPLIES`."""

HINTS: dict[str, int | None] = {
    "429_seconds": 2_000,
    "429_ms": 150,
    "429_none": None,
    "429_hour": 3_600_000,
    "429_day": DAY_MS,
    "429_negative": None,
    "429_garbage": None,
    "503_retry_after": 1_000,
}

UNSAID: dict[tuple[str, str], str] = {
    ("429_quota", "anthropic"): "rate_limited",  # this format has no code for it, only a status of its own (402)
    ("400_content_filter", "anthropic"): "invalid_request",
    ("error_event_overloaded", "openai"): "server_error",
    ("error_event_overloaded", "responses"): "server_error",
}
"""Where a format has no word for what happened."""

WHOLE: dict[str, str] = {"stall": "first_output_timeout"}
"""What differs without streaming: nothing has been shown before the whole is there."""

CHANGES: dict[str, dict[str, Any]] = {"stall": {"after": 5}}
"""In one format, the first frames say nothing yet."""

REPLIES: dict[str, str] = {
    "malformed_args": "malformed",
    "args_not_object": "malformed",
    "length_partial_call": "malformed",
    "partial_call_as_tool_calls": "malformed",
    "unknown_tool": "call",
    "wrong_case_tool": "call",
    "duplicate_ids": "call",
    "empty_ids": "call",
    "reused_ids": "call",
    "same_call_twice": "call",
    "many_calls": "call",
    "content_filter": "text",
    "refusal": "text",
    "max_tokens": "text",
    "usage_missing": "call",
    "usage_wrong": "call",
    "usage_negative": "call",
    "usage_cumulative": "call",
    "model_switched": "call",
}


def test_every_fault_of_the_server_has_an_expectation() -> None:
    assert KINDS.keys() | REPLIES.keys() == FAULTS.keys()


async def met(form: Format, name: str, *, stream: bool) -> Reply | Failure:
    async with asyncio.timeout(WATCHDOG_S), ModelServer(script=lambda request: ANSWER) as server:
        model = model_for(server, form, timeouts=QUICK)
        server.inject(name, **CHANGES.get(name, {}))
        request = Request(model="m", items=[UserItem(content=(Text(text="q"),))], tools=(ADD,), stream=stream)
        _, end = await asked(model, request)
        _, after = await asked(model, request)
        assert isinstance(after, Reply), "the model must answer again after a fault"
        assert server.elsewhere.visits == []
        await model.close()
        return end


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", KINDS)
@in_virtual_time
async def test_a_fault_is_called_by_its_name(name: str, form: Format, stream: bool) -> None:
    expected = UNSAID.get((name, form), KINDS[name])
    expected = expected if stream else WHOLE.get(name, expected)
    end = await met(form, name, stream=stream)
    assert isinstance(end, Failure), end
    assert end.kind == expected
    assert end.provider is not None
    if name in HINTS:
        assert end.retry_after_ms == HINTS[name]
    if name == "429_date":
        assert end.retry_after_ms is not None
        assert 0 <= end.retry_after_ms <= 2_000


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", REPLIES)
@in_virtual_time
async def test_a_flawed_answer_is_handed_on_as_what_it_is(name: str, form: Format, stream: bool) -> None:
    end = await met(form, name, stream=stream)
    if form == "gemini" and REPLIES[name] == "malformed" and isinstance(end, Failure):
        assert end.kind == "malformed_reply"  # this provider reports a malformed call itself and sends none
        return
    assert isinstance(end, Reply), end
    if REPLIES[name] == "malformed":
        assert len(end.calls) == 1
        check_malformed(end.calls[0])
    elif REPLIES[name] == "call":
        assert end.calls
        assert all(call.args is not None and call.malformed is None and call.error is None for call in end.calls)
        assert [call.ordinal for call in end.calls] == list(range(len(end.calls)))
    else:
        assert end.calls == ()
        assert end.finish == FINISH_OF.get((name, form), name.replace("max_tokens", "length"))


FINISH_OF = {("content_filter", "anthropic"): "refusal", ("refusal", "gemini"): "content_filter"}


def check_malformed(call: Any) -> None:
    assert (call.args, call.text) == (None, None)
    assert call.malformed
    assert call.error


@pytest.mark.parametrize("form", FORMATS)
@in_virtual_time
async def test_usage_that_makes_no_sense_is_estimated_and_says_so(form: Format) -> None:
    for name, estimated in (("usage_missing", True), ("usage_negative", True), ("usage_wrong", True)):
        end = await met(form, name, stream=True)
        assert isinstance(end, Reply)
        assert end.usage.estimated is estimated
        assert end.usage.input_tokens > 0
        assert end.usage.output_tokens > 0
        assert end.warnings


@pytest.mark.parametrize("form", FORMATS)
@in_virtual_time
async def test_the_model_that_really_answered_is_named(form: Format) -> None:
    end = await met(form, "model_switched", stream=True)
    assert isinstance(end, Reply)
    assert end.model == "another-model-than-asked"


@pytest.mark.parametrize("form", FORMATS)
@in_virtual_time
async def test_an_answer_cut_at_any_byte_is_never_a_reply(form: Format) -> None:
    request = Request(model="m", items=[UserItem(content=(Text(text="q"),))], tools=(ADD,))
    async with ModelServer(script=lambda asked_for: ANSWER) as server:
        model = model_for(server, form, timeouts=QUICK)
        _, whole = await asked(model, request)
        assert isinstance(whole, Reply)
        size = len(server.requests[-1].sent)
        assert size > 500
        for at in range(0, size + 1, 23):
            server.inject("truncated", at="byte", at_byte=at)
            _, end = await asked(model, request)
            if isinstance(end, Reply):  # the cut came behind the end marker
                assert [(each.tool, each.args) for each in end.calls] == [
                    (each.tool, each.args) for each in whole.calls
                ]
                assert end.finish == whole.finish
            else:
                assert end.kind == "truncated_reply"
        await model.close()


@pytest.mark.parametrize("form", FORMATS)
async def test_a_refused_connection_is_told_from_a_late_answer(form: Format) -> None:
    async with ModelServer() as server:
        endpoint = endpoint_for(server, form)
        closed = endpoint.base_url.replace(str(server.port), str(closed_port()))
        model = offline_model(msgspec.structs.replace(endpoint, base_url=closed), credential=f"k-{form}")
        _, end = await asked(model, Request(model="m"))
        await model.close()
    assert isinstance(end, Failure)
    assert (end.kind, end.retryable) == ("connect_failed", True)


async def test_a_host_that_does_not_exist_is_a_failed_connection() -> None:
    nowhere = msgspec.structs.replace(ENDPOINTS["openai"], base_url="http://models.invalid/v1")
    model = offline_model(nowhere, credential="k-nowhere")
    _, end = await asked(model, Request(model="m"))
    await model.close()
    assert isinstance(end, Failure)
    assert end.kind == "connect_failed"


@pytest.mark.parametrize("form", FORMATS)
async def test_a_redirect_takes_no_key_elsewhere(form: Format) -> None:
    async with ModelServer() as server:
        model = model_for(server, form)
        server.inject("redirect")
        await asked(model, Request(model="m"))
        await model.close()
        assert server.elsewhere.visits == []


@pytest.mark.parametrize("form", FORMATS)
async def test_no_key_means_no_request(form: Format) -> None:
    async with ModelServer() as server:
        model = offline_model(endpoint_for(server, form), credential=None)
        _, end = await asked(model, Request(model="m"))
        await model.close()
        assert list(server.requests) == []
    assert isinstance(end, Failure)
    assert end.kind == "no_credentials"


@pytest.mark.parametrize("form", FORMATS)
async def test_a_key_is_in_no_message(form: Format) -> None:
    key = "sk-verysecret-0123456789"
    async with ModelServer(key="another") as server:
        model = model_for(server, form, credential=key)
        server.inject("401", message=f"Incorrect API key provided: {key}")
        for _ in range(2):
            _, end = await asked(model, Request(model="m"))
            assert isinstance(end, Failure)
            assert end.kind == "auth"
            assert key not in repr(end)
        await model.close()


class Rotating:
    """A credential whose first key is refused."""

    def __init__(self, *keys: str) -> None:
        self.keys = list(keys)
        self.refused_keys: list[str] = []

    async def __call__(self) -> str:
        return self.keys[0]

    async def refused(self, key: str) -> bool:
        self.refused_keys.append(key)
        self.keys.pop(0)
        return bool(self.keys)


@pytest.mark.parametrize("form", ["anthropic", "openai", "responses"])
async def test_a_refused_key_is_replaced_once(form: Format) -> None:
    async with ModelServer(script=["fine"], key="new-key") as server:
        credential = Rotating("old-key", "new-key")
        model = model_for(server, form, credential=credential)
        _, end = await asked(model, Request(model="m"))
        await model.close()
    assert isinstance(end, Reply)
    assert credential.refused_keys == ["old-key"]


class Revoked:
    """A credential that cannot be renewed: it says itself what to do."""

    def __init__(self, failures_from: int) -> None:
        self.asked = 0
        self.failures_from = failures_from

    async def __call__(self) -> str:
        self.asked += 1
        if self.asked >= self.failures_from:
            raise CredentialError(failure("reauth_required", "sign in again"))
        return "old-key"

    async def refused(self, key: str) -> bool:
        return True


@pytest.mark.parametrize("asked_before", [1, 2])
async def test_a_credential_that_gives_up_says_why(asked_before: int) -> None:
    async with ModelServer(script=["fine"], key="new-key") as server:
        model = model_for(server, "openai", credential=Revoked(asked_before))
        _, end = await asked(model, Request(model="m"))
        await model.close()
    assert end == failure("reauth_required", "sign in again", provider="openai", model="model-x")
