"""Large output: kept whole up to a bound outside of memory, shown to the model as its head and its tail.

It knows bytes only. Where they are kept for good is the caller's affair.
"""

from __future__ import annotations

import codecs
import hashlib
import io
from collections.abc import Iterator
from typing import IO

from windlass.events.values.blocks import BlobRef

LARGE_BYTES = 32 * 1024
"""Results above this leave a preview in the conversation."""
PREVIEW_BYTES = 2 * 1024
"""How much of the head and of the tail the preview shows, each."""
WHOLE_BYTES_MAX = 256 * 1024 * 1024
"""How much of an output is kept; the rest is counted and dropped, but still drained."""
MEMORY_BYTES_MAX = 1024 * 1024
"""What a spool holds in memory before it moves to a temporary file."""
LOOP_BYTES_MAX = 1024 * 1024
"""More than this is read, written and digested in a thread."""
SLICE_CHARS = 256 * 1024


class Blob:
    """Bytes for the caller to keep under the digest in `ref`. Close it afterwards."""

    __slots__ = ("_file", "ref")

    def __init__(self, ref: BlobRef, file: IO[bytes]) -> None:
        self.ref = ref
        self._file = file

    def read(self) -> bytes:
        """All of it at once. Its size is told, or it would be read in pieces that are then copied together."""
        self._file.seek(0)
        return self._file.read(self.ref.size)

    def chunks(self, size: int = MEMORY_BYTES_MAX) -> Iterator[bytes]:
        """Piece by piece, so that it need not fit in memory."""
        self._file.seek(0)
        while piece := self._file.read(size):
            yield piece

    def close(self) -> None:
        """Frees the memory or the temporary file."""
        self._file.close()

    def __del__(self) -> None:
        self._file.close()  # a run that was cut off must not leave files open


class Spool:
    """Takes output as it comes. Memory stays bounded whatever is written."""

    def __init__(self, limit: int = WHOLE_BYTES_MAX) -> None:
        self.size = 0
        self.kept = 0
        self._limit = limit
        self._hash = hashlib.sha256()
        self._tail = b""
        self._file: IO[bytes] = io.BytesIO()

    def write(self, data: bytes) -> None:
        """Adds bytes; what is above the limit is only counted."""
        self.size += len(data)
        room = self._limit - self.kept
        if room > 0:
            kept = data[:room]
            if self.kept <= MEMORY_BYTES_MAX < self.kept + len(kept):
                self._file = _on_disk(self._file)
            self._file.write(kept)
            self._hash.update(kept)
            self.kept += len(kept)
        self._tail = data[-PREVIEW_BYTES:] if len(data) >= PREVIEW_BYTES else (self._tail + data)[-PREVIEW_BYTES:]

    def write_text(self, text: str) -> None:
        """Adds text in slices, so that a huge one is not copied whole. Lone surrogates keep their bytes."""
        for start in range(0, len(text), SLICE_CHARS):
            self.write(text[start : start + SLICE_CHARS].encode("utf-8", "surrogatepass"))

    @property
    def large(self) -> bool:
        """Whether the conversation gets a preview instead of the whole."""
        return self.size > LARGE_BYTES

    def text(self) -> str:
        """All of it as text, damage shown as replacement characters. Only for output that is not large."""
        self._file.seek(0)
        return str(self._file.read().decode("utf-8", "replace"))

    def is_text(self) -> bool:
        """Whether what was kept is UTF-8 throughout."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        self._file.seek(0)
        try:
            while piece := self._file.read(MEMORY_BYTES_MAX):
                decoder.decode(piece)
            decoder.decode(b"", final=self.kept == self.size)
        except UnicodeDecodeError:
            return False
        return True

    def chunks(self) -> Iterator[bytes]:
        """What was kept, piece by piece."""
        self._file.seek(0)
        while piece := self._file.read(MEMORY_BYTES_MAX):
            yield piece

    def preview(self) -> str:
        """Head, a marker with the sizes, tail."""
        self._file.seek(0)
        head = _whole_chars(self._file.read(PREVIEW_BYTES))
        tail = self._tail.decode("utf-8", "replace").lstrip("�")
        shown = PREVIEW_BYTES + len(self._tail)
        kept = f"all {self.size} bytes are kept" if self.kept == self.size else f"the first {self.kept} bytes are kept"
        return (
            f"{head}\n\n[… {self.size - shown} of {self.size} bytes are not shown; {kept} as {self.digest} …]\n\n{tail}"
        )

    @property
    def digest(self) -> str:
        return "sha256:" + self._hash.hexdigest()

    def blob(self, media_type: str) -> Blob:
        """Hands over what was kept. The spool is not used afterwards."""
        file, self._file = self._file, io.BytesIO()
        return Blob(BlobRef(digest=self.digest, size=self.kept, media_type=media_type), file)

    def close(self) -> None:
        """Drops everything."""
        self._file.close()

    def __del__(self) -> None:
        self._file.close()


def blob_of(data: bytes, media_type: str) -> Blob:
    """Bytes that are in memory anyway, as a blob."""
    spool = Spool()
    spool.write(data)
    return spool.blob(media_type)


def _on_disk(file: IO[bytes]) -> IO[bytes]:
    """What was written so far, moved to a temporary file that has no name."""
    import tempfile

    moved = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the spool or the blob
    file.seek(0)
    moved.write(file.read())
    file.close()
    return moved


def _whole_chars(data: bytes) -> str:
    """Bytes cut anywhere, as text without the character that was cut."""
    return data.decode("utf-8", "replace").rstrip("�")
