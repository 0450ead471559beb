"""Differences of two contents, for people: as a unified diff, and counted in lines."""

from __future__ import annotations

import difflib

from windlass.tools.files.content import binary_kind
from windlass.tools.files.shown_names import shown, size

DIFF_CHARS_MAX = 100_000
"""A longer diff is shown in part only, and says so."""
CARRIAGE_RETURN = "\u240d"
COMPARED_LINES_MAX = 20_000
"""More lines on both sides together are not compared: all of the old ones go and all of the new ones come."""


def line_counts(before: bytes | None, after: bytes | None) -> tuple[int, int]:
    """How many lines come and how many go."""
    old, new = _lines(before), _lines(after)
    if len(old) + len(new) > COMPARED_LINES_MAX:
        return len(new), len(old)
    added = removed = 0
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            removed += b - a
            added += d - c
    return added, removed


def unified(path: str, before: bytes | None, after: bytes | None) -> str:
    """What changes in one file, whole. Contents that are no text are told by their size."""
    old_name = "/dev/null" if before is None else f"a/{shown(path)}"
    new_name = "/dev/null" if after is None else f"b/{shown(path)}"
    if any(data is not None and binary_kind(data) is not None for data in (before, after)):
        told = [f"--- {old_name}", f"+++ {new_name}", f"not text: {_size(before)} become {_size(after)}"]
        return "\n".join(told) + "\n"
    old, new = _texts(before), _texts(after)
    if any(b"\r" in data for data in (before or b"", after or b"")):
        # A screen shows no carriage return, and somebody may put one where none was.
        old, new = ([line.replace("\r", CARRIAGE_RETURN) for line in lines] for lines in (old, new))
    if len(old) + len(new) > COMPARED_LINES_MAX:
        lines = [f"--- {old_name}\n", f"+++ {new_name}\n", *(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    else:
        lines = list(difflib.unified_diff(old, new, old_name, new_name))
    if not lines and before != after:
        lines = [f"--- {old_name}\n", f"+++ {new_name}\n"]
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def bounded(diff: str) -> tuple[str, bool]:
    """A diff as far as it is shown, and whether that is all of it."""
    if len(diff) <= DIFF_CHARS_MAX:
        return diff, True
    head = diff[:DIFF_CHARS_MAX]
    left_out = len(diff) - len(head)
    lines = diff.count("\n", DIFF_CHARS_MAX)
    return f"{head}\n[… {left_out:,} more characters in {lines:,} lines are not shown here …]\n", False


def _lines(data: bytes | None) -> list[bytes]:
    return data.split(b"\n")[: None if not data.endswith(b"\n") else -1] if data else []


def _texts(data: bytes | None) -> list[str]:
    """The lines of a text with their ends; only line feeds end one, so that nothing else can hide a line."""
    if not data:
        return []
    lines = data.decode("utf-8", "replace").split("\n")
    ended = [f"{line}\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


def _size(data: bytes | None) -> str:
    return "nothing" if data is None else size(len(data))
