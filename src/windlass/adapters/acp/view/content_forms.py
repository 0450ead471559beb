"""Content as the protocol writes it: the blocks of prompts, of answers and of results."""

from __future__ import annotations

import pathlib

import msgspec

from windlass.events.values.blocks import (
    AnyAttachment,
    Audio,
    Data,
    DirectoryAttachment,
    DocumentAttachment,
    FileAttachment,
    Image,
    ImageAttachment,
    InputBlock,
    JsonObject,
    ReferenceAttachment,
    Resource,
    ResourceLink,
    ResultBlock,
    SelectionAttachment,
    Terminal,
    Text,
)

from .fold import without_none


def text_form(text: str) -> JsonObject:
    """A text."""
    return {"type": "text", "text": text}


def content_form(block: InputBlock | ResultBlock) -> JsonObject | None:
    """One block; None if its bytes are kept beside the log."""
    match block:
        case Text(text=text) | Terminal(text=text):
            return text_form(text) if text else None
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
            return {"type": "resource", "resource": without_none(uri=block.uri, mimeType=block.media_type, text=text)}
        case Resource(data=str() as data):
            return {"type": "resource", "resource": without_none(uri=block.uri, mimeType=block.media_type, blob=data)}
        case Data(value=value):
            return text_form(msgspec.json.encode(value).decode())
        case _:
            return None


def content_forms(blocks: tuple[ResultBlock, ...]) -> list[JsonObject]:
    """The content of a call: its blocks, each as content of its own."""
    forms = (content_form(block) for block in blocks)
    return [{"type": "content", "content": form} for form in forms if form is not None]


def attachment_form(given: AnyAttachment) -> JsonObject | None:
    """An attachment as a link to what it is of, or as the picture that it is."""
    match given:
        case FileAttachment() | DirectoryAttachment() | SelectionAttachment():
            path = pathlib.PurePath(given.path)
            uri = path.as_uri() if path.is_absolute() else str(path)
            return {"type": "resource_link", "name": given.name or path.name or str(path), "uri": uri}
        case ReferenceAttachment():
            return {"type": "resource_link", "name": given.title or given.url, "uri": given.url}
        case ImageAttachment(image=image):
            return content_form(image)
        case DocumentAttachment():
            return text_form(f"[{given.name or given.document.name or 'a document'}]")
