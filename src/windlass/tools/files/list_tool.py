"""`list` and `glob`: what is in a directory, and which paths match a pattern."""

from __future__ import annotations

import os
import stat
from contextlib import closing

from .glob_patterns import Glob, TooManyChoices
from .ignores import Ignores
from .limits import FileLimits, Watch
from .root import Refusal, Root
from .shown_names import counted, shown, size
from .tree import Entry, Walk


class Output:
    """Lines of a result: a page of them, within its size."""

    def __init__(self, offset: int, limit: int, limits: FileLimits) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.full = False
        self._offset = offset
        self._limit = min(limit, limits.lines)
        self._room = limits.output_bytes

    @property
    def wanted(self) -> bool:
        """Whether the next line belongs to the page."""
        return self.count >= self._offset

    def add(self, *lines: str) -> None:
        """One thing found, in one or more lines; `full` is set instead if it does not fit any more."""
        if self.wanted:
            self._room -= sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)
            if self.shown_count >= self._limit or (self._room < 0 and self.lines):
                self.full = True
                return
            self.lines += lines
        self.count += 1

    @property
    def shown_count(self) -> int:
        return max(0, self.count - self._offset)

    def onward(self, noun: str) -> list[str]:
        """How to go on, if there is more."""
        if self.full:
            return [f"{counted(self.shown_count, noun)} shown, there are more: go on with offset={self.count}"]
        if not self.lines and self.count:
            return [f"there are only {counted(self.count, noun)}"]
        return []


def entries(
    root: Root, path: str, *, depth: int, offset: int, limit: int, ignores: Ignores, limits: FileLimits, watch: Watch
) -> str:
    """What is in a directory, sorted, with sizes and where links lead."""
    walk = Walk(root, limits, watch, ignores)
    output = Output(offset, limit, limits)
    with closing(walk.entries(path, depth=depth)) as contents:
        for entry in contents:
            output.add(entry_line(entry) if output.wanted else "")
            if output.full:
                break
    notes = [*output.onward("entry"), *walk.notes(), *walk.left_out_note("all=true lists it too")]
    if not output.count and not walk.left_out_count and not notes:
        return f"{shown(path)} is empty"
    return told(output.lines, notes)


def entry_line(entry: Entry) -> str:
    """One entry: its path, with its size or where it leads."""
    name = entry.names[-1]
    if entry.kind == "directory":
        return shown(entry.path) + "/"
    try:
        if entry.kind == "link":
            return f"{shown(entry.path)} -> {shown(os.readlink(name, dir_fd=entry.folder))}"
        about = os.stat(name, dir_fd=entry.folder, follow_symlinks=False)
    except OSError:
        return f"{shown(entry.path)} (gone)"
    if stat.S_ISREG(about.st_mode):
        return f"{shown(entry.path)} ({size(about.st_size)})"
    return f"{shown(entry.path)} (neither file nor directory: it cannot be read)"


def paths(
    root: Root,
    pattern: str,
    path: str,
    *,
    offset: int,
    limit: int,
    ignores: Ignores,
    limits: FileLimits,
    watch: Watch,
) -> str:
    """The paths that match a pattern, sorted."""
    glob = parsed(pattern)
    walk = Walk(root, limits, watch, ignores)
    output = Output(offset, limit, limits)
    above = len([part for part in path.split("/") if part not in ("", ".")])
    with closing(walk.entries(path, enters=lambda names: glob.leads_on(names[above:]))) as candidates:
        for entry in candidates:
            if (entry.kind == "directory") == glob.folders and glob.matches(entry.names[above:]):
                output.add(shown(entry.path) + ("/" if glob.folders else ""))
                if output.full:
                    break
    notes = [*output.onward("path"), *walk.notes()]
    if not output.count:
        return told([f"no path matches {pattern!r}"], [*notes, *_advice(pattern), *walk.left_out_note(NAME_IT)])
    return told(output.lines, notes)


NAME_IT = "name its path to look there"


def _advice(pattern: str) -> list[str]:
    if "/" not in pattern:
        return [f"it was tried in this directory only: '**/{pattern}' looks in all below"]
    return []


def parsed(pattern: str, *, anywhere: bool = False) -> Glob:
    """A pattern. Raises `Refusal` for one that could never match."""
    if pattern.startswith("/") or ".." in pattern.split("/"):
        hint = "give the pattern from the directory down, such as 'src/**/*.py'"
        raise Refusal(f"the pattern {shown(pattern)} leads out of the directory", code="outside_root", hint=hint)
    try:
        return Glob(pattern, anywhere=anywhere)
    except TooManyChoices as error:
        raise Refusal(str(error), code="bad_pattern") from None


def told(lines: list[str], notes: list[str]) -> str:
    """A result with its notes, which come last, in brackets."""
    return "\n".join([*lines, *(f"[{note}]" for note in notes)])
