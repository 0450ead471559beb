"""What walks over a tree leave out: noise by name, and what .gitignore files name.

Never a matter of safety: whatever is left out can still be asked for by its path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from .glob_patterns import PATTERN_CHARS_MAX, Pattern
from .root import Refusal, Root

NOISE = frozenset(
    {".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", ".tox", ".nox", ".mypy_cache", ".ruff_cache"}
    | {".pytest_cache", ".hypothesis", ".DS_Store", ".gradle", ".terraform", ".next", ".turbo"}
)
"""Names that are left out unless asked for."""

RULES_FILE = ".gitignore"
RULES_BYTES_MAX = 64 * 1024
RULES_CHARS_MAX = 32 * 1024
"""How much of rules is heeded at once, with those of the directories above: each name is held against all of them."""


class Rule(NamedTuple):
    """One line of a file of rules."""

    pattern: Pattern
    anchored: bool
    folders_only: bool
    kept: bool

    def covers(self, names: Sequence[str], folder: bool) -> bool:
        return (folder or not self.folders_only) and self.pattern.matches(names if self.anchored else names[-1:])


class Ignores:
    """What is left out below one directory. Each directory may add rules of its own; the nearest one decides."""

    def __init__(
        self,
        noise: frozenset[str],
        *,
        files: bool,
        rules: Sequence[Rule] = (),
        depth: int = 0,
        above: Ignores | None = None,
        chars: int = 0,
        cut: bool = False,
    ) -> None:
        self._noise = noise
        self._files = files
        self._rules = rules
        self._depth = depth
        self._above = above
        self._chars = chars
        self.cut = cut
        """Whether there were more rules than are heeded."""

    def covers(self, names: Sequence[str], *, folder: bool) -> bool:
        """Whether a path is left out; `names` are its components from the root."""
        if names[-1] in self._noise:
            return True
        level: Ignores | None = self
        while level is not None:
            below = names[level._depth :]
            for rule in reversed(level._rules):
                if rule.covers(below, folder):
                    return not rule.kept
            level = level._above
        return False

    def within(self, root: Root, folder: int, depth: int) -> Ignores:
        """The same with the rules of an open directory, `depth` names below the root."""
        if not self._files:
            return self
        rules, chars, cut = parsed(_rules_in(root, folder), RULES_CHARS_MAX - self._chars)
        if not rules and not cut:
            return self
        return Ignores(
            self._noise, files=True, rules=rules, depth=depth, above=self, chars=self._chars + chars, cut=cut
        )

    def on_the_way(self, root: Root, names: Sequence[str]) -> Ignores:
        """The rules that hold in a directory, from the root down. Nothing is left out of one that was named although
        the rules cover it."""
        ignores = self
        for depth in range(len(names)):
            if ignores.covers(names[: depth + 1], folder=True):
                return Ignores(frozenset(), files=False)
            try:
                with root.folder("/".join(names[:depth]) or ".") as folder:
                    ignores = ignores.within(root, folder, depth)
            except Refusal:
                return ignores
        return ignores


def _rules_in(root: Root, folder: int) -> str:
    try:
        fd = root.child_file(folder, RULES_FILE)
    except OSError:
        return ""
    try:
        return os.read(fd, RULES_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def parsed(text: str, chars_max: int = RULES_CHARS_MAX) -> tuple[list[Rule], int, bool]:
    """The rules of a .gitignore file as far as they fit, how long they are together, and whether there are more."""
    rules: list[Rule] = []
    chars = 0
    for line in text.splitlines():
        rule = line.rstrip()
        kept = rule.startswith("!")
        rule = rule[1:] if kept else rule
        if not rule or rule.startswith("#") or len(rule) > PATTERN_CHARS_MAX:
            continue
        rule = rule[1:] if rule.startswith(("\\#", "\\!")) else rule
        body = rule.rstrip("/")
        if not body:
            continue
        chars += len(body)
        if chars > chars_max:
            return rules, chars - len(body), True
        rules.append(Rule(Pattern(body), "/" in body, rule.endswith("/"), kept))
    return rules, chars, False
