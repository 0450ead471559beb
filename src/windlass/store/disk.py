"""The few ways in which our own file formats touch a disk, in one place, so that tests can make them fail. An error of
a sync means that nobody knows what the disk holds; want of room means that nothing was written."""

from __future__ import annotations

import errno
import os
import pathlib

from windlass.events.errors import StorageFull, StoreError, StorePoisoned

FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Disk:
    """Plain files. Subclass it to inject faults."""

    def __init__(self) -> None:
        self.syncs = 0

    def write_at(self, handle: int, data: bytes, offset: int) -> None:
        """Writes all of it, or raises and leaves the file as long as it was."""
        view = memoryview(data)
        done = 0
        try:
            while done < len(data):
                done += self.pwrite(handle, view[done:], offset + done)
        except OSError as error:
            self._cut_back(handle, offset)
            raise disk_error(error) from error

    def _cut_back(self, handle: int, size: int) -> None:
        try:
            self.truncate(handle, size)
        except OSError as error:
            raise StorePoisoned(
                f"a half-written record could not be cut off ({error}): open the store again"
            ) from error

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        return os.pwrite(handle, data, offset)

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def sync(self, handle: int) -> None:
        """Raises `StorePoisoned` if the data may not have reached the disk."""
        self.syncs += 1
        try:
            self.fdatasync(handle)
        except OSError as error:
            raise StorePoisoned(
                f"a sync to disk failed ({error}): close the store, check the disk, open it again"
            ) from error

    def fdatasync(self, handle: int) -> None:
        os.fdatasync(handle)

    def sync_directory(self, path: pathlib.Path) -> None:
        """Makes names in a directory last."""
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sync(handle)
        finally:
            os.close(handle)

    def replace(self, source: pathlib.Path, target: pathlib.Path) -> None:
        os.replace(source, target)

    def put(self, path: pathlib.Path, data: bytes, *, sync: bool) -> None:
        """Makes or replaces a small file as a whole: a reader sees the old one or the new one."""
        part = path.with_name(path.name + ".part")
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            self.write_at(handle, data, 0)
            if sync:
                self.sync(handle)
        finally:
            os.close(handle)
        try:
            self.replace(part, path)
        except OSError as error:
            raise disk_error(error) from error


def disk_error(error: OSError) -> StoreError:
    """What an error of the file system means to a caller of the store."""
    if error.errno in FULL_ERRNOS:
        return StorageFull(f"no room on the disk: {error}")
    if error.errno == errno.EIO:
        return StorePoisoned(f"the disk failed ({error}): close the store, check the disk and open it again")
    return StoreError(f"the file system refused: {error}")
