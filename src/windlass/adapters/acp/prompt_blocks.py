"""The blocks of a prompt as an editor sends them, as ours: words, pictures, files and what was embedded."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from windlass.events.errors import UsageError
from windlass.events.values.blocks import (
    AnyAttachment,
    DirectoryAttachment,
    Document,
    FileAttachment,
    Image,
    InputBlock,
    LineRange,
    Resource,
    ResourceLink,
    Text,
)

LINES = re.compile(r"L(\d{1,9})(?:[:-]L?(\d{1,9}))?\Z")
"""How editors say which lines of a file they mean, at the end of its address."""
PDF = "application/pdf"
Attached = FileAttachment | DirectoryAttachment


class Said(NamedTuple):
    """A prompt: its blocks, and what is attached to it."""

    blocks: tuple[InputBlock, ...]
    attachments: tuple[AnyAttachment, ...]

    @property
    def text(self) -> str:
        """Its words."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text)).strip()


def said_in(prompt: object, cwd: str) -> Said:
    """What a prompt says. Raises `UsageError` for what means nothing here."""
    if not isinstance(prompt, list) or not prompt:
        raise UsageError("prompt: a list of content blocks, at least one")
    blocks: list[InputBlock] = []
    attachments: list[AnyAttachment] = []
    for given in prompt:
        if not isinstance(given, dict):
            raise UsageError("prompt: each block is an object with a type")
        block = _block_of(given, cwd)
        if isinstance(block, Attached):
            attachments.append(block)
        else:
            blocks.append(block)
    return Said(tuple(blocks), tuple(attachments))


def _block_of(given: dict[str, Any], cwd: str) -> InputBlock | Attached:
    match given.get("type"):
        case "text":
            return Text(text=str(given["text"]))
        case "image":
            return Image(media_type=str(given["mimeType"]), data=str(given["data"]))
        case "resource_link":
            return _linked(given, cwd)
        case "resource":
            return _embedded(given["resource"])
        case "audio":
            raise UsageError("prompt: audio is not taken (promptCapabilities.audio is false)")
        case other:
            raise UsageError(f"prompt: there is no block of type {other!r}: text, image, resource_link and resource")


def _linked(given: dict[str, Any], cwd: str) -> InputBlock | Attached:
    """A file of this machine is attached: read once, when the prompt is sent. Anything else stays a link."""
    uri = str(given["uri"])
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        name = str(given.get("name") or uri)
        return ResourceLink(uri=uri, name=name, title=given.get("title"), description=given.get("description"))
    path = os.path.join(cwd, unquote(parts.path))
    if os.path.isdir(path):
        return DirectoryAttachment(path=path, name=given.get("name"))
    return FileAttachment(path=path, name=given.get("name"), lines=_lines(parts.fragment))


def _lines(fragment: str) -> LineRange | None:
    match = LINES.match(fragment)
    if match is None:
        return None
    first = int(match[1])
    return LineRange(start=first, end=max(first, int(match[2] or first)))


def _embedded(given: dict[str, Any]) -> InputBlock:
    """What the editor read itself, such as a file that is not saved."""
    uri, media = str(given["uri"]), given.get("mimeType")
    if "text" in given:
        return Resource(uri=uri, media_type=media, text=str(given["text"]))
    data = str(given["blob"])
    if str(media).startswith("image/"):
        return Image(media_type=str(media), data=data)
    if media == PDF:
        return Document(media_type=PDF, data=data, name=os.path.basename(urlsplit(uri).path) or None)
    return Resource(uri=uri, media_type=media, data=data)
