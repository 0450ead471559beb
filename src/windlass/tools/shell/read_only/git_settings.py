"""Whether a repository's own settings name programs that git runs while it only reads: filters, drivers for
differences, remotes that missing objects are fetched from, submodules with settings of their own. They belong to
whoever made the repository: to anybody."""

from __future__ import annotations

import os
import re
import stat

CONFIG_BYTES_MAX = 64 * 1024
LINE_BYTES_MAX = 4_096
INDEX_BYTES_MAX = 64 * 1024 * 1024
SECTION = re.compile(r"(?:^|\])[\s\ufeff]*\[\s*([\w.-]+)", re.MULTILINE)
"""Where a section begins: on a line of its own, or right behind the name of another one."""
SUBMODULE = b"\0\0\xe0\0"
"""The mode of a submodule in an index. Git looks whether each of them was changed, by the settings of its own
repository; what the outer one is given in its environment does not reach there."""
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
        folders = _folders(os.path.abspath(folder or os.getcwd()))
        if folders is None:
            return False
        own, common = folders
        places = (os.path.join(common, "config"), os.path.join(own, "config.worktree"))
        return any(map(_names_programs, places)) or _has_submodules(own)
    except (OSError, ValueError):
        return True


def _folders(folder: str) -> tuple[str, str] | None:
    """Where the repository around a folder keeps what belongs to this worktree, and what to all of them; None if there
    is no repository. Raises `ValueError` if it has more settings than are looked at."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    own = os.path.join(folder, ".git")
    if os.path.isfile(own):  # a worktree, or a submodule
        own = os.path.join(folder, _line(own).removeprefix("gitdir:").strip())
    common = own
    if os.path.exists(os.path.join(own, "commondir")):
        common = os.path.join(own, _line(os.path.join(own, "commondir")))
    if os.path.exists(os.path.join(common, "modules")) or os.path.exists(os.path.join(own, "modules")):
        raise ValueError("submodules have settings of their own")
    return own, common


def _line(path: str) -> str:
    return _bytes(path, LINE_BYTES_MAX).decode().strip()


def _names_programs(path: str) -> bool:
    if not os.path.lexists(path):
        return False
    text = _bytes(path, CONFIG_BYTES_MAX).decode()
    sections = {name.partition(".")[0].lower() for name in SECTION.findall(text)}
    return not sections <= HARMLESS or RUNS.search(text) is not None


def _has_submodules(own: str) -> bool:
    """Whether the index of a worktree has a submodule in it. The same bytes may stand there for something else once in
    a very long while: then somebody is asked."""
    names = [name for name in os.listdir(own) if name == "index" or name.startswith("sharedindex.")]
    return any(SUBMODULE in _bytes(os.path.join(own, name), INDEX_BYTES_MAX) for name in names)


def _bytes(path: str, most: int) -> bytes:
    """What a file holds. Raises `ValueError` if it is longer, or no file: a pipe would be waited for."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        content = file.read(most + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    if content is None or len(content) > most:
        raise ValueError(f"{path!r} is no file, or a very long one")
    return content
