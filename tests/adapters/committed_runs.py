"""The committed logs of real runs, as an adapter's view is fed them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from dev.evidence import FOLDER, LIVE, RAISED, decode_live

from windlass.events.live import Live
from windlass.events.stored.record import Sealed
from windlass.protocol.log_tail import records_in
from windlass.protocol.view import Told


def names() -> list[str]:
    stems = [path.stem for path in sorted(FOLDER.glob("*.jsonl"))]
    return [stem for stem in stems if not stem.endswith(LIVE) and stem != RAISED]


def told(name: str) -> Iterator[Told]:
    """The records of a log, with the live events of the run in their places."""
    live = _live(FOLDER / f"{name}{LIVE}.jsonl")
    for line in (FOLDER / f"{name}.jsonl").read_bytes().splitlines():
        if line.startswith(b'{"seq":'):
            sealed = Sealed(first_seq=0, last_seq=0, at_ms=0, epoch=0, prev_hash="", hash="", data=line)
            for record in records_in(sealed):
                yield record
                yield from live.pop(record.seq, [])


def _live(path: pathlib.Path) -> dict[int, list[Live]]:
    found: dict[int, list[Live]] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        one = decode_live(line)
        found.setdefault(one.after_seq, []).append(one)
    return found
