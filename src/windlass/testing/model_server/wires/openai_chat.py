"""OpenAI Chat Completions: how requests read and answers are written. Knows no rule and no socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

import msgspec

from windlass.events.values.blocks import JsonObject
from windlass.testing.model_server.answers import (
    AnyPart,
    Call,
    Decline,
    Picture,
    Say,
    ServerCall,
    Think,
    pieces,
    seal,
)

from .parsed import Format, ParsedCall, ParsedMessage, ParsedRequest, ParsedResult
from .wire import Frame, Made, WireRefused, args_text, count_kind, objects, sse, text_of

FINISH_REASONS = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "stop_sequence": "stop",
    "content_filter": "content_filter",
    "refusal": "stop",
    "error": "error",
}

# docs: platform.openai.com/docs/guides/error-codes
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    403: "invalid_request_error",
    404: "invalid_request_error",
    429: "rate_limit_exceeded",
}
ERROR_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}

CREATED = 1_750_000_000
"""The time that every reply claims; fixed, so that replies can be compared."""


class OpenAIWire:
    """`POST /v1/chat/completions`."""

    format: Format = "openai"

    def parse(self, body: JsonObject, *, model: str, stream: bool) -> ParsedRequest:
        messages = [parsed_message(message) for message in objects(body.get("messages"))]
        wanted = body.get("response_format")
        schema = wanted.get("json_schema") if isinstance(wanted, dict) else None
        return ParsedRequest(
            format="openai",
            model=model,
            stream=stream,
            system="\n".join(each.text for each in messages if each.role == "system"),
            messages=[each for each in messages if each.role != "system"],
            tools=dict(map(tool_entry, objects(body.get("tools")))),
            body=body,
            output_schema=schema.get("schema") if isinstance(schema, dict) else None,
        )

    def reply(self, made: Made) -> JsonObject:
        message: JsonObject = {"role": "assistant", "content": None, "refusal": None}
        for part in made.parts:
            add_part(message, part, made)
        body = envelope(made, "chat.completion")
        body["choices"] = [choice("message", message, FINISH_REASONS.get(made.answer.reason, "stop"))]
        if made.answer.usage != "never":
            body["usage"] = usage_of(made)
        return body

    def frames(self, made: Made) -> Iterator[Frame]:
        yield self.chunk(made, "start", {"role": "assistant", "content": "", "refusal": None}, so_far=0)
        ordinal = sent = 0
        for part in made.parts:
            for kind, delta in deltas_of(part, ordinal, made):
                sent += 1
                yield self.chunk(made, kind, delta, so_far=sent)
            ordinal += isinstance(part, Call)
        finish = FINISH_REASONS.get(made.answer.reason, "stop")
        yield self.chunk(made, "stop", {}, finish, so_far=made.counts.output)
        options = made.request.body.get("stream_options")
        asked = isinstance(options, dict) and options.get("include_usage")
        if asked and made.answer.usage != "never":
            last = envelope(made, "chat.completion.chunk")
            yield Frame("stop", sse({**last, "choices": [], "usage": usage_of(made)}))
        yield Frame("end", b"data: [DONE]\n\n")

    def chunk(self, made: Made, kind: str, delta: JsonObject, finish: str | None = None, *, so_far: int) -> Frame:
        body = envelope(made, "chat.completion.chunk")
        body["choices"] = [choice("delta", delta, finish)]
        if made.answer.usage == "every_frame":
            body["usage"] = usage_of(made, so_far)
        return Frame(kind, sse(body))

    def error(self, refused: WireRefused, request_id: str) -> JsonObject:
        kind = refused.kind or ERROR_TYPES.get(refused.status, "server_error")
        code = refused.code or ERROR_CODES.get(refused.status)
        return {"error": {"message": refused.message, "type": kind, "param": refused.param, "code": code}}

    def error_frame(self, refused: WireRefused) -> Frame:
        return Frame("error", sse(self.error(refused, "")))

    def ping(self) -> Frame:
        return Frame("ping", b": keep-alive\n\n")


def envelope(made: Made, kind: str) -> JsonObject:
    return {
        "id": made.name("chatcmpl-"),
        "object": kind,
        "created": CREATED,
        "model": made.model,
        "service_tier": "default",
        "system_fingerprint": "fp_windlass",
        **made.answer.beside,
    }


def choice(field: str, value: JsonObject, finish: str | None) -> JsonObject:
    return {"index": 0, field: value, "logprobs": None, "finish_reason": finish}


def usage_of(made: Made, so_far: int | None = None) -> JsonObject:
    """The usage, or what it was when `so_far` tokens had been written."""
    counts = made.counts if so_far is None else msgspec.structs.replace(made.counts, output=so_far)
    return {
        "prompt_tokens": counts.input,
        "completion_tokens": counts.output,
        "total_tokens": counts.total,
        "prompt_tokens_details": {"cached_tokens": counts.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning, "audio_tokens": 0},
    }


def call_value(part: Call, text: str) -> JsonObject:
    if part.custom:
        return {"id": part.call_id, "type": "custom", "custom": {"name": part.name, "input": text}}
    return {"id": part.call_id, "type": "function", "function": {"name": part.name, "arguments": text}}


def reasoning_value(part: Think, made: Made, text: str) -> JsonObject:
    """Reasoning where this endpoint puts it; `reasoning_details` is a list of objects, the others are text."""
    if made.reasoning_field == "reasoning_details":
        detail = {"type": "reasoning.text", "id": "reasoning-text-1", "index": 0, "text": text}
        if part.opaque or part.redacted:
            detail["signature"] = part.opaque or seal(part.text)
        return {"reasoning_details": [detail]}
    return {made.reasoning_field: text}


def picture_value(part: Picture) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}


def add_part(message: JsonObject, part: AnyPart, made: Made) -> None:
    """Puts a part where a whole message carries it."""
    match part:
        case Say():
            message["content"] = (message["content"] or "") + part.text
        case Think():
            for field, value in reasoning_value(part, made, part.text).items():
                message[field] = message[field] + value if field in message else value
        case Call():
            message.setdefault("tool_calls", []).append(call_value(part, args_text(part)))
        case Decline():
            message["refusal"] = (message["refusal"] or "") + part.text
        case Picture():
            message.setdefault("images", []).append(picture_value(part))
        case ServerCall():
            citation = {"url": "https://example.com/", "title": part.result, "start_index": 0, "end_index": 0}
            message.setdefault("annotations", []).append({"type": "url_citation", "url_citation": citation})
        case _:
            assert_never(part)


def deltas_of(part: AnyPart, ordinal: int, made: Made) -> Iterator[tuple[str, JsonObject]]:
    """A part as streamed deltas."""
    size = made.answer.chunk_chars
    match part:
        case Say():
            for text in pieces(part.text, size):
                yield "text", {"content": text}
        case Think():
            for text in pieces(part.text, size):
                yield "reasoning", reasoning_value(part, made, text)
        case Call():
            yield "call", {"tool_calls": [{"index": ordinal, **call_value(part, "")}]}
            field, key = ("custom", "input") if part.custom else ("function", "arguments")
            for text in pieces(args_text(part), size):
                yield "call", {"tool_calls": [{"index": ordinal, field: {key: text}}]}
        case Decline():
            for text in pieces(part.text, size):
                yield "text", {"refusal": text}
        case Picture():
            yield "image", {"images": [picture_value(part)]}
        case ServerCall():
            message: JsonObject = {}
            add_part(message, part, made)
            yield "text", message
        case _:
            assert_never(part)


def tool_entry(tool: JsonObject) -> tuple[str, JsonObject]:
    spec = tool.get("function") or tool.get("custom")
    spec = spec if isinstance(spec, dict) else {}
    return str(spec.get("name")), spec.get("parameters") or {}


def parsed_message(message: JsonObject) -> ParsedMessage:
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        result = ParsedResult(call_id=str(message.get("tool_call_id")), text=text_of(content))
        return ParsedMessage(role="tool", results=(result,))
    calls = tuple(parsed_call(call) for call in objects(message.get("tool_calls")))
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return ParsedMessage(
        role="system" if role in ("system", "developer") else "assistant" if role == "assistant" else "user",
        text=text_of(content),
        calls=calls,
        reasoning=reasoning if isinstance(reasoning, str) else "",
        images=count_kind(content, "image_url"),
        documents=count_kind(content, "file"),
    )


def parsed_call(call: JsonObject) -> ParsedCall:
    spec = call.get("function") or call.get("custom")
    spec = spec if isinstance(spec, dict) else {}
    raw = spec.get("arguments", spec.get("input"))
    return ParsedCall(call_id=str(call.get("id")), name=str(spec.get("name")), args=decoded(raw))


def decoded(raw: Any) -> Any:
    """Arguments as a value where they are JSON, as they are where they are not."""
    if not isinstance(raw, str):
        return raw
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return raw
