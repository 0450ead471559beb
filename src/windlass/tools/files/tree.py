"""Walks a directory tree by descriptors, in sorted order, within bounds. Links are named and never followed."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from typing import Literal, NamedTuple

from .ignores import Ignores
from .limits import FileLimits, Watch
from .root import Root
from .shown_names import counted, joined, shown

Kind = Literal["file", "directory", "link", "other"]
NAMED_MAX = 5
"""Left-out names that a note lists."""


class Entry(NamedTuple):
    """Something in a directory. `folder` is open while the entry is being looked at, and not after that."""

    path: str
    names: tuple[str, ...]
    kind: Kind
    folder: int


class _Level(NamedTuple):
    folder: int
    path: str
    names: tuple[str, ...]
    ignores: Ignores
    ahead: list[tuple[str, Kind]]


class Walk:
    """One walk, and what it left out."""

    def __init__(self, root: Root, limits: FileLimits, watch: Watch, ignores: Ignores) -> None:
        self._root = root
        self._limits = limits
        self._watch = watch
        self._ignores = ignores
        self.seen = 0
        self.left_out: list[str] = []
        self.left_out_count = 0
        self.unreadable = 0
        self.excluded = 0
        self.too_deep = 0
        self.cut_folders = 0
        self.cut_rules = 0
        self.stopped: str | None = None

    def entries(
        self, path: str, *, depth: int | None = None, enters: Callable[[Sequence[str]], bool] | None = None
    ) -> Generator[Entry, None, None]:
        """What lies below a directory, down to `depth` levels, in the directories that `enters` accepts. Raises
        `Refusal` where `path` is none. Close the iterator to stop early."""
        names = tuple(part for part in path.split("/") if part not in ("", "."))
        ignores = self._ignores.on_the_way(self._root, names) if ".." not in names else self._ignores
        most = min(self._limits.depth, depth if depth is not None else self._limits.depth)
        with self._root.folder(path) as start:
            stack = [self._level(os.dup(start), "/".join(names), names, ignores)]
            try:
                while stack and self.stopped is None:
                    level = stack[-1]
                    if not level.ahead:
                        os.close(stack.pop().folder)
                        continue
                    name, kind = level.ahead.pop()
                    entry = Entry(joined(level.path, name), (*level.names, name), kind, level.folder)
                    if not self._counts(level, entry):
                        continue
                    yield entry
                    if kind == "directory" and (enters is None or enters(entry.names)):
                        if len(stack) < most:
                            self._enter(stack, level, entry)
                        elif depth is None or depth > most:
                            self.too_deep += 1
            finally:
                for level in stack:
                    os.close(level.folder)

    def _counts(self, level: _Level, entry: Entry) -> bool:
        """Whether an entry is to be looked at; stops the walk where a bound is reached."""
        if self._out_of_time():
            return False
        self.seen += 1
        if self.seen > self._limits.entries_seen:
            self.stopped = f"stopped after {counted(self._limits.entries_seen, 'entry')}"
            return False
        exclusion = self._root.exclusion
        if exclusion is not None and exclusion.covering(os.path.join(self._root.path, entry.path), self._root.path):
            self.excluded += 1
            return False
        if level.ignores.covers(entry.names, folder=entry.kind == "directory"):
            self.left_out_count += 1
            if len(self.left_out) < NAMED_MAX:
                self.left_out.append(entry.path + ("/" if entry.kind == "directory" else ""))
            return False
        return True

    def _out_of_time(self) -> bool:
        if self._watch.over(now=True):
            self.stopped = f"stopped after {self._limits.time_ms / 1000:g} s"
        return self.stopped is not None

    def _enter(self, stack: list[_Level], level: _Level, entry: Entry) -> None:
        try:
            folder = self._root.child_folder(level.folder, entry.names[-1])
        except OSError:
            self.unreadable += 1
            return
        stack.append(self._level(folder, entry.path, entry.names, level.ignores))

    def _level(self, folder: int, path: str, names: tuple[str, ...], ignores: Ignores) -> _Level:
        try:
            ahead = self._listed(folder)
            inside = ignores.within(self._root, folder, len(names))
            self.cut_rules += inside.cut and inside is not ignores
            return _Level(folder, path, names, inside, ahead)
        except OSError:
            self.unreadable += 1
            return _Level(folder, path, names, ignores, [])

    def _listed(self, folder: int) -> list[tuple[str, Kind]]:
        """What is in one directory, the first name last."""
        children: list[tuple[str, Kind]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(children) >= self._limits.folder_entries:
                    self.cut_folders += 1
                    break
                if self._out_of_time():
                    break
                children.append((entry.name, _kind_of(entry)))
        return sorted(children, reverse=True)

    def notes(self) -> list[str]:
        """What the reader of a result must know."""
        notes = []
        if self.stopped is not None:
            notes.append(f"{self.stopped}: there may be more; name a directory further down")
        if self.cut_folders:
            most = f"{self._limits.folder_entries:,}"
            notes.append(f"{counted(self.cut_folders, 'directory')} with more than {most} entries, not seen whole")
        if self.cut_rules:
            notes.append(
                f"{counted(self.cut_rules, 'directory')} with more rules in .gitignore than are heeded at once"
            )
        if self.too_deep:
            notes.append(f"{counted(self.too_deep, 'directory')} deeper than {self._limits.depth} levels not entered")
        if self.unreadable:
            notes.append(f"{counted(self.unreadable, 'directory')} could not be read")
        if self.excluded:
            notes.append(f"{counted(self.excluded, 'entry')} excluded: no model may see what is there")
        return notes

    def left_out_note(self, remedy: str) -> list[str]:
        """The names that were left out as noise, and how to see them."""
        if not self.left_out_count:
            return []
        more = self.left_out_count - len(self.left_out)
        named = ", ".join(map(shown, self.left_out)) + (f" and {more:,} more" if more else "")
        return [f"left out as noise: {named}; {remedy}"]


def _kind_of(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else "other"
