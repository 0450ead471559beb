"""Text as a person would see it: what has no shape is taken out, so that nobody is told what nobody can read."""

from __future__ import annotations

import re

UNSEEN = re.compile(
    "[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters, marks of direction, spaces without width, tags: all but the joiners that some scripts need."""


def visible(text: str) -> str:
    """The text without what cannot be seen; a line at its end says how much that was."""
    shown, count = UNSEEN.subn("", text)
    return f"{shown}\n[{count} invisible characters were left out]" if count else shown
