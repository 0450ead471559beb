"""Files and directories that somebody attaches to a prompt: read once, within bounds, by whoever attaches them.

A link that leads out of the folder that a path is named from is refused: a repository may hold links, and whoever
attaches a file of it means that file.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from windlass.events.errors import UsageError
from windlass.events.user_folders import expanded
from windlass.events.values.blocks import (
    Audio,
    DirectoryAttachment,
    Document,
    FileAttachment,
    Image,
    LineRange,
    Text,
)
from windlass.tools.types.plain_values import base64_text

from .content import SNIFF_BYTES, binary_kind, chunks
from .ignores import NOISE, Ignores
from .limits import FileLimits, Watch
from .list_tool import entry_line
from .read_tool import BOM
from .root import Outside, Refusal, Root
from .shown_names import counted, shown, size
from .tree import Walk

TEXT_BYTES_MAX = 200_000
"""How much of one text is attached; what lies beyond is left out, and said to be."""
SEARCHED_BYTES_MAX = 64 * 1024 * 1024
"""How far into a file lines are looked for."""
LISTING_BYTES_MAX = 50_000
LISTING = FileLimits(lines=1_000, depth=3, entries_seen=20_000, time_ms=2_000)
"""How much of a directory is listed."""
IMAGE_BYTES_MAX = 3_750_000
"""As base64 it has at most five million letters: the strictest provider's limit for one picture."""
MEDIA_BYTES_MAX = 10_000_000
PIECE_BYTES = 64 * 1024
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
SOUNDS = ("audio/wav", "audio/mpeg", "audio/ogg")
PDF = "application/pdf"


def attached_path(
    path: str, *, lines: LineRange | None = None, name: str | None = None, room: int = TEXT_BYTES_MAX
) -> FileAttachment | DirectoryAttachment:
    """What is at a path, read. Texts get at most `room` bytes. Raises `UsageError` for what cannot be attached, with
    the reason."""
    path = expanded(path)  # whoever is told of it may be at home elsewhere
    try:
        with _rooted(path) as (root, below):
            if root.is_folder(below):
                if lines is not None:
                    raise UsageError(f"cannot attach lines of {shown(path)}: it is a directory")
                return _directory(root, below, path, name, room)
            with root.file(below) as fd:
                return _file(fd, path, lines, name, min(room, TEXT_BYTES_MAX))
    except Outside:
        told = "it is a link, or lies behind one, that leads elsewhere; attach what is meant by its own path"
        raise UsageError(f"cannot attach {shown(path)}: {told}") from None
    except Refusal as error:
        hint = f"; {error.hint}" if error.hint and error.hint.startswith("did you mean") else ""
        raise UsageError(f"cannot attach {shown(path)}: {error.message}{hint}") from None


@contextmanager
def _rooted(path: str) -> Iterator[tuple[Root, str]]:
    """The folder that a path is named from, and the path from there on: the working folder, or the one right above."""
    if not path or "\0" in path:
        raise UsageError(f"cannot attach {path!r}: that is no path")
    whole, here = os.path.abspath(path), os.getcwd()
    inside = whole == here or whole.startswith(os.path.join(here, ""))
    folder = here if inside else os.path.dirname(whole)
    if not os.path.isdir(folder):
        raise UsageError(f"cannot attach {shown(path)}: there is no folder {shown(folder)}")
    root = Root(folder)
    try:
        yield root, os.path.relpath(whole, folder)
    finally:
        root.close()


# --- files ---


def _file(fd: int, path: str, lines: LineRange | None, name: str | None, room: int) -> FileAttachment:
    head = os.pread(fd, SNIFF_BYTES, 0)
    kind = binary_kind(head)
    if kind is None:
        return _text_file(fd, path, lines, name, room)
    if lines is not None:
        raise UsageError(f"cannot attach lines of {shown(path)}: it is not text ({kind})")
    return FileAttachment(path=path, name=name, content=_media(fd, path, kind))


