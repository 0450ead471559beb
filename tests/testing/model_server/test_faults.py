"""Every fault is what it says, seen on the wire by a client that knows nothing but HTTP, in every format, streamed and
whole; and none of them outlives its client or its server."""

from __future__ import annotations

import asyncio
import email.utils
import gzip
import json
import time
from typing import Any

import msgspec
import pytest

from tests.virtual_time import in_virtual_time
from windlass.testing.model_server import (
    FAULTS,
    FORMATS,
    Fault,
    FaultPlan,
    Format,
    ModelServer,
    call,
    closed_port,
    fault,
)
from windlass.testing.model_server.faults.content import MUTATIONS, OTHER_MODEL, WRONG_USAGE
from windlass.testing.model_server.wire_output import Delivery

WATCHDOG_S = 50.0
MODEL = "model-x"
TEXT = "a text that is long enough for a handful of frames, so that something can happen in between"
END_MARKS = {
    "anthropic": b'"message_stop"',
    "openai": b"[DONE]",
    "responses": b'"response.completed"',
    "gemini": b'"finishReason"',
}
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
EACH_FORMAT = pytest.mark.parametrize("format", FORMATS)


class Seen(msgspec.Struct, kw_only=True):
    """What came back. `complete` says whether HTTP itself was brought to its end; `reset` whether by force."""

    status: int = 0
    headers: dict[str, str] = {}
    body: bytes = b""
    complete: bool = False
    reset: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def request_of(format: Format, stream: bool, history: bool = False) -> tuple[str, Any]:
    """A minimal request that declares one tool; with `history`, one whose tool was called before as `call_old1`."""
    match format:
        case "anthropic":
            old: list[Any] = [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "call_old1", "name": "add", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_old1", "content": "1"}]},
            ]
            body: dict[str, Any] = {"model": MODEL, "max_tokens": 9, "stream": stream}
            body["messages"] = [{"role": "user", "content": "hi"}, *(old if history else [])]
            body["tools"] = [{"name": "add", "input_schema": {"type": "object"}}]
            return "/v1/messages", body
        case "openai":
            old_call = {"id": "call_old1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
            old = [
                {"role": "assistant", "content": None, "tool_calls": [old_call]},
                {"role": "tool", "tool_call_id": "call_old1", "content": "1"},
            ]
            messages = [{"role": "user", "content": "hi"}, *(old if history else [])]
            body = {"model": MODEL, "messages": messages, "stream": stream}
            body["tools"] = [{"type": "function", "function": {"name": "add"}}]
            return "/v1/chat/completions", body | ({"stream_options": {"include_usage": True}} if stream else {})
        case "responses":
            old = [
                {"type": "function_call", "call_id": "call_old1", "name": "add", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "call_old1", "output": "1"},
            ]
            body = {"model": MODEL, "input": [{"role": "user", "content": "hi"}, *(old if history else [])]}
            return "/v1/responses", body | {"stream": stream, "tools": [{"type": "function", "name": "add"}]}
        case "gemini":
            old = [
                {"role": "model", "parts": [{"functionCall": {"id": "call_old1", "name": "add", "args": {}}}]},
                {"role": "user", "parts": [{"functionResponse": {"id": "call_old1", "name": "add", "response": {}}}]},
            ]
            body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}, *(old if history else [])]}
            verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
            return f"/v1beta/models/{MODEL}:{verb}", body | {"tools": [{"functionDeclarations": [{"name": "add"}]}]}


async def opened(server: ModelServer, format: Format, stream: bool, history: bool = False) -> Any:
    """A connection with the request already sent."""
    path, body = request_of(format, stream, history)
    raw = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {len(raw)}\r\nAnthropic-Version: 1\r\n"
    head += "Connection: close\r\nAuthorization: Bearer secret\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 20)
    writer.write(head.encode() + raw)
    return reader, writer


async def exchange(server: ModelServer, format: Format, stream: bool, history: bool = False) -> Seen:
    """One request, read until the other side ends it."""
    async with asyncio.timeout(WATCHDOG_S):
        reader, writer = await opened(server, format, stream, history)
        raw, reset = b"", False
        try:
            while piece := await reader.read(1 << 20):
                raw += piece
        except ConnectionResetError:
            reset = True
        writer.close()
        return parsed(raw, reset)


