"""What OpenAI Chat Completions refuses, and what every endpoint of that format does.

Each check names its rule; `cited_openai` says what that rests on.
"""

from __future__ import annotations

import re
from typing import Any

from windlass.events.values.blocks import JsonObject
from windlass.testing.model_server.wires.parsed import ParsedRequest
from windlass.testing.model_server.wires.wire import WireRefused, objects, text_of

from .checks import DATA_URL, Checks, fields, is_base64, is_schema, object_text, strict_schema

CHECKS = Checks("openai")
need, known, typed = CHECKS.need, CHECKS.known, CHECKS.typed

FIELDS = fields(
    text="model reasoning_effort verbosity user service_tier prompt_cache_key prompt_cache_retention safety_identifier",
    flag="stream parallel_tool_calls store logprobs",
    whole="n seed max_tokens max_completion_tokens top_logprobs",
    number="temperature top_p presence_penalty frequency_penalty",
    list="messages tools modalities functions",
    object="stream_options response_format metadata logit_bias audio prediction web_search_options prompt_cache_options"
    " moderation",
    text_or_list="stop",
    text_or_object="tool_choice function_call",
)
MESSAGE_FIELDS: dict[str, frozenset[str]] = {
    "developer": frozenset({"role", "content", "name"}),
    "system": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "assistant": frozenset(
        {"role", "content", "name", "tool_calls", "refusal", "audio", "function_call", "annotations"}
    ),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}
PARTS: dict[str, frozenset[str]] = {
    "developer": frozenset({"text"}),
    "system": frozenset({"text"}),
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
    "assistant": frozenset({"text", "refusal"}),
    "tool": frozenset({"text"}),
}
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
REASONING_MODEL = re.compile(r"^(o\d|gpt-5)")
CALL_ID_MAX = 40
TOOLS_MAX = 128
STOPS_MAX = 4


def check(request: ParsedRequest, *, strict_fields: bool) -> None:
    """Raises WireRefused when the endpoint would refuse this request. `strict_fields`: the vendor itself, which takes
    no field that it does not know."""
    body = request.body
    need("model", request.model, "you must provide a model parameter")
    if strict_fields:
        typed(
            "fields",
            body,
            FIELDS,
            "",
            "Unrecognized request argument supplied: {}",
            "Invalid type for '{}': expected {}.",
        )
        check_reasoning_model(body)
    check_settings(body)
    names = check_tools(body)
    check_choice(body, names)
    check_format(body)
    messages = body.get("messages")
    need(
        "messages",
        isinstance(messages, list),
        "Missing required parameter: 'messages'.",
        code="missing_required_parameter",
    )
    need("messages", messages, "[] is too short - 'messages'", param="messages")
    assert isinstance(messages, list)
    check_messages(messages, strict_fields)


