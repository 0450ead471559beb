"""Where the links of a folder lead, by their names alone: what a path is called beside the name that it is given by.

Nothing outside of the folder is looked at, and nothing is opened: to look may be to reach somebody (an automounter)."""

from __future__ import annotations

import os
import posixpath

LINKS_MAX = 40


def led_to(path: str, folder: str | None) -> str | None:
    """The other name of a whole path beneath a folder that leads through links; None for one that leads through none,
    or lies elsewhere. A link that leads out of the folder is followed no further than to where it says."""
    if folder is None or not folder.startswith("/") or not _beneath(path, folder):
        return None
    at, todo, links = folder, _names(path[len(folder) :]), 0
    while todo:
        name = todo.pop(0)
        if name == "..":
            at = posixpath.dirname(at)
        elif (target := _target(posixpath.join(at, name))) is None:
            at = posixpath.join(at, name)
        else:
            links += 1
            if links > LINKS_MAX:
                return None
            todo = _names(target) + todo
            at = "/" if target.startswith("/") else at
            if at == "/" and _beneath("/" + "/".join(todo), folder):
                at, todo = folder, todo[len(_names(folder)) :]
        if not _beneath(at, folder):
            return posixpath.normpath(posixpath.join(at, *todo))
    return at if at != posixpath.normpath(path) else None


def with_targets(paths: tuple[str, ...], folder: str | None) -> tuple[str, ...]:
    """Paths, each followed by its other name if it has one."""
    names: dict[str, None] = {}
    for path in paths:
        names[path] = None
        other = led_to(path, folder)
        if other is not None:
            names[other] = None
    return tuple(names)


def _target(path: str) -> str | None:
    """Where a link leads; None for what is none."""
    try:
        return os.readlink(path)
    except (OSError, ValueError):
        return None


def _beneath(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]