def parsed(raw: bytes, reset: bool) -> Seen:
    head, split, rest = raw.partition(b"\r\n\r\n")
    if not split:
        return Seen(reset=reset)
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    seen = Seen(status=int(lines[0].split()[1]), headers=headers, reset=reset)
    if headers.get("transfer-encoding") == "chunked":
        seen.body, seen.complete = joined(rest)
    else:
        seen.body, seen.complete = rest, len(rest) == int(headers.get("content-length", -1))
    return seen


def joined(rest: bytes) -> tuple[bytes, bool]:
    """The body of a chunked reply, and whether its last chunk came."""
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        count = int(size or b"0", 16)
        if count == 0:
            return body, True
        body, rest = body + rest[:count], rest[count + 2 :]
    return body, False


class Said(msgspec.Struct, kw_only=True):
    """A reply put together from its wire format by the most naive means."""

    text: str = ""
    calls: list[list[Any]] = []
    finish: str | None = None
    usage: Any = None
    model: str | None = None


def frames_of(body: bytes) -> list[Any]:
    lines = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def said(format: Format, stream: bool, body: bytes) -> Said:
    found = Said()
    for value in frames_of(body) if stream else [json.loads(body)]:
        {"anthropic": add_anthropic, "openai": add_openai, "responses": add_responses, "gemini": add_gemini}[format](
            found, value
        )
    return found


def add_anthropic(found: Said, value: Any) -> None:
    kind = value["type"]
    if kind in ("message", "message_start"):
        message = value.get("message", value)
        found.model, found.usage, found.finish = message["model"], message.get("usage"), message["stop_reason"]
        for block in message["content"]:
            if block["type"] == "text":
                found.text += block["text"]
            elif block["type"] == "tool_use":
                found.calls.append([block["id"], block["name"], json.dumps(block["input"])])
    elif kind == "content_block_start" and value["content_block"]["type"] == "tool_use":
        found.calls.append([value["content_block"]["id"], value["content_block"]["name"], ""])
    elif kind == "content_block_delta":
        found.text += value["delta"].get("text", "")
        if "partial_json" in value["delta"]:
            found.calls[-1][2] += value["delta"]["partial_json"]
    elif kind == "message_delta":
        found.finish, found.usage = value["delta"]["stop_reason"], value.get("usage", found.usage)


def add_openai(found: Said, value: Any) -> None:
    found.model, found.usage = value["model"], value.get("usage", found.usage)
    for choice in value["choices"]:
        part = choice.get("delta") or choice.get("message") or {}
        found.text += part.get("content") or ""
        for each in part.get("tool_calls") or []:
            if "id" in each:
                found.calls.append([each["id"], each["function"]["name"], ""])
            found.calls[-1][2] += each["function"]["arguments"]
        found.finish = choice["finish_reason"] or found.finish


def add_responses(found: Said, value: Any) -> None:
    """The last event carries everything; the deltas before it were checked by the vendor's own client."""
    whole = value.get("response", value) if "response" in value or "output" in value else None
    if whole is None or whole["status"] == "in_progress":
        return
    found.model, found.usage, found.finish = whole["model"], whole["usage"], whole["status"]
    for item in whole["output"]:
        if item["type"] == "function_call":
            found.calls.append([item["call_id"], item["name"], item["arguments"]])
        elif item["type"] == "message":
            found.text += "".join(part.get("text", "") for part in item["content"])


def add_gemini(found: Said, value: Any) -> None:
    found.model, found.usage = value["modelVersion"], value.get("usageMetadata", found.usage)
    (candidate,) = value["candidates"]
    found.finish = candidate.get("finishReason", found.finish)
    for part in candidate["content"].get("parts", []):
        found.text += part.get("text", "") if not part.get("thought") else ""
        if "functionCall" in part:
            each = part["functionCall"]
            found.calls.append([each.get("id"), each["name"], json.dumps(each["args"])])


