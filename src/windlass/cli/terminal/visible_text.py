"""Text made visible: whatever a terminal would obey, and whatever shows nothing, spelt out. Pure functions, and a small
machine for text that comes in pieces."""

from __future__ import annotations

import re
import unicodedata

STEERING = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Controls, formats (bidi, zero-width, tags), lone surrogates, private use, and line separators of other systems."""
IGNORABLE = (
    *(range(0x00AD, 0x00AE), range(0x034F, 0x0350), range(0x061C, 0x061D), range(0x115F, 0x1161)),
    *(range(0x17B4, 0x17B6), range(0x180B, 0x1810), range(0x200B, 0x2010), range(0x202A, 0x202F)),
    *(range(0x2060, 0x2070), range(0x3164, 0x3165), range(0xFE00, 0xFE10), range(0xFEFF, 0xFF00)),
    *(range(0xFFA0, 0xFFA1), range(0xFFF0, 0xFFF9), range(0x1BCA0, 0x1BCA4), range(0x1D173, 0x1D17B)),
    range(0xE0000, 0xE1000),
)
"""What Unicode calls default ignorable: shown as nothing at all, whatever its category and whether it is assigned."""
BLANK = 0x2800
"""A letter that shows nothing and is not ignorable: braille without dots."""
NON_JOINER, JOINER, SOFT_HYPHEN = "\u200c", "\u200d", "\u00ad"
AS_TEXT, AS_PICTURE, KEYCAP = "\ufe0e", "\ufe0f", "\u20e3"
WITHIN = re.compile(f"[{NON_JOINER}{JOINER}{SOFT_HYPHEN}{AS_TEXT}{AS_PICTURE}]")
"""What is text within a word or an emoji, and hides something anywhere else."""
JOINING = (
    *(range(0x0600, 0x2000), range(0xA800, 0xAC00), range(0xFB50, 0xFE00), range(0xFE70, 0xFF00)),
    range(0x10A00, 0x12000),
)
"""Letters of the scripts in which joiners belong to the spelling."""
HELD = f"\r{NON_JOINER}{JOINER}{SOFT_HYPHEN}{AS_TEXT}{AS_PICTURE}"
"""What streamed text must not end with: what follows says what it is."""
COLOURED = re.compile("\x1b\\[(?:0|1|2|31|32|33|34|36)m")
"""The colours that `Paint` gives."""
PLAIN = re.compile(r"[\n\t\x20-\x7e]*\Z")


class _Shown(dict[int, str | int]):
    """What each character is shown as, learned as characters come."""

    def __missing__(self, code: int) -> str | int:
        self[code] = spelling = code if harmless(code) else escaped(code)
        return spelling


def harmless(code: int) -> bool:
    """Whether a character only shows itself."""
    if code in (0x0A, 0x09):
        return True
    if code == BLANK or any(code in span for span in IGNORABLE):
        return False
    return unicodedata.category(chr(code)) not in STEERING


def escaped(code: int) -> str:
    """A character by its number, in the notation of Python and JSON."""
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_shown = _Shown()


def visible(text: str, *, exact: bool = False) -> str:
    """The text with everything that could move a cursor, reorder or hide letters, or reach the terminal itself spelt
    out. Line feeds and tabs stay; the line ends of other systems become line feeds. Joiners and soft hyphens within a
    word, and what makes several signs one emoji, are text; with `exact`, for what a person decides on, only where the
    spelling of a script needs them."""
    if PLAIN.match(text):
        return text
    text = text.replace("\r\n", "\n")
    if not WITHIN.search(text):
        return text.translate(_shown)
    pieces, start = [], 0
    for mark in WITHIN.finditer(text):
        if _belongs(text, mark.start(), exact):
            pieces += [text[start : mark.start()].translate(_shown), mark[0]]
            start = mark.end()
    return "".join((*pieces, text[start:].translate(_shown)))


def _belongs(text: str, at: int, exact: bool) -> bool:
    """Whether a sign that shows nothing by itself is part of the word or the emoji that it stands in."""
    sign, before, after = text[at], text[at - 1 : at], text[at + 1 : at + 2]
    if not before:
        return False
    if sign in (AS_TEXT, AS_PICTURE):
        return _is_picture(before) or (before in "0123456789#*" and after == KEYCAP)
    if not after:
        return False
    if sign == JOINER and _is_picture(after):
        return _is_picture(before) or (before == AS_PICTURE and _belongs(text, at - 1, exact))
    if not (_in_word(before) and _in_word(after)):
        return False
    return not exact or (sign != SOFT_HYPHEN and _joins(before) and _joins(after))


def _is_picture(sign: str) -> bool:
    """Whether a sign may be an emoji or colour one."""
    return not sign.isascii() and unicodedata.category(sign) in ("So", "Sk", "Sm", "Po")


def _in_word(sign: str) -> bool:
    return unicodedata.category(sign)[0] in "LM" and harmless(ord(sign))


def _joins(sign: str) -> bool:
    code = ord(sign)
    return any(code in span for span in JOINING)


def spelt(name: str) -> str:
    """A name or an id on one line, every sign of it: nothing that a person goes by may look like something else."""
    return visible(name, exact=True).replace("\n", "\\x0a").replace("\t", "\\x09")


def tame(line: str) -> str:
    """A line of ours as it may go out: our own colours stay, and whatever else is in it is visible."""
    if PLAIN.match(line):
        return line
    pieces, start = [], 0
    for colour in COLOURED.finditer(line):
        pieces += [visible(line[start : colour.start()]), colour[0]]
        start = colour.end()
    return "".join((*pieces, visible(line[start:])))


class VisiblePieces:
    """Visible text out of a stream of pieces, cut anywhere. What a piece ends with may wait for the next: only what
    follows says whether a carriage return ends a line and a joiner joins."""

    def __init__(self) -> None:
        self._held = ""
        self._last = ""

    def feed(self, text: str) -> str:
        """More text, made visible."""
        whole = self._held + text
        text = whole.rstrip(HELD)
        self._held = whole[len(text) :]
        shown = self._more(text)
        self._last = text[-1:] or self._last
        return shown

    def end(self) -> str:
        """What still waited; nothing follows it."""
        shown = self._more(self._held)
        self._held = self._last = ""
        return shown

    def _more(self, text: str) -> str:
        """Text behind what came last: that says what a joiner at the beginning is, and is shown already."""
        return visible(self._last + text)[len(visible(self._last)) :]
