"""What a person sends: words and standard input as the blocks of a prompt, and what is attached to it."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from windlass.cli.terminal.text import is_terminal, tell
from windlass.events.errors import UsageError
from windlass.events.values.blocks import AnyAttachment, FileAttachment, InputBlock, LineRange, Text

TEXT_BYTES_MAX = 400_000
TITLE_CHARS_MAX = 60
PATIENCE_S = 2.0
"""How long standard input may take to end until a person is told what is waited for."""
WAITING = "(standard input is read too, and has not ended: with </dev/null there is none)"
WITH_LINES = re.compile(r"(?P<path>.+):(?P<first>\d+)(?:-(?P<last>\d+))?\Z", re.DOTALL)
"""A path with the lines that are meant: `notes.txt:10-20`, or one of them: `notes.txt:10`."""


def prompt_of(words: Sequence[str]) -> tuple[InputBlock, ...]:
    """The blocks of a prompt: words, then standard input if something is piped in."""
    text = " ".join(words).strip()
    if text == "-":
        text, piped = "", _read_input()
    elif is_terminal(sys.stdin) or (text and not _piped()):
        piped = ""
    elif text:
        with _told_of_waiting():
            piped = _read_input()
    else:
        piped = _read_input()
    said = "\n\n".join(part for part in (text, piped.strip()) if part)
    return (Text(text=said),) if said else ()


def attachments_of(given: Sequence[str]) -> tuple[AnyAttachment, ...]:
    """What `--attach` names (paths, paths with lines, addresses), read now, so that nothing is begun with less. Raises
    `UsageError` for what cannot be attached."""
    if not given:
        return ()
    from windlass.runtime.commands.attachments import as_attachment, read_attachment

    return tuple(read_attachment(_with_lines(one) or as_attachment(one)) for one in given)


def _with_lines(given: str) -> AnyAttachment | None:
    """A path with lines; none if there are no lines, or if a file is really called so."""
    match = WITH_LINES.match(given)
    if match is None or os.path.lexists(given) or given.startswith(("http://", "https://")):
        return None
    first = int(match["first"])
    return FileAttachment(path=match["path"], lines=LineRange(start=first, end=int(match["last"] or first)))


@contextmanager
def _told_of_waiting() -> Iterator[None]:
    """Says what is waited for if it takes long: a prompt was given, and who gave it may not know of a pipe that was
    inherited and that nobody closes."""
    waiting = threading.Timer(PATIENCE_S, lambda: tell(WAITING, sys.stderr))
    waiting.daemon = True
    waiting.start()
    try:
        yield
    finally:
        waiting.cancel()


def _read_input() -> str:
    """All of standard input; nothing if it is closed. Raises `UsageError` if it is too long or no text."""
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


def title_of(blocks: Sequence[InputBlock]) -> str:
    """A title for a session that a prompt begins: its first words."""
    said = next((block.text for block in blocks if isinstance(block, Text)), "")
    return " ".join(said.split())[:TITLE_CHARS_MAX]