def named(how: str) -> Any:
    return pytest.mark.parametrize("name", [each.name for each in FAULTS.values() if each.how == how])


# ---- refusals


@EACH_FORMAT
@STREAMED
@named("status")
async def test_a_status_comes_in_the_vendors_shape_and_leaves_the_script_alone(name: str, format: Format, stream: bool):
    async with ModelServer(script=[TEXT]) as server:
        server.inject(name)
        seen = await exchange(server, format, stream)
        assert (seen.status, seen.complete) == (FAULTS[name].status, True)
        assert seen.json["error"]["message"]
        assert server.requests[0].fault == name
        assert said(format, stream, (await exchange(server, format, stream)).body).text == TEXT


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("429_seconds", "retry-after", "2"),
        ("429_ms", "retry-after-ms", "150"),
        ("429_day", "retry-after", "86400"),
        ("429_negative", "retry-after", "-5"),
        ("429_garbage", "retry-after", "soon"),
        ("429_none", "retry-after", None),
    ],
)
async def test_retry_after_in_all_its_forms(name: str, header: str, value: str | None):
    async with ModelServer(script=[fault(name)]) as server:
        assert (await exchange(server, "openai", False)).headers.get(header) == value


async def test_retry_after_as_a_date_lies_ahead():
    async with ModelServer(script=[fault("429_date")]) as server:
        seen = await exchange(server, "openai", False)
        ahead = email.utils.parsedate_to_datetime(seen.headers["retry-after"]).timestamp() - time.time()
        assert 0 < ahead <= 3


async def test_gemini_says_in_the_body_how_long_to_wait():
    async with ModelServer(script=[fault("429_in_body")]) as server:
        details = (await exchange(server, "gemini", False)).json["error"]["details"]
        assert [each["retryDelay"] for each in details if "retryDelay" in each] == ["2s"]


@EACH_FORMAT
async def test_context_and_quota_have_the_vendors_own_marks(format: Format):
    async with ModelServer(script=[fault("400_context"), fault("404"), fault("429_quota")]) as server:
        context, model, quota = [(await exchange(server, format, False)).json["error"] for _ in range(3)]
        marks = {"anthropic": "prompt is too long", "gemini": "exceeds the maximum number of tokens"}
        assert marks.get(format, "context") in str(context)
        assert context.get("code") == (
            400 if format == "gemini" else None if format == "anthropic" else "context_length_exceeded"
        )
        assert MODEL in model["message"]
        assert "quota" in quota["message"]


# ---- timing


@EACH_FORMAT
@STREAMED
@pytest.mark.parametrize("name", ["headers_late", "first_output_late", "stall"])
@in_virtual_time
async def test_a_held_reply_ends_when_the_client_leaves(name: str, format: Format, stream: bool):
    async with asyncio.timeout(WATCHDOG_S), ModelServer(script=[TEXT]) as server:
        server.inject(name)
        reader, writer = await opened(server, format, stream)
        raw = b""
        try:
            async with asyncio.timeout(0.1):
                while piece := await reader.read(65536):
                    raw += piece
        except TimeoutError:
            pass
        seen = parsed(raw, False)
        assert not seen.complete
        assert (seen.status == 0) == (name == "headers_late")
        assert (TEXT[:12].encode() in seen.body) == (name == "stall")
        writer.close()
        await server.idle()
        assert server.requests[0].client_left
        assert server.script.left == 1


@EACH_FORMAT
@STREAMED
@pytest.mark.parametrize("name", ["headers_late", "first_output_late", "stall"])
@in_virtual_time
async def test_a_short_delay_still_delivers(name: str, format: Format, stream: bool):
    async with ModelServer(script=[TEXT]) as server:
        server.inject(name, delay_ms=30)
        began = asyncio.get_running_loop().time()
        seen = await exchange(server, format, stream)
        assert asyncio.get_running_loop().time() - began == pytest.approx(0.03)
        assert said(format, stream, seen.body).text == TEXT
        assert server.script.left == 0


