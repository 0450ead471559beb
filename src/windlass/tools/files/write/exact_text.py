"""Replacing a text that must stand in a file exactly as given: where it is, or what comes near it."""

from __future__ import annotations

import difflib

from windlass.tools.files.root import Refusal
from windlass.tools.files.shown_names import counted, shown

LINES_LISTED_MAX = 8
NEAR_LINES_MAX = 3
COMPARED_MAX = 4_000
"""Lines that are compared with the wanted one."""
LINE_CHARS_MAX = 200
CONTEXT = 2


class NotThere(Refusal):
    """The text is not in the file, or more often than meant. `told` shows parts of the file; `plain` does not."""

    def __init__(self, plain: str, near: str, hint: str) -> None:
        super().__init__(f"{plain}{near}", code="no_match", hint=hint)
        self.plain = f"{plain}; {hint}"


def replaced(data: bytes, old: str, new: str, *, every: bool, path: str) -> bytes:
    """The content with one text in the place of another. Raises `NotThere` unless it stands there exactly once, or at
    all with `every`."""
    if old == new:
        raise Refusal("old and new are the same text: nothing would change", code="no_change")
    wanted, put = _as_in_file(data, old, new)
    count = data.count(wanted)
    if count == 0:
        raise _missing(data, old, path)
    if count > 1 and not every:
        raise _ambiguous(data, wanted, count, path)
    return data.replace(wanted, put)


def _as_in_file(data: bytes, old: str, new: str) -> tuple[bytes, bytes]:
    """Both texts with the line ends of the file, if the file ends its lines otherwise than the texts do: models are
    shown lines without their ends."""
    wanted, put = old.encode(), new.encode()
    ends = data.count(b"\n")
    if wanted in data or b"\r\n" in wanted or not ends or data.count(b"\r\n") != ends:
        return wanted, put
    return wanted.replace(b"\n", b"\r\n"), put.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _ambiguous(data: bytes, wanted: bytes, count: int, path: str) -> NotThere:
    at, lines = 0, []
    for _ in range(min(count, LINES_LISTED_MAX)):
        at = data.index(wanted, at)
        line = data.count(b"\n", 0, at) + 1
        lines.append(f"{line:,}")
        at += len(wanted)
    more = " and further down" if count > len(lines) else ""
    told = f"the text stands {count:,} times in {shown(path)}: from line {', '.join(lines)}{more} on"
    return NotThere(told, "", "give more of the lines around the one that is meant, or all=true for every one")


def _missing(data: bytes, old: str, path: str) -> NotThere:
    plain = f"the text to replace is not in {shown(path)}"
    hint = "give it exactly as the file has it, with its blanks and without line numbers; read shows it"
    lines = data.decode("utf-8", "replace").splitlines()
    first = next((line for line in old.splitlines() if line.strip()), "")
    if not lines or not first:
        return NotThere(plain, "" if lines else ": it is empty", hint)
    alike = [at for at, line in enumerate(lines) if line.split() == first.split()]
    if alike:
        return NotThere(
            plain,
            f". Its first line stands there, with other blanks or another line behind it:\n{_near(lines, alike)}",
            hint,
        )
    close = difflib.get_close_matches(first, lines[:COMPARED_MAX], n=NEAR_LINES_MAX, cutoff=0.6)
    near = [at for at, line in enumerate(lines[:COMPARED_MAX]) if line in close]
    told = (
        f". What comes near it:\n{_near(lines, near)}"
        if near
        else f" ({counted(len(lines), 'line')}), nor anything near it"
    )
    return NotThere(plain, told, hint)


def _near(lines: list[str], places: list[int]) -> str:
    """Lines of the file with their numbers, a few around each that is meant."""
    wanted = sorted({at for one in places[:NEAR_LINES_MAX] for at in range(max(0, one - 1), one + 1 + CONTEXT)})
    return "\n".join(f"{at + 1:>6}\t{lines[at][:LINE_CHARS_MAX]}" for at in wanted if at < len(lines))
