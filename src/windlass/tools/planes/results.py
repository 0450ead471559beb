"""What a tool returned, as blocks: texts, data, pictures, or a typed refusal with the path to what has no form.

Never pickled, never `str()` of an arbitrary object. Large output becomes a preview, the whole goes to a blob.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any, get_args

import msgspec

from windlass.events.stored.known_secrets import SECRETS
from windlass.events.values.blocks import (
    Audio,
    BlobRef,
    Block,
    Data,
    Document,
    Image,
    JsonObject,
    Resource,
    ResourceLink,
    ResultBlock,
    Terminal,
    Text,
    Value,
)
from windlass.events.workspace import FileChange
from windlass.tools.types.plain_values import NotPlain, base64_text, scalar_text, to_plain

from .large_output import LARGE_BYTES, Blob, Spool, blob_of

NO_RESULT = "(no result)"
INLINE_MEDIA_BYTES = 64 * 1024
"""Pictures and the like above this go to a blob."""
MEDIA_BYTES_MAX = 32 * 1024 * 1024
BLOCKS_MAX = 1_000
BLOCKS = get_args(ResultBlock)
SIGNATURES: tuple[tuple[bytes, bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", b"", "image/png"),
    (b"\xff\xd8\xff", b"", "image/jpeg"),
    (b"GIF87a", b"", "image/gif"),
    (b"GIF89a", b"", "image/gif"),
    (b"RIFF", b"WEBP", "image/webp"),
    (b"RIFF", b"WAVE", "audio/wav"),
    (b"ID3", b"", "audio/mpeg"),
    (b"OggS", b"", "audio/ogg"),
    (b"%PDF-", b"", "application/pdf"),
)
"""How files begin; the second mark stands at byte 8."""


class ToolResult(Value, frozen=True, kw_only=True):
    """For tools that say more than a value: what people see instead, labels on the data, files changed, telemetry, and
    whether it counts as an error although the tool returned."""

    value: Any = None
    display: Any = None
    labels: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    telemetry: JsonObject | None = None
    ok: bool = True
    error_code: str | None = None


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """A result as blocks. `whole` refers to the one among `blobs` that holds the whole output."""

    content: tuple[ResultBlock, ...]
    size: int = 0
    whole: BlobRef | None = None
    whole_size: int = 0
    blobs: tuple[Blob, ...] = ()


def rendered(value: Any) -> Rendered:
    """The blocks of a value. Raises `NotPlain` for what has no form."""
    if type(value) is str:
        return text_result(value)
    if value is None:
        return small(Text(text=NO_RESULT))
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes_result(bytes(value))
    if isinstance(value, Spool):
        return spool_result(value)
    if isinstance(value, Block):
        return block_results([value])
    if isinstance(value, list | tuple) and any(isinstance(entry, Block) for entry in value):
        return block_results(value)
    return _data_result(value)


def small(block: ResultBlock) -> Rendered:
    """One small block."""
    return Rendered(content=(block,), size=len(_text_of(block)))


def text_result(text: str) -> Rendered:
    """Text as it is if it is small and UTF-8 can carry it; else a view of it, with its bytes beside it."""
    lossy: str | None = None
    if len(text) <= LARGE_BYTES:
        text = SECRETS.hidden_text(text)  # of what is large, piece by piece
        lossy = scalar_text(text)
        size = len(lossy.encode("utf-8"))
        if lossy is text and size <= LARGE_BYTES:
            return Rendered(content=(Text(text=text),), size=size)
    spool = Spool()
    spool.write_text(text)
    return spool_result(spool, lossy=None if lossy is text else lossy)


def spool_result(spool: Spool, *, lossy: str | None = None) -> Rendered:
    """Output that came in pieces: whole if it is small and sound, else a view of it with the bytes beside it."""
    spool = without_secrets(spool)
    sound = lossy is None and spool.is_text()
    if not spool.large and sound:
        text = spool.text()
        spool.close()
        return Rendered(content=(Text(text=text or NO_RESULT),), size=spool.size)
    shown = spool.preview() if spool.large else (lossy if lossy is not None else spool.text())
    blob = spool.blob("text/plain; charset=utf-8" if sound else "application/octet-stream")
    size = len(shown.encode("utf-8"))
    return Rendered(content=(Text(text=shown),), size=size, whole=blob.ref, whole_size=spool.size, blobs=(blob,))


def without_secrets(spool: Spool) -> Spool:
    """The same output with a mark for each known secret."""
    if not SECRETS.longest or not SECRETS.within_pieces(spool.chunks()):
        return spool
    clean = Spool()
    for piece in SECRETS.hidden_pieces(spool.chunks()):
        clean.write(piece)
    spool.close()
    return clean


def _bytes_result(data: bytes) -> Rendered:
    media_type = sniff(data)
    if media_type is None:
        spool = Spool()
        spool.write(data)
        return spool_result(spool)
    kind = Image if media_type.startswith("image/") else Audio if media_type.startswith("audio/") else Document
    return block_results([kind(media_type=media_type, data=base64_text(data))])


def sniff(data: bytes) -> str | None:
    """The media type of a picture, sound or document, by how it begins."""
    for first, second, media_type in SIGNATURES:
        if data.startswith(first) and data[8 : 8 + len(second)] == second:
            return media_type
    return None


def _data_result(value: Any) -> Rendered:
    plain = to_plain(value)
    if isinstance(plain, str):
        return text_result(plain)
    plain = _data(plain).value
    encoded = msgspec.json.encode(plain)
    if len(encoded) <= LARGE_BYTES:
        return Rendered(content=(Data(value=plain),), size=len(encoded))
    spool = Spool()
    spool.write(encoded)
    shown, blob = spool.preview(), spool.blob("application/json")
    size = len(shown.encode("utf-8"))
    return Rendered(content=(Text(text=shown),), size=size, whole=blob.ref, whole_size=len(encoded), blobs=(blob,))


def block_results(blocks: Iterable[Any]) -> Rendered:
    """Blocks as they are, texts and values among them as blocks; large media to blobs, large text to a preview."""
    kept_blocks: list[ResultBlock] = []
    blobs: list[Blob] = []
    for index, entry in enumerate(blocks):
        if index >= BLOCKS_MAX:
            raise NotPlain("", f"more than {BLOCKS_MAX} blocks")
        kept_blocks.append(kept_apart(_block(entry, f"[{index}]"), f"[{index}]", blobs))
    size = sum(len(_text_of(block)) for block in kept_blocks)
    if size <= LARGE_BYTES:
        return Rendered(content=tuple(kept_blocks), size=size, blobs=tuple(blobs))
    spool = Spool()
    for block in kept_blocks:
        spool.write(_text_of(block))
    media = [block for block in kept_blocks if not _text_of(block)]
    shown, blob = spool.preview(), spool.blob("text/plain; charset=utf-8")
    return Rendered(
        content=(Text(text=shown), *media),
        size=len(shown.encode("utf-8")),
        whole=blob.ref,
        whole_size=spool.size,
        blobs=(blob, *blobs),
    )


def _block(entry: Any, path: str) -> ResultBlock:
    if isinstance(entry, BLOCKS):
        sound: ResultBlock = _sound(entry)
        return sound
    if isinstance(entry, Block):
        raise NotPlain(path, f"a {type(entry).__name__!r} block cannot stand in a result")
    if isinstance(entry, str):
        return Text(text=SECRETS.hidden_text(scalar_text(entry)))
    return _data(entry)


def _data(value: Any) -> Data:
    """A value as data, with a mark for each known secret."""
    plain = to_plain(value)
    if SECRETS.longest and SECRETS.within(encoded := msgspec.json.encode(plain)):
        plain = msgspec.json.decode(SECRETS.hidden(encoded))
    return Data(value=plain)


def _sound(block: Any) -> Any:
    """A block whose texts UTF-8 can carry and whose data is JSON."""
    if isinstance(block, Data):
        return _data(block.value)
    fields = {name: getattr(block, name) for name in block.__struct_fields__}
    changed = {
        name: sound
        for name, value in fields.items()
        if isinstance(value, str) and (sound := SECRETS.hidden_text(scalar_text(value))) is not value
    }
    return msgspec.structs.replace(block, **changed) if changed else block


def kept_apart(block: Any, path: str, blobs: list[Blob]) -> Any:
    """A block whose inline bytes were moved to a blob if they are many."""
    data = getattr(block, "data", None)
    if not isinstance(block, Image | Audio | Document | Resource) or data is None:
        return block
    if len(data) > MEDIA_BYTES_MAX * 4 // 3:
        raise NotPlain(path, f"its media is larger than {MEDIA_BYTES_MAX} bytes")
    try:
        raw = base64.b64decode(data, validate=True)
    except binascii.Error:
        raise NotPlain(path, f"the data of its {type(block).__name__} block is not base64") from None
    clean = _clean_media(raw, block.media_type or "")
    if len(raw) <= INLINE_MEDIA_BYTES:
        return block if clean is raw else msgspec.structs.replace(block, data=base64.b64encode(clean).decode("ascii"))
    blob = blob_of(clean, block.media_type or "application/octet-stream")
    blobs.append(blob)
    return msgspec.structs.replace(block, data=None, blob=blob.ref)


def _clean_media(raw: bytes, media_type: str) -> bytes:
    """The bytes of a medium without known secrets. What is no text keeps its length, so that it can still be read."""
    if media_type.startswith("text/") or media_type.endswith(("json", "xml", "yaml", "csv", "javascript")):
        return SECRETS.hidden(raw)
    return SECRETS.blotted(raw)


def _text_of(block: ResultBlock) -> bytes:
    match block:
        case Text(text=text) | Terminal(text=text):
            return text.encode("utf-8")
        case Data(value=value):
            return msgspec.json.encode(value)
        case Resource(text=str(text)):
            return text.encode("utf-8")
        case ResourceLink(uri=uri, name=name):
            return f"{name} {uri}".encode()
    return b""
