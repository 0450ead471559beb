"""Snapshots of a session of the JSON-lines store: a file for each in a folder beside the log."""

from __future__ import annotations

import pathlib

import msgspec

from windlass.store.base import SNAPSHOTS_KEPT, Snapshot

from .disk import Disk


def put_snapshot(disk: Disk, session: pathlib.Path, snapshot: Snapshot) -> None:
    """Keeps a snapshot and drops those that are too old."""
    room = session / "snapshots"
    disk.make_folder(room)
    disk.put(room / f"{snapshot.seq:016d}.snap", msgspec.msgpack.encode(snapshot), sync=False)
    for path in _paths(session)[:-SNAPSHOTS_KEPT]:
        disk.remove(path)


def get_snapshot(session: pathlib.Path, at_most: int | None) -> Snapshot | None:
    """The newest snapshot, at or before a seq."""
    for path in reversed(_paths(session)):
        if not path.stem.isdecimal() or (at_most is not None and int(path.stem) > at_most):
            continue
        try:
            return msgspec.msgpack.decode(path.read_bytes(), type=Snapshot)
        except (msgspec.DecodeError, UnicodeError, OSError):
            continue  # disposable: one that a crash cut short is as good as none
    return None


def drop_snapshots(disk: Disk, session: pathlib.Path) -> int:
    """Removes all of them and says how many there were."""
    paths = _paths(session)
    for path in paths:
        disk.remove(path)
    return len(paths)


def _paths(session: pathlib.Path) -> list[pathlib.Path]:
    return sorted((session / "snapshots").glob("*.snap"))
