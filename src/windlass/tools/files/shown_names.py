"""File names and sizes as a model reads them: one line each, whatever the names hold."""

from __future__ import annotations

import os
import re
import sys
import unicodedata

HIDDEN_KINDS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Characters that break lines, turn text around or cannot be seen."""
ESCAPED = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))")
SHORT_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def shown(name: bytes | str) -> str:
    """A name as it is, or quoted with escapes where it could be misread. Bytes that are not UTF-8 show as \\xNN."""
    text = os.fsdecode(name)
    if text.isascii() and text.isprintable() and not text.startswith('"'):
        return text
    if not any(unicodedata.category(char) in HIDDEN_KINDS for char in text) and not text.startswith('"'):
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    if char in '"\\':
        return "\\" + char
    if unicodedata.category(char) not in HIDDEN_KINDS:
        return char
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def named(text: str) -> str:
    """The name that is shown so; the text itself if no name is."""
    if len(text) < 2 or not text.startswith('"'):
        return text
    quoted, _, behind = text[1:].rpartition('"')
    return ESCAPED.sub(_unescaped, quoted) + behind


def _unescaped(escape: re.Match[str]) -> str:
    byte, short, long, letter = escape.groups()
    if letter is not None:
        return SHORT_ESCAPES.get(letter, letter)
    code = int(byte or short or long, 16)
    if byte is not None and code >= 0x80:
        return chr(0xDC00 + code)
    return chr(code) if code <= sys.maxunicode else escape[0]


def joined(folder: str, name: str) -> str:
    """A path relative to the root."""
    return f"{folder}/{name}" if folder else name


def size(count: int) -> str:
    """A number of bytes."""
    return "1 byte" if count == 1 else f"{count:,} bytes"


def counted(count: int, noun: str) -> str:
    """A number of things; the noun in the singular."""
    if count == 1:
        return f"1 {noun}"
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "es" if noun.endswith("ch") else noun + "s"
    return f"{count:,} {plural}"
