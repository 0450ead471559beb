"""Attachments as a model is given them: each under a line that says what it is and what was left out of it."""

from __future__ import annotations

from typing import assert_never

from windlass.events.values.blocks import (
    AnyAttachment,
    Audio,
    DirectoryAttachment,
    Document,
    DocumentAttachment,
    FileAttachment,
    Image,
    ImageAttachment,
    InputBlock,
    ReferenceAttachment,
    SelectionAttachment,
    Text,
)

NOT_SENT = "its content was not sent"


def attached(attachment: AnyAttachment) -> tuple[InputBlock, ...]:
    """What the model is given of one attachment. Reads nothing: what was not sent with the prompt is not there."""
    head = heading(attachment)
    match attachment:
        case FileAttachment():
            return framed(head, attachment.content, attachment.left_out)
        case DirectoryAttachment():
            listing = Text(text=attachment.listing) if attachment.listing is not None else None
            return framed(head, listing, attachment.left_out)
        case SelectionAttachment():
            return framed(head, Text(text=attachment.text), attachment.left_out)
        case ReferenceAttachment():
            return (Text(text=f"[attached {head}: only its address is here]"),)
        case ImageAttachment():
            return framed(head, attachment.image, "")
        case DocumentAttachment():
            return framed(head, attachment.document, "")
        case _:
            assert_never(attachment)


def heading(attachment: AnyAttachment) -> str:
    """An attachment in a few words: what it is, and what it is called."""
    match attachment:
        case FileAttachment():
            lines = attachment.lines
            part = f", lines {lines.start:,} to {lines.end:,}" if lines is not None else ""
            return f"file {(attachment.name or attachment.path)!r}{part}"
        case DirectoryAttachment():
            return f"directory {(attachment.name or attachment.path)!r}, its entries"
        case SelectionAttachment():
            start, end = attachment.start, attachment.end
            place = f"{start.line + 1:,}:{start.character + 1:,} to {end.line + 1:,}:{end.character + 1:,}"
            return f"selection from {(attachment.name or attachment.path)!r}, {place}"
        case ReferenceAttachment():
            number = f" #{attachment.number}" if attachment.number is not None else ""
            title = f" {attachment.title!r}" if attachment.title else ""
            state = f" ({attachment.state})" if attachment.state else ""
            return f"{attachment.kind.replace('_', ' ')}{number}{title}{state}, {attachment.url}"
        case ImageAttachment():
            return f"image {attachment.name!r}" if attachment.name else "image"
        case DocumentAttachment():
            name = attachment.name or attachment.document.name
            return f"document {name!r}" if name else "document"
        case _:
            assert_never(attachment)


def framed(head: str, content: Text | Image | Audio | Document | None, left_out: str) -> tuple[InputBlock, ...]:
    """Content under its heading. A text ends with a line of its own, so that the next words are not taken for it."""
    more = f"; left out: {left_out}" if left_out else ""
    match content:
        case None:
            return (Text(text=f"[attached {head}: {NOT_SENT}{more}]"),)
        case Text():
            return (Text(text=f"[attached {head}{more}]\n{content.text}\n[end of the attached {head}]"),)
        case Image() | Audio() | Document():
            return (Text(text=f"[attached {head}{more}]"), content)
        case _:
            assert_never(content)
