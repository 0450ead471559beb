"""Import of OpenAI Responses items: inputs and outputs alike."""

from __future__ import annotations

from typing import Any

from windlass.events.values.blocks import JsonObject, Reasoning, Refusal, ServerTool, Text
from windlass.models.wires.imported_items import Imported, data_url, linked, media, text_blocks

CALLS = ("function_call", "custom_tool_call")
RESULTS = ("function_call_output", "custom_tool_call_output")


def import_responses(items: list[JsonObject], body: JsonObject, provider: str) -> Imported:
    """What the model gave in a row is one reply, even where it is several items."""
    out = Imported(provider)
    out.add_instructions(str(body.get("instructions") or ""))
    reply: list[Any] = []
    calls = 0
    for item in items:
        parts = assistant_parts(item, out, calls)
        if parts is not None:
            reply += parts
            calls += item.get("type") in CALLS
            continue
        out.add_assistant(reply)
        reply, calls = [], 0
        add_other(item, out)
    out.add_assistant(reply)
    return out


def add_other(item: JsonObject, out: Imported) -> None:
    if item.get("type") in RESULTS:
        output = item.get("output")
        content = text_blocks(output) if isinstance(output, str) else blocks(output)
        out.add_result(item.get("call_id"), content)
    elif item.get("role") in ("system", "developer"):
        out.add_instructions("\n".join(block.text for block in blocks(item.get("content")) if isinstance(block, Text)))
    else:
        out.add_user(blocks(item.get("content")))


def assistant_parts(item: JsonObject, out: Imported, calls: int) -> list[Any] | None:
    """The parts of an item that the model made; none for the other side's."""
    kind = item.get("type") or "message"
    if kind == "message":
        return blocks(item.get("content")) if item.get("role") == "assistant" else None
    if kind in RESULTS:
        return None
    if kind == "function_call":
        return [out.call(calls, str(item.get("name")), item.get("call_id"), item.get("arguments"))]
    if kind == "custom_tool_call":
        return [out.call(calls, str(item.get("name")), item.get("call_id"), None, text=str(item.get("input") or ""))]
    if kind == "reasoning":
        texts = item.get("summary") or item.get("content") or ()
        text = "\n\n".join(str(part.get("text") or "") for part in texts)
        opaque, named = item.get("encrypted_content"), item.get("id")
        return [Reasoning(text=text, opaque=opaque, provider=out.provider, reasoning_id=named)]
    return [ServerTool(name=str(kind), provider=out.provider, content=item, server_call_id=item.get("id"))]


def blocks(content: Any) -> list[Any]:
    if isinstance(content, str):
        return text_blocks(content)
    return [block for part in content or () if isinstance(part, dict) for block in part_blocks(part)]


def part_blocks(part: JsonObject) -> list[Any]:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return text_blocks(part.get("text"))
    if kind == "refusal":
        return [Refusal(text=str(part.get("refusal") or ""))]
    if kind == "input_image":
        return [linked(str(part.get("image_url") or part.get("file_id") or ""))]
    if kind == "input_file":
        inline_data = data_url(str(part.get("file_data") or ""))
        name = part.get("filename")
        return [media(*inline_data, name=name)] if inline_data else text_blocks(f"(file {name or part.get('file_id')})")
    return []
