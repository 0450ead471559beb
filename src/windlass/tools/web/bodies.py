"""What a server sent, as text: unpacked and decoded within bounds. It never touches the network."""

from __future__ import annotations

import re
import zlib
from typing import Protocol

DECODED_BYTES_MAX = 10 * 1024 * 1024
"""How much is unpacked from what a server sent; the rest is left."""
ENCODINGS = ("", "identity", "gzip", "x-gzip", "deflate")
TEXTS = re.compile(
    r"text/|application/(?:json|xml|xhtml\+xml|javascript|ecmascript|x-javascript|yaml|x-yaml|toml|x-ndjson|sql|"
    r"graphql|rtf|x-sh|x-www-form-urlencoded)\Z|[a-z]+/[a-z0-9.-]+\+(?:json|xml|yaml)\Z"
)
CHARSETS = re.compile(
    r"utf-?8|utf-?16(?:le|be)?|us-ascii|ascii|iso-?8859-?\d{1,2}|latin-?1|windows-?125\d|cp125\d|koi8-[ru]|macintosh|"
    r"shift[_-]jis|euc-(?:jp|kr)|iso-2022-jp|gb2312|gbk|gb18030|big5"
)
"""The charsets of the web. Python knows other codecs too, and some of them unpack or evaluate."""
META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_-]{1,40})", re.IGNORECASE)
MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
HEAD_BYTES = 1_024


class BadBody(Exception):
    """A body that cannot be read as what it says it is."""


class Unpacker(Protocol):
    """Takes a body piece by piece and gives it unpacked."""

    full: bool

    def feed(self, data: bytes) -> bytes: ...


class Plain:
    """A body that is not packed."""

    def __init__(self, limit: int = DECODED_BYTES_MAX) -> None:
        self.full = False
        self._left = limit

    def feed(self, data: bytes) -> bytes:
        """As much as there is room for."""
        kept = data[: self._left]
        self._left -= len(kept)
        self.full = len(kept) < len(data)
        return kept


class Packed:
    """A body in gzip or deflate. Whatever it claims to hold, only so much is unpacked."""

    def __init__(self, encoding: str, limit: int = DECODED_BYTES_MAX) -> None:
        self.full = False
        self._left = limit
        self._raw = encoding == "deflate"
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS if self._raw else zlib.MAX_WBITS | 16)
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        """What comes of these bytes. Raises `BadBody` for damage."""
        if self._left <= 0 or self.full:
            self.full = True
            return b""
        try:
            made = self._unpacked(data)
        except zlib.error as error:
            raise BadBody(f"the body is not the {'deflate' if self._raw else 'gzip'} that it says: {error}") from None
        self._left -= len(made)
        self.full = bool(self._zlib.unconsumed_tail) or self._left <= 0
        return made

    def _unpacked(self, data: bytes) -> bytes:
        first, self._begun = not self._begun, True
        try:
            return self._zlib.decompress(data, self._left)
        except zlib.error:
            if not (self._raw and first):
                raise
            # Servers mean two things by deflate; the other one has no header.
            self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)
            return self._zlib.decompress(data, self._left)


def unpacker(encoding: str, limit: int = DECODED_BYTES_MAX) -> Unpacker:
    """What unpacks a body of this content encoding. Raises `BadBody` for one that nobody asked for."""
    name = encoding.strip().lower()
    if name not in ENCODINGS:
        raise BadBody(f"the body is packed as {name[:40]!r}, which was not asked for")
    return Plain(limit) if name in ("", "identity") else Packed(name, limit)


def is_text(media_type: str, head: bytes) -> bool:
    """Whether a body is text: as its type says, and as its first bytes do not deny."""
    marked = any(head.startswith(mark) for mark, _ in MARKS)
    if media_type and not TEXTS.match(media_type):
        return False
    return marked or b"\0" not in head[:HEAD_BYTES]


def decoded(data: bytes, charset: str, *, html: bool) -> str:
    """Bytes as text, damage shown as such: by the mark at their beginning, by what the server or the page says, else as
    UTF-8."""
    for mark, name in MARKS:
        if data.startswith(mark):
            return data.decode(name, "replace")
    said = charset.strip("\"' ").lower()
    if not said and html and (declaration := META.search(data[:HEAD_BYTES])):
        said = declaration[1].decode("ascii").lower()
        said = "utf-8" if said.startswith("utf-16") else said  # a page that could be searched for it is not
    name = said if CHARSETS.fullmatch(said) else "utf-8"
    try:
        return data.decode(name, "replace")
    except LookupError:
        return data.decode("utf-8", "replace")
