"""The format of an export: JSON lines, a header first, then appends as they were sealed, each preceded by the commands
it took, then waiting commands, blobs in parts and the index row, and a checksum over all of it last."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.store.base import IndexRow, Origin

FORMAT = 1
PART_BYTES = 384 * 1024
"""How much of a blob one line of an export holds."""
LINE_BYTES_MAX = 16 * 1024 * 1024


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    windlass: str
    format: int
    tenant: str
    session: str
    origin: Origin | None = None


class BlobHeader(msgspec.Struct, frozen=True, kw_only=True):
    """A blob that follows in parts."""

    digest: str
    size: int
    media_type: str


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A command that no append has taken: for the record, since no import takes it."""

    command_id: str
    at_ms: int
    data: str


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The last line: an export without it is cut off."""

    seq: int
    hash: str
    sha256: str


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Any other line that is not an append: exactly one field is there."""

    header: Header | None = None
    takes: tuple[str, ...] = ()
    waiting: Waiting | None = None
    index: dict[str, Any] | None = None
    blob: BlobHeader | None = None
    part: str | None = None
    end: End | None = None


decode_entry = msgspec.json.Decoder(Entry).decode
_encode = msgspec.json.Encoder().encode


def encoded(entry: Entry) -> bytes:
    """A line, with its line break."""
    return _encode(entry) + b"\n"


def row_fields(row: IndexRow) -> dict[str, Any]:
    """The fields that differ from their defaults, by value: `omit_defaults` goes by identity if a default is text,
    so that equal rows could give different bytes."""
    defaults = IndexRow(session="")
    fields = msgspec.structs.asdict(row)
    return {name: value for name, value in fields.items() if value != getattr(defaults, name)}