@STREAMED
async def test_stopping_the_server_ends_held_replies_at_once(stream: bool):
    server = await ModelServer(script=[TEXT] * 4).start()
    server.inject("stall", times=2)
    server.inject("headers_late", times=2)
    waiting = [asyncio.create_task(exchange(server, "openai", stream)) for _ in range(4)]
    async with asyncio.timeout(WATCHDOG_S):
        await server.arrived(4)
        await server.stop()
        seen = await asyncio.gather(*waiting)
    assert not any(each.complete for each in seen)


@EACH_FORMAT
@STREAMED
@in_virtual_time
async def test_a_drip_arrives_whole(format: Format, stream: bool):
    async with ModelServer(script=["drip"]) as server:
        server.inject("drip", delay_ms=1, size=40)
        assert said(format, stream, (await exchange(server, format, stream)).body).text == "drip"


@EACH_FORMAT
@STREAMED
@in_virtual_time
async def test_pings_alone_never_say_anything(format: Format, stream: bool):
    async with ModelServer(script=[TEXT]) as server:
        server.inject("ping_only", delay_ms=1, count=20)
        seen = await exchange(server, format, stream)
        assert not seen.complete
        assert TEXT[:12].encode() not in seen.body
        pings = (
            seen.body.count(b'"ping"') + seen.body.count(b": keep-alive") + (0 if stream else seen.body.count(b"\n"))
        )
        assert pings >= 20


# ---- cuts


@EACH_FORMAT
@STREAMED
@named("cut")
async def test_a_cut_reply_is_never_whole(name: str, format: Format, stream: bool):
    async with ModelServer(script=[TEXT]) as server:
        server.inject(name)
        seen = await exchange(server, format, stream)
        wanted = FAULTS[name]
        assert seen.complete == (wanted.end == "clean")
        assert seen.reset == (wanted.end == "reset")
        if stream:
            assert END_MARKS[format] not in seen.body
        else:
            with pytest.raises(ValueError):
                json.loads(seen.body)
        if wanted.at == "utf8":
            with pytest.raises(UnicodeDecodeError):
                seen.body.decode()
        if wanted.at == "json" and stream:
            with pytest.raises(ValueError):
                frames_of(seen.body)
        assert server.script.left == 1


@EACH_FORMAT
async def test_a_stream_can_be_cut_at_every_byte(format: Format):
    async with ModelServer(script=lambda _: "Zażółć 🦀") as server:
        whole = (await exchange(server, format, True)).body
        for at in range(0, len(whole), 41):
            server.inject("truncated", at="byte", at_byte=at)
            # Ids in the two replies differ, lengths do not.
            assert len((await exchange(server, format, True)).body) == at


@EACH_FORMAT
@STREAMED
@named("error_event")
async def test_an_error_inside_a_200(name: str, format: Format, stream: bool):
    async with ModelServer(script=[TEXT]) as server:
        server.inject(name)
        seen = await exchange(server, format, stream)
        assert (seen.status, seen.complete) == (200, True)
        last = frames_of(seen.body)[-1] if stream else seen.json
        assert FAULTS[name].message in json.dumps(last)
        assert END_MARKS[format] not in seen.body


# ---- what is said


def some(seen: Said) -> Any:
    """The arguments of the only call, as a value where they are JSON."""
    try:
        return json.loads(seen.calls[0][2])
    except ValueError:
        return None


def usage_numbers(seen: Said) -> list[int]:
    return [value for value in (seen.usage or {}).values() if isinstance(value, int)]


