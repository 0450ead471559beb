"""Names at the top of a folder that a confined process may not write, though it may write all around them: settings and
hooks that other programs obey or run, outside of any sandbox.

What is there is held (a kind mounts it read-only). What is not there cannot be held without leaving something of ours
in the folder, so it is looked for afterwards: whatever appeared under such a name is given another one.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator

from windlass.events.values.blocks import Value
from windlass.tools.files.protected_names import PLACES, PROTECTED

from .visible_paths import beneath

VERSION_CONTROL = (".git", "git~1", ".hg", ".svn", ".jj")
"""Folders that programs must be able to write to work at all; what decides over others is guarded within them."""
WITHIN_THEM = (
    ".git/hooks", ".git/config", ".git/config.worktree", ".git/info/attributes", ".git/commondir", ".hg/hgrc",
    ".jj/repo/config.toml",
)  # fmt: skip
WITHIN_EACH = ("config", "config.worktree", "hooks", "info/attributes", "commondir")
"""The same within the repository of a submodule: git obeys it whenever somebody asks for the state of the outer one."""
MODULES = ".git/modules"
MODULES_MAX = 64
MODULES_SEEN_MAX = 4_096
STORES = ("windlass.db*", "*.jsonl.d")
ABSENT = (FileNotFoundError, NotADirectoryError, PermissionError)
"""What is said of a folder that is not there, or that a command cannot look into either. Any other error means that
nobody knows what must be held."""
RUN_UNASKED = (
    ".envrc", ".vscode", ".idea", ".devcontainer", ".devcontainer.json", ".husky", ".pre-commit-config.yaml",
    ".github/workflows", ".github/actions", ".gitlab-ci.yml", ".mise.toml", ".claude", ".cursor",
)  # fmt: skip
"""Of those that a person may allow: what others run without asking. The rest of them a command may write."""


def guarded_patterns() -> tuple[str, ...]:
    """The names, with at most one `*` in each."""
    never = [name for entry in PROTECTED if entry.action == "deny" for name in entry.patterns]
    return (*WITHIN_THEM, *(name for name in never if name not in (*VERSION_CONTROL, *STORES)), *RUN_UNASKED)


class Guarded(Value, frozen=True, kw_only=True):
    """The guarded names of one folder, each as its path beneath that."""

    root: str = ""
    pinned: tuple[str, ...] = ()
    """Folders above what is held: they must not be moved aside with it."""
    held: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    """What this process itself writes meanwhile, such as a store: it can be mounted read-only, but never put back."""


def guarded_names(root: str, granted: tuple[str, ...] = ()) -> Guarded:
    """What is guarded in a folder now, but for what somebody granted. Raises `OSError` if that cannot be found out."""
    existing_names: list[str] = []
    absent: list[str] = []
    for pattern in dict.fromkeys((*guarded_patterns(), *_of_submodules(root))):
        above = _folders_above(pattern)
        if any(os.path.islink(os.path.join(root, each)) for each in above):
            continue  # it lies elsewhere: what is reached by a link of the owner's is not ours to hold
        names = [name for name in _fitting(root, pattern) if not _is_granted(root, name, granted)]
        existing_names += names
        if ("*" in pattern or not names) and not _is_granted(root, pattern, granted):
            absent.append(pattern)
    if os.path.isfile(os.path.join(root, ".git")) and not _is_granted(root, ".git", granted):
        existing_names.append(".git")  # a worktree's: it names the folder that settings and hooks are taken from
    held: list[str] = []
    for name in sorted(dict.fromkeys(existing_names), key=len):
        if not any(beneath(name, other) for other in held) and not os.path.islink(os.path.join(root, name)):
            held.append(name)
    pinned = dict.fromkeys(above for name in held for above in _folders_above(name))
    outer = [name for name in absent if not any(beneath(name, other) and name != other for other in held)]
    return Guarded(
        root=root,
        pinned=tuple(sorted(pinned, key=len)),
        held=tuple(held),
        absent=tuple(outer),
        live=tuple(dict.fromkeys(_live(root))),
    )


def _of_submodules(root: str) -> Iterator[str]:
    """The names that are guarded in the repositories of submodules, and all of these at once if they are too many."""
    places, todo, seen = list[str](), [MODULES], 0
    while todo:
        folder = todo.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                inner = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
                is_one = folder != MODULES and os.path.lexists(os.path.join(root, folder, "HEAD"))
        except ABSENT:
            continue
        seen += len(inner)
        if is_one:
            places.append(folder)
            inner = [name for name in inner if name == "modules"]
        if len(places) > MODULES_MAX or seen > MODULES_SEEN_MAX:
            yield MODULES
            return
        todo += (f"{folder}/{name}" for name in inner)
    for place in places:
        yield from (f"{place}/{name}" for name in WITHIN_EACH)


def _live(root: str) -> Iterator[str]:
    for pattern in STORES:
        yield from _fitting(root, pattern)
    for place in PLACES.all():
        if place != root and beneath(place, root) and os.path.lexists(place):
            yield os.path.relpath(place, root)


def _fitting(root: str, pattern: str) -> list[str]:
    """What is there under a name, or under those that it stands for."""
    if "*" not in pattern:
        return [pattern] if os.path.lexists(os.path.join(root, pattern)) else []
    folder, base = os.path.split(pattern)
    try:
        names = os.listdir(os.path.join(root, folder))
    except ABSENT:
        return []
    return [os.path.join(folder, name) for name in names if fnmatch.fnmatchcase(name, base)]


def _is_granted(root: str, name: str, granted: tuple[str, ...]) -> bool:
    return any(beneath(os.path.join(root, name), one) for one in granted)


def _folders_above(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