def check_settings(body: JsonObject) -> None:
    need(
        "stream_options",
        body.get("stream_options") is None or body.get("stream"),
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        param="stream_options",
    )
    both = body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None
    need("two_limits", not both, "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
    temperature = body.get("temperature")
    need(
        "temperature",
        temperature is None or 0 <= temperature <= 2,
        "Invalid 'temperature': decimal out of range.",
        param="temperature",
    )
    stop = body.get("stop")
    need("stop", not isinstance(stop, list) or len(stop) <= STOPS_MAX, "Invalid 'stop': array too long.", param="stop")


def check_reasoning_model(body: JsonObject) -> None:
    if not REASONING_MODEL.match(str(body.get("model"))):
        return
    if body.get("max_tokens") is not None:
        message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
        raise WireRefused(message, code="unsupported_parameter", param="max_tokens", rule="openai.reasoning_limit")
    if body.get("temperature") not in (None, 1):
        message = "Unsupported value: 'temperature' supports only the default (1) with this model."
        raise WireRefused(message, code="unsupported_value", param="temperature", rule="openai.reasoning_temperature")


def check_tools(body: JsonObject) -> list[str]:
    tools = body.get("tools")
    if tools is None:
        return []
    need("no_tools", isinstance(tools, list) and tools, "[] is too short - 'tools'", param="tools")
    assert isinstance(tools, list)
    need(
        "tools_max",
        len(tools) <= TOOLS_MAX,
        f"Invalid 'tools': array too long. Expected at most {TOOLS_MAX}.",
        param="tools",
    )
    names: list[str] = []
    for at, tool in enumerate(tools):
        kind = tool.get("type") if isinstance(tool, dict) else None
        need(
            "tools", kind in ("function", "custom"), f"Invalid value for 'tools[{at}].type'", param=f"tools[{at}].type"
        )
        spec = tool.get(kind)
        need(
            "tools",
            isinstance(spec, dict),
            f"Missing required parameter: 'tools[{at}].{kind}'.",
            param=f"tools[{at}].{kind}",
        )
        name = spec.get("name")
        good = isinstance(name, str) and NAME.match(name)
        need("name", good, f"Invalid 'tools[{at}].{kind}.name': string does not match pattern '{NAME.pattern}'.")
        if kind == "function":
            check_parameters(spec, name)
        names.append(name)
    return names


def check_parameters(spec: JsonObject, name: str) -> None:
    schema = spec.get("parameters")
    if schema is None:
        return
    kind = schema.get("type") if isinstance(schema, dict) else None
    message = f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got {kind!r}."
    need("parameters", kind == "object", message, code="invalid_function_parameters")
    need(
        "parameters",
        is_schema(schema),
        f"Invalid schema for function '{name}': it is no JSON Schema.",
        code="invalid_function_parameters",
    )
    wrong = strict_schema(schema) if spec.get("strict") is True else None
    need("strict", not wrong, f"Invalid schema for function '{name}': {wrong}.", code="invalid_function_parameters")


def check_choice(body: JsonObject, names: list[str]) -> None:
    choice = body.get("tool_choice")
    only = "is only allowed when 'tools' are specified."
    need(
        "choice_tools",
        choice is None or names,
        f"Invalid value for 'tool_choice': 'tool_choice' {only}",
        param="tool_choice",
    )
    need(
        "choice_tools",
        body.get("parallel_tool_calls") is None or names,
        f"Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' {only}",
        param="parallel_tool_calls",
    )
    if isinstance(choice, str):
        need("choice", choice in ("auto", "none", "required"), f"Invalid value: {choice!r}.", param="tool_choice")
    elif isinstance(choice, dict):
        spec = choice.get("function") or choice.get("custom")
        name = spec.get("name") if isinstance(spec, dict) else None
        named = choice.get("type") == "allowed_tools" or name in names
        need("choice", named, f"Tool choice {name!r} not found in 'tools' parameter.", param="tool_choice")


def check_format(body: JsonObject) -> None:
    wanted = body.get("response_format")
    if wanted is None:
        return
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    need(
        "format",
        kind in ("text", "json_object", "json_schema"),
        f"Invalid value: {kind!r}.",
        param="response_format.type",
    )
    if kind == "json_object":
        said = " ".join(text_of(each.get("content")) for each in objects(body.get("messages")))
        need(
            "json_word",
            "json" in said.lower(),
            "'messages' must contain the word 'json' to use 'response_format' 'json_object'.",
        )
    if kind == "json_schema":
        spec = wanted.get("json_schema")
        name = spec.get("name") if isinstance(spec, dict) else None
        need(
            "format",
            isinstance(name, str) and NAME.match(name),
            "Missing required parameter: 'response_format.json_schema.name'.",
        )
        need(
            "format",
            isinstance(spec.get("schema"), dict),
            "Missing required parameter: 'response_format.json_schema.schema'.",
        )
        wrong = strict_schema(spec["schema"]) if spec.get("strict") is True else None
        need("strict", not wrong, f"Invalid schema for response_format '{name}': {wrong}.", param="response_format")


def check_messages(messages: list[Any], strict_fields: bool) -> None:
    """Each call is answered exactly once, by the messages right behind it."""
    owed: list[str] = []
    called: set[str] = set()
    for at, message in enumerate(messages):
        need("messages", isinstance(message, dict), f"Invalid type for 'messages[{at}]': expected an object.")
        role = message.get("role")
        need(
            "roles",
            role in PARTS,
            f"Invalid value: {role!r}. Supported roles are {sorted(PARTS)}.",
            param=f"messages[{at}].role",
        )
        if strict_fields:
            known("fields", message, MESSAGE_FIELDS[role], f"messages[{at}].", "Unknown parameter: '{}'.")
        if role == "tool":
            answer(message, at, owed, called)
        else:
            need("unanswered", not owed, unanswered(owed), param=f"messages[{at}].role")
        check_content(message, at, role)
        if role == "assistant" and message.get("tool_calls") is not None:
            owed = check_calls(message["tool_calls"], at, called)
    need("unanswered", not owed, unanswered(owed), param="messages")


def unanswered(owed: list[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(owed)}"
    )


def answer(message: JsonObject, at: int, owed: list[str], called: set[str]) -> None:
    ident = message.get("tool_call_id")
    need(
        "tool_call_id",
        isinstance(ident, str),
        f"Missing parameter 'tool_call_id': messages[{at}]",
        param=f"messages[{at}].tool_call_id",
    )
    if not owed and ident not in called:
        message_text = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
        raise WireRefused(
            f"Invalid parameter: {message_text}", param=f"messages[{at}].role", rule="openai.orphan_result"
        )
    need(
        "orphan_result",
        ident in owed,
        f"Invalid parameter: 'tool_call_id' of '{ident}' not found in 'tool_calls' of previous message, "
        "or answered already.",
        param=f"messages[{at}].tool_call_id",
    )
    owed.remove(str(ident))


def check_calls(calls: Any, at: int, called: set[str]) -> list[str]:
    where = f"messages[{at}].tool_calls"
    need(
        "calls", isinstance(calls, list) and calls, f"Invalid '{where}': empty array.", param=where, code="empty_array"
    )
    owed: list[str] = []
    for index, call in enumerate(calls):
        ident = call.get("id") if isinstance(call, dict) else None
        need(
            "calls",
            isinstance(ident, str) and ident,
            f"Missing required parameter: '{where}[{index}].id'.",
            param=where,
        )
        assert isinstance(ident, str)
        long = f"Invalid '{where}[{index}].id': string too long. Expected at most {CALL_ID_MAX}."
        need("call_id_long", len(ident) <= CALL_ID_MAX, long, code="string_above_max_length")
        need("call_id_unique", ident not in called, f"Duplicate value for 'tool_call_id': '{ident}'", param=where)
        kind = call.get("type")
        need(
            "calls",
            kind in ("function", "custom"),
            f"Missing required parameter: '{where}[{index}].type'.",
            param=where,
        )
        check_called(call.get(kind), kind, f"{where}[{index}]")
        called.add(ident)
        owed.append(ident)
    return owed


def check_called(spec: Any, kind: str, where: str) -> None:
    need("calls", isinstance(spec, dict), f"Missing required parameter: '{where}.{kind}'.", param=where)
    name = spec.get("name")
    good = isinstance(name, str) and NAME.match(name)
    need("name", good, f"Invalid '{where}.{kind}.name': string does not match pattern '{NAME.pattern}'.", param=where)
    if kind == "function":
        wrong = object_text(spec.get("arguments"))
        need("arguments", wrong is None, f"Invalid '{where}.function.arguments': {wrong}.", param=where)
    else:
        need(
            "calls",
            isinstance(spec.get("input"), str),
            f"Missing required parameter: '{where}.custom.input'.",
            param=where,
        )


def check_content(message: JsonObject, at: int, role: str) -> None:
    content = message.get("content")
    where = f"messages[{at}].content"
    if content is None:
        spared = role == "assistant" and (message.get("tool_calls") or message.get("refusal") or message.get("audio"))
        need("content", spared, "Invalid value for 'content': expected a string, got null.", param=where)
        return
    if isinstance(content, str):
        return
    need(
        "content",
        isinstance(content, list) and content,
        f"Invalid '{where}': expected a string or an array of parts.",
        param=where,
    )
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        supported = sorted(PARTS[role])
        need("parts", kind in PARTS[role], f"Invalid value: {kind!r}. Supported values are: {supported}.", param=where)
        if kind == "text":
            need(
                "parts",
                isinstance(part.get("text"), str),
                f"Missing required parameter: '{where}[{index}].text'.",
                param=where,
            )
        if kind == "image_url":
            spec = part.get("image_url")
            check_image(spec.get("url") if isinstance(spec, dict) else None, f"{where}[{index}]")


def check_image(url: Any, where: str) -> None:
    """An address, or a data URL of a supported kind."""
    need("images", isinstance(url, str), f"Missing required parameter: '{where}.image_url.url'.", param=where)
    if url.startswith(("http://", "https://")):
        return
    data = DATA_URL.match(url)
    need(
        "images",
        data,
        f"Invalid '{where}.image_url.url': expected an address or a base64 data URL.",
        code="invalid_image_url",
    )
    assert data is not None
    supported = f"You uploaded an unsupported image. Supported formats are {sorted(IMAGE_TYPES)}."
    need("images", data["media"] in IMAGE_TYPES, supported, code="invalid_image_format")
    need("images", is_base64(data["data"]), f"Invalid base64 in '{where}'.", code="invalid_base64")
