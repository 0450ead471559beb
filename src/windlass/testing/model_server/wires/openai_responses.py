"""OpenAI Responses: how requests read and answers are written. Knows no rule, no state and no socket."""

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

from .openai_chat import CREATED, ERROR_CODES, ERROR_TYPES, decoded
from .parsed import Format, ParsedCall, ParsedMessage, ParsedRequest, ParsedResult
from .wire import Frame, Made, WireRefused, args_text, count_kind, objects, sse, text_of

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reasons that leave a response `incomplete`, and what it then says."""

ENCRYPTED = "reasoning.encrypted_content"
"""The entry of `include` that asks for reasoning which can be sent back without server state."""


class ResponsesWire:
    """`POST /v1/responses`."""

    format: Format = "responses"

    def parse(self, body: JsonObject, *, model: str, stream: bool) -> ParsedRequest:
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given)
        messages = [parsed_item(item) for item in items]
        system = [str(body.get("instructions") or ""), *(each.text for each in messages if each.role == "system")]
        wanted = body.get("text")
        wanted = wanted.get("format") if isinstance(wanted, dict) else None
        return ParsedRequest(
            format="responses",
            model=model,
            stream=stream,
            system="\n".join(text for text in system if text),
            messages=[each for each in messages if each.role != "system"],
            tools={str(tool.get("name")): tool.get("parameters") or {} for tool in objects(body.get("tools"))},
            body=body,
            output_schema=wanted.get("schema") if isinstance(wanted, dict) else None,
        )

    def reply(self, made: Made) -> JsonObject:
        return response(made, final_status(made), items_of(made))

    def frames(self, made: Made) -> Iterator[Frame]:
        for number, (kind, value) in enumerate(self.events(made)):
            yield Frame(kind, sse({**value, "sequence_number": number}, value["type"]))

    def events(self, made: Made) -> Iterator[tuple[str, JsonObject]]:
        begun = response(made, "in_progress", [])
        yield "start", named("response.created", response=begun)
        yield "start", named("response.in_progress", response=begun)
        items = items_of(made)
        for index, item in enumerate(items):
            yield from item_events(item, index, made.answer.chunk_chars)
        status = final_status(made)
        yield "end", named(f"response.{status}", response=response(made, status, items))

    def error(self, refused: WireRefused, request_id: str) -> JsonObject:
        kind = refused.kind or ERROR_TYPES.get(refused.status, "server_error")
        code = refused.code or ERROR_CODES.get(refused.status)
        return {"error": {"message": refused.message, "type": kind, "param": refused.param, "code": code}}

    def error_frame(self, refused: WireRefused) -> Frame:
        code = refused.code or ERROR_CODES.get(refused.status) or "server_error"
        value = {"type": "error", "code": code, "message": refused.message, "param": None, "sequence_number": 3}
        return Frame("error", sse(value, "error"))

    def ping(self) -> Frame:
        return Frame("ping", b": keep-alive\n\n")


def named(event: str, **fields: Any) -> JsonObject:
    return {"type": event, **fields}


def final_status(made: Made) -> str:
    if made.answer.reason in INCOMPLETE:
        return "incomplete"
    return "failed" if made.answer.reason == "error" else "completed"


def response(made: Made, status: str, items: list[JsonObject]) -> JsonObject:
    asked = made.request.body
    reason = INCOMPLETE.get(made.answer.reason) if status == "incomplete" else None
    failed = {"code": "server_error", "message": "the model failed"} if status == "failed" else None
    done = status != "in_progress"
    return {
        "id": made.name("resp_"),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": failed,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": asked.get("instructions"),
        "max_output_tokens": asked.get("max_output_tokens"),
        "model": made.model,
        "output": items,
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        "previous_response_id": asked.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": asked.get("store", True),
        "temperature": 1.0,
        "text": asked.get("text") or {"format": {"type": "text"}},
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage_of(made) if done and made.answer.usage != "never" else None,
        "metadata": {},
        **made.answer.beside,
    }


def usage_of(made: Made) -> JsonObject:
    counts = made.counts
    return {
        "input_tokens": counts.input,
        "input_tokens_details": {"cached_tokens": counts.cache_read, "cache_write_tokens": counts.cache_write},
        "output_tokens": counts.output,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning},
        "total_tokens": counts.total,
    }


def items_of(made: Made) -> list[JsonObject]:
    """The output items of an answer. Text and refusals that stand together share a message."""
    items: list[JsonObject] = []
    encrypted = ENCRYPTED in (made.request.body.get("include") or [])
    for ordinal, part in enumerate(made.parts):
        if isinstance(part, Say | Decline) and items and items[-1]["type"] == "message":
            items[-1]["content"].append(content_of(part))
        else:
            items.append(item_of(part, ordinal, made, encrypted))
    if made.answer.reason in INCOMPLETE and items and "status" in items[-1]:
        items[-1]["status"] = "incomplete"
    return items


def content_of(part: Say | Decline) -> JsonObject:
    if isinstance(part, Decline):
        return {"type": "refusal", "refusal": part.text}
    return {"type": "output_text", "text": part.text, "annotations": [], "logprobs": []}


def item_of(part: AnyPart, ordinal: int, made: Made, encrypted: bool) -> JsonObject:
    match part:
        case Say() | Decline():
            ident = made.name("msg_", ordinal)
            head: JsonObject = {"id": ident, "type": "message", "status": "completed", "role": "assistant"}
            phase = "commentary" if made.answer.calls else "final_answer"
            return {**head, "phase": phase, "content": [content_of(part)]}
        case Think():
            summary = [] if part.redacted or not part.text else [{"type": "summary_text", "text": part.text}]
            item: JsonObject = {"id": made.name("rs_", ordinal), "type": "reasoning", "summary": summary}
            return {**item, "encrypted_content": part.opaque or seal(part.text, "reasoning")} if encrypted else item
        case Call(custom=True):
            head = {"id": made.name("ctc_", ordinal), "type": "custom_tool_call", "status": "completed"}
            return {**head, "call_id": part.call_id, "name": part.name, "input": args_text(part)}
        case Call():
            head = {"id": made.name("fc_", ordinal), "type": "function_call", "status": "completed"}
            return {**head, "call_id": part.call_id, "name": part.name, "arguments": args_text(part)}
        case Picture():
            head = {"id": made.name("ig_", ordinal), "type": "image_generation_call", "status": "completed"}
            made_as = {"size": "1024x1536", "quality": "high", "background": "opaque", "revised_prompt": "a picture"}
            return {**head, **made_as, "output_format": part.media_type.removeprefix("image/"), "result": part.data}
        case ServerCall():
            head = {"id": made.name("ws_", ordinal), "type": "web_search_call", "status": "completed"}
            return {**head, "action": {"type": "search", "query": part.query}}
        case _:
            assert_never(part)


def item_events(item: JsonObject, index: int, size: int) -> Iterator[tuple[str, JsonObject]]:
    """added, what fills it, done."""
    kind = {"reasoning": "reasoning", "message": "text", "image_generation_call": "image"}.get(item["type"], "call")
    where: JsonObject = {"item_id": item["id"], "output_index": index}
    opening = kind if kind == "call" else "block"
    yield opening, named("response.output_item.added", output_index=index, item=started(item))
    match item["type"]:
        case "message":
            for at, content in enumerate(item["content"]):
                yield from content_events(content, {**where, "content_index": at}, size)
        case "reasoning":
            for at, part in enumerate(item["summary"]):
                yield from summary_events(part, {**where, "summary_index": at}, size)
        case "function_call":
            yield from grown("response.function_call_arguments", "arguments", item["arguments"], where, size)
        case "custom_tool_call":
            yield from grown("response.custom_tool_call_input", "input", item["input"], where, size)
        case "image_generation_call" | "web_search_call":
            for step in ("in_progress", "generating" if kind == "image" else "searching", "completed"):
                yield kind, named(f"response.{item['type']}.{step}", **where)
    yield "block", named("response.output_item.done", output_index=index, item=item)


def started(item: JsonObject) -> JsonObject:
    """An item as it is announced: nothing in it yet."""
    blank: JsonObject = {"content": [], "summary": [], "arguments": "", "input": "", "result": None}
    begun = {key: blank.get(key, value) for key, value in item.items() if key != "encrypted_content"}
    return {**begun, "status": "in_progress"} if "status" in begun else begun


def grown(event: str, field: str, text: str, where: JsonObject, size: int) -> Iterator[tuple[str, JsonObject]]:
    for piece in pieces(text, size):
        yield "call", named(f"{event}.delta", **where, delta=piece)
    yield "call", named(f"{event}.done", **where, **{field: text})


def content_events(content: JsonObject, where: JsonObject, size: int) -> Iterator[tuple[str, JsonObject]]:
    refused = content["type"] == "refusal"
    field, event = ("refusal", "response.refusal") if refused else ("text", "response.output_text")
    more: JsonObject = {} if refused else {"logprobs": []}
    yield "block", named("response.content_part.added", **where, part={**content, field: ""})
    for piece in pieces(content[field], size):
        yield "text", named(f"{event}.delta", **where, delta=piece, **more)
    yield "block", named(f"{event}.done", **where, **{field: content[field]}, **more)
    yield "block", named("response.content_part.done", **where, part=content)


def summary_events(part: JsonObject, where: JsonObject, size: int) -> Iterator[tuple[str, JsonObject]]:
    yield "block", named("response.reasoning_summary_part.added", **where, part={**part, "text": ""})
    for piece in pieces(part["text"], size):
        yield "reasoning", named("response.reasoning_summary_text.delta", **where, delta=piece)
    yield "block", named("response.reasoning_summary_text.done", **where, text=part["text"])
    yield "block", named("response.reasoning_summary_part.done", **where, part=part)


def parsed_item(item: JsonObject) -> ParsedMessage:
    kind = item.get("type", "message")
    match kind:
        case "function_call" | "custom_tool_call":
            raw = item.get("arguments", item.get("input"))
            call = ParsedCall(call_id=str(item.get("call_id")), name=str(item.get("name")), args=decoded(raw))
            return ParsedMessage(role="assistant", calls=(call,))
        case "function_call_output" | "custom_tool_call_output":
            output = item.get("output")
            images = count_kind(output, "input_image")
            result = ParsedResult(call_id=str(item.get("call_id")), text=text_of(output), images=images)
            return ParsedMessage(role="tool", results=(result,))
        case "reasoning":
            return ParsedMessage(role="assistant", reasoning=text_of(item.get("summary")))
        case "message":
            role, content = item.get("role"), item.get("content")
            return ParsedMessage(
                role="system" if role in ("system", "developer") else "assistant" if role == "assistant" else "user",
                text=text_of(content),
                images=count_kind(content, "input_image"),
                documents=count_kind(content, "input_file"),
            )
    return ParsedMessage(role="assistant")
