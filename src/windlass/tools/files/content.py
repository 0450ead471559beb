"""What a file holds, piece by piece: whether it is text, and its lines, however long they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from windlass.events.stored.known_secrets import SECRETS
from windlass.tools.planes.results import sniff

CHUNK_BYTES = 256 * 1024
SNIFF_BYTES = 8 * 1024
LINE_BYTES_KEPT = 1024 * 1024
"""How much of one line is ever held in memory; the rest is counted."""
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def chunks(fd: int, most: int) -> Iterator[bytes]:
    """The bytes of a file from its beginning, at most so many. The size that the file claims is not believed."""
    at = 0
    while at < most:
        piece = os.pread(fd, min(CHUNK_BYTES, most - at), at)
        if not piece:
            return
        at += len(piece)
        yield piece


def binary_kind(head: bytes) -> str | None:
    """What a file is that is not text, judged by how it begins; None for text."""
    media_type = sniff(head)
    if media_type is not None:
        return media_type
    if head.startswith(UTF16_MARKS):
        return "UTF-16 text"
    return "binary" if b"\0" in head[:SNIFF_BYTES] else None


def text_of(line: bytes) -> str:
    """A line as text: without its ending, and with a mark for every byte that is not UTF-8."""
    return line.removesuffix(b"\r").decode("utf-8", "replace").replace("\0", "�")


Blotted = Callable[[bytes], bytes]
"""Takes out what no model may see, leaving as many bytes."""
CUT_OFF = 1_000
"""What is left out at the end of a line that is not kept whole: it may be half of something."""


class Line:
    """One line: as much of it as is kept, and how long it is."""

    __slots__ = ("kept", "size")

    def __init__(self) -> None:
        self.kept = bytearray()
        self.size = 0

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        room = LINE_BYTES_KEPT - len(self.kept)
        if room > 0:
            self.kept += piece[:room]

    def shown(self, chars: int, column: int = 1, blotted: Blotted | None = None) -> str:
        """The part of the line from a column on, with how much follows."""
        data = self._clean()
        if blotted is not None and (column > 1 or self.size > chars):
            data = blotted(data)
            data = data[:-CUT_OFF] if self.size > len(self.kept) else data
        text = text_of(data)
        part = text[column - 1 : column - 1 + chars]
        before = f"[{column - 1:,} characters] … " if column > 1 and text else ""
        if self.size > len(self.kept):
            return f"{before}{part} … [a line of {self.size:,} bytes]"
        after = len(text) - (column - 1) - len(part)
        return f"{before}{part} … [{after:,} more characters]" if after > 0 else before + part

    def _clean(self) -> bytes:
        """What is kept, with a mark for each known secret: a part of one is not known any more once it is cut."""
        data = SECRETS.hidden(bytes(self.kept))
        return data[: SECRETS.begun_at(data)] if self.size > len(self.kept) else data
