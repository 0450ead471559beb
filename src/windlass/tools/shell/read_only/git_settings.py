"""Whether a repository's own settings name programs that git runs while it only reads: filters, drivers for
differences, remotes that missing objects are fetched from. They belong to whoever made the repository: to anybody."""

from __future__ import annotations

import os
import re

CONFIG_BYTES_MAX = 64 * 1024
SECTION = re.compile(r"^\s*\[\s*([\w.-]+)", re.MULTILINE)
HARMLESS = frozenset(
    (
        *("core", "remote", "branch", "user", "author", "committer", "color", "column", "pull", "push", "init", "gc"),
        *("rebase", "fetch", "merge", "commit", "tag", "advice", "status", "log", "rerere", "feature", "maintenance"),
        *("extensions", "index", "pack", "receive", "transfer", "http", "https", "credential", "url"),
    )
)
"""Sections in which nothing is named that reading runs, what is turned off by the environment aside."""
RUNS = re.compile(r"promisor|partialclone|uploadpack|vcs|worktreeconfig", re.IGNORECASE)
"""Settings of those sections that reading may act upon all the same: a missing object is fetched by a program."""


def names_programs(folder: str | None) -> bool:
    """Whether git may run something in a folder that its repository names, or nobody can say."""
    try:
        places = _settings(os.path.abspath(folder or os.getcwd()))
        return any(map(_names_programs, places))
    except (OSError, ValueError):
        return True


def _settings(folder: str) -> list[str]:
    """The files that the repository around a folder is set up by. Raises `ValueError` if it has more of them than are
    looked at."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return []
        folder = above
    own = os.path.join(folder, ".git")
    if os.path.isfile(own):  # a worktree, or a submodule
        own = os.path.join(folder, _line(own).removeprefix("gitdir:").strip())
    common = own
    if os.path.exists(os.path.join(own, "commondir")):
        common = os.path.join(own, _line(os.path.join(own, "commondir")))
    if os.path.exists(os.path.join(common, "modules")) or os.path.exists(os.path.join(own, "modules")):
        raise ValueError("submodules have settings of their own")
    return [os.path.join(common, "config"), os.path.join(own, "config.worktree")]


def _line(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read(4_096).strip()


def _names_programs(path: str) -> bool:
    if not os.path.lexists(path):
        return False
    with open(path, encoding="utf-8") as file:
        text = file.read(CONFIG_BYTES_MAX + 1)
    sections = {name.partition(".")[0].lower() for name in SECTION.findall(text)}
    return len(text) > CONFIG_BYTES_MAX or not sections <= HARMLESS or RUNS.search(text) is not None