def _media(fd: int, path: str, kind: str) -> Image | Audio | Document:
    """A picture, a sound or a PDF, whole. What a file is called says nothing here: its first bytes do."""
    if kind not in (*IMAGES, *SOUNDS, PDF):
        told = "only text in UTF-8, pictures (PNG, JPEG, GIF, WebP), sounds (WAV, MP3, Ogg) and PDF can be attached"
        raise UsageError(f"cannot attach {shown(path)}: it is {kind}; {told}")
    most = IMAGE_BYTES_MAX if kind in IMAGES else MEDIA_BYTES_MAX
    data = b"".join(chunks(fd, most + 1))
    if len(data) > most:
        raise UsageError(f"cannot attach {shown(path)}: it has more than the {size(most)} that {kind} may have")
    if kind in IMAGES:
        return Image(media_type=kind, data=base64_text(data))
    if kind == PDF:
        return Document(media_type=kind, name=os.path.basename(path), data=base64_text(data))
    return Audio(media_type=kind, data=base64_text(data))


def _text_file(fd: int, path: str, lines: LineRange | None, name: str | None, room: int) -> FileAttachment:
    passage = _Lines(lines, room)
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(0)
        while not passage.ended and (piece := file.readline(PIECE_BYTES)):
            passage.feed(piece)
    total = os.fstat(fd).st_size
    if lines is not None and not passage.kept:
        raise UsageError(f"cannot attach {shown(path)} from line {lines.start:,} on: {passage.missing()}")
    text, left_out = passage.text(total)
    partial = lines is not None or passage.cut
    last = LineRange(start=passage.first, end=max(passage.first, passage.last)) if partial else None
    return FileAttachment(path=path, name=name, lines=last, content=Text(text=text), left_out=left_out)


class _Lines:
    """The wanted lines of a file, as far as there is room, out of the pieces of it as they come."""

    def __init__(self, wanted: LineRange | None, room: int) -> None:
        self.first = wanted.start if wanted is not None else 1
        self._until = wanted.end if wanted is not None else None
        self._room = room
        self._number = 1
        self._read = 0
        self._whole = True
        self.kept = bytearray()
        self.cut = False
        self.ended = False

    def feed(self, piece: bytes) -> None:
        """The next line, or the next part of a long one."""
        self._read += len(piece)
        if self._number >= self.first:
            self.kept += piece
        self._whole = piece.endswith(b"\n")
        self._number += self._whole
        self.cut = len(self.kept) > self._room
        behind = self._until is not None and self._number > self._until
        self.ended = self.cut or behind or self._read > SEARCHED_BYTES_MAX

    @property
    def last(self) -> int:
        """The last line of which something is kept."""
        return self.first + self.kept.count(b"\n") - self.kept.endswith(b"\n")

    def missing(self) -> str:
        """Why nothing is kept."""
        if self._read > SEARCHED_BYTES_MAX:
            return f"that lies beyond its first {size(SEARCHED_BYTES_MAX)}"
        return f"it has only {counted(self._number - self._whole, 'line')}"

    def text(self, total: int) -> tuple[str, str]:
        """What is kept, as text, and what is left out of it."""
        notes = []
        if self.cut:
            end = self.kept.rfind(b"\n", 0, self._room)
            del self.kept[end + 1 if end >= 0 else self._room :]
            part = f"the first {size(len(self.kept))} of " if end < 0 else ""
            notes.append(f"what comes behind {part}line {self.last:,} (the file has {size(total)})")
        data = bytes(self.kept).removeprefix(BOM)
        # A letter that was cut in two at the end is none, not a damaged one.
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=not self.cut)
        if "\ufffd" in text and b"\xef\xbf\xbd" not in data:
            notes.append("bytes that are not UTF-8; \ufffd stands for them")
        return text, "; ".join(notes)


# --- directories ---


def _directory(root: Root, below: str, path: str, name: str | None, room: int) -> DirectoryAttachment:
    """The names in a directory and in those beneath it, without noise and what its .gitignore files name."""
    room = min(room, LISTING_BYTES_MAX)
    walk = Walk(root, LISTING, Watch(LISTING), Ignores(NOISE, files=True))
    lines: list[str] = []
    notes: list[str] = []
    with closing(walk.entries(below)) as entries:
        for entry in entries:
            line = entry_line(entry)
            room -= len(line.encode("utf-8", "replace")) + 1
            if len(lines) >= LISTING.lines or room < 0:
                notes.append(f"all behind the first {counted(len(lines), 'entry')}")
                break
            lines.append(line)
    notes += [*walk.notes(), *walk.left_out_note("attach one of them by its own path to show it")]
    return DirectoryAttachment(path=path, name=name, listing="\n".join(lines), left_out="; ".join(notes))
