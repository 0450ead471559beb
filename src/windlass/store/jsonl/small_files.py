"""The small JSON files beside a session's log: what each holds, and how one is read that a crash may have cut short."""

from __future__ import annotations

import pathlib
from typing import TypeVar

import msgspec

from windlass.events import known_types
from windlass.events.stored.record import UNREADABLE
from windlass.store.base import IndexRow, Key, Origin
from windlass.store.rules.ids import file_name

Kept = TypeVar("Kept")


class About(msgspec.Struct, frozen=True, omit_defaults=True):
    """`session.json`: that the session exists, and what it continues."""

    tenant: str
    session: str
    origin: Origin | None = None
    epoch: int = 0
    """The epoch in which the last append before a fork was written: the fork's own are higher."""

    def is_at(self, path: pathlib.Path) -> bool:
        """Whether this is the session whose folder it lies in."""
        return (file_name(self.tenant), file_name(self.session)) == (path.parent.parent.name, path.name)


class Lease(msgspec.Struct, frozen=True):
    """`lease.json`. If it is lost, the log still says which epochs have written. Up to `seq` the log was on the disk
    when this was written: one that is shorter has lost something."""

    epoch: int = 0
    owner: str = ""
    until_ms: int = 0
    seq: int = 0


class KeptIndex(msgspec.Struct, frozen=True):
    """`index.json`: an index row that counts unless the log holds a newer one behind `log_end`. Up to `seq` the log was
    on the disk when this was written."""

    log_end: int
    row: IndexRow | None = None
    seq: int = 0

    def is_of(self, key: Key) -> bool:
        """Whether it is the row of this session."""
        return self.row is not None and (self.row.tenant, self.row.session) == (key.tenant, key.session)


def decoded(path: pathlib.Path, kind: type[Kept]) -> Kept | None:
    """A small file's value; None if it is not there or a crash left it unreadable."""
    try:
        return known_types.decode(path.read_bytes(), kind)
    except (FileNotFoundError, *UNREADABLE):
        return None
