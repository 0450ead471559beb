"""The items of a history as plain text: who says it, and what. What a terminal would obey is still in it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from windlass.events.commands import PromptBody
from windlass.events.values.blocks import (
    AnyAttachment,
    AnyBlock,
    Audio,
    Data,
    Document,
    Image,
    Refusal,
    Resource,
    ResourceLink,
    Terminal,
    Text,
)
from windlass.events.values.items import AssistantItem, CallPart, HistoryItem, ResultItem
from windlass.kernel.attachment_items import heading
from windlass.kernel.render import prompted
from windlass.store.base import blob_digest

DIGEST_CHARS = 19
"""How much of a digest tells one picture from another: `sha256:` and twelve digits."""


def speaker(item: HistoryItem) -> str:
    """Who says it."""
    if isinstance(item, ResultItem):
        return f"{'error' if item.is_error else 'result'} of {item.tool}"
    if isinstance(item, AssistantItem):
        return "assistant"
    return f"user{f' ({item.origin})' if item.origin != 'person' else ''}"


def item_text(item: HistoryItem) -> str:
    """What it says, whole."""
    if not isinstance(item, AssistantItem):
        content: Any = item.content
        return blocks_text(content)
    parts = []
    for part in item.content:
        if isinstance(part, CallPart):
            given = part.args if part.args is not None else part.text
            parts.append(f"→ {call_text(part.tool, given)}")
        elif isinstance(part, Text):
            parts.append(part.text)
        else:
            parts.append(f"[{type(part).__name__.lower()}] {getattr(part, 'text', '')}".rstrip())
    return "\n".join(parts)


def blocks_text(blocks: Sequence[AnyBlock]) -> str:
    """Blocks as text: data as JSON, and pictures, sounds and documents by what is known of them."""
    return "\n".join(text for block in blocks if (text := block_text(block)))


def block_text(block: AnyBlock) -> str:
    """One block as text."""
    match block:
        case Text() | Terminal() | Refusal():
            return block.text
        case Data():
            return json.dumps(block.value, ensure_ascii=False)
        case ResourceLink():
            return f"[link {block.title or block.name}: {block.uri}]"
        case Resource() if block.text is not None:
            return f"[{block.uri}]\n{block.text}"
        case Image() | Audio() | Document() | Resource():
            return f"[{_media(block)}]"
        case _:
            return f"[{type(block).__name__.lower()}] {getattr(block, 'text', '')}".rstrip()


def attachment_line(attachment: AnyAttachment) -> str:
    """An attachment in one line: what it is, how much of it there is, and what was left out."""
    read = "".join(f", {len(block.text):,} characters" for block in _texts(attachment))
    left_out = getattr(attachment, "left_out", "")
    return f"{heading(attachment)}{read}{f'; left out: {left_out}' if left_out else ''}"


def _texts(attachment: AnyAttachment) -> list[Text]:
    content = getattr(attachment, "content", None) or getattr(attachment, "listing", None)
    return [Text(text=content)] if isinstance(content, str) else [content] if isinstance(content, Text) else []


def prompt_text(body: PromptBody, *, whole: bool = True) -> str:
    """A prompt as text: its words, then what is attached, whole or each in a line."""
    if whole or not body.attachments:
        return blocks_text(prompted(body))
    lines = (f"[attached {attachment_line(attachment)}]" for attachment in body.attachments)
    return "\n".join((blocks_text(body.content), *lines))


def _media(block: Image | Audio | Document | Resource) -> str:
    """What is known of bytes: what they are called, their kind, how many there are, and which."""
    name = getattr(block, "name", None) or getattr(block, "uri", None)
    kind = f"{type(block).__name__.lower()}{f' {name}' if name else ''}"
    if block.blob is not None:
        size, digest = block.blob.size, block.blob.digest
    else:
        raw = _decoded(block.data or "")
        size, digest = len(raw), blob_digest(raw)
    return f"{kind}, {block.media_type or 'bytes'}, {size:,} bytes, {digest[:DIGEST_CHARS]}"


def _decoded(data: str) -> bytes:
    """What stands there as base64; itself if it is none."""
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        return data.encode("utf-8", "replace")


def call_text(tool: str, args: Any) -> str:
    """A call as one would write it: `pay(invoice="I-7", cents=1200)`."""
    if isinstance(args, dict):
        inside = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in args.items())
    else:
        inside = json.dumps(args, ensure_ascii=False)
    return f"{tool}({inside})"
