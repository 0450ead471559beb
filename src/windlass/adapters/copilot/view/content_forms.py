"""Blocks of results, in both directions."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.values.blocks import (
    Audio,
    Data,
    Document,
    Image,
    JsonObject,
    Resource,
    ResourceLink,
    ResultBlock,
    Terminal,
    Text,
)

from .fold import without_none


def content_forms(blocks: tuple[ResultBlock, ...]) -> list[JsonObject]:
    """The blocks of a result; what is kept beside the log as bytes is left out."""
    made = (content_form(block) for block in blocks)
    return [form for form in made if form is not None]


def content_form(block: ResultBlock) -> JsonObject | None:
    """One block; None if its bytes are not at hand."""
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Terminal():
            return without_none(type="terminal", text=block.text, exitCode=block.exit_code, cwd=block.cwd)
        case Image(data=str() as data):
            return {"type": "image", "data": data, "mimeType": block.media_type}
        case Audio(data=str() as data):
            return {"type": "audio", "data": data, "mimeType": block.media_type}
        case ResourceLink():
            return without_none(
                type="resource_link",
                name=block.name,
                uri=block.uri,
                title=block.title,
                description=block.description,
                mimeType=block.media_type,
                size=block.size,
            )
        case Resource(text=str() as text):
            return {"type": "resource", "resource": _resource(block, text=text)}
        case Resource(data=str() as data):
            return {"type": "resource", "resource": _resource(block, blob=data)}
        case Data(value=value):
            return {"type": "text", "text": msgspec.json.encode(value).decode()}
        case Image() | Audio() | Document() | Resource():
            return None


def _resource(block: Resource, **content: str) -> JsonObject:
    return without_none(uri=block.uri, mimeType=block.media_type, **content)


def result_blocks(given: str | dict[str, Any]) -> tuple[ResultBlock, ...]:
    """What a client's tool gave, as blocks: its text, then its pictures."""
    if isinstance(given, str):
        return (Text(text=given),)
    blocks: list[ResultBlock] = [Text(text=str(given.get("textResultForLlm") or ""))]
    for binary in given.get("binaryResultsForLlm") or ():
        if isinstance(binary, dict) and str(binary.get("mimeType", "")).startswith("image/"):
            blocks.append(Image(media_type=binary["mimeType"], data=binary["data"]))
    return tuple(blocks)
