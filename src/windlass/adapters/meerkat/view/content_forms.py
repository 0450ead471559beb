"""Blocks and counts of ours in Meerkat's form."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.adapters.meerkat.codec.content import ContentBlock, ImageBlock, TextBlock
from windlass.adapters.meerkat.codec.content import Usage as TheirUsage
from windlass.events.values.blocks import Data, Image, Resource, ResourceLink, Terminal, Text
from windlass.events.values.usage import Usage


def blocks_of(blocks: tuple[Any, ...]) -> tuple[ContentBlock, ...]:
    """What can be told of some blocks: text and pictures; the rest is named."""
    return tuple(block_of(block) for block in blocks)


def block_of(block: Any) -> ContentBlock:
    match block:
        case Text() | Terminal():
            return TextBlock(text=block.text)
        case Image(data=str() as data):
            return ImageBlock(media_type=block.media_type, source="inline", data=data)
        case Image(blob=blob) if blob is not None:
            return ImageBlock(media_type=block.media_type, source="blob", blob_id=blob.digest)
        case Data():
            return TextBlock(text=msgspec.json.encode(block.value).decode())
        case Resource(text=str() as text):
            return TextBlock(text=text)
        case Resource() | ResourceLink():
            return TextBlock(text=f"[resource: {block.uri}]")
        case _:
            return TextBlock(text=f"[{type(block).__name__.lower()}: {block.media_type}]")


def prompt_of(blocks: tuple[Any, ...]) -> str | tuple[ContentBlock, ...]:
    """A prompt: a text if it is nothing else."""
    told = blocks_of(blocks)
    if all(isinstance(block, TextBlock) for block in told):
        return "\n".join(block.text for block in told if isinstance(block, TextBlock))
    return told


def usage_of(usage: Usage) -> TheirUsage:
    """Counts of tokens."""
    return TheirUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_creation_tokens=usage.cache_write_tokens,
        cache_read_tokens=usage.cache_read_tokens,
    )
