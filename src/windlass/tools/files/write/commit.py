"""Changes that were planned, made on disk: all of them or none, as far as the disk allows.

Every new content is complete and synced under a name of its own before the first file changes; what was done is taken
back if a later one is refused. A file that is not what was planned upon is not touched.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence

from windlass.tools.files.root import Refusal, Root
from windlass.tools.files.shown_names import shown

from . import temporary_files
from .change_plan import Change

_LOCKS: dict[tuple[int, int], threading.Lock] = {}
_LOCKS_GUARD = threading.Lock()


class Stale(Refusal):
    """What is there now is not what somebody agreed to change."""

    def __init__(self, path: str) -> None:
        told = f"{shown(path)} has changed since this call was agreed to, so nothing was written"
        super().__init__(told, code="changed_meanwhile", hint="read it again, and make the call anew")


def lock_of(root: Root) -> threading.Lock:
    """One at a time changes files beneath a directory, whichever tools of this process do it."""
    fd = root.straight_folder(".")
    try:
        about = os.fstat(fd)
    finally:
        os.close(fd)
    with _LOCKS_GUARD:
        return _LOCKS.setdefault((about.st_dev, about.st_ino), threading.Lock())


def commit(changes: Sequence[Change], settled: Callable[[Change, int], None] | None = None) -> None:
    """Makes the changes; `settled` is told of each that is on disk, with its directory. Raises `Refusal`."""
    with contextlib.ExitStack() as stack:
        staged: list[tuple[Change, int, str | None]] = []
        made: list[tuple[Change, int]] = []
        try:
            for change in changes:
                folder = stack.enter_context(change.place.opened(make=change.before is None))
                temporary_files.sweep(folder)
                staged.append((change, folder, _staged(change, folder)))
            for change, folder, name in staged:
                _put(change, folder, name)
                made.append((change, folder))
        except BaseException:
            _take_back(made)
            raise
        finally:
            for _, folder, name in staged:
                if name is not None:
                    temporary_files.drop(folder, name)
        for change, folder in made:
            os.fsync(folder)
            if settled is not None:
                settled(change, folder)


def _staged(change: Change, folder: int) -> str | None:
    """The new content of a file, beside it; None if the file goes."""
    if change.after is None:
        return None
    mode = change.about.st_mode if change.about is not None else None
    try:
        return temporary_files.write_beside(folder, change.after, mode)
    except OSError as error:
        raise change.place.refused(error) from None


def _put(change: Change, folder: int, name: str | None) -> None:
    place = change.place
    try:
        if change.about is None:
            assert name is not None, "what is not there cannot be removed"
            temporary_files.put_new(folder, name, folder, place.name)
            return
        now = place.about(folder)
        if now is None or _state(now) != _state(change.about):
            raise Stale(place.path)
        if name is None:
            os.unlink(place.name, dir_fd=folder)
        else:
            os.rename(name, place.name, src_dir_fd=folder, dst_dir_fd=folder)
    except FileExistsError:
        raise Stale(place.path) from None
    except OSError as error:
        raise place.refused(error) from None


def _take_back(made: Sequence[tuple[Change, int]]) -> None:
    """Undoes what was done of a whole that cannot be done."""
    for change, folder in reversed(made):
        with contextlib.suppress(OSError):
            if change.before is None:
                os.unlink(change.place.name, dir_fd=folder)
            else:
                mode = change.about.st_mode if change.about is not None else None
                temporary_files.put(folder, change.place.name, change.before, mode)


def _state(about: os.stat_result) -> tuple[int, ...]:
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns
