"""What a command printed, as a model and a person read it: no colours, no cursor moves, nothing hidden, and bounded."""

from __future__ import annotations

import re
import unicodedata

from windlass.tools.files.shown_names import HIDDEN_KINDS

HEAD_CHARS_MAX = 8_000
TAIL_CHARS_MAX = 16_000
"""How much of an output enters the conversation; a result of this size stays in one piece."""
STEERING = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    "|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)"  # titles, links
    "|\x1b[PX^_].*?\x1b\\\\"
    "|\x1b[ -/]*[0-~]",
    re.DOTALL,
)
PLAIN = re.compile(r"[\n\t\x20-\x7e]*\Z")


def shown_text(data: bytes | str) -> str:
    """An output as text: what steers a terminal is left out, a line that was written over is as it was left, and what
    cannot be seen is spelt out."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    if PLAIN.match(text):
        return text
    text = STEERING.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return "".join(map(_visible, text))


def bounded_text(text: str) -> str:
    """The head and the tail of a text that is too long, with a line between them that says how much is missing."""
    missing = len(text) - HEAD_CHARS_MAX - TAIL_CHARS_MAX
    if missing <= 0:
        return text
    return f"{text[:HEAD_CHARS_MAX]}\n[… {missing:,} characters are left out here …]\n{text[-TAIL_CHARS_MAX:]}"


def _visible(char: str) -> str:
    if char in "\n\t" or unicodedata.category(char) not in HIDDEN_KINDS:
        return char
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
