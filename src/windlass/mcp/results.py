"""What a server answered, as blocks of ours. Every kind of block that the protocol has becomes one; one that it does
not have yet becomes data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.events.values.blocks import Audio, Data, Image, Resource, ResourceLink, Text
from windlass.tools.planes.results import ToolResult

FAILED = "mcp_tool_error"


def tool_result(answer: Any) -> ToolResult:
    """The result of a call, out of an object of the `mcp` package."""
    told: dict[str, Any] = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    blocks = [block_of(each) for each in told.get("content") or ()]
    structured = answer.structured_content
    if structured is not None and not _says_the_same(blocks, structured):
        blocks.append(Data(value=structured))
    failed = bool(told.get("isError"))
    return ToolResult(value=blocks or None, ok=not failed, error_code=FAILED if failed else None)


def _says_the_same(blocks: list[Any], structured: Any) -> bool:
    """Whether the only text is the structured content, written down: servers give both, for older clients."""
    texts = [block.text for block in blocks if isinstance(block, Text)]
    if len(texts) != 1 or len(blocks) != 1:
        return False
    said = [structured]
    if isinstance(structured, dict) and len(structured) == 1:
        said += structured.values()
    if texts[0] in said:
        return True
    try:
        return msgspec.json.decode(texts[0]) in said
    except (msgspec.DecodeError, RecursionError):
        return False


def block_of(told: dict[str, Any]) -> Any:
    """One block."""
    match told:
        case {"type": "text", "text": str(text)}:
            return Text(text=text)
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            return Image(media_type=kind, data=data)
        case {"type": "audio", "data": str(data), "mimeType": str(kind)}:
            return Audio(media_type=kind, data=data)
        case {"type": "resource", "resource": {"uri": uri, "text": str(text), **rest}}:
            return Resource(uri=str(uri), media_type=_kind(rest), text=text)
        case {"type": "resource", "resource": {"uri": uri, "blob": str(data), **rest}}:
            kind = _kind(rest) or "application/octet-stream"
            if kind.startswith("image/"):
                return Image(media_type=kind, data=data)
            return Resource(uri=str(uri), media_type=kind, data=data)
        case {"type": "resource_link", "uri": uri, "name": str(name), **rest}:
            return ResourceLink(uri=str(uri), name=name, media_type=_kind(rest))
    return Data(value=told)


def _kind(rest: Mapping[Any, Any]) -> str | None:
    kind = rest.get("mimeType")
    return kind if isinstance(kind, str) else None
