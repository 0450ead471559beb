"""The bytes of an archive as they are read, with bounds on what must be held before there is an entry that could be
looked at: the directory of a zip, and the headers of a tar."""

from __future__ import annotations

import gzip
import io
import os
import struct

BLOCK = 512
HEADER_BYTES_MAX = 8 * 1024
"""How long what a tar says of one entry may be; its own readers take as much as it claims, and search it slowly."""
HEADERS_BYTES_MAX = 2 * 1024 * 1024
PIECE = 1024 * 1024
DIRECTORY_BYTES_MAX = 2 * 1024 * 1024
"""How long the directory of a zip may be."""
END, END_BYTES, NOTE_BYTES_MAX = b"PK\x05\x06", 22, 65_535
GZIP = b"\x1f\x8b"


class TooMuch(Exception):
    """An archive wants more held than any may."""


class TarBytes(io.RawIOBase):
    """A tar without its packing. Until all its entries were listed, what is read of it are headers, which are counted;
    what is between them is passed over."""

    def __init__(self, plain: gzip.GzipFile | io.FileIO) -> None:
        self._plain = plain
        self._headers = 0
        self.is_listed = False

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._plain.seek(offset, whence)

    def tell(self) -> int:
        return self._plain.tell()

    def read(self, size: int = -1) -> bytes:
        """Raises `TooMuch` for more than is held at once."""
        if size > BLOCK and not self.is_listed:
            self._headers += size
        most = PIECE if self.is_listed else HEADER_BYTES_MAX
        if not 0 <= size <= most or self._headers > HEADERS_BYTES_MAX:
            raise TooMuch("has headers that are too long")
        return self._plain.read(size) or b""

    def close(self) -> None:
        self._plain.close()
        super().close()


def tar_bytes(archive: str) -> TarBytes:
    """A tar, packed by gzip or not at all, as it is read."""
    with open(archive, "rb") as file:
        packed = file.read(len(GZIP)) == GZIP
    return TarBytes(gzip.GzipFile(archive, "rb") if packed else io.FileIO(archive))


def check_directory(archive: str) -> None:
    """Raises `TooMuch` for a zip with a directory that would become more entries than are looked at."""
    with open(archive, "rb") as file:
        file.seek(max(0, os.path.getsize(archive) - END_BYTES - NOTE_BYTES_MAX))
        tail = file.read()
    last = tail[-END_BYTES:]
    at = len(tail) - END_BYTES if last.startswith(END) and last.endswith(b"\0\0") else tail.rfind(END)
    end_record = tail[at : at + END_BYTES] if at >= 0 else b""
    if len(end_record) == END_BYTES and struct.unpack_from("<L", end_record, 12)[0] > DIRECTORY_BYTES_MAX:
        raise TooMuch("has a directory that is too long")
