"""Gemini generateContent: how requests read and answers are written. Knows no rule and no socket."""

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
from .wire import Frame, Made, WireRefused, args_value, encode, objects, sse

FINISH_REASONS = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "stop_sequence": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
    "refusal": "PROHIBITED_CONTENT",
    "error": "MALFORMED_FUNCTION_CALL",
    "other": "OTHER",
}

# docs: ai.google.dev/gemini-api/docs/troubleshooting and the google.rpc.Code names
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

# docs: ai.google.dev/gemini-api/docs/rate-limits; the shape is google.rpc.QuotaFailure
QUOTA_FAILURE: JsonObject = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [
        {
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
            "quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
            "quotaValue": "10",
        }
    ],
}

CAMEL = {
    "system_instruction": "systemInstruction",
    "generation_config": "generationConfig",
    "safety_settings": "safetySettings",
    "tool_config": "toolConfig",
    "cached_content": "cachedContent",
    "function_declarations": "functionDeclarations",
    "function_calling_config": "functionCallingConfig",
    "allowed_function_names": "allowedFunctionNames",
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "file_data": "fileData",
    "mime_type": "mimeType",
    "file_uri": "fileUri",
    "thought_signature": "thoughtSignature",
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
}
"""The API reads both spellings of a field, as protocol buffers' JSON form does; inside the server one is enough."""

OPAQUE = frozenset({"args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"})
"""Fields whose content is the user's own and is never renamed."""


class GeminiWire:
    """`POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent?alt=sse`."""

    format: Format = "gemini"

    def parse(self, body: JsonObject, *, model: str, stream: bool) -> ParsedRequest:
        body = camel(body)
        messages: list[ParsedMessage] = []
        for content in objects(body.get("contents")):
            messages.extend(parsed_content(content))
        system = body.get("systemInstruction")
        config = body.get("generationConfig")
        config = config if isinstance(config, dict) else {}
        declared = [each for tool in objects(body.get("tools")) for each in objects(tool.get("functionDeclarations"))]
        return ParsedRequest(
            format="gemini",
            model=model,
            stream=stream,
            system=parts_text(system.get("parts")) if isinstance(system, dict) else "",
            messages=messages,
            tools={str(d.get("name")): d.get("parameters") or d.get("parametersJsonSchema") or {} for d in declared},
            body=body,
            output_schema=config.get("responseSchema") or config.get("responseJsonSchema"),
        )

    def reply(self, made: Made) -> JsonObject:
        parts = [value for part in made.parts for value in parts_of(part, made)]
        return chunk(made, sign_first(parts, made), finish_of(made), usage=made.answer.usage != "never")

    def frames(self, made: Made) -> Iterator[Frame]:
        every = made.answer.usage == "every_frame"
        signed, sent = False, 0
        for part in made.parts:
            for value in parts_of(part, made):
                kind = "call" if "functionCall" in value else "reasoning" if value.get("thought") else "text"
                if kind == "call" and not signed:
                    value, signed = sign_first([value], made)[0], True
                for piece in split(value, made.answer.chunk_chars):
                    sent += 1
                    yield Frame(kind, sse(chunk(made, [piece], None, usage=every, so_far=sent)))
        last = [{"text": ""}] if made.parts else []
        yield Frame("end", sse(chunk(made, last, finish_of(made), usage=made.answer.usage != "never")))

    def error(self, refused: WireRefused, request_id: str) -> JsonObject:
        status = refused.kind or STATUSES.get(refused.status, "UNKNOWN")
        body: JsonObject = {"code": refused.status, "message": refused.message, "status": status}
        details: list[JsonObject] = []
        if refused.code:
            info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": refused.code}
            details.append({**info, "domain": "googleapis.com"})
        if refused.status == 429:
            details.append(QUOTA_FAILURE)
        if refused.retry_delay_s is not None:
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            details.append({"@type": kind, "retryDelay": f"{refused.retry_delay_s:g}s"})
        return {"error": {**body, "details": details} if details else body}

    def error_frame(self, refused: WireRefused) -> Frame:
        return Frame("error", sse(self.error(refused, "")))

    def ping(self) -> Frame:
        return Frame("ping", b": keep-alive\n\n")


def camel(value: Any, key: str = "") -> Any:
    """The body with every known field in its camelCase spelling."""
    if key in OPAQUE:
        return value
    if isinstance(value, dict):
        return {CAMEL.get(name, name): camel(each, str(CAMEL.get(name, name))) for name, each in value.items()}
    return [camel(each) for each in value] if isinstance(value, list) else value


def chunk(
    made: Made, parts: list[JsonObject], finish: str | None, *, usage: bool, so_far: int | None = None
) -> JsonObject:
    candidate: JsonObject = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if not parts:
        candidate["content"] = {"role": "model"}
    if finish:
        candidate["finishReason"] = finish
    searched = [part for part in made.parts if isinstance(part, ServerCall)]
    if finish and searched:
        candidate["groundingMetadata"] = {"webSearchQueries": [part.query for part in searched]}
    body: JsonObject = {"candidates": [candidate]}
    if usage:
        body["usageMetadata"] = usage_of(made, so_far)
    return {**body, "modelVersion": made.model, "responseId": made.name("gem"), **made.answer.beside}


