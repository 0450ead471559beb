"""The SQLite file: its tables, and what its errors mean. Imports apsw, so it is itself imported on first use only."""

from __future__ import annotations

import errno

import apsw

from windlass.events.errors import Damaged, StorageFull, StoreError, StorePoisoned, UsageError, WindlassError

APPLICATION_ID = 0x57_4E_44_4C
"""'WNDL': tells our files from other SQLite databases."""
SCHEMA_VERSION = 2
BUSY_TIMEOUT_MS = 10_000
"""How long a write waits for another process's transaction."""

WAL_RESET_BUG = ((3, 7, 0), (3, 51, 2))
"""SQLite releases in this range can corrupt a WAL database that several connections write and checkpoint."""

SEQ_BITS = 36
SEQ_MASK = (1 << SEQ_BITS) - 1
"""An append's row id is (session number, first seq) in one integer: one b-tree, in the order in which it is read."""

SCHEMA = """
CREATE TABLE sessions(
    sid INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL, session TEXT NOT NULL,
    seq INTEGER NOT NULL, hash TEXT NOT NULL,
    epoch INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '', until_ms INTEGER NOT NULL DEFAULT 0,
    position INTEGER NOT NULL DEFAULT 0,
    origin_session TEXT, origin_seq INTEGER, origin_hash TEXT,
    state TEXT, owed INTEGER, next_wake_ms INTEGER, agent TEXT, parent TEXT, root TEXT, updated_ms INTEGER,
    row BLOB,
    UNIQUE(tenant, session)
) STRICT;
CREATE INDEX sessions_newest ON sessions(tenant, updated_ms DESC, session) WHERE row IS NOT NULL;
CREATE INDEX sessions_owed ON sessions(tenant) WHERE owed = 1;
CREATE INDEX sessions_wake ON sessions(tenant, next_wake_ms) WHERE next_wake_ms IS NOT NULL;
CREATE INDEX sessions_parent ON sessions(tenant, parent) WHERE parent IS NOT NULL;
CREATE INDEX sessions_root ON sessions(tenant, root) WHERE root IS NOT NULL;
CREATE INDEX sessions_origin ON sessions(tenant, origin_session) WHERE origin_session IS NOT NULL;
CREATE TABLE appends(
    place INTEGER PRIMARY KEY,
    last_seq INTEGER NOT NULL, at_ms INTEGER NOT NULL, epoch INTEGER NOT NULL, hash TEXT NOT NULL, data BLOB NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE TABLE commands(
    sid INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, command_id TEXT NOT NULL,
    position INTEGER NOT NULL, at_ms INTEGER NOT NULL, data BLOB, crc INTEGER, taken INTEGER,
    PRIMARY KEY(sid, command_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX commands_waiting ON commands(sid, position) WHERE taken IS NULL;
CREATE TABLE snapshots(
    sid INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, seq INTEGER NOT NULL,
    hash TEXT NOT NULL, state_version INTEGER NOT NULL, data BLOB NOT NULL,
    UNIQUE(sid, seq)
) STRICT;
CREATE TABLE blobs(
    blob INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL, digest TEXT NOT NULL, media_type TEXT NOT NULL, size INTEGER NOT NULL, data BLOB NOT NULL,
    UNIQUE(tenant, digest)
) STRICT;
"""

_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SYNC_FAILED = frozenset({apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC})


def refuse_broken_sqlite(version: str) -> None:
    """Raises `UsageError` if this SQLite has the WAL-reset bug."""
    number = tuple(int(part) for part in version.split(".")[:3])
    if WAL_RESET_BUG[0] <= number <= WAL_RESET_BUG[1]:
        raise UsageError(
            f"SQLite {version} can corrupt databases in WAL mode (fixed in 3.51.3): install apsw 3.51.3 or newer"
        )


def store_error(error: apsw.Error, connection: apsw.Connection | None = None) -> WindlassError:
    """What a failure of SQLite means to a caller of the store."""
    extended = getattr(error, "extendedresult", 0)
    if isinstance(error, apsw.FullError) or (
        isinstance(error, apsw.IOError) and connection is not None and connection.system_errno in _FULL_ERRNOS
    ):
        return StorageFull(f"no room for the database: {error}")
    if extended in _SYNC_FAILED:
        return StorePoisoned(f"a sync to disk failed ({error}): close the store, check the disk and open it again")
    if isinstance(error, apsw.IOError):
        return StorePoisoned(f"the disk failed ({error}): close the store, check the disk and open it again")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Damaged(f"the database is damaged: {error}")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreError(f"another process has been writing for {BUSY_TIMEOUT_MS} ms: try again")
    return StoreError(f"the database refused: {error}")
