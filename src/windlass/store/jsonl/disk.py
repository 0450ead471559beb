"""The few ways in which our own file formats touch a disk, in one place, so that tests can make them fail. An error of
a sync means that nobody knows what the disk holds; want of room means that nothing was written."""

from __future__ import annotations

import errno
import os
import pathlib

from windlass.events.errors import StorageFull, StoreError, StorePoisoned, UsageError

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
"""Who may read a store: its owner."""
PLAIN = os.O_NOFOLLOW | os.O_CLOEXEC
"""How every file is opened: never through a link that somebody has put in its place."""
FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
SHORT_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What the system says when this process or the machine has no more files or memory, whatever was asked for."""


class Disk:
    """Plain files, which can perhaps only be read. Subclass it to inject faults."""

    def __init__(self, *, read_only: bool = False) -> None:
        self.syncs = 0
        self.read_only = read_only

    def open_file(self, path: pathlib.Path) -> int:
        """A file that is there, to be read and written."""
        return os.open(path, (os.O_RDONLY if self.read_only else os.O_RDWR) | PLAIN)

    def make_folder(self, path: pathlib.Path) -> list[pathlib.Path]:
        """A folder for its owner alone, and those above it; one that is there stays as it is. Gives the folders that
        must be synced for the new ones to last."""
        self._refuse_reading()
        try:
            os.mkdir(path, PRIVATE_FOLDER)
        except FileExistsError:
            return []
        except FileNotFoundError:
            return [*self.make_folder(path.parent), *self.make_folder(path)]
        return [path.parent]

    def remove(self, path: pathlib.Path) -> None:
        """Removes a file, if it is there."""
        self._refuse_reading()
        path.unlink(missing_ok=True)

    def _refuse_reading(self) -> None:
        if self.read_only:
            raise UsageError("this store can only be read: copy it to where it can be written")

    def write_at(self, handle: int, data: bytes, offset: int) -> None:
        """Writes all of it, or raises and leaves the file as long as it was."""
        self._refuse_reading()
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
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | PLAIN)
        try:
            self.sync(handle)
        finally:
            os.close(handle)

    def replace(self, source: pathlib.Path, target: pathlib.Path) -> None:
        os.replace(source, target)

    def create(self, path: pathlib.Path) -> int:
        """A new empty file in the place of whatever had this name; a link is removed, not followed."""
        self._refuse_reading()
        while True:
            try:
                return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN, PRIVATE_FILE)
            except FileExistsError:
                self.remove(path)

    def put(self, path: pathlib.Path, data: bytes, *, sync: bool) -> None:
        """Makes or replaces a small file as a whole: a reader sees the old one or the new one."""
        part = path.with_name(path.name + ".part")
        handle = self.create(part)
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
