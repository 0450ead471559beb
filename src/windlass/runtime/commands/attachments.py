"""Attachments of a prompt on their way in: read by whoever sends it, once, and kept with it.

The owner of a session never reads a path that a command names: what is not sent with the prompt is not there, so that
a replay sends the same bytes and nobody reads a file through somebody else's process.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.errors import UsageError
from windlass.events.user_folders import expanded
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
    LineRange,
    ReferenceAttachment,
    Resource,
    SelectionAttachment,
    Text,
)
from windlass.kernel.attachment_items import heading
from windlass.store.base import Store
from windlass.tools.files.attachments import TEXT_BYTES_MAX, attached_path
from windlass.tools.planes.large_output import Blob
from windlass.tools.planes.results import kept_apart
from windlass.tools.types.plain_values import NotPlain

Attachable = AnyAttachment | str | os.PathLike[str]
"""What can be attached: one of the attachments, a path, or the address of an issue, a pull request or a discussion."""

ATTACHMENTS_MAX = 100
TEXT_BYTES_ALL_MAX = 400_000
"""How much text all attachments of a prompt have together; what lies beyond is left out, and said to be."""
MEDIA_BYTES_ALL_MAX = 14_000_000
"""How much pictures, sounds and documents of a prompt have together: below the 20 MB, as base64, of every provider."""
SHOWN_CHARS_MAX = 80
AnyText = TypeVar("AnyText", FileAttachment, SelectionAttachment, DirectoryAttachment)
ADDRESS = re.compile(r"https?://\S+\Z")
REFERENCE = re.compile(r"https?://[^\s?#]+/(issues|pull|pulls|merge_requests|discussions)/(\d+)(?:[/?#]\S*)?\Z")
KINDS: dict[str, Any] = {"issues": "issue", "discussions": "discussion"}


def as_attachment(given: Any) -> AnyAttachment:
    """What was given as an attachment that may still have to be read. Raises `UsageError` for what is none."""
    if isinstance(given, AnyAttachment):
        return given
    if not isinstance(given, str | os.PathLike):
        told = "a path, an address or an attachment such as FileAttachment(path=...)"
        raise UsageError(f"an attachment is {told}, not {repr(given)[:SHOWN_CHARS_MAX]}")
    path = os.fsdecode(given)
    if isinstance(given, str) and ADDRESS.match(path):
        return _reference(path)
    return FileAttachment(path=path)


def _reference(address: str) -> ReferenceAttachment:
    match = REFERENCE.match(address)
    if match is None:
        told = "only issues, pull requests and discussions are attached by their address; save it and attach the file"
        raise UsageError(f"cannot attach {address[:SHOWN_CHARS_MAX]!r}: {told}")
    return ReferenceAttachment(kind=KINDS.get(match[1], "pull_request"), url=address, number=int(match[2]))


async def with_attachments(command: PromptReceived, store: Store, tenant: str) -> PromptReceived:
    """The prompt with everything that is attached to it, read now; pictures and the like are in the store when it
    returns. Raises `UsageError` for what cannot be attached."""
    assert command.body is not None
    body, blobs = await asyncio.to_thread(_read, command.body)
    try:
        for blob in blobs:
            await store.blobs.put(tenant, blob.read(), media_type=blob.ref.media_type)
    finally:
        for blob in blobs:
            blob.close()
    return msgspec.structs.replace(command, body=body)


def _read(body: PromptBody) -> tuple[PromptBody, list[Blob]]:
    if len(body.attachments) > ATTACHMENTS_MAX:
        raise UsageError(f"{len(body.attachments)} attachments are more than the {ATTACHMENTS_MAX} of one prompt")
    blobs: list[Blob] = []
    room, attachments = TEXT_BYTES_ALL_MAX, []
    for given in body.attachments:
        read = _whole(given, max(0, room))
        room -= _text_bytes(read)
        attachments.append(_apart(read, blobs))
    content = tuple(_kept(block, f"the {type(block).__name__.lower()} of this prompt", blobs) for block in body.content)
    check_media(attachments, content)
    return msgspec.structs.replace(body, content=content, attachments=tuple(attachments)), blobs


def read_attachment(given: AnyAttachment) -> AnyAttachment:
    """One attachment with its content, for whoever wants to see it before it is sent. Blocks. Raises `UsageError`."""
    return _whole(given, TEXT_BYTES_MAX)


def _whole(given: AnyAttachment, room: int) -> AnyAttachment:
    """An attachment with its content, texts within their bounds, and where it lies."""
    attachment = _filled(given, room)
    if not isinstance(attachment, FileAttachment | DirectoryAttachment | SelectionAttachment):
        return attachment
    # Whoever takes it works elsewhere: a path from here on would mean another file there.
    path = os.path.abspath(expanded(attachment.path))
    name = attachment.name if attachment.name is not None or path == attachment.path else attachment.path
    return msgspec.structs.replace(attachment, path=path, name=name)


def _filled(given: AnyAttachment, room: int) -> AnyAttachment:
    match given:
        case FileAttachment(content=None) | DirectoryAttachment(listing=None):
            lines = _checked_lines(given) if isinstance(given, FileAttachment) else None
            attachment = attached_path(given.path, lines=lines, name=given.name, room=room)
            return msgspec.structs.replace(attachment, labels=given.labels)
        case FileAttachment(content=Text(text=text)):
            shown, left_out = _bounded(text, room)
            return _replaced(given, left_out, content=Text(text=shown))
        case SelectionAttachment():
            shown, left_out = _bounded(given.text, room)
            return _replaced(given, left_out, text=shown)
        case DirectoryAttachment():
            shown, left_out = _bounded(given.listing or "", room)
            return _replaced(given, left_out, listing=shown)
        case _:
            return given


def _checked_lines(given: FileAttachment) -> LineRange | None:
    lines = given.lines
    if lines is not None and not 1 <= lines.start <= lines.end:
        raise UsageError(
            f"cannot attach lines {lines.start} to {lines.end} of {given.path!r}: lines are counted from 1, and the "
            "last is not before the first"
        )
    return lines


def _bounded(text: str, room: int) -> tuple[str, str]:
    """As much of a text as there is room for, and what is left out."""
    data = text.encode("utf-8", "replace")
    most = min(room, TEXT_BYTES_MAX)
    if len(data) <= most:
        return text, ""
    return data[:most].decode("utf-8", "ignore"), f"{len(data) - most:,} of {len(data):,} bytes, at the end"


def _replaced(given: AnyText, left_out: str, **changes: Any) -> AnyText:
    """The same with less of its text."""
    if not left_out:
        return given
    notes = "; ".join(note for note in (given.left_out, left_out) if note)
    return msgspec.structs.replace(given, left_out=notes, **changes)


def _text_bytes(read: AnyAttachment) -> int:
    match read:
        case FileAttachment(content=Text(text=text)) | SelectionAttachment(text=text):
            return len(text.encode("utf-8", "replace"))
        case DirectoryAttachment(listing=str(listing)):
            return len(listing.encode("utf-8", "replace"))
        case _:
            return 0


# --- what is kept beside the log ---


def _apart(read: AnyAttachment, blobs: list[Blob]) -> AnyAttachment:
    """An attachment whose bytes are in a blob if they are many."""
    what = heading(read)
    match read:
        case FileAttachment(content=Image() | Audio() | Document()):
            return msgspec.structs.replace(read, content=_kept(read.content, what, blobs))
        case ImageAttachment():
            return msgspec.structs.replace(read, image=_kept(read.image, what, blobs))
        case DocumentAttachment():
            return msgspec.structs.replace(read, document=_kept(read.document, what, blobs))
        case _:
            return read


def _kept(block: Any, what: str, blobs: list[Blob]) -> Any:
    try:
        return kept_apart(block, what, blobs)
    except NotPlain as error:
        raise UsageError(f"cannot attach {what}: {error.why}") from None


def check_media(attachments: Iterable[AnyAttachment], content: Sequence[InputBlock]) -> None:
    """Raises `UsageError` if pictures and the like are more than a provider takes in one request."""
    held: list[Any] = [*content]
    for read in attachments:
        held += [getattr(read, name, None) for name in ("content", "image", "document")]
    total = sum(_bytes_of(block) for block in held if isinstance(block, Image | Audio | Document | Resource))
    if total > MEDIA_BYTES_ALL_MAX:
        raise UsageError(
            f"pictures, sounds and documents of a prompt may have {MEDIA_BYTES_ALL_MAX:,} bytes together, these have "
            f"{total:,}: send some of them with another prompt"
        )


def _bytes_of(block: Image | Audio | Document | Resource) -> int:
    return block.blob.size if block.blob is not None else len(block.data or "") * 3 // 4
