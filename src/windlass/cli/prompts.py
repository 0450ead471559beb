"""What a person sends: words, standard input, files and images, as the blocks of a prompt."""

from __future__ import annotations

import base64
import mimetypes
import pathlib
import sys
from collections.abc import Sequence

from windlass.events.blocks import Document, Image, InputBlock, Text
from windlass.events.errors import UsageError

from .text import is_terminal

TEXT_BYTES_MAX = 400_000
BINARY_BYTES_MAX = 700_000
"""Inline as base64 it must fit into one record."""
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def prompt_of(words: Sequence[str], files: Sequence[str]) -> tuple[InputBlock, ...]:
    """The blocks of a prompt: words, then standard input where something is piped in, then files."""
    text = " ".join(words).strip()
    if text == "-":
        text, piped = "", _read_input()
    elif is_terminal(sys.stdin) or (text and not _piped()):
        piped = ""
    else:
        piped = _read_input()
    said = "\n\n".join(part for part in (text, piped.strip()) if part)
    blocks: list[InputBlock] = [Text(text=said)] if said else []
    return (*blocks, *(file_block(path) for path in files))


def _read_input() -> str:
    """All of standard input; nothing where it is closed. Raises `UsageError` where it is too long or no text."""
    if sys.stdin is None:
        return ""
    # Bytes, for what is too long must not be cut in silence, and a locale may read what is no text as if it were.
    data = sys.stdin.buffer.read(TEXT_BYTES_MAX + 1)
    if len(data) > TEXT_BYTES_MAX:
        raise UsageError(
            f"standard input has more than the {TEXT_BYTES_MAX:,} bytes allowed: "
            "put it in a file that the agent can read in parts, with --tool read"
        )
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError("standard input is not text in UTF-8") from None


def _piped() -> bool:
    """Whether standard input is a file or a pipe, and not merely closed or inherited from a service."""
    import os
    import stat

    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode)


def file_block(path: str) -> InputBlock:
    """A file as a block: an image, a PDF, or text with its name."""
    kind = mimetypes.guess_type(path)[0] or "text/plain"
    try:
        data = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"--file {path!r}: {error.strerror or error}") from None
    name = pathlib.Path(path).name
    if kind in IMAGES or kind == "application/pdf":
        if len(data) > BINARY_BYTES_MAX:
            raise UsageError(f"--file {path!r}: {len(data):,} bytes are more than the {BINARY_BYTES_MAX:,} allowed")
        inline = base64.b64encode(data).decode()
        return (
            Document(media_type=kind, name=name, data=inline)
            if kind == "application/pdf"
            else Image(media_type=kind, data=inline)
        )
    if len(data) > TEXT_BYTES_MAX:
        raise UsageError(f"--file {path!r}: {len(data):,} bytes are more than the {TEXT_BYTES_MAX:,} allowed")
    try:
        return Text(text=f"[file {name}]\n{data.decode()}")
    except UnicodeDecodeError:
        raise UsageError(f"--file {path!r} is neither text in UTF-8 nor an image or PDF") from None
