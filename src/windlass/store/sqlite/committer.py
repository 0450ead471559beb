"""The writing end of the SQLite store: one connection, one transaction for a group of jobs, and the checkpoints."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import apsw

from windlass.events.errors import StoreError, StorePoisoned, WindlassError
from windlass.store.base import Durability
from windlass.store.group_commit import Job

from .connections import open_for_writing, sync_directory
from .schema import BUSY_TIMEOUT_MS, store_error

CHECKPOINT_PAGES = 2_000
"""The log file is folded back into the database when it holds this many pages (8 MB)."""


class SqliteCommitter:
    """Owns the only connection of this process that writes. After a failed sync it never writes again."""

    def __init__(self, path: pathlib.Path, durability: Durability, vfs: str | None, stats: dict[str, int]) -> None:
        self._durability = durability
        self._stats = stats
        self.poison: StorePoisoned | None = None
        self._wal_pages = 0
        self._scrub = False
        self._connection = open_for_writing(path, vfs)
        self._connection.set_wal_hook(self._note_wal)
        self._cursor = self._connection.cursor()
        self._synchronous = ""
        self._wal = path.with_name(f"{path.name}-wal")
        self._wal_fd = -1
        # A file system of another kind must see every sync itself.
        apart = vfs is None and hasattr(os, "fdatasync")
        self.sync_apart: Callable[[], WindlassError | None] | None = self._sync_wal if apart else None
        self.others = 0
        """SQLite's number for what was committed by others, as this connection saw it last."""

    def commit(self, jobs: list[Job[apsw.Cursor]], *, wait: bool) -> bool:
        """One transaction for all jobs. If it fails as a whole, each is tried alone: one that does not fit on the
        disk must not take the others with it."""
        self._connection.set_busy_timeout(BUSY_TIMEOUT_MS if wait else 0)
        error = self.poison or self._transact(jobs, wait=wait)
        if error is None:
            return True
        if not wait and isinstance(error.__cause__, apsw.BusyError):
            _forget(jobs)
            return False
        if len(jobs) > 1 and not isinstance(error, StorePoisoned):
            for job in jobs:
                _forget([job])
                job.error = self.poison or self._transact([job], wait=wait) or job.error
            return True
        for job in jobs:
            job.error = error
        return True

    def _transact(self, jobs: list[Job[apsw.Cursor]], *, wait: bool) -> WindlassError | None:
        cursor = self._cursor
        apart = not wait and self.sync_apart is not None
        full = not apart and (self._durability == "full" or any(job.barrier for job in jobs))
        try:
            self._set_synchronous(full)
            before = self._connection.total_changes()
            cursor.execute("BEGIN IMMEDIATE")
            if wait:
                self._note_others()  # in the thread, which may be at work whenever somebody looks
            for job in jobs:
                try:
                    job.result = job.work(cursor, *job.args)
                except WindlassError as refusal:
                    job.error = refusal
            cursor.execute("COMMIT")
        except Exception as error:  # also a value of a wrong type in one job must not leave the transaction open
            return self._rolled_back(error)
        self._stats["commits"] += 1
        self._stats["group_max"] = max(self._stats["group_max"], len(jobs))
        if full and self._connection.total_changes() != before:
            self._stats["syncs"] += 1
        return None

    def _sync_wal(self) -> WindlassError | None:
        """Syncs the log file, which holds every commit that no checkpoint has synced. A commit that was made without a
        sync is then as safe as one with."""
        if self.poison is None:
            try:
                if self._wal_fd < 0:
                    self._wal_fd = os.open(self._wal, os.O_RDONLY)
                    sync_directory(self._wal.parent)  # it may be a new file
                os.fdatasync(self._wal_fd)
            except OSError as error:
                self.poison = StorePoisoned(
                    f"a sync to disk failed ({error}): close the store, check the disk and open it again"
                )
            else:
                self._stats["syncs"] += 1
        return self.poison

    def look(self) -> None:
        """Notices what others have committed, between two commits of ours."""
        self._connection.set_busy_timeout(0)
        try:
            self._note_others()
        except apsw.BusyError:
            return  # the next look will see it
        except apsw.Error as error:
            raise store_error(error, self._connection) from error

    def _note_others(self) -> None:
        # The number changes with commits of other connections alone, and only this one writes in this process.
        self.others = int(self._connection.pragma("data_version"))

    def _rolled_back(self, error: Exception) -> WindlassError:
        if isinstance(error, apsw.Error):
            meaning = store_error(error, self._connection)
        else:
            meaning = StoreError(f"the write could not be done: {error!r}")
        meaning.__cause__ = error
        if isinstance(meaning, StorePoisoned):
            self.poison = meaning
        if self._connection.in_transaction:
            try:
                self._cursor.execute("ROLLBACK")
            except apsw.Error as second:
                self.poison = StorePoisoned(f"a transaction could not be rolled back ({second}): open the store again")
        return self.poison or meaning

    def _set_synchronous(self, full: bool) -> None:
        level = "FULL" if full else "NORMAL"
        if level != self._synchronous:
            self._cursor.execute(f"PRAGMA synchronous = {level}")
            self._synchronous = level

    def _note_wal(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._wal_pages = pages
        return 0

    def scrub_next(self) -> None:
        """Something was erased: empty the log file after this commit, since old copies of pages stay in it."""
        self._scrub = True

    def rest_is_due(self) -> bool:
        return self.poison is None and (self._scrub or self._wal_pages >= CHECKPOINT_PAGES)

    def rest(self) -> None:
        """A checkpoint. It is nobody's commit, so only a failed sync is of consequence."""
        try:
            mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if self._scrub else apsw.SQLITE_CHECKPOINT_PASSIVE
            self._connection.wal_checkpoint(mode=mode)
        except (apsw.BusyError, apsw.FullError):
            return  # the commits are safe in the log file; a later checkpoint will do it
        except apsw.Error as error:
            meaning = store_error(error, self._connection)
            if isinstance(meaning, StorePoisoned):
                self.poison = meaning
            return
        self._wal_pages = 0
        self._scrub = False
        self._stats["checkpoints"] += 1
        self._stats["syncs"] += 2

    def end(self) -> None:
        if self._wal_fd >= 0:
            os.close(self._wal_fd)
            self._wal_fd = -1
        try:
            self._connection.close()
        except apsw.Error as error:
            # Closing checkpoints; what was acknowledged is in the log file whether or not that works.
            self.poison = self.poison or StorePoisoned(f"closing failed: {error}")


def _forget(jobs: list[Job[apsw.Cursor]]) -> None:
    for job in jobs:
        job.result = job.error = None
