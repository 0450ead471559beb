"""Changes of files as the protocol shows them: an old text and a new one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.events.tools.permissions import AnyDetail, WriteDetail
from windlass.events.values.blocks import JsonObject
from windlass.tools.files.shown_names import named

from .call_kinds import absolute

HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
NOWHERE = "/dev/null"
NO_END = "\\ No newline at end of file"
CARRIAGE_RETURN = "\u240d"


def diff_form(path: str, old: str | None, new: str) -> JsonObject:
    """One change; without an old text the file is new."""
    made: JsonObject = {"type": "diff", "path": path, "newText": new}
    return made if old is None else {**made, "oldText": old}


def diffs_of(detail: AnyDetail | None, cwd: str) -> list[JsonObject]:
    """What a call that is asked about would change: one difference for each hunk, as its lines say. None if the
    difference was too long to be put on record whole, or is of no text."""
    if not isinstance(detail, WriteDetail) or not detail.diff:
        return []
    return list(_hunks(detail.diff, cwd))


def _hunks(diff: str, cwd: str) -> Iterator[JsonObject]:
    """The hunks of a unified difference. What does not read as one is passed over."""
    before = after = ""
    lines = diff.split("\n")
    at = 0
    while at < len(lines):
        line, at = lines[at], at + 1
        hunk = HUNK.match(line)
        if line.startswith("--- ") and at < len(lines) and lines[at].startswith("+++ "):
            before, after = line[4:], lines[at][4:]
            at += 1
        elif hunk is not None and before:
            old, new, at = _sides(lines, at, int(hunk[1] or 1), int(hunk[2] or 1))
            path = absolute(_name(before if after == NOWHERE else after), cwd)
            yield diff_form(path, None if before == NOWHERE else old, new)


def _sides(lines: list[str], at: int, old_lines: int, new_lines: int) -> tuple[str, str, int]:
    """Both sides of a hunk whose lines begin at `at`, of so many lines each, and where they end."""
    old: list[str] = []
    new: list[str] = []
    sides: list[list[str]] = []
    while at < len(lines):
        line = lines[at]
        if line == NO_END:
            for side in sides:
                side[-1] = side[-1].removesuffix("\n")
        elif (len(old) >= old_lines and len(new) >= new_lines) or line[:1] not in (" ", "-", "+"):
            break
        else:
            sides = {" ": [old, new], "-": [old], "+": [new]}[line[0]]
            for side in sides:
                side.append(line[1:].replace(CARRIAGE_RETURN, "\r") + "\n")
        at += 1
    return "".join(old), "".join(new), at


def _name(text: str) -> str:
    """The path in a line of a difference, behind its `a/` or `b/`."""
    return named(text[2:] if text[:2] in ("a/", "b/") else text)
