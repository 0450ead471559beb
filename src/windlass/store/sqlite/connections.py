"""How the SQLite file is opened: its connections, what may lie at its path, and why one cannot be used. Opening a store
that is there writes nothing, and nothing is ever reached through a link that somebody has put in its place."""

from __future__ import annotations

import errno
import os
import pathlib
import stat
import struct
import tempfile

import apsw

from windlass.events.errors import Damaged, StorageFull, StoreError, UsageError, WindlassError
from windlass.store.rules.rights import may

from .new_file import beside, make, sync_directory
from .schema import APPLICATION_ID, BUSY_TIMEOUT_MS, SCHEMA_VERSION, store_error

__all__ = [
    "connect",
    "is_writable",
    "open_for_reading",
    "open_for_writing",
    "readable",
    "refuse_missing",
    "resolved",
    "sync_directory",
]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_WAL_INDEX = struct.Struct("=12xB3xI76xI")
"""Of SQLite's index of the log file: whether it was written, the pages of the log, and how many are folded back."""


def resolved(path: pathlib.Path) -> pathlib.Path:
    """The path with the links of its folder followed, which are the user's own. The file itself must be none."""
    return path.parent.resolve() / path.name


def connect(path: pathlib.Path, *, write: bool, vfs: str | None = None) -> apsw.Connection:
    """A connection with our settings. Writers never checkpoint by themselves: that is done when nobody waits."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.execute("PRAGMA foreign_keys = ON")
    # Else SQLite prepares some statements anew whenever values are bound to them, which takes longer than to run them.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    if write:
        connection.wal_autocheckpoint(0)
    else:
        connection.execute("PRAGMA query_only = ON")
    return connection


def open_for_writing(path: pathlib.Path, vfs: str | None) -> apsw.Connection:
    """The writer's connection, to a file with our tables, which is made if there is none. Raises `UsageError` with
    the way out if the path is no place for a store, and for a file that is not ours or from a newer version, which is
    left untouched; `Damaged` for one that is empty, or without the log file that it needs."""
    if not os.path.lexists(path):
        _made(path, vfs)
    _refuse_odd(path)
    connection: apsw.Connection | None = None
    try:
        connection = connect(path, write=True, vfs=vfs)
        if connection.readonly("main"):
            raise UsageError(_why_not(path, "it can only be read"))
        _prepare(connection, path)
    except BaseException as error:
        raise _closed(error, connection, path) from error
    return connection


def open_for_reading(path: pathlib.Path) -> apsw.Connection:
    """A connection to a file that cannot be written, such as one on read-only media. Raises as `open_for_writing`."""
    _refuse_odd(path)
    connection: apsw.Connection | None = None
    try:
        # Without a log file beside it nothing is going on there, and SQLite needs to make no files of its own.
        quiet = "" if _size(beside(path)[0]) is not None else "&immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(f"{path.as_uri()}?mode=ro{quiet}", flags=flags)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        if check_identity(connection, path) < SCHEMA_VERSION:
            raise UsageError(f"{str(path)!r} is of an older windlass: it must be written to once to be read")
    except BaseException as error:
        raise _closed(error, connection, path) from error
    return connection


def readable(path: pathlib.Path) -> tuple[tempfile.TemporaryDirectory[str] | None, pathlib.Path]:
    """A file that cannot be written, as it can be read. A killed process left its log file beside it, which SQLite must
    write to make use of: then it is a copy of both, in a folder that is to be removed."""
    log = beside(path)[0]
    if not _size(log):
        return None, path
    _refuse_odd(path)
    room = tempfile.TemporaryDirectory()
    for file in (path, log):
        (pathlib.Path(room.name) / file.name).write_bytes(file.read_bytes())
    return room, pathlib.Path(room.name) / path.name


def is_writable(path: pathlib.Path) -> bool:
    """Whether this user may write to the file, and make files beside it."""
    return may(path, os.R_OK | os.W_OK) and may(path.parent, os.W_OK | os.X_OK)


def refuse_missing(path: pathlib.Path) -> None:
    """Raises `UsageError` if there is nothing to be looked at."""
    if not os.path.lexists(path):
        raise UsageError(f"there is no store at {str(path)!r}")


def _made(path: pathlib.Path, vfs: str | None) -> None:
    try:
        make(path, vfs)
    except OSError as error:
        if error.errno in _FULL:
            raise _full(path, error) from error
        raise UsageError(_why_not(path, str(error))) from error
    except apsw.Error as error:
        raise _meaning(error, None, path) or error from error


def _closed(error: BaseException, connection: apsw.Connection | None, path: pathlib.Path) -> BaseException:
    """What to raise for a file that cannot be opened, its connection closed."""
    # Asked before the connection is closed, which alone knows whether the disk is full.
    meaning = _meaning(error, connection, path)
    if connection is not None:
        connection.close(True)
    return meaning or error


def _meaning(error: BaseException, connection: apsw.Connection | None, path: pathlib.Path) -> WindlassError | None:
    """What a failure of SQLite says of a file that cannot be opened."""
    if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError):
        return UsageError(_why_not(path, str(error)))
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.SQLError | UnicodeDecodeError):
        return Damaged(f"{str(path)!r} is damaged ({error}): put back a copy of it, or give another path")
    meaning = store_error(error, connection) if isinstance(error, apsw.Error) else None
    return _full(path, error) if isinstance(meaning, StorageFull) else meaning


def _full(path: pathlib.Path, error: BaseException) -> StorageFull:
    """Also to look at a store needs room: SQLite makes a file beside it."""
    return StorageFull(f"no room on the disk of {str(path)!r} ({error}): make some, and try again")


# --- what may lie at the path


def _refuse_odd(path: pathlib.Path) -> None:
    """Raises for a link or a device where a file must be, for an empty file, and if the log file was removed."""
    for one in (path, *beside(path)):
        try:
            mode = os.lstat(one).st_mode
        except OSError:
            continue  # SQLite says why not
        if stat.S_ISLNK(mode):
            raise UsageError(f"{str(one)!r} is a link, and a store is not reached through one: name what it leads to")
        if not stat.S_ISREG(mode) and not (one == path and stat.S_ISDIR(mode)):
            raise UsageError(f"{str(one)!r} is no ordinary file: give another path")
    if _size(path) == 0:
        raise Damaged(
            f"{str(path)!r} is empty, which no store is: put back a copy of it, or remove it to begin a new one"
        )
    _refuse_lost_log(path)


def _refuse_lost_log(path: pathlib.Path) -> None:
    """A process that ends by itself removes both the log file and its index. An index that speaks of commits which were
    never folded back, without the log that held them, is left if somebody has removed that one."""
    log, index, _ = beside(path)
    # Only then is the index looked at: to close a second handle of a file would give up SQLite's locks on it.
    if os.path.lexists(log) or not os.path.lexists(index):
        return
    try:
        head = index.read_bytes()[: _WAL_INDEX.size]
    except OSError:
        return
    if len(head) < _WAL_INDEX.size:
        return
    written, pages, folded = _WAL_INDEX.unpack(head)
    if written and pages > folded:
        raise Damaged(
            f"{str(log)!r} is missing, and with it the newest records of this store, whose process was killed: put it "
            f"back; to go on without them, remove {str(index)!r}"
        )


def _size(path: pathlib.Path) -> int | None:
    try:
        return os.lstat(path).st_size
    except OSError:
        return None


def _prepare(connection: apsw.Connection, path: pathlib.Path) -> None:
    """Looks whose file it is, and brings one of an older version up to date."""
    version = check_identity(connection, path)
    if connection.pragma("journal_mode", "WAL") != "wal":
        raise StoreError(f"{str(path)!r} cannot be used in WAL mode: keep it on a local disk")
    if version == SCHEMA_VERSION:
        return
    from .upgrade import upgrade

    connection.execute("PRAGMA synchronous = FULL")
    # Not `with connection`: that waits for the lock without letting other threads run, also the one that has it.
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Looked at again within the transaction: another process may have done it meanwhile.
        version = check_identity(connection, path)
        if version < SCHEMA_VERSION:
            upgrade(connection, version)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check_identity(connection: apsw.Connection, path: pathlib.Path) -> int:
    """The version of a file of ours. Raises `UsageError` for any other."""
    application, version = int(connection.pragma("application_id")), int(connection.pragma("user_version"))
    if application != APPLICATION_ID:
        raise UsageError(f"{str(path)!r} is an SQLite database of another program: give another path")
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"{str(path)!r} was written by a newer windlass (schema {version}, this one knows {SCHEMA_VERSION}): "
            "upgrade windlass to open it"
        )
    return version


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
    if os.path.exists(path) and not may(path, os.R_OK | os.W_OK):
        return f"this user may not read and write {str(path)!r}: change its permissions, or give another path"
    if not may(folder, os.W_OK | os.X_OK):
        return f"this user may not make files in {str(folder)!r}: change its permissions, or give another path"
    return f"{str(path)!r} cannot be opened as a store ({said}): check the path, or give another"