def usage_of(made: Made, so_far: int | None = None) -> JsonObject:
    """Here the candidates' count leaves out the thoughts. `so_far`: when only so many tokens had been written."""
    counts = made.counts if so_far is None else msgspec.structs.replace(made.counts, output=so_far, reasoning=0)
    usage: JsonObject = {
        "promptTokenCount": counts.input,
        "candidatesTokenCount": counts.output - counts.reasoning,
        "totalTokenCount": counts.total,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": counts.input}],
    }
    if counts.cache_read:
        usage["cachedContentTokenCount"] = counts.cache_read
    if counts.reasoning:
        usage["thoughtsTokenCount"] = counts.reasoning
    return usage


def broken(part: AnyPart) -> bool:
    """Arguments that are no JSON at all: this format cannot carry them, it names the failure instead."""
    return isinstance(part, Call) and isinstance(part.args, str) and isinstance(args_value(part), str)


def finish_of(made: Made) -> str:
    if any(broken(part) for part in made.parts):
        return "MALFORMED_FUNCTION_CALL"
    return FINISH_REASONS.get(made.answer.reason, "OTHER")


def signs(made: Made) -> bool:
    """Whether calls of this answer carry a thought signature."""
    return made.model.startswith("gemini-3") or any(isinstance(part, Think) for part in made.parts)


def parts_of(part: AnyPart, made: Made) -> list[JsonObject]:
    match part:
        case Say() | Decline():
            return [{"text": part.text}]
        case Think():
            thought: JsonObject = {"text": part.text, "thought": True}
            return [{**thought, "thoughtSignature": part.opaque} if part.opaque else thought]
        case Call():
            return [] if broken(part) else [call_part(part, made)]
        case Picture():
            return [{"inlineData": {"mimeType": part.media_type, "data": part.data}}]
        case ServerCall():
            return [{"text": part.result}]
        case _:
            assert_never(part)


def call_part(part: Call, made: Made) -> JsonObject:
    """Ids are sent where the script gave one and by the models that always send them."""
    given = any(each.call_id == part.call_id for each in made.answer.calls)
    value: JsonObject = {"name": part.name, "args": args_value(part)}
    if given or made.model.startswith("gemini-3"):
        value["id"] = part.call_id
    whole: JsonObject = {"functionCall": value}
    return {**whole, "thoughtSignature": part.opaque} if part.opaque else whole


def sign_first(parts: list[JsonObject], made: Made) -> list[JsonObject]:
    """The first call of an answer carries the signature; parallel ones after it do not."""
    for at, value in enumerate(parts):
        if "functionCall" in value:
            if signs(made) and "thoughtSignature" not in value:
                parts[at] = {**value, "thoughtSignature": signature_of(value["functionCall"])}
            break
    return parts


def signature_of(function_call: JsonObject) -> str:
    """The signature that belongs to a call: bound to its name and arguments."""
    return seal(f"{function_call.get('name')}:{encode(function_call.get('args')).decode()}", "thought")


def split(value: JsonObject, size: int) -> Iterator[JsonObject]:
    """Text parts in pieces; everything else whole."""
    if set(value) - {"text", "thought"} or not value["text"]:
        yield value
        return
    for piece in pieces(value["text"], size):
        yield {**value, "text": piece}


def parts_text(parts: Any) -> str:
    texts = [part.get("text") for part in objects(parts) if not part.get("thought")]
    return "\n".join(text for text in texts if isinstance(text, str))


def parsed_content(content: JsonObject) -> Iterator[ParsedMessage]:
    parts = objects(content.get("parts"))
    results = tuple(parsed_result(part["functionResponse"]) for part in parts if function(part, "functionResponse"))
    if results:
        yield ParsedMessage(role="tool", results=results)
    calls = tuple(parsed_call(part["functionCall"]) for part in parts if function(part, "functionCall"))
    text = parts_text(parts)
    if text or calls or not results:
        yield ParsedMessage(
            role="assistant" if content.get("role") == "model" else "user",
            text=text,
            calls=calls,
            reasoning="\n".join(str(part.get("text")) for part in parts if part.get("thought")),
            images=sum(media_of(part).startswith("image/") for part in parts),
            documents=sum(media_of(part).startswith("application/") for part in parts),
        )


def function(part: JsonObject, field: str) -> bool:
    return isinstance(part.get(field), dict)


def media_of(part: JsonObject) -> str:
    blob = part.get("inlineData") or part.get("fileData")
    return str(blob.get("mimeType", "")) if isinstance(blob, dict) else ""


def parsed_call(value: JsonObject) -> ParsedCall:
    name = str(value.get("name"))
    return ParsedCall(call_id=str(value.get("id") or name), name=name, args=value.get("args"))


def parsed_result(value: JsonObject) -> ParsedResult:
    name, response = str(value.get("name")), value.get("response")
    words = response.get("result", response.get("output", response.get("error"))) if isinstance(response, dict) else ""
    text = words if isinstance(words, str) else encode(response).decode()
    images = sum(media_of(part).startswith("image/") for part in objects(value.get("parts")))
    failed = isinstance(response, dict) and "error" in response
    return ParsedResult(call_id=str(value.get("id") or name), name=name, text=text, images=images, is_error=failed)
