"""Import of Gemini contents."""

from __future__ import annotations

from typing import Any

from windlass.events.values.blocks import Data, JsonObject, Reasoning, ServerTool, Text
from windlass.events.values.items import ImagePart
from windlass.models.wires.imported_items import Imported, linked, media, text_blocks


def import_gemini(contents: list[JsonObject], body: JsonObject, provider: str) -> Imported:
    out = Imported(provider)
    system = body.get("systemInstruction") or body.get("system_instruction") or {}
    for part in system.get("parts") or ():
        out.add_instructions(str(part.get("text") or ""))
    for content in contents:
        parts = [part for part in content.get("parts") or () if isinstance(part, dict)]
        if content.get("role") == "model":
            out.add_assistant(assistant_parts(parts, out))
        else:
            add_user(parts, out)
    return out


def add_user(parts: list[JsonObject], out: Imported) -> None:
    said: list[Any] = []
    for part in parts:
        response = part.get("functionResponse")
        if isinstance(response, dict):
            add_result(response, out)
        else:
            said += part_blocks(part)
    out.add_user(said)


def add_result(response: JsonObject, out: Imported) -> None:
    value = response.get("response")
    failed = isinstance(value, dict) and set(value) == {"error"}
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in ("output", "error", "result"):
        value = next(iter(value.values()))
    content = text_blocks(value) if isinstance(value, str) else [Data(value=value)]
    for part in response.get("parts") or ():
        content += part_blocks(part)
    out.add_result(response.get("id"), content, tool=str(response.get("name") or ""), failed=failed)


def part_blocks(part: JsonObject) -> list[Any]:
    if "text" in part:
        return text_blocks(part["text"])
    inline = part.get("inlineData")
    if isinstance(inline, dict):
        return [media(str(inline.get("mimeType")), str(inline.get("data") or ""))]
    file = part.get("fileData")
    if isinstance(file, dict):
        return [linked(str(file.get("fileUri")), name="file")]
    return []


def assistant_parts(parts: list[JsonObject], out: Imported) -> list[Any]:
    made: list[Any] = []
    calls = 0
    for part in parts:
        signature = part.get("thoughtSignature")
        called = part.get("functionCall")
        if isinstance(called, dict):
            data = {"thoughtSignature": signature} if signature else None
            args = called.get("args") or {}
            made.append(out.call(calls, str(called.get("name")), called.get("id"), args, provider_data=data))
            calls += 1
        elif part.get("thought"):
            made.append(Reasoning(text=str(part.get("text") or ""), opaque=signature, provider=out.provider))
        elif "text" in part:
            made += [Text(text=part["text"])] if part["text"] else []
            made += [Reasoning(opaque=signature, provider=out.provider)] if signature else []
        elif isinstance(part.get("inlineData"), dict):
            inline = part["inlineData"]
            made.append(ImagePart(media_type=str(inline.get("mimeType")), data=inline.get("data")))
        else:
            name = next(iter(part), "part")
            made.append(ServerTool(name=name, provider=out.provider, content=part))
    return made
