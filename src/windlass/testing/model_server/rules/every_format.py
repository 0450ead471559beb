"""What is checked before an answer: the key, the shape that all formats share, the context window; then the rules
of the format itself, then those of the profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from windlass.testing.model_server.faults.fault import Fault
from windlass.testing.model_server.memory import Memory
from windlass.testing.model_server.wires.parsed import ParsedRequest
from windlass.testing.model_server.wires.wire import WireRefused

from . import (
    anthropic as rules_anthropic,
)
from . import (
    gemini as rules_gemini,
)
from . import (
    openai_chat as rules_openai,
)
from . import (
    openai_responses as rules_responses,
)
from .profiles import Context, Profile


def given_key(
    request_format: str, profile: Profile, headers: Mapping[str, str], query: Mapping[str, str]
) -> str | None:
    """The key that a request carries, where its vendor looks for it."""
    bearer = headers.get("authorization", "")
    token = bearer.removeprefix("Bearer ") if bearer.startswith("Bearer ") else None
    if profile.auth == "api-key":
        return headers.get("api-key") or token
    if profile.auth == "bearer" or request_format in ("openai", "responses"):
        return token
    if request_format == "anthropic":
        return headers.get("x-api-key") or token
    return headers.get("x-goog-api-key") or query.get("key")


def check_method(purpose: str, method: str) -> None:
    """Raises unless the method is the one that this path takes."""
    if (method == "GET") != (purpose == "models"):
        raise WireRefused(f"method {method} is not allowed here", status=405, rule="http.method")


def check_access(
    request_format: str, profile: Profile, key: str | None, headers: Mapping[str, str], query: Mapping[str, str]
) -> None:
    """Raises when a key is demanded and another, or none, was sent."""
    if key is None or profile.auth == "none":
        return
    given = given_key(request_format, profile, headers, query)
    if given == key:
        return
    if request_format == "gemini":
        # Gemini answers a wrong key with 400 and a missing one with 403.
        if given is None:
            raise WireRefused("Method doesn't allow unregistered callers.", status=403, rule="gemini.key")
        raise WireRefused(
            "API key not valid. Please pass a valid API key.", status=400, code="API_KEY_INVALID", rule="gemini.key"
        )
    if request_format == "anthropic":
        raise WireRefused(
            "x-api-key header is required" if given is None else "invalid x-api-key", status=401, rule="anthropic.key"
        )
    raise WireRefused(
        "Incorrect API key provided." if given else "You didn't provide an API key.", status=401, rule="openai.key"
    )


def check_window(request: ParsedRequest, window_tokens: int | None) -> None:
    """Raises the vendor's own context-length error when the input does not fit."""
    if window_tokens is not None:
        tokens = request.input_chars // 4 + 1
        if tokens > window_tokens:
            raise context_exceeded(request.format, tokens, window_tokens)


def context_exceeded(request_format: str, tokens: int, window: int) -> WireRefused:
    match request_format:
        case "anthropic":
            return WireRefused(f"prompt is too long: {tokens} tokens > {window} maximum", rule="anthropic.window")
        case "gemini":
            return WireRefused(
                f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window}).",
                rule="gemini.window",
            )
        case "responses":
            message = "Your input exceeds the context window of this model. Please adjust your input and try again."
            return WireRefused(message, code="context_length_exceeded", param="input", rule="responses.window")
    message = (
        f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. "
        "Please reduce the length of the messages."
    )
    return WireRefused(message, code="context_length_exceeded", param="messages", rule="openai.window")


def check_request(request: ParsedRequest, context: Context, profile: Profile, memory: Memory) -> None:
    """Raises when the vendor would refuse this request."""
    try:
        profile.check(request, context)
    except WireRefused as refused:
        refused.rule = f"profile.{profile.name}"
        raise
    match request.format:
        case "anthropic":
            rules_anthropic.check(request, context, memory)
        case "openai":
            rules_openai.check(request, strict_fields=profile.strict_fields)
        case "responses":
            rules_responses.check(request, memory)
        case "gemini":
            rules_gemini.check(request, memory)
        case _:
            assert_never(request.format)


def refusal_of(met: Fault, parsed: ParsedRequest, window: int | None) -> WireRefused:
    """The vendor's error for a status fault; two messages are the vendor's own."""
    if met.message == "@context":
        return context_exceeded(parsed.format, parsed.input_chars // 4 + 1, window or 1)
    if met.message == "@model":
        return no_model(parsed)
    return WireRefused(
        met.message, status=met.status, kind=met.error_type, code=met.code, retry_delay_s=met.retry_delay_s
    )


def no_model(parsed: ParsedRequest) -> WireRefused:
    match parsed.format:
        case "anthropic":
            return WireRefused(f"model: {parsed.model}", status=404, rule="anthropic.no_model")
        case "gemini":
            return WireRefused(
                f"models/{parsed.model} is not found for API version v1beta", status=404, rule="gemini.no_model"
            )
    message = f"The model `{parsed.model}` does not exist or you do not have access to it."
    return WireRefused(message, status=404, code="model_not_found", rule="openai.no_model")
