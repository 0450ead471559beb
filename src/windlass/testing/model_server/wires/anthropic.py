"""Anthropic Messages: how requests read and answers are written. Knows no rule and no socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

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
from .wire import Frame, Made, WireRefused, args_text, args_value, count_kind, objects, sse, text_of

STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "stop_sequence": "stop_sequence",
    "content_filter": "refusal",
    "refusal": "refusal",
    "pause": "pause_turn",
}

# docs: platform.claude.com/docs/en/api/errors
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class AnthropicWire:
    """`POST /v1/messages`."""

    format: Format = "anthropic"

    def parse(self, body: JsonObject, *, model: str, stream: bool) -> ParsedRequest:
        messages: list[ParsedMessage] = []
        for message in objects(body.get("messages")):
            messages.extend(parsed_messages(message))
        output = body.get("output_config")
        wanted = output.get("format") if isinstance(output, dict) else None
        return ParsedRequest(
            format="anthropic",
            model=model,
            stream=stream,
            system=text_of(body.get("system")),
            messages=messages,
            tools={str(tool.get("name")): tool.get("input_schema") or {} for tool in objects(body.get("tools"))},
            body=body,
            output_schema=wanted.get("schema") if isinstance(wanted, dict) else None,
        )

    def reply(self, made: Made) -> JsonObject:
        body = envelope(made)
        body["content"] = [block for part in made.parts for block in blocks_of(part)]
        body["stop_reason"] = STOP_REASONS.get(made.answer.reason, "end_turn")
        if made.answer.usage != "never":
            body["usage"] = usage_of(made, made.counts.output)
        return body

    def frames(self, made: Made) -> Iterator[Frame]:
        start = envelope(made)
        if made.answer.usage != "never":
            start["usage"] = usage_of(made, 1)
        yield frame("start", {"type": "message_start", "message": start})
        yield self.ping()
        index = 0
        for part in made.parts:
            for block in blocks_of(part):
                yield from block_frames(block, part, index, made.answer.chunk_chars)
                index += 1
        delta: JsonObject = {
            "type": "message_delta",
            "delta": {"stop_reason": STOP_REASONS.get(made.answer.reason, "end_turn"), "stop_sequence": None},
        }
        if made.answer.usage == "every_frame":
            delta["usage"] = usage_of(made, made.counts.output)
        elif made.answer.usage == "once":
            delta["usage"] = {"output_tokens": made.counts.output}
        yield frame("stop", delta)
        yield frame("end", {"type": "message_stop"})

    def error(self, refused: WireRefused, request_id: str) -> JsonObject:
        kind = refused.kind or ERROR_TYPES.get(refused.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": refused.message}, "request_id": request_id}

    def error_frame(self, refused: WireRefused) -> Frame:
        kind = refused.kind or ERROR_TYPES.get(refused.status, "api_error")
        return frame("error", {"type": "error", "error": {"type": kind, "message": refused.message}})

    def ping(self) -> Frame:
        return frame("ping", {"type": "ping"})


def frame(kind: str, value: JsonObject) -> Frame:
    return Frame(kind, sse(value, value["type"]))


def envelope(made: Made) -> JsonObject:
    return {
        "id": made.name("msg_"),
        "type": "message",
        "role": "assistant",
        "model": made.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        **made.answer.beside,
    }


def usage_of(made: Made, output: int) -> JsonObject:
    """Here `input_tokens` leaves out what came from or went into the cache."""
    counts = made.counts
    usage: JsonObject = {
        "input_tokens": counts.input - counts.cache_read - counts.cache_write,
        "cache_creation_input_tokens": counts.cache_write,
        "cache_read_input_tokens": counts.cache_read,
        "output_tokens": output,
        "service_tier": "standard",
    }
    if counts.reasoning:
        usage["output_tokens_details"] = {"thinking_tokens": counts.reasoning}
    return usage


def blocks_of(part: AnyPart) -> list[JsonObject]:
    """The content blocks that a part becomes. Pictures have no block in this format and are told in words."""
    match part:
        case Say() | Decline():
            return [{"type": "text", "text": part.text}]
        case Think(redacted=True):
            return [{"type": "redacted_thinking", "data": part.opaque or seal(part.text, "redacted")}]
        case Think():
            return [{"type": "thinking", "thinking": part.text, "signature": part.opaque or seal(part.text)}]
        case Call():
            return [{"type": "tool_use", "id": part.call_id, "name": part.name, "input": args_value(part)}]
        case Picture():
            return [{"type": "text", "text": f"[image {part.media_type}]"}]
        case ServerCall():
            return server_blocks(part)
        case _:
            assert_never(part)


def server_blocks(part: ServerCall) -> list[JsonObject]:
    ident = "srvtoolu_" + "".join(each for each in part.query if each.isalnum())[:24]
    search_result = {
        "type": "web_search_result",
        "url": "https://example.com/",
        "title": part.result[:40],
        "encrypted_content": seal(part.result, "reasoning"),
        "page_age": None,
    }
    return [
        {"type": "server_tool_use", "id": ident, "name": part.name, "input": {"query": part.query}},
        {"type": "web_search_tool_result", "tool_use_id": ident, "content": [search_result]},
    ]


def block_frames(block: JsonObject, part: AnyPart, index: int, size: int) -> Iterator[Frame]:
    """start, deltas, stop. Blocks that the vendor sends in one piece have no deltas."""
    kind = {"thinking": "reasoning", "redacted_thinking": "reasoning", "tool_use": "call"}.get(block["type"], "text")
    empty, deltas = opened(block, part, size)
    yield frame(
        kind if kind == "call" else "block", {"type": "content_block_start", "index": index, "content_block": empty}
    )
    for delta in deltas:
        yield frame(kind, {"type": "content_block_delta", "index": index, "delta": delta})
    yield frame("block", {"type": "content_block_stop", "index": index})


def opened(block: JsonObject, part: AnyPart, size: int) -> tuple[JsonObject, list[JsonObject]]:
    """A block as it starts, and the deltas that fill it."""
    match block["type"]:
        case "text":
            return {"type": "text", "text": ""}, [
                {"type": "text_delta", "text": text} for text in pieces(block["text"], size)
            ]
        case "thinking":
            deltas: list[JsonObject] = [
                {"type": "thinking_delta", "thinking": text} for text in pieces(block["thinking"], size)
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "tool_use" | "server_tool_use":
            text = args_text(part) if isinstance(part, Call) else f'{{"query": "{block["input"]["query"]}"}}'
            text = "" if text == "{}" else text
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(text, size)]]
            return {**block, "input": {}}, deltas
    return block, []


def parsed_messages(message: JsonObject) -> Iterator[ParsedMessage]:
    """One message; a user message with tool results gives a `tool` message first."""
    content = message.get("content")
    results = tuple(
        ParsedResult(
            call_id=str(block.get("tool_use_id")),
            text=text_of(block.get("content")),
            images=count_kind(block.get("content"), "image"),
            is_error=bool(block.get("is_error")),
        )
        for block in objects(content)
        if block.get("type") == "tool_result"
    )
    if results:
        yield ParsedMessage(role="tool", results=results)
    role = message.get("role")
    calls = tuple(
        ParsedCall(call_id=str(block.get("id")), name=str(block.get("name")), args=block.get("input"))
        for block in objects(content)
        if block.get("type") == "tool_use"
    )
    text = text_of([block for block in objects(content) if block.get("type") == "text"])
    text = content if isinstance(content, str) else text
    if text or calls or not results:
        yield ParsedMessage(
            role=role if role in ("user", "assistant", "system") else "user",
            text=text,
            calls=calls,
            reasoning=thinking_text(content),
            images=count_kind(content, "image"),
            documents=count_kind(content, "document"),
        )


def thinking_text(content: Any) -> str:
    return "\n".join(str(block.get("thinking", "")) for block in objects(content) if block.get("type") == "thinking")
