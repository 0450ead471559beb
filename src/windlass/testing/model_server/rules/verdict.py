"""Whether a vendor would take a request: reading and judging, without a server around them."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.values.blocks import JsonObject
from windlass.testing.model_server.memory import Memory
from windlass.testing.model_server.wires.anthropic import AnthropicWire
from windlass.testing.model_server.wires.gemini import GeminiWire
from windlass.testing.model_server.wires.openai_chat import OpenAIWire
from windlass.testing.model_server.wires.openai_responses import ResponsesWire
from windlass.testing.model_server.wires.parsed import Format, ParsedRequest
from windlass.testing.model_server.wires.wire import Wire, WireRefused

from .every_format import check_request
from .profiles import Context, Profile, profile_named

WIRES: dict[Format, Wire] = {
    "anthropic": AnthropicWire(),
    "openai": OpenAIWire(),
    "responses": ResponsesWire(),
    "gemini": GeminiWire(),
}

NEEDED_HEADERS = {"anthropic-version": "2023-06-01"}


def body_of(raw: bytes) -> JsonObject:
    """The decoded body of a request; raises WireRefused for anything but a JSON object."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WireRefused(f"could not parse the JSON body of the request: {error}", rule="http.body") from None
    if not isinstance(body, dict):
        raise WireRefused("the body of the request must be a JSON object", rule="http.body")
    return body


def understood(body: JsonObject, format: Format, *, model: str, stream: bool, memory: Memory) -> ParsedRequest:
    """The request as a script sees it. Server state, where the format has it, is part of the history."""
    if format != "responses":
        return WIRES[format].parse(body, model=model, stream=stream)
    parsed = WIRES[format].parse({**body, "input": memory.input_of(body)}, model=model, stream=stream)
    parsed.body = body
    return parsed


def judge(request: ParsedRequest, context: Context, profile: Profile, memory: Memory) -> None:
    """Raises WireRefused when the vendor would refuse this request."""
    try:
        check_request(request, context, profile, memory)
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        # The rules read arbitrary JSON; what they trip over has a type that no vendor takes either.
        raise WireRefused(f"a value has the wrong type: {error}", rule="http.types") from error


def refusal(
    format: Format, body: JsonObject, *, model: str = "", profile: str = "", path: str = ""
) -> WireRefused | None:
    """How a vendor (or an endpoint, by its profile) would refuse this body, or None when it would take it. Without any
    HTTP, for tests that try thousands of histories. `model` is for Gemini, which names it in the path."""
    memory = Memory()
    named: Any = model or body.get("model") or ""
    try:
        request = understood(body, format, model=str(named), stream=bool(body.get("stream")), memory=memory)
        context = Context(path=path, query={"api-version": "any"}, headers=NEEDED_HEADERS)
        judge(request, context, profile_named(profile), memory)
    except WireRefused as refused:
        return refused
    return None


def why_refused(format: Format, body: JsonObject, **more: str) -> str | None:
    """The message of the `refusal` of a body, or None when it would be taken."""
    refused = refusal(format, body, **more)
    return None if refused is None else refused.message
