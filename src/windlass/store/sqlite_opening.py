"""How the SQLite file is opened: its connections, the making of a new one, and why one cannot be used. Opening a store
that is there writes nothing."""

from __future__ import annotations

import os
import pathlib
import time

import apsw

from windlass.events.errors import Damaged, StoreError, UsageError, WindlassError

from .sqlite_schema import APPLICATION_ID, BUSY_TIMEOUT_MS, SCHEMA, SCHEMA_VERSION, store_error

RETRY_S = 0.005
"""How long to rest between two tries to switch a new file to WAL, while others try the same."""
_EFFECTIVE = os.access in os.supports_effective_ids


def connect(path: pathlib.Path, *, write: bool, vfs: str | None = None) -> apsw.Connection:
    """A connection with our settings. Writers never checkpoint by themselves: that is done when nobody waits."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if write else 0)
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.execute("PRAGMA foreign_keys = ON")
    if write:
        connection.wal_autocheckpoint(0)
    else:
        connection.execute("PRAGMA query_only = ON")
    return connection


def open_for_writing(path: pathlib.Path, vfs: str | None) -> apsw.Connection:
    """The writer's connection, to a file with our tables. Raises `UsageError` with the way out where the path is no
    place for a store, and for a file that is not ours or from a newer version, which is left untouched."""
    connection: apsw.Connection | None = None
    try:
        connection = connect(path, write=True, vfs=vfs)
        if connection.readonly("main"):
            raise UsageError(_why_not(path, "it can only be read"))
        _prepare(connection, path)
    except BaseException as error:
        meaning = _meaning(error, connection, path)
        if connection is not None:
            connection.close(True)
        if meaning is not None:
            raise meaning from error
        raise
    return connection


def _meaning(error: BaseException, connection: apsw.Connection | None, path: pathlib.Path) -> WindlassError | None:
    """What a failure of SQLite says of a file that cannot be opened. Asked before the connection is closed, which alone
    knows whether the disk is full."""
    if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError):
        return UsageError(_why_not(path, str(error)))
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Damaged(f"{str(path)!r} is damaged ({error}): put back a copy of it, or give another path")
    return store_error(error, connection) if isinstance(error, apsw.Error) else None


def _prepare(connection: apsw.Connection, path: pathlib.Path) -> None:
    """Makes the tables in a new file. Of several that open it at once one does, and the others wait for it."""
    new = _looked_at(connection, path)
    _use_wal(connection, path)
    if not new:
        return
    connection.execute("PRAGMA synchronous = FULL")
    # Not `with connection`: that waits for the lock without letting other threads run, also the one that has it.
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Looked at again within the transaction: another process may have made the tables meanwhile.
        created = _is_new(connection, path)
        if created:
            connection.execute(SCHEMA)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if created:
        # SQLite syncs the directory for its journals, not for the new file itself.
        sync_directory(path.parent)


def _looked_at(connection: apsw.Connection, path: pathlib.Path) -> bool:
    """Whether the file is new, at one moment: between two looks another may have made the tables."""
    connection.execute("BEGIN")
    try:
        return _is_new(connection, path)
    finally:
        # What went wrong may have ended the transaction already, and is what the caller needs to hear of.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_new(connection: apsw.Connection, path: pathlib.Path) -> bool:
    application, version = int(connection.pragma("application_id")), int(connection.pragma("user_version"))
    if application == 0 and version == 0 and not connection.execute("SELECT 1 FROM sqlite_schema").fetchall():
        return True
    _check_identity(path, application, version)
    return False


def _check_identity(path: pathlib.Path, application: int, version: int) -> None:
    if application != APPLICATION_ID:
        raise UsageError(f"{str(path)!r} is an SQLite database of another program: give another path")
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"{str(path)!r} was written by a newer windlass (schema {version}, this one knows {SCHEMA_VERSION}): "
            "upgrade windlass to open it"
        )


def _use_wal(connection: apsw.Connection, path: pathlib.Path) -> None:
    """Switches the file to WAL mode, which is nothing to do where it is already. Two that do it at once would wait for
    each other, so SQLite refuses one without waiting: that one tries again."""
    until = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            mode = connection.pragma("journal_mode", "WAL")
        except apsw.BusyError:
            if time.monotonic() >= until:
                raise
            time.sleep(RETRY_S)
            continue
        if mode != "wal":
            raise StoreError(f"{str(path)!r} cannot be used in WAL mode: keep it on a local disk")
        return


def sync_directory(path: pathlib.Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _why_not(path: pathlib.Path, said: str) -> str:
    """What is wrong with a path at which SQLite opens nothing to write to, and what to do."""
    folder = path.parent
    if os.path.isdir(path):
        return f"{str(path)!r} is a folder, not an SQLite file: give the path of a file in it, or another path"
    if not os.path.lexists(folder):
        return f"there is no folder {str(folder)!r} for the store {path.name!r}: make it, or give another path"
    if not os.path.isdir(folder):
        return f"{str(folder)!r} is no folder, so the store {path.name!r} cannot be in it: give another path"
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return f"{str(path)!r} is on a file system that can only be read: give a path on one that can be written"
    if os.path.exists(path) and not _may(path, os.R_OK | os.W_OK):
        return f"this user may not read and write {str(path)!r}: change its permissions, or give another path"
    if not _may(folder, os.W_OK | os.X_OK):
        return f"this user may not make files in {str(folder)!r}: change its permissions, or give another path"
    return f"{str(path)!r} cannot be opened as a store ({said}): check the path, or give another"


def _may(path: pathlib.Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=_EFFECTIVE)
