"""Import of Anthropic messages."""

from __future__ import annotations

from typing import Any

from windlass.events.values.blocks import Document, JsonObject, Reasoning, ServerTool, Text
from windlass.models.wires.imported_items import Imported, linked, media, text_blocks


def import_messages(messages: list[JsonObject], body: JsonObject, provider: str) -> Imported:
    out = Imported(provider)
    system = body.get("system")
    for text in [system] if isinstance(system, str) else [part.get("text") for part in system or ()]:
        out.add_instructions(str(text or ""))
    for message in messages:
        if message.get("role") == "system":
            out.add_instructions("\n".join(block.text for block in blocks(message) if isinstance(block, Text)))
        elif message.get("role") == "assistant":
            out.add_assistant(assistant_parts(message, out))
        else:
            add_user(message, out)
    return out


def listed(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content or () if isinstance(part, dict)]


def blocks(message: JsonObject) -> list[Any]:
    return [block for part in listed(message) for block in part_blocks(part)]


def add_user(message: JsonObject, out: Imported) -> None:
    """Results first, each an item of its own, then what was said with them."""
    said: list[Any] = []
    for part in listed(message):
        if part.get("type") == "tool_result":
            failed = part.get("is_error") is True
            out.add_result(part.get("tool_use_id"), blocks(part), failed=failed)
        else:
            said += part_blocks(part)
    out.add_user(said)


def part_blocks(part: JsonObject) -> list[Any]:
    kind = part.get("type")
    if kind == "text":
        return text_blocks(part.get("text"))
    if kind not in ("image", "document"):
        return []
    source = part.get("source") or {}
    if source.get("type") == "base64":
        return [media(str(source.get("media_type")), str(source.get("data") or ""), name=part.get("title"))]
    if source.get("type") == "url":
        return [linked(str(source.get("url")), name=str(part.get("title") or kind))]
    if source.get("type") == "text":
        import base64

        data = base64.b64encode(str(source.get("data") or "").encode()).decode()
        return [Document(media_type="text/plain", data=data, name=part.get("title"))]
    return text_blocks(f"({kind} {source.get('file_id') or ''})")


def assistant_parts(message: JsonObject, out: Imported) -> list[Any]:
    parts: list[Any] = []
    calls = 0
    for part in listed(message):
        kind = part.get("type")
        if kind == "text":
            parts += text_blocks(part.get("text"))
        elif kind == "thinking":
            text, opaque = str(part.get("thinking") or ""), part.get("signature")
            parts.append(Reasoning(text=text, opaque=opaque, provider=out.provider))
        elif kind == "redacted_thinking":
            parts.append(Reasoning(opaque=part.get("data"), provider=out.provider, redacted=True))
        elif kind == "tool_use":
            parts.append(out.call(calls, str(part.get("name")), part.get("id"), part.get("input")))
            calls += 1
        else:
            clean = {name: value for name, value in part.items() if name != "cache_control"}
            call_id = part.get("id") or part.get("tool_use_id")
            name = str(part.get("name") or kind)
            parts.append(ServerTool(name=name, provider=out.provider, content=clean, server_call_id=call_id))
    return parts
