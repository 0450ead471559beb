"""What the stores cost, as ratios within one run: many sessions at once against one alone, syncs per append.

    python benchmarks/store.py [--quick]

Exits with 1 if SQLite in `full` needs more than 1 sync per 20 appends at 200 sessions, or is not at least 4 times as
fast there as with one session.
"""

from __future__ import annotations

import asyncio
import pathlib
import sys
import tempfile
import time

import apsw
import msgspec

from windlass.store.base import Store
from windlass.store.jsonl.store import JsonlStore
from windlass.store.memory import MemoryStore
from windlass.store.sqlite.store import SqliteStore
from windlass.testing.store_kit import Writer

SESSIONS = 200
BODY = b'"' + b"x" * 500 + b'"'
APPENDS_PER_SYNC_MIN = 20.0
SPEED_UP_MIN = 4.0


class Measured(msgspec.Struct, frozen=True):
    """One line of the table."""

    name: str
    sessions: int
    per_second: float
    cpu_us: float
    appends_per_sync: float | None


class CountingFile(apsw.VFSFile):
    """Counts the syncs that reach the file system, below all that the store counts itself."""

    syncs = 0

    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:
        CountingFile.syncs += 1
        super().xSync(flags)


class CountingVFS(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("counting", "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return CountingFile(name, flags)


async def measure(name: str, store: Store, sessions: int, appends: int) -> Measured:
    """Appends of 0.6 KB with an index row each, from so many sessions at once."""
    writers = [await Writer(store, f"s{i}").claim() for i in range(sessions)]

    async def work(writer: Writer) -> None:
        for _ in range(appends):
            row = writer.row(state="running", owed=True, agent="a", root=writer.key.session, updated_ms=writer.seq)
            await writer.append(BODY, index=row)
            writer.lines.clear()

    syncs = _syncs(store)
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*map(work, writers))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    count = sessions * appends
    syncs = _syncs(store) - syncs
    await store.close()
    return Measured(name, sessions, count / wall, cpu / count * 1e6, count / syncs if syncs else None)


def _syncs(store: Store) -> int:
    return CountingFile.syncs if isinstance(store, SqliteStore) else int(getattr(store, "stats", {})["syncs"])


async def open_named(name: str, place: pathlib.Path) -> Store:
    if name == "sqlite full":
        return await SqliteStore.open(place / "a.db", vfs="counting")
    if name == "sqlite normal":
        return await SqliteStore.open(place / "a.db", durability="normal", vfs="counting")
    if name == "jsonl full":
        return await JsonlStore.open(place / "a.jsonl.d")
    if name == "jsonl normal":
        return await JsonlStore.open(place / "a.jsonl.d", durability="normal")
    return MemoryStore()


async def run(quick: bool) -> list[Measured]:
    vfs = CountingVFS()
    results = []
    for name in ("memory", "sqlite full", "sqlite normal", "jsonl full", "jsonl normal"):
        for sessions in (1, SESSIONS):
            appends = (200 if quick else 1_000) if sessions == 1 else (10 if quick else 50)
            with tempfile.TemporaryDirectory() as place:
                store = await open_named(name, pathlib.Path(place))
                results.append(await measure(name, store, sessions, appends))
    vfs.unregister()
    return results


def main() -> int:
    results = asyncio.run(run("--quick" in sys.argv))
    alone = {result.name: result.per_second for result in results if result.sessions == 1}
    print(f"{'store':15} {'sessions':>8} {'appends/s':>10} {'CPU us':>7} {'appends/sync':>12} {'x one alone':>11}")
    for r in results:
        syncs = f"{r.appends_per_sync:12.1f}" if r.appends_per_sync else f"{'-':>12}"
        ratio = r.per_second / alone[r.name]
        print(f"{r.name:15} {r.sessions:8} {r.per_second:10.0f} {r.cpu_us:7.0f} {syncs} {ratio:11.1f}")
    many = next(r for r in results if r.name == "sqlite full" and r.sessions == SESSIONS)
    grouped = (many.appends_per_sync or 0) >= APPENDS_PER_SYNC_MIN
    faster = many.per_second >= SPEED_UP_MIN * alone["sqlite full"]
    print(f"at least {APPENDS_PER_SYNC_MIN:.0f} appends per sync: {'yes' if grouped else 'NO'}")
    print(f"at least {SPEED_UP_MIN:.0f} times one session alone: {'yes' if faster else 'NO'}")
    return 0 if grouped and faster else 1


if __name__ == "__main__":
    sys.exit(main())
