"""Import of Chat Completions messages."""

from __future__ import annotations

from typing import Any

from windlass.events.values.blocks import JsonObject, Reasoning, Refusal, Text
from windlass.models.wires.imported_items import AUDIO_TYPES, Imported, as_json, data_url, linked, media, text_blocks


def import_chat(messages: list[JsonObject], body: JsonObject, provider: str) -> Imported:
    out = Imported(provider)
    for message in messages:
        role = message.get("role")
        if role in ("system", "developer"):
            out.add_instructions("\n".join(block.text for block in blocks(message) if isinstance(block, Text)))
        elif role == "user":
            out.add_user(blocks(message))
        elif role == "assistant":
            out.add_assistant(assistant_parts(message, out))
        elif role in ("tool", "function"):
            out.add_result(message.get("tool_call_id"), blocks(message), tool=str(message.get("name") or ""))
    return out


def blocks(message: JsonObject) -> list[Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return text_blocks(content)
    return [block for part in content if isinstance(part, dict) for block in part_blocks(part)]


def part_blocks(part: JsonObject) -> list[Any]:
    kind = part.get("type")
    if kind == "text":
        return text_blocks(part.get("text"))
    if kind == "image_url":
        return [linked(str((part.get("image_url") or {}).get("url") or ""))]
    if kind == "input_audio":
        audio = part.get("input_audio") or {}
        return [media(AUDIO_TYPES.get(str(audio.get("format")), "audio/wav"), str(audio.get("data") or ""))]
    if kind == "file":
        file = part.get("file") or {}
        inline_data = data_url(str(file.get("file_data") or ""))
        return (
            [media(*inline_data, name=file.get("filename"))]
            if inline_data
            else text_blocks(f"(file {file.get('file_id')})")
        )
    if kind == "refusal":
        return [Refusal(text=str(part.get("refusal") or ""))]
    return []


def assistant_parts(message: JsonObject, out: Imported) -> list[Any]:
    parts: list[Any] = []
    thought = message.get("reasoning_content") or message.get("reasoning")
    details = message.get("reasoning_details")
    if thought or details:
        opaque = as_json(details) if details else None
        parts.append(Reasoning(text=str(thought or ""), opaque=opaque, provider=out.provider))
    parts += blocks(message)
    if message.get("refusal"):
        parts.append(Refusal(text=str(message["refusal"])))
    for at, call in enumerate(message.get("tool_calls") or ()):
        if "custom" in call:
            custom = call["custom"]
            text = str(custom.get("input") or "")
            parts.append(out.call(at, str(custom.get("name")), call.get("id"), None, text=text))
        else:
            function = call.get("function") or {}
            parts.append(out.call(at, str(function.get("name")), call.get("id"), function.get("arguments")))
    return parts
