"""Whether the disk of a store has room: sessions that wait for it cannot write that they do, so it is looked up."""

from __future__ import annotations

import os
import pathlib

ROOM_BYTES = 256 * 1024
"""With less than this left, appends begin to fail."""


def no_room(place: str) -> str:
    """What an operator must hear of a store whose disk is full; empty if there is room, or nobody can tell."""
    path = pathlib.Path(place.removeprefix("sqlite:").removeprefix("jsonl:"))
    folder = path if path.is_dir() else path.parent
    try:
        disk = os.statvfs(folder)
    except OSError:
        return ""
    left = disk.f_bavail * disk.f_frsize
    if left >= ROOM_BYTES:
        return ""
    return (
        f"paused: storage_full: the disk of the store {str(path)!r} has {left // 1024} KiB left. Sessions that are at "
        "work wait for room and go on by themselves when there is: make room"
    )
