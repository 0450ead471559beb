"""Making a store's SQLite file: it is written whole under another name, and appears at its place at once or not at all.
So nobody ever meets half a store, and an empty file at its place is one that has lost what it held."""

from __future__ import annotations

import errno
import os
import pathlib
import secrets

import apsw

from .schema import APPLICATION_ID, SCHEMA, SCHEMA_VERSION

PRIVATE = 0o600
"""Who may read a store: its owner. SQLite gives the files beside it the rights of the file itself."""
BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a file while it is open."""
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""What a file system says that knows no second names."""


def make(path: pathlib.Path, vfs: str | None) -> None:
    """Makes the file, for its owner alone, unless somebody else has just done so."""
    draft = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE))
    try:
        _write_tables(draft, vfs)
        _name(draft, path)
        sync_directory(path.parent)
    finally:
        for name in (draft, *beside(draft)):
            name.unlink(missing_ok=True)


def beside(path: pathlib.Path) -> list[pathlib.Path]:
    """Where SQLite keeps what belongs to a file."""
    return [path.with_name(path.name + end) for end in BESIDE]


def _write_tables(draft: pathlib.Path, vfs: str | None) -> None:
    connection = apsw.Connection(str(draft), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW, vfs=vfs)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA application_id = {APPLICATION_ID}; "
            f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT"
        )
        connection.pragma("journal_mode", "WAL")
    finally:
        connection.close(True)


def _name(draft: pathlib.Path, path: pathlib.Path) -> None:
    try:
        os.link(draft, path, follow_symlinks=False)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if not os.path.lexists(path):
            os.rename(draft, path)


def sync_directory(path: pathlib.Path) -> None:
    """Makes names in a directory last."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
