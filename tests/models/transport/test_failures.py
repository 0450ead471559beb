"""Failures are judged by status and code; hints are bounded; keys are never repeated."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.events.values.failures import Failure
from windlass.events.values.usage import Quota
from windlass.models.transport.failures import (
    RETRY_AFTER_MAX_MS,
    Context,
    duration_ms,
    from_body,
    from_response,
    from_stream,
    retry_after,
    scrub,
)
from windlass.models.transport.quotas import quotas

HERE = Context("openai", "m", "sk-mykey-123456789")


def judged(status: int, body: Any) -> str:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return from_response(status, {}, raw, HERE).kind


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, {"error": {"code": "insufficient_quota"}}, "quota_exhausted"),
        (429, {"error": {"message": "maximum context length"}}, "rate_limited"),
        (400, {"error": {"message": "maximum context length is 5 tokens"}}, "context_exceeded"),
        (400, {"error": {"code": "context_length_exceeded"}}, "context_exceeded"),
        (400, {"error": {"message": "rate limit, overloaded, server error"}}, "invalid_request"),
        (
            400,
            {"error": {"code": 400, "status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}},
            "auth",
        ),
        (
            400,
            {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}},
            "context_exceeded",
        ),
        (404, {"error": {"code": "server_error"}}, "invalid_model"),
        (500, {"error": {"message": "invalid api key"}}, "server_error"),
        (529, b"<html>", "overloaded"),
        (503, b"", "overloaded"),
        (418, b"teapot", "invalid_request"),
        (599, [], "server_error"),
        (400, {"object": "error", "message": "x", "type": "invalid_request_error"}, "invalid_request"),
        (400, {"code": "invalid-argument", "error": "no such parameter"}, "invalid_request"),
        (308, b"", "redirected"),
        (401, [{"error": {"message": "x"}}], "auth"),
    ],
)
def test_status_and_code_decide(status: int, body: Any, kind: str) -> None:
    assert judged(status, body) == kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error"}, "overloaded"),
        ({"code": "rate_limit_exceeded"}, "rate_limited"),
        ({"code": 503, "status": "UNAVAILABLE"}, "overloaded"),
        ({"code": 429}, "rate_limited"),
        ({"type": "invalid_request_error"}, "invalid_request"),
        ("boom", "server_error"),
        (None, "server_error"),
    ],
)
def test_an_error_inside_a_stream_means_what_its_status_would(error: Any, kind: str) -> None:
    assert from_stream(error, HERE).kind == kind


@pytest.mark.parametrize(
    ("headers", "ms"),
    [
        ({"Retry-After": "2"}, 2_000),
        ({"Retry-After": "0.5"}, 500),
        ({"retry-after-ms": "150", "Retry-After": "9"}, 150),
        ({"retry-after-ms": "soon", "Retry-After": "9"}, 9_000),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "1e99"}, RETRY_AFTER_MAX_MS),
        ({"Retry-After": "inf"}, RETRY_AFTER_MAX_MS),
        ({"Retry-After": formatdate(1_000_060, usegmt=True)}, 60_000),
        ({"Retry-After": formatdate(999_000, usegmt=True)}, 0),
        ({"Retry-After": "Wed, 99 Foo 2020"}, None),
        ({}, None),
    ],
)
def test_the_hint_is_read_and_bounded(headers: dict[str, str], ms: int | None) -> None:
    assert retry_after(headers, now=1_000_000) == ms


@given(st.text(max_size=30))
def test_any_hint_at_all_gives_a_bounded_number_or_none(text: str) -> None:
    found = retry_after({"Retry-After": text}, now=0)
    assert found is None or 0 <= found <= RETRY_AFTER_MAX_MS


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-999, 999), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(("error", "code", "type", "message", "details", "reason", "retryDelay")), inner
        ),
    ),
    max_leaves=8,
)


@given(st.sampled_from((200, 302, 400, 401, 429, 500, 529)), json_values)
def test_any_error_body_at_all_gives_a_failure(status: int, body: Any) -> None:
    raw = msgspec.json.encode(body)
    for found in (from_response(status, {}, raw, HERE), from_stream(body, HERE)):
        assert msgspec.json.decode(msgspec.json.encode(found), type=Failure) == found
    from_body(raw, HERE)


def test_the_delay_in_the_body_counts_where_there_is_no_header() -> None:
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "12.5s"}]}}
    assert from_response(429, {}, msgspec.json.encode(body), HERE).retry_after_ms == 12_500


@pytest.mark.parametrize(
    ("text", "ms"), [("6m0s", 360_000), ("1h2m3s", 3_723_000), ("250ms", 250), ("7", 7_000), ("x", None)]
)
def test_durations(text: str, ms: int | None) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-mykey-123456789.",
        "sent Authorization: Bearer abc.def.ghi to",
        "https://host/v1beta/models?key=AIzaSyA-secretsecret&alt=sse",
        '{"api_key": "sk-other-abcdef"}',
        "x-api-key: sk-ant-api03-xyz",
        "token sk-mykey-123456789 twice sk-mykey-123456789",
    ],
)
def test_keys_are_hidden(text: str) -> None:
    clean = scrub(text, "sk-mykey-123456789")
    for secret in ("sk-mykey", "abc.def", "AIzaSyA", "sk-other", "sk-ant"):
        assert secret not in clean


def test_details_are_kept_without_keys_and_within_bounds() -> None:
    body = {"error": {"message": "bad sk-mykey-123456789", "param": ["sk-mykey-123456789"], "code": "x"}}
    failure = from_response(400, {}, msgspec.json.encode(body), HERE)
    assert failure.detail == {"message": "bad [hidden]", "param": ["[hidden]"], "code": "x"}
    huge = {"error": {"message": "m" * 5_000, "code": "x", "more": ["y" * 900] * 100}}
    failure = from_response(400, {}, msgspec.json.encode(huge), HERE)
    assert failure.detail is None
    assert len(failure.message) <= 1_000


@pytest.mark.parametrize(
    ("message", "requested", "limit"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", 210_000, 200_000),
        ("The input token count (1100) exceeds the maximum number of tokens allowed (1000).", 1_100, 1_000),
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
            9_001,
            8_192,
        ),
        ("the request (9001 tokens) exceeds the available context size (4096 tokens)", 9_001, 4_096),
        ("the context window is full", None, None),
    ],
)
def test_an_overfull_context_says_how_much_was_sent_and_how_much_fits(message, requested, limit) -> None:
    failure = from_response(400, {}, msgspec.json.encode({"error": {"message": message}}), HERE)
    assert (failure.kind, failure.requested, failure.limit) == ("context_exceeded", requested, limit)


def test_a_quota_that_stands_in_the_error_is_its_limit() -> None:
    violation = {"quotaMetric": "requests", "quotaValue": "15"}
    details = [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}]
    body = {"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED", "details": details}}
    failure = from_response(429, {}, msgspec.json.encode(body), HERE)
    assert (failure.kind, failure.limit) == ("rate_limited", 15)


def test_a_family_without_a_kind_and_moments_as_numbers_are_read() -> None:
    headers = {"x-ratelimit-limit": "20", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1767225600000"}
    (found,) = quotas(headers)
    assert found == Quota(name="requests", limit=20, remaining=0, used=20, resets_at_ms=1_767_225_600_000)
    assert quotas({"x-ratelimit-limit-requests": "many", "x-ratelimit-remaining-requests": "-1"}) == ()


def test_limits_are_read_from_both_families_of_headers() -> None:
    assert quotas({}) == ()
    found = quotas({"x-ratelimit-limit-requests": "100", "x-ratelimit-remaining-requests": "99"})
    assert found == (Quota(name="requests", limit=100, remaining=99, used=1),)
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-input-tokens-limit": "1000",
        "anthropic-ratelimit-input-tokens-remaining": "10",
        "anthropic-ratelimit-input-tokens-reset": "2026-01-01T00:00:00Z",
    }
    assert quotas(headers) == (
        Quota(name="requests", limit=50),
        Quota(name="input_tokens", limit=1000, remaining=10, used=990, resets_at_ms=1_767_225_600_000),
    )
