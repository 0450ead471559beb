"""What is wrong with a text before any grammar looks at it: characters that people do not see, or that the shell reads
otherwise than the grammar does."""

from __future__ import annotations

import unicodedata

from windlass.tools.shell.shell_text import TEXT_CHARS_MAX

PLAIN = frozenset(map(chr, range(32, 127))) | {"\n", "\t"}
HIDDEN = ("C", "Z")
"""Unicode categories of what is not seen, or seen as a blank that is none to the shell."""
INVISIBLE = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that take no ink."""


def obstacle(text: str) -> str | None:
    """Why a text is not to be read at all."""
    if len(text) > TEXT_CHARS_MAX:
        return f"the text has {len(text):,} characters, more than {TEXT_CHARS_MAX:,}"
    return hidden(text)


def hidden(text: str) -> str | None:
    """The first character that is hidden, turned around or read in two ways, with its name."""
    strange = next((c for c in text if c not in PLAIN and _is_hidden(c)), None)
    if strange is None:
        return None
    if strange == "\r":
        return "the text has a carriage return in it, which looks like a new line and is none"
    if strange == "\0":
        return "the text has a NUL character in it"
    name = unicodedata.name(strange, "a control character")
    return f"the text has a hidden character in it: U+{ord(strange):04X} {name}"


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char)[0] in HIDDEN or char in INVISIBLE
