"""History import and export: message lists of the four formats to items and back.

Import reads what the vendors' own clients and logs hold; export writes what their clients take. A list that names no
format is recognised by its shape. What has no place in items (names of people, timestamps) is dropped.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.blocks import JsonObject
from windlass.events.values.items import HistoryItem
from windlass.models.catalogue.endpoints import ENDPOINTS, Endpoint, WireName
from windlass.models.wires.anthropic.importer import import_messages
from windlass.models.wires.gemini.importer import import_gemini
from windlass.models.wires.imported_items import Imported
from windlass.models.wires.openai_chat.importer import import_chat
from windlass.models.wires.openai_responses.importer import import_responses

from .base import ModelInfo, Request

HistoryFormat = Literal["anthropic", "openai_chat", "openai_responses", "gemini"]

ENDPOINT_OF: dict[str, str] = {
    "anthropic": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai-responses",
    "gemini": "gemini",
}
READERS = {
    "anthropic": import_messages,
    "openai_chat": import_chat,
    "openai_responses": import_responses,
    "gemini": import_gemini,
}
HISTORY_FIELD: dict[str, str] = {
    "anthropic": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
    "gemini": "contents",
}
RESPONSES_TYPES = frozenset(
    {"message", "function_call", "function_call_output", "reasoning", "custom_tool_call", "custom_tool_call_output"}
)
ANTHROPIC_TYPES = frozenset(
    {"tool_use", "tool_result", "image", "document", "thinking", "redacted_thinking", "server_tool_use"}
)


def import_history(
    messages: list[JsonObject] | JsonObject, format: HistoryFormat | None = None, *, provider: str | None = None
) -> Imported:
    """Items, and the instructions that stood among them. Takes a list of messages or a whole request body.
    `provider` names whose opaque reasoning this is; by default the inventor of the format. Raises `UsageError` for
    what is not a message list, and for a call without its result or a result without its call."""
    body = messages if isinstance(messages, dict) else {}
    listed = body.get("messages") or body.get("input") or body.get("contents") or [] if body else messages
    if isinstance(listed, str):
        listed = [{"role": "user", "content": listed}]
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise UsageError("a history is a list of message objects")
    known = format or detect_format(listed, body)
    if known not in READERS:
        raise UsageError(f"no history format {known!r}: use one of {', '.join(get_args(HistoryFormat))}")
    imported = READERS[known](listed, body, provider or ENDPOINT_OF[known])
    imported.check_pairs()
    return imported


def detect_format(messages: list[JsonObject], body: JsonObject | None = None) -> HistoryFormat:
    """Which format a message list is in. A list that could be Chat Completions or Messages (plain texts only) reads
    the same in both."""
    body = body or {}
    if "contents" in body or any("parts" in each for each in messages):
        return "gemini"
    if "input" in body or any(each.get("type") in RESPONSES_TYPES for each in messages):
        return "openai_responses"
    parts = [part for each in messages for part in content_parts(each)]
    kinds = {str(part.get("type")) for part in parts}
    if kinds & {"input_text", "output_text", "input_image", "input_file"}:
        return "openai_responses"
    if kinds & ANTHROPIC_TYPES or "system" in body:
        return "anthropic"
    return "openai_chat"


def content_parts(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def export_history(
    items: list[HistoryItem],
    format: HistoryFormat,
    *,
    instructions: str = "",
    endpoint: Endpoint | None = None,
    info: ModelInfo | None = None,
) -> list[JsonObject]:
    """The items as a message list of a format, exactly as a request would carry them. In Chat Completions the
    instructions are its first message; the other formats keep them beside the list."""
    from windlass.models.transport.http_model import WireModel

    where = endpoint or ENDPOINTS[ENDPOINT_OF[format]]
    known = info or ModelInfo(name=where.name, provider=where.name, model="export", documents=True)
    model = WireModel(where, "export", credential=None, info=known)
    settings = msgspec.structs.replace(Request(model="").settings, cache=False)
    request = Request(model="", instructions=instructions, items=items, settings=settings)
    body: JsonObject = msgspec.json.decode(model.render(request).body)
    messages: list[JsonObject] = body[HISTORY_FIELD[format]]
    nudged = not items or type(items[-1]).__name__ == "AssistantItem"
    return messages[:-1] if nudged else messages


__all__ = ["HistoryFormat", "Imported", "WireName", "detect_format", "export_history", "import_history"]
