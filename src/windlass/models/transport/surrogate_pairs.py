r"""Characters that a provider wrote as two escapes (`\ud83d\ude00`) and cut between them: the halves are put together
again over the events of a stream. A half that stays alone is no character, and is shown as what is missing."""

from __future__ import annotations

import re

FIRST, SECOND = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
HALF = re.compile(rb"(\\\\)|" + FIRST + rb"(" + SECOND + rb")?|" + SECOND)
"""A backslash that is text; a first half, with its second if that follows; a second half alone."""
MISSING = b"\\ufffd"


class SurrogatePairs:
    """The events of one stream, with every pair whole."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first = b""
        """A first half that waits for its second."""

    def joined(self, events: list[bytes]) -> list[bytes]:
        """The same events. Costs one search if there is nothing to mend."""
        # Not `in`, which makes and drops an exception for bytes before Python 3.12.
        whole = b"\n".join(events)
        if whole.find(b"\\u") < 0 or (whole.find(b"\\ud") < 0 and whole.find(b"\\uD") < 0):
            return events
        return [HALF.sub(self._mended, event) for event in events]

    def _mended(self, match: re.Match[bytes]) -> bytes:
        half = match[0]
        if match[1] or match[2]:
            return half
        if half[3:4] in b"89abAB":
            before, self._first = self._first, half
            return MISSING if before else b""
        before, self._first = self._first, b""
        return before + half if before else MISSING
