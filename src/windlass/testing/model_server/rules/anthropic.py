"""What Anthropic Messages refuses. Each check names its rule; `cited_anthropic` says what that rests on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from windlass.events.values.blocks import JsonObject
from windlass.testing.model_server.answers import sealed
from windlass.testing.model_server.memory import Memory
from windlass.testing.model_server.wires.parsed import ParsedRequest
from windlass.testing.model_server.wires.wire import WireRefused, objects

from .checks import Checks, fields, is_base64, is_schema, words
from .profiles import Context

CHECKS = Checks("anthropic")
need, known, typed = CHECKS.need, CHECKS.known, CHECKS.typed

FIELDS = fields(
    text="model service_tier inference_geo speed",
    flag="stream",
    whole="max_tokens top_k",
    number="temperature top_p",
    list="messages tools stop_sequences mcp_servers",
    object="tool_choice metadata thinking output_config context_management cache_control diagnostics",
    text_or_list="system",
    text_or_object="container",
)
TOOL_FIELDS = words(
    "name description input_schema cache_control type strict defer_loading allowed_callers eager_input_streaming"
    " input_examples"
)
USER_BLOCKS = frozenset({"text", "image", "document", "tool_result", "search_result", "container_upload"})
ASSISTANT_BLOCKS = frozenset({"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use"})
RESULT_BLOCKS = frozenset({"text", "image", "document", "search_result", "tool_reference"})
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,128}$")
CALL_ID = re.compile(r"^[a-zA-Z0-9_-]+$")
MARKERS_MAX = 4
BUDGET_MIN = 1_024
EXTRA = "{}: Extra inputs are not permitted"
WRONG = "{}: Input should be a valid {}"
THINKING = ("enabled", "disabled", "adaptive", "between_tools")


def check(request: ParsedRequest, context: Context, memory: Memory) -> None:
    """Raises WireRefused when the vendor would refuse this request."""
    body = request.body
    need("version", "anthropic-version" in context.headers, "anthropic-version: header is required")
    typed("fields", body, FIELDS, "", EXTRA, WRONG)
    need("model", isinstance(body.get("model"), str) and body["model"], "model: Field required")
    check_settings(body)
    check_system(body.get("system"))
    tools = check_tools(body)
    check_choice(body, tools)
    messages = body.get("messages")
    need("messages", isinstance(messages, list), "messages: Field required")
    need("messages", messages, "messages: at least one message is required")
    check_messages(objects(messages) if all_objects(messages) else bad_message(), memory)
    check_thinking(body, memory)
    markers = sum(1 for _ in marked(body))
    need(
        "markers",
        markers <= MARKERS_MAX,
        f"A maximum of {MARKERS_MAX} blocks with cache_control may be provided. Found {markers}.",
    )


def all_objects(values: Any) -> bool:
    return all(isinstance(value, dict) for value in values)


def bad_message() -> list[JsonObject]:
    raise WireRefused("messages: Input should be a valid dictionary", rule="anthropic.messages")


def check_settings(body: JsonObject) -> None:
    limit = body.get("max_tokens")
    need("max_tokens", limit is not None, "max_tokens: Field required")
    need("max_tokens", limit >= 1, "max_tokens: Input should be greater than or equal to 1")  # type: ignore[operator]
    temperature = body.get("temperature")
    need("temperature", temperature is None or 0 <= temperature <= 1, "temperature: range: 0..1")
    for stop in body.get("stop_sequences") or []:
        need(
            "stop",
            isinstance(stop, str) and stop.strip(),
            "stop_sequences: each stop sequence must contain non-whitespace",
        )
    output = body.get("output_config")
    if isinstance(output, dict) and output.get("format") is not None:
        wanted = output["format"]
        shape = isinstance(wanted, dict) and wanted.get("type") == "json_schema"
        need("output", shape and isinstance(wanted.get("schema"), dict), "output_config.format.schema: Field required")


def check_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    need("system", isinstance(system, list), "system: Input should be a valid string or list")
    for at, block in enumerate(system):
        need(
            "system",
            isinstance(block, dict) and block.get("type") == "text",
            f"system.{at}.type: Input should be 'text'",
        )
        need("empty_text", block.get("text"), "system: text content blocks must be non-empty")


def check_tools(body: JsonObject) -> list[str]:
    """The names of the tools; server tools are taken as they are."""
    names: list[str] = []
    for at, tool in enumerate(body.get("tools") or []):
        need("tools", isinstance(tool, dict), f"tools.{at}: Input should be a valid dictionary")
        name = tool.get("name")
        need("tool_name", isinstance(name, str), f"tools.{at}.name: Field required")
        need("tool_name", TOOL_NAME.match(name), f"tools.{at}.name: String should match pattern '{TOOL_NAME.pattern}'")
        names.append(name)
        if tool.get("type") in (None, "custom"):
            known("fields", tool, TOOL_FIELDS, f"tools.{at}.custom.", EXTRA)
            schema = tool.get("input_schema")
            need("tool_schema", isinstance(schema, dict), f"tools.{at}.custom.input_schema: Field required")
            need(
                "tool_schema",
                schema.get("type") == "object",
                f"tools.{at}.custom.input_schema.type: Input should be 'object'",
            )
            need("tool_schema", is_schema(schema), f"tools.{at}.custom.input_schema: JSON schema is invalid")
            described = tool.get("description")
            need(
                "tools",
                described is None or isinstance(described, str),
                f"tools.{at}.custom.description: Input should be text",
            )
    need("tool_names_unique", len(set(names)) == len(names), "tools: Tool names must be unique.")
    return names


def check_choice(body: JsonObject, tools: list[str]) -> None:
    choice = body.get("tool_choice")
    if choice is None:
        return
    kind = choice.get("type") if isinstance(choice, dict) else None
    need(
        "tool_choice",
        kind in ("auto", "any", "tool", "none"),
        "tool_choice: Input tag does not match 'auto', 'any', 'tool', 'none'",
    )
    need("tool_choice_tools", tools, "tool_choice: may only be specified while providing tools")
    if kind == "tool":
        need(
            "tool_choice_tools",
            choice.get("name") in tools,
            f"tool_choice.name: Tool {choice.get('name')!r} not found in provided tools",
        )
    thinking = body.get("thinking")
    on = isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive")
    need(
        "thinking_forced",
        not on or kind in ("auto", "none"),
        "Thinking may not be enabled when tool_choice forces tool use.",
    )


def check_messages(messages: list[JsonObject], memory: Memory) -> None:
    need("first_user", messages[0].get("role") == "user", 'messages: first message must use the "user" role')
    called: set[str] = set()
    owed: list[str] = []
    for at, message in enumerate(messages):
        known("fields", message, frozenset({"role", "content"}), f"messages.{at}.", EXTRA)
        role = message.get("role")
        need(
            "roles",
            role in ("user", "assistant", "system"),
            f"messages.{at}.role: Input should be 'user' or 'assistant'",
        )
        last = at == len(messages) - 1
        blocks = content_blocks(message, at, final_assistant=last and role == "assistant")
        if owed:
            check_results(blocks if role == "user" else [], owed, at)
        elif any(block.get("type") == "tool_result" for block in blocks):
            orphan = next(block for block in blocks if block.get("type") == "tool_result")
            raise unexpected(at, blocks.index(orphan), orphan.get("tool_use_id"))
        for index, block in enumerate(blocks):
            need(
                "roles",
                role != "system" or block.get("type") == "text",
                f"messages.{at}: system messages hold text only",
            )
            check_block(block, f"messages.{at}.content.{index}", role == "assistant", memory)
        owed = calls_of(blocks, called)
    need("unanswered", not owed, without_result(len(messages) - 1, owed))
    final = messages[-1]
    if final.get("role") == "assistant" and isinstance(final.get("content"), str):
        need(
            "trailing_space",
            final["content"] == final["content"].rstrip(),
            "messages: final assistant content cannot end with whitespace",
        )


def content_blocks(message: JsonObject, at: int, *, final_assistant: bool) -> list[JsonObject]:
    content = message.get("content")
    need("messages", content is not None, f"messages.{at}.content: Field required")
    need("messages", isinstance(content, str | list), f"messages.{at}.content: Input should be a valid string or list")
    empty = f"messages.{at}: all messages must have non-empty content except for the optional final assistant message"
    need("empty_message", content or final_assistant, empty)
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    need("messages", all_objects(content), f"messages.{at}.content: Input should be a valid dictionary")
    return objects(content)


def check_results(blocks: list[JsonObject], owed: list[str], at: int) -> None:
    """The message behind a call holds one result for each call, results first."""
    given = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
    missing = [ident for ident in owed if ident not in given]
    need("unanswered", not missing, without_result(at - 1, missing))
    for index, block in enumerate(blocks):
        if block.get("type") == "tool_result":
            if block.get("tool_use_id") not in owed:
                raise unexpected(at, index, block.get("tool_use_id"))
            count = given.count(block.get("tool_use_id"))
            need(
                "answered_twice",
                count == 1,
                f"messages.{at}.content.{index}: each tool_use must have a single result. Found multiple `tool_result` "
                f"blocks with id: {block.get('tool_use_id')}",
            )
    first_other = next((i for i, block in enumerate(blocks) if block.get("type") != "tool_result"), len(blocks))
    need(
        "results_first",
        first_other >= len(given),
        f"messages.{at}.content: `tool_result` blocks must come first in the message",
    )


def without_result(at: int, idents: list[str]) -> str:
    return (
        f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(idents)}"
        ". Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def unexpected(at: int, index: int, ident: Any) -> WireRefused:
    return WireRefused(
        f"messages.{at}.content.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {ident}. "
        "Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
        rule="anthropic.orphan_result",
    )


def calls_of(blocks: list[JsonObject], called: set[str]) -> list[str]:
    """The calls of a message, which the next one must answer; ids are unique in the whole history."""
    owed = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
    for ident in owed:
        need("call_id_unique", ident not in called, "messages: `tool_use` ids must be unique")
        called.add(ident)
    return owed


def check_block(block: JsonObject, where: str, assistant: bool, memory: Memory) -> None:
    kind = block.get("type")
    need("blocks", kind, f"{where}.type: Field required")
    server_result = isinstance(kind, str) and kind.endswith("_tool_result")
    allowed = kind in ASSISTANT_BLOCKS or server_result if assistant else kind in USER_BLOCKS
    role = "assistant" if assistant else "user"
    need("blocks", allowed, f"{where}: `{kind}` blocks may not stand in `{role}` messages")
    match kind:
        case "text":
            need("blocks", isinstance(block.get("text"), str), f"{where}.text: Field required")
            need("empty_text", block["text"], "messages: text content blocks must be non-empty")
            need("blank_text", block["text"].strip(), "messages: text content blocks must contain non-whitespace text")
        case "image" | "document":
            check_source(block, where, kind)
        case "tool_use":
            need(
                "call",
                isinstance(block.get("input"), dict),
                f"{where}.tool_use.input: Input should be a valid dictionary",
            )
            ident, name = block.get("id"), block.get("name")
            need(
                "call_id",
                isinstance(ident, str) and CALL_ID.match(ident),
                f"{where}.id: String should match '{CALL_ID.pattern}'",
            )
            need(
                "call",
                isinstance(name, str) and TOOL_NAME.match(name),
                f"{where}.name: String should match the pattern",
            )
        case "tool_result":
            check_result(block, where)
        case "thinking" | "redacted_thinking":
            check_seal(block, where, memory)


def check_source(block: JsonObject, where: str, kind: str) -> None:
    source = block.get("source")
    need("media", isinstance(source, dict), f"{where}.{kind}.source: Field required")
    assert isinstance(source, dict)
    form = source.get("type")
    if form == "base64":
        media = source.get("media_type")
        fine = media in IMAGE_TYPES if kind == "image" else media == "application/pdf"
        need("media", fine, f"{where}.{kind}.source.base64.media_type: {media!r} is not supported")
        need("base64", is_base64(source.get("data")), f"{where}.{kind}.source.base64.data: must be base64")
    elif form == "text" and kind == "document":
        need(
            "documents",
            source.get("media_type") == "text/plain",
            f"{where}.document.source.text.media_type: must be 'text/plain'",
        )
        need("documents", isinstance(source.get("data"), str), f"{where}.document.source.text.data: Field required")
    else:
        need("media", form in ("url", "file", "content"), f"{where}.{kind}.source: Input tag {form!r} is not expected")


def check_result(block: JsonObject, where: str) -> None:
    content = block.get("content")
    if content is None or isinstance(content, str):
        return
    need("results", isinstance(content, list), f"{where}.content: Input should be a valid string or list")
    for at, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        need("results", kind in RESULT_BLOCKS, f"{where}.content.{at}.type: Input tag {kind!r} is not expected")
        if kind == "text":
            need(
                "results",
                isinstance(part.get("text"), str),
                f"{where}.content.{at}.text: Input should be a valid string",
            )
            need("empty_text", part["text"], "messages: text content blocks must be non-empty")
        if kind in ("image", "document"):
            check_source(part, f"{where}.content.{at}", kind)
        failed = block.get("is_error") is True
        need(
            "failed_result",
            not failed or kind == "text",
            f"{where}: all content must be type `text` if `is_error` is true",
        )


def check_seal(block: JsonObject, where: str, memory: Memory) -> None:
    """Thinking comes back as it was sent: the signature belongs to the text."""
    if block["type"] == "redacted_thinking":
        data = block.get("data")
        fine = isinstance(data, str) and (data in memory.signed or sealed(data, "redacted") is not None)
        need("thinking_back", fine, f"{where}: Invalid `data` in `redacted_thinking` block")
        return
    text, signature = block.get("thinking"), block.get("signature")
    need("thinking_block", isinstance(text, str), f"{where}.thinking.thinking: Field required")
    need("thinking_block", isinstance(signature, str), f"{where}.thinking.signature: Field required")
    fine = memory.signed.get(signature) == text or sealed(signature, "thinking") == text  # type: ignore[arg-type]
    need("thinking_back", fine, f"{where}: Invalid `signature` in `thinking` block")


def check_thinking(body: JsonObject, memory: Memory) -> None:
    """The budget, and the block that must open the turn which is still calling tools."""
    thinking = body.get("thinking")
    if thinking is None:
        return
    need("thinking", thinking.get("type") in THINKING, f"thinking: Input tag does not match any of {THINKING}")
    if thinking["type"] != "enabled":
        return
    budget = thinking.get("budget_tokens")
    need("budget", isinstance(budget, int), "thinking.enabled.budget_tokens: Field required")
    assert isinstance(budget, int)
    need(
        "budget",
        budget >= BUDGET_MIN,
        f"thinking.enabled.budget_tokens: Input should be greater than or equal to {BUDGET_MIN}",
    )
    need("budget", budget < body["max_tokens"], "`max_tokens` must be greater than `thinking.budget_tokens`")
    need(
        "thinking_temperature",
        body.get("temperature") in (None, 1),
        "`temperature` may only be set to 1 when thinking is enabled",
    )
    messages = objects(body["messages"])
    need(
        "thinking_prefill",
        messages[-1]["role"] == "user",
        "a final `assistant` message may not be prefilled when thinking is enabled",
    )
    at = max((i for i, each in enumerate(messages) if each["role"] == "assistant"), default=None)
    if at is None:
        return
    blocks = objects(messages[at].get("content"))
    calls = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
    if calls and not any(ident in memory.unthinking for ident in calls):
        kind = blocks[0].get("type")
        need(
            "thinking_first",
            kind in ("thinking", "redacted_thinking"),
            f"messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{kind}`. When "
            "`thinking` is enabled, a final `assistant` message must start with a thinking block.",
        )


def marked(value: Any) -> Iterator[JsonObject]:
    """Everything that carries a cache marker; the user's own data is not looked into."""
    if isinstance(value, list):
        for each in value:
            yield from marked(each)
    elif isinstance(value, dict):
        if value.get("cache_control"):
            yield value
        for name in ("system", "tools", "messages", "content"):
            yield from marked(value.get(name))
