"""What may lie in a store's folders: files and folders of our own, never a link or a device that leads elsewhere. A
folder may have come with a repository or an archive, and was then put together by somebody else."""

from __future__ import annotations

import os
import pathlib
import stat

from windlass.events.errors import UsageError


def refuse_links(root: pathlib.Path, path: pathlib.Path) -> None:
    """Raises `UsageError` if the way from the root of a store to a path leads through a link."""
    for one in (path, *path.parents):
        if one == root:
            return
        try:
            mode = os.lstat(one).st_mode
        except OSError:
            continue  # it is not there yet
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            raise _odd(one)


def refuse_odd(folder: pathlib.Path) -> None:
    """The same for all that lies in a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_file(follow_symlinks=False) and not entry.is_dir(follow_symlinks=False):
                raise _odd(pathlib.Path(entry.path))


def _odd(path: pathlib.Path) -> UsageError:
    return UsageError(
        f"{str(path)!r} is no file or folder of a store, but a link or a device: this store was not made by windlass. "
        "Give another path"
    )