TRUNCATED = {"max_tokens", "length", "incomplete", "MAX_TOKENS", "MALFORMED_FUNCTION_CALL"}
FILTERED = {"refusal", "content_filter", "incomplete", "SAFETY"}
EXPECTED: dict[str, Any] = {
    "malformed_args": lambda s: not s.calls or not isinstance(some(s), dict),
    "args_not_object": lambda s: some(s) == ["not", "an", "object"],
    "length_partial_call": lambda s: s.finish in TRUNCATED and not isinstance(s.calls and some(s), dict),
    "partial_call_as_tool_calls": lambda s: not isinstance(s.calls and some(s), dict),
    "unknown_tool": lambda s: s.calls[0][1] == "no_such_tool",
    "wrong_case_tool": lambda s: s.calls[0][1] == "ADD",
    "duplicate_ids": lambda s: len(s.calls) == 2 and s.calls[0] == s.calls[1] and s.calls[0][0],
    "empty_ids": lambda s: s.calls[0][0] == "",
    "reused_ids": lambda s: s.calls[0][0] == "call_old1",
    "same_call_twice": lambda s: len(s.calls) == 2 and s.calls[0][1:] == s.calls[1][1:],
    "many_calls": lambda s: len(s.calls) == 120,
    "empty_reply": lambda s: s.text == "" and s.calls == [] and s.finish,
    "empty_text": lambda s: s.text == "" and s.calls == [] and s.finish,
    "only_reasoning": lambda s: s.text == "" and s.calls == [] and s.finish,
    "content_filter": lambda s: s.text and s.finish in FILTERED,
    "refusal": lambda s: s.calls == [] and s.finish,
    "max_tokens": lambda s: s.text == TEXT and s.finish in TRUNCATED,
    "usage_missing": lambda s: s.text == TEXT and s.usage is None,
    "usage_wrong": lambda s: s.text == TEXT and (WRONG_USAGE in usage_numbers(s) or 0 in usage_numbers(s)),
    "usage_negative": lambda s: s.text == TEXT and min(usage_numbers(s)) < 0,
    "usage_cumulative": lambda s: s.text == TEXT and s.usage,
    "model_switched": lambda s: s.text == TEXT and s.model == OTHER_MODEL,
}


def test_every_mutation_is_expected_and_named():
    assert set(EXPECTED) == set(MUTATIONS) == {each.mutation for each in FAULTS.values() if each.how == "mutate"}


@EACH_FORMAT
@STREAMED
@named("mutate")
async def test_what_is_said_wrong(name: str, format: Format, stream: bool):
    async with ModelServer(script=lambda _: TEXT) as server:
        server.inject(name)
        seen = await exchange(server, format, stream, history=True)
        assert (seen.status, seen.complete, server.refusals) == (200, True, [])
        found = said(format, stream, seen.body)
        assert EXPECTED[name](found), found


async def test_cumulative_usage_grows_in_every_frame():
    async with ModelServer(script=[TEXT, TEXT]) as server:
        server.inject("usage_cumulative", times=2)
        chat = frames_of((await exchange(server, "openai", True)).body)
        gemini = frames_of((await exchange(server, "gemini", True)).body)
        for counts in (
            [frame["usage"]["completion_tokens"] for frame in chat],
            [frame["usageMetadata"]["candidatesTokenCount"] for frame in gemini],
        ):
            assert counts == sorted(counts)
            assert len(set(counts)) > 3


# ---- bodies


@EACH_FORMAT
@STREAMED
@pytest.mark.parametrize("name", ["huge_reply", "huge_line"])
async def test_a_flood_has_its_size(name: str, format: Format, stream: bool):
    async with ModelServer(script=[TEXT]) as server:
        server.inject(name, size=1_000_000)
        seen = await exchange(server, format, stream)
        assert len(seen.body) > 1_000_000
        longest = max(map(len, seen.body.split(b"\n")))
        assert (longest > 1_000_000) == (name == "huge_line" or not stream)


@EACH_FORMAT
@STREAMED
async def test_bodies_of_the_wrong_kind(format: Format, stream: bool):
    async with ModelServer(script=[TEXT]) as server:
        for name in ("html_error", "html_ok", "gzip_bomb", "redirect", "redirect_302"):
            server.inject(name, **({"size": 2_000_000} if name == "gzip_bomb" else {}))
        error, fine, bomb, redirect, found = [await exchange(server, format, stream) for _ in range(5)]
        assert (error.status, fine.status) == (502, 200)
        assert all(each.headers["content-type"].startswith("text/html") for each in (error, fine))
        assert (bomb.headers["content-encoding"], len(bomb.body) < 20_000) == ("gzip", True)
        assert len(gzip.decompress(bomb.body)) > 2_000_000
        assert (redirect.status, found.status) == (307, 302)
        assert redirect.headers["location"].startswith(f"http://127.0.0.1:{server.elsewhere.port}/")
        server.inject("wrong_content_type")
        plain = await exchange(server, format, stream)
        assert plain.headers["content-type"].startswith("text/plain")
        assert said(format, stream, plain.body).text == TEXT


async def test_the_other_host_notices_credentials():
    async with ModelServer() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.elsewhere.port)
        writer.write(b"GET /v1/x?key=1 HTTP/1.1\r\nHost: x\r\nX-Api-Key: s\r\nConnection: close\r\n\r\n")
        assert b"200 OK" in await reader.read()
        writer.close()
        assert server.elsewhere.credentials == ("x-api-key", "key")


# ---- connections, plans, scripts


async def test_connections_are_refused():
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", closed_port())
    async with ModelServer(script=[TEXT]) as server:
        await server.close_port()
        with pytest.raises(ConnectionRefusedError):
            await opened(server, "openai", False)
        await server.open_port()
        assert (await exchange(server, "openai", False)).status == 200


def test_a_plan_gives_the_same_faults_for_the_same_seed():
    def drawn(seed: int) -> list[Fault | None]:
        plan = FaultPlan(seed=seed, rate=0.5)
        return [plan.draw(number) for number in range(200)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert 60 < sum(each is not None for each in drawn(1)) < 140


async def test_a_plan_is_played():
    async with ModelServer(script=lambda _: TEXT, plan=FaultPlan(seed=3, rate=0.5, names=("500", "429_ms"))) as server:
        statuses = [(await exchange(server, "anthropic", False)).status for _ in range(40)]
        assert set(statuses) == {200, 429, 500}
        assert [each.fault for each in server.requests] == [
            "" if status == 200 else "500" if status == 500 else "429_ms" for status in statuses
        ]


async def test_faults_in_a_script_leave_the_answer_for_the_next_request():
    async with ModelServer(script=[fault("500"), fault("unknown_tool"), call("add", {}), "end"]) as server:
        first, second, third, fourth = [await exchange(server, "openai", False) for _ in range(4)]
        assert first.status == 500
        assert [said("openai", False, each.body).calls[0][1] for each in (second, third)] == ["no_such_tool", "add"]
        assert said("openai", False, fourth.body).text == "end"


def test_an_unknown_fault_names_the_known_ones():
    with pytest.raises(KeyError, match="429_seconds"):
        fault("430")


def test_every_row_of_the_matrix_has_a_fault():
    """The rows of the provider fault matrix, in its order."""
    rows = [
        *("429_seconds", "429_date", "429_ms", "429_none", "429_day", "429_negative", "429_garbage"),
        *("500", "502", "503", "504", "529", "400", "400_context", "401", "403", "404", "410"),
        *("headers_late", "first_output_late", "stall", "drip", "ping_only"),
        *("truncated", "no_end_marker", "reset", "cut_in_utf8", "cut_in_json", "error_event"),
        *("malformed_args", "args_not_object", "length_partial_call", "partial_call_as_tool_calls"),
        *("unknown_tool", "wrong_case_tool", "duplicate_ids", "empty_ids", "reused_ids"),
        *("empty_reply", "only_reasoning", "content_filter", "refusal", "max_tokens", "huge_reply", "huge_line"),
        *("many_calls", "same_call_twice", "usage_missing", "usage_wrong", "usage_negative", "usage_cumulative"),
        *("wrong_content_type", "html_error", "gzip_bomb", "redirect", "model_switched"),
    ]
    assert [row for row in rows if row not in FAULTS] == []


async def test_a_client_that_is_gone_when_it_is_written_to_is_no_fault_of_the_server(monkeypatch, caplog):
    async def gone(self: Delivery, *given: object, **more: object) -> None:
        raise ConnectionResetError("cannot write to closing transport")

    monkeypatch.setattr(Delivery, "steps", gone)
    async with asyncio.timeout(WATCHDOG_S), ModelServer(script=[TEXT]) as server:
        _, writer = await opened(server, "openai", True)
        await server.arrived(1)
        await server.idle()
        assert server.requests[0].client_left
        writer.close()
    assert caplog.records == []
