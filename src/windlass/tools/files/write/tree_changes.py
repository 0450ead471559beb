"""Directories made, moved and removed, and files moved: what would happen, and its doing.

Nothing is ever replaced by a move, and only what is empty is removed, so that there is nothing to lose."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from windlass.tools.context import ToolContext
from windlass.tools.files.protected_names import Found
from windlass.tools.files.root import FOLDER, Refusal, Root
from windlass.tools.files.shown_names import counted, shown

from . import temporary_files
from .call_descriptions import Planned
from .change_plan import CONTENT_BYTES_MAX, current, digest
from .commit import Stale, lock_of
from .places import Place

ENTRIES_MAX = 10_000
"""What is looked at in a directory that is to be moved; a larger one is not moved."""


def is_directory(root: Root, path: str) -> bool:
    """Whether a path is a directory now, reached through no link."""
    place = Place(root, path)
    try:
        with place.opened() as folder:
            about = place.about(folder)
    except Refusal:
        return False
    return about is not None and stat.S_ISDIR(about.st_mode)


# --- make ---


def planned_directory(root: Root, path: str) -> Planned:
    """A directory that is to be made."""
    place = Place(root, path)
    place.check(folder=True)
    if not is_directory(root, path):
        _nothing_at(place)
    return Planned("make the directory", [place], basis="")


def make_directory(ctx: ToolContext, root: Root, path: str) -> str:
    """Makes it; one that is there is as good."""
    place = Place(root, path)
    place.check(folder=True)
    with lock_of(root), place.opened(make=True) as folder:
        try:
            os.mkdir(place.name, dir_fd=folder)
        except FileExistsError:
            if is_directory(root, path):
                return f"{shown(place.path)} is there already"
            raise Refusal(f"there is already a file at {shown(path)}", code="already_there") from None
        except OSError as error:
            raise place.refused(error) from None
        os.fsync(folder)
    return f"made {shown(place.path)}/"


# --- remove ---


def planned_removal(root: Root, path: str) -> Planned:
    """A directory that is to go."""
    place = Place(root, path)
    place.check(folder=True)
    with place.opened() as folder:
        about = place.about(folder)
        if about is not None and any(_entries(place, folder)):
            raise Refusal(f"{shown(path)} is not empty", code="not_empty", hint="remove what is in it first")
    return Planned("remove the empty directory", [place], basis=_identity(about))


def remove_directory(ctx: ToolContext, root: Root, path: str) -> str:
    """Removes one that is empty."""
    place = Place(root, path)
    place.check(folder=True)
    with lock_of(root), place.opened() as folder:
        about = place.about(folder)
        if about is None and ctx.attempt > 1:
            return f"removed {shown(place.path)}/"
        if ctx.basis and ctx.basis != _identity(about):
            raise Stale(path)
        try:
            os.rmdir(place.name, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise Refusal(f"{shown(path)} is not empty", code="not_empty") from None
            raise place.refused(error) from None
        os.fsync(folder)
    return f"removed {shown(place.path)}/"


# --- move ---


def planned_move(root: Root, path: str, to: str) -> Planned:
    """Something that is to get another name."""
    source, target, about = _movable(root, path, to)
    kind = "directory" if stat.S_ISDIR(about.st_mode) else "file"
    diff = f"rename from {shown(source.path)}\nrename to {shown(target.path)}\n"
    asked = _asked_inside(source, target) if kind == "directory" else None
    return Planned(f"move the {kind} to {target.shown_whole}", [source, target], diff, _identity(about), asked=asked)


def _asked_inside(source: Place, target: Place) -> Found | None:
    """Why a directory may not be moved unasked: its own names, and those in it, before and after."""
    with source.opened() as folder:
        inside = list(_entries(source, folder))
    for place in (source, target):
        below = (Place(place.root, f"{place.path}/{name}").protection() for name in inside)
        protection = place.protection(folder=True) or next((one for one in below if one is not None), None)
        if protection is not None:
            return protection
    return None


def _movable(root: Root, path: str, to: str) -> tuple[Place, Place, os.stat_result]:
    """The two places, and what is at the first. Raises `Refusal` for what may not be moved, or not there."""
    source, target = Place(root, path), Place(root, to)
    folder_moves = is_directory(root, path)
    source.check(folder=folder_moves)
    target.check(folder=folder_moves)
    with source.opened() as folder:
        about = source.about(folder)
        if about is None:
            raise Refusal(f"there is no {shown(path)}", code="not_found", hint="use list or glob to see what is there")
        if not stat.S_ISDIR(about.st_mode):
            source.check_kind(about, folder)
        else:
            _check_inside(source, target, folder)
    _nothing_at(target)
    return source, target, about


def _check_inside(source: Place, target: Place, folder: int) -> None:
    """Raises `Refusal` if something in a directory may not be moved, or not to where it would be then."""
    if target.names[: len(source.names)] == source.names:
        raise Refusal(f"{shown(source.path)} cannot be moved into itself", code="not_written")
    for count, below in enumerate(_entries(source, folder), start=1):
        if count > ENTRIES_MAX:
            told = f"{shown(source.path)} holds more than {counted(ENTRIES_MAX, 'entry')}"
            raise Refusal(f"{told}, which is more than these tools move", code="too_large")
        Place(source.root, f"{source.path}/{below}").check()
        Place(source.root, f"{target.path}/{below}").check()


def _entries(place: Place, folder: int, below: str = "", fd: int | None = None) -> Iterator[str]:
    """The paths of all that is in a directory, relative to it; links are named and not followed."""
    here = os.open(place.name, FOLDER | os.O_NOFOLLOW, dir_fd=folder) if fd is None else fd
    try:
        with os.scandir(here) as entries:
            for entry in entries:
                yield below + entry.name
                if entry.is_dir(follow_symlinks=False):
                    inner = os.open(entry.name, FOLDER | os.O_NOFOLLOW, dir_fd=here)
                    yield from _entries(place, folder, f"{below}{entry.name}/", inner)
    finally:
        os.close(here)


def _nothing_at(place: Place) -> None:
    try:
        with place.opened() as folder:
            about = place.about(folder)
    except Refusal as error:
        if error.code == "not_found":
            return
        raise
    if about is not None:
        raise Refusal(f"there is already something at {shown(place.path)}", code="already_there")


def move(ctx: ToolContext, root: Root, path: str, to: str) -> str:
    """Moves it. A second attempt that finds it moved already is as good."""
    source, target = Place(root, path), Place(root, to)
    with lock_of(root):
        if ctx.attempt > 1 and ctx.basis and ctx.basis == _identity_at(target):
            return _moved(ctx, source, target)
        source, target, about = _movable(root, path, to)
        if ctx.basis and ctx.basis != _identity(about):
            raise Stale(path)
        if stat.S_ISREG(about.st_mode) and about.st_size <= CONTENT_BYTES_MAX and ctx.keeps:
            data = current(source)[0]
            ctx.wait(ctx.keep([(source.shown_whole, data, None), (target.shown_whole, None, data)]))
        with source.opened() as folder, target.opened(make=True) as new_folder:
            try:
                temporary_files.put_new(folder, source.name, new_folder, target.name)
            except OSError as error:
                raise target.refused(error) from None
            os.fsync(folder)
            os.fsync(new_folder)
        return _moved(ctx, source, target)


def _moved(ctx: ToolContext, source: Place, target: Place) -> str:
    content: str | None = None
    if not is_directory(target.root, target.path):
        try:
            content = digest(current(target)[0])
        except Refusal:
            content = None  # too large to be known by its content
    ctx.changed(source.whole, "delete", before=content)
    ctx.changed(target.whole, "create", after=content)
    return f"moved {shown(source.path)} to {shown(target.path)}"


def is_identity(basis: str) -> bool:
    """Whether what a call rests on is which thing it is, and not what that holds."""
    return bool(basis) and not basis.startswith("[")


def _identity_at(place: Place) -> str:
    try:
        with place.opened() as folder:
            return _identity(place.about(folder))
    except Refusal:
        return ""


def _identity(about: os.stat_result | None) -> str:
    """Which thing it is, as far as a move does not change it."""
    if about is None:
        return ""
    changed = "" if stat.S_ISDIR(about.st_mode) else f":{about.st_size}:{about.st_mtime_ns}"
    return f"{about.st_dev}:{about.st_ino}{changed}"
