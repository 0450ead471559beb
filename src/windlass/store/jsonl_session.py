"""One session of the JSON-lines store: its directory, and the view of it that a process keeps in memory.

All methods run under the store's lock, so no other process writes meanwhile. A view is brought up to date by what the
files have grown since; it never trusts its memory over the disk.
"""

from __future__ import annotations

import os
import pathlib
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from windlass.events.errors import Damaged, NotFound, StorageFull
from windlass.events.record import GENESIS, Sealed

from .base import SNAPSHOTS_KEPT, Claim, Head, Holder, InboxCommand, IndexRow, Key, Origin, Recovered, Sent, Snapshot
from .disk import Disk
from .jsonl_lines import INBOX, LOG, LogLine, frame_append, frame_command, parse_append, scan
from .leases import Sightings
from .ledger import Ledger

INBOX_FILE_BYTES = 256 * 1024
"""An inbox file of which everything was taken is begun anew when it is this long."""
PAGE_LINES = 256
PAGE_BYTES = 1024 * 1024

Kept = TypeVar("Kept")
Damage = tuple[str, int, int]
"""(what to say, the first seq that is lost, the offset)."""
Stamp = tuple[int, int]
"""(inode, size) of a file: equal stamps mean that nothing was appended and the file was not replaced."""


class About(msgspec.Struct, frozen=True, omit_defaults=True):
    """`session.json`: that the session exists, and what it continues."""

    tenant: str
    session: str
    origin: Origin | None = None
    epoch: int = 0
    """The epoch in which the last append before a fork was written: the fork's own are higher."""


class Lease(msgspec.Struct, frozen=True):
    """`lease.json`. If it is lost, the log still says which epochs have written."""

    epoch: int = 0
    owner: str = ""
    until_ms: int = 0


class KeptIndex(msgspec.Struct, frozen=True):
    """`index.json`: an index row that counts unless the log holds a newer one behind `log_end`."""

    log_end: int
    row: IndexRow | None = None


class Files:
    """What views share: the disk, which files the next sync must cover, and what was seen of leases."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.unsynced: set[int] = set()
        self.unsynced_directories: set[pathlib.Path] = set()
        self.wrote = False
        self.sightings = Sightings()

    def sync(self) -> None:
        """Makes everything written so far last."""
        while self.unsynced:
            handle = self.unsynced.pop()
            self.disk.sync(handle)
        while self.unsynced_directories:
            path = self.unsynced_directories.pop()
            if path.exists():
                self.disk.sync_directory(path)


class SessionView:
    """A session as this process knows it."""

    def __init__(self, key: Key, path: pathlib.Path, files: Files) -> None:
        self.key = key
        self.path = path
        self.files = files
        self.disk = files.disk
        self.log_path, self.inbox_path = path / "log.jsonl", path / "inbox.jsonl"
        self.log = os.open(self.log_path, os.O_RDWR)
        self.inbox = os.open(self.inbox_path, os.O_RDWR)
        about = msgspec.json.decode((path / "session.json").read_bytes(), type=About)
        self.about_stamp = _stamp(path / "session.json")
        self.ledger = Ledger(key, about.origin, about.epoch)
        self.starts, self.offsets = array("Q"), array("Q")
        self.end = self.inbox_end = 0
        self.log_epoch = about.epoch
        self.log_stamp: Stamp = (0, -1)
        self.inbox_stamp: Stamp = (0, -1)
        self.torn = self.inbox_torn = 0
        self.bare = self.inbox_bare = False
        self.damage: Damage | None = None
        self.inbox_damage: Damage | None = None
        self.index: IndexRow | None = None
        self.index_offset = -1
        self.index_kept = False
        self.untold = _untold(key, path)

    def close(self) -> None:
        for handle in (self.log, self.inbox):
            if handle in self.files.unsynced:
                self.files.unsynced.discard(handle)
                self.disk.sync(handle)
            os.close(handle)

    # --- catching up with the files

    def is_current_file(self) -> bool:
        """Whether the directory still holds the files that this view has open: an erasure replaces the log, a deletion
        removes it all."""
        try:
            return (
                _stamp(self.path / "session.json") == self.about_stamp
                and _stamp(self.log_path)[0] == os.fstat(self.log).st_ino
                and _stamp(self.inbox_path)[0] == os.fstat(self.inbox).st_ino
                and _stamp(self.log_path)[1] >= self.end
                # A damaged file that someone has changed since is read again from its beginning.
                and (self.damage is None or _stamp(self.log_path) == self.log_stamp)
                and (self.inbox_damage is None or _stamp(self.inbox_path) == self.inbox_stamp)
            )
        except FileNotFoundError:
            return False

    def refresh(self) -> None:
        """Reads what other processes have written since."""
        self._refresh_log()
        self._refresh_inbox()
        lease = _decoded(self.path / "lease.json", Lease) or Lease()
        self.ledger.epoch = max(lease.epoch, self.log_epoch)
        self.ledger.owner, self.ledger.until_ms = lease.owner, lease.until_ms
        kept = _decoded(self.path / "index.json", KeptIndex)
        if kept is not None and kept.log_end > self.index_offset:
            self.index = kept.row

    def _refresh_log(self) -> None:
        stamp = _stamp(self.log_path)
        if self.damage is not None or (stamp == self.log_stamp and not self.torn):
            return  # what looked torn is always looked at again: another process may have put as many bytes there
        start = _behind_line_break(self.log, self.end, self.bare)
        found = scan(self.log_path, start, LOG)
        still_bare = self.bare and start == self.end and not found.lines
        if not self.starts and found.lines and found.lines[0][1].first_seq == 1:
            # A detached session's log begins at 1, even if a crash kept its description from saying so.
            self.ledger.seq, self.ledger.chain, self.ledger.origin = 0, GENESIS, None
        self.log_stamp, self.torn, self.bare = stamp, found.torn, found.bare or still_bare
        for offset, line in found.lines:
            if line.first_seq != self.ledger.seq + 1:
                self._damage(offset, f"holds append {line.first_seq} where {self.ledger.seq + 1} belongs")
                return
            self._note(offset, line)
        self.end = found.end
        if found.damaged:
            self._damage(found.end, f"holds {found.torn} bytes that are no record, with whole records behind them")

    def _note(self, offset: int, line: LogLine) -> None:
        self.starts.append(line.first_seq)
        self.offsets.append(offset)
        self.ledger.advance(line.sealed(""), line.takes)
        self.log_epoch = max(self.log_epoch, line.epoch)
        self.end = offset
        if line.index is not None:
            self.index, self.index_offset, self.index_kept = line.index, offset, False

    def _damage(self, offset: int, what: str) -> None:
        seq = self.ledger.seq + 1
        message = f"session {self.key.session!r} may only be read: {str(self.log_path)!r} at byte {offset} {what}"
        self.end = offset
        self.damage = (f"{message} (event {seq} on)", seq, offset)

    def _refresh_inbox(self) -> None:
        stamp = _stamp(self.inbox_path)
        if self.inbox_damage is not None or (stamp == self.inbox_stamp and not self.inbox_torn):
            return
        start = _behind_line_break(self.inbox, self.inbox_end, self.inbox_bare)
        found = scan(self.inbox_path, start, INBOX)
        still_bare = self.inbox_bare and start == self.inbox_end and not found.lines
        for _, command in found.lines:
            if command.command_id not in self.ledger.taken and command.command_id not in self.ledger.waiting:
                self.ledger.receive(command)
        self.inbox_stamp, self.inbox_end = stamp, found.end
        self.inbox_torn, self.inbox_bare = found.torn, found.bare or still_bare
        if found.damaged:
            path, offset = str(self.inbox_path), found.end
            message = f"session {self.key.session!r} may only be read: {path!r} is damaged at byte {offset}"
            self.inbox_damage = (message, self.ledger.seq + 1, offset)

    # --- mending the end of a file

    def writable(self) -> None:
        """Raises `Damaged` where writing would make it worse; cuts off what a dead writer left behind."""
        self.undamaged(self.damage or self.inbox_damage)
        if self.torn:
            self._cut(self.log, self.log_path, self.end, self.torn)
            self.torn, self.log_stamp = 0, _stamp(self.log_path)
        if self.inbox_torn:
            self._cut(self.inbox, self.inbox_path, self.inbox_end, self.inbox_torn)
            self.inbox_torn, self.inbox_stamp = 0, _stamp(self.inbox_path)

    @staticmethod
    def undamaged(damage: Damage | None) -> None:
        """Raises `Damaged` if there is any."""
        if damage is not None:
            message, seq, offset = damage
            raise Damaged(message, seq=seq, offset=offset)

    def _cut(self, handle: int, path: pathlib.Path, offset: int, size: int) -> None:
        """The torn bytes are safe beside the log before they leave it."""
        room = self.path / "torn"
        room.mkdir(exist_ok=True)
        number = len(list(room.iterdir()))
        kept = room / f"{number:04d}-{path.stem}-at-{offset}-after-{self.ledger.seq}.bin"
        self.disk.put(kept, os.pread(handle, size, offset), sync=True)
        self.disk.sync_directory(room)
        self.disk.truncate(handle, offset)
        self.files.unsynced.add(handle)
        self.files.wrote = True
        self.untold.append(
            Recovered(key=self.key, seq=self.ledger.seq, offset=offset, size=size, path=str(kept)),
        )

    def _told(self) -> None:
        """An append was kept after the claim that showed what was cut: it need not be shown again."""
        names = sorted(pathlib.Path(item.path).name for item in self.untold)
        told = _decoded(self.path / "torn" / "told.json", list[str]) or []
        self.untold = []
        try:
            self.disk.put(self.path / "torn" / "told.json", msgspec.json.encode(told + names), sync=False)
        except StorageFull:
            return  # the append itself was kept; then it is told twice

    # --- writes

    def head(self) -> Head:
        damage = self.damage or self.inbox_damage
        return self.ledger.head(damage[0] if damage else "")

    def waiting(self, limit: int) -> list[InboxCommand]:
        self.undamaged(self.inbox_damage)
        return self.ledger.inbox(limit)

    def holder(self, now_ms: int) -> Holder | None:
        return self.ledger.holder(now_ms, self.files.sightings)

    def claim(self, runner: str, ttl_ms: int, now_ms: int, renew: bool) -> Claim:
        self.writable()
        claim = self.ledger.claim(runner, ttl_ms, now_ms, renew, self.files.sightings)
        self.put_lease()
        return msgspec.structs.replace(claim, recovered=tuple(self.untold))

    def put_lease(self) -> None:
        # Not synced: after a power loss all runners are gone, and the log knows which epochs have written.
        lease = Lease(self.ledger.epoch, self.ledger.owner, self.ledger.until_ms)
        self.disk.put(self.path / "lease.json", msgspec.json.encode(lease), sync=False)
        self.files.wrote = True

    def append(self, lines: Sequence[tuple[Sealed, Sequence[str], IndexRow | None]]) -> None:
        """Writes lines that were judged before, in one go."""
        self.writable()
        offset = self.end + self.bare
        frames = [frame_append(*line) for line in lines]
        self._write(self.log, self.end, b"".join(frames), self.bare)
        self.bare = False
        for (sealed, takes, index), frame in zip(lines, frames, strict=True):
            self._note(offset, LogLine.of(sealed, takes, index))
            offset += len(frame)
        self.end = offset
        self.log_stamp = (self.log_stamp[0], self.end)
        if self.untold:
            self._told()

    def _write(self, handle: int, offset: int, frame: bytes, bare: bool) -> None:
        self.disk.write_at(handle, b"\n" + frame if bare else frame, offset)
        self.files.unsynced.add(handle)
        self.files.wrote = True

    def send(self, command: InboxCommand) -> Sent:
        known = self.ledger.sent(command.command_id)
        if known is not None:
            return known
        self.writable()
        if not self.ledger.waiting and self.inbox_end > INBOX_FILE_BYTES:
            self._begin_inbox_anew()
        frame = frame_command(command)
        self._write(self.inbox, self.inbox_end, frame, self.inbox_bare)
        self.inbox_end += len(frame) + self.inbox_bare
        self.inbox_bare = False
        self.inbox_stamp = (self.inbox_stamp[0], self.inbox_end)
        self.ledger.receive(command)
        return Sent(new=True, taken=False)

    def _begin_inbox_anew(self) -> None:
        # The log that says what was taken must last before the commands themselves are dropped.
        self.disk.sync(self.log)
        self.files.unsynced.discard(self.log)
        self.files.unsynced.discard(self.inbox)
        self.disk.put(self.inbox_path, b"", sync=True)
        os.close(self.inbox)
        self.inbox = os.open(self.inbox_path, os.O_RDWR)
        self.inbox_end, self.inbox_bare, self.inbox_stamp = 0, False, _stamp(self.inbox_path)
        self.files.unsynced_directories.add(self.path)

    def put_index(self, row: IndexRow | None) -> None:
        kept = KeptIndex(log_end=self.end, row=row)
        self.disk.put(self.path / "index.json", msgspec.json.encode(kept), sync=False)
        self.index, self.index_offset, self.index_kept = row, self.end - 1, True
        self.files.wrote = True

    def keep_index(self) -> None:
        """Saves later openers from reading the log to know the index row."""
        if not self.index_kept and self.damage is None and self.index is not None and not self.torn:
            self.put_index(self.index)

    # --- reads

    def page(self, after: int, until: int | None) -> tuple[list[Sealed], bool]:
        """Some lines, and whether there may be more behind them. Raises `Damaged` where there is nothing else left."""
        place = bisect_right(self.starts, after)
        chain = self._hash_before(place)
        lines: list[Sealed] = []
        size = 0
        for number in range(place, len(self.starts)):
            line = self._line(number)
            if until is not None and line.last_seq > until:
                return lines, False
            lines.append(line.sealed(chain))
            chain = line.hash
            size += len(line.data)
            if len(lines) == PAGE_LINES or size >= PAGE_BYTES:
                return lines, True
        if self.damage is not None and (until is None or until > self.ledger.seq):
            if not lines:
                self.undamaged(self.damage)
            return lines, True
        return lines, False

    def _line(self, number: int) -> LogLine:
        offset = self.offsets[number]
        end = self.offsets[number + 1] if number + 1 < len(self.offsets) else self.end
        line = parse_append(os.pread(self.log, end - offset, offset).rstrip(b"\n"))
        if line is None:
            seq = self.starts[number]
            raise Damaged(f"append {seq} of session {self.key.session!r} has changed on disk", seq=seq, offset=offset)
        return line

    def _hash_before(self, place: int) -> str:
        if place:
            return self._line(place - 1).hash
        return self.ledger.origin.hash if self.ledger.origin else GENESIS

    def epoch_at(self, seq: int, digest: str) -> int | None:
        """The epoch of the append of this log that ends there with this hash, if there is one."""
        place = bisect_right(self.starts, seq) - 1
        line = self._line(place) if place >= 0 else None
        return line.epoch if line is not None and (line.last_seq, line.hash) == (seq, digest) else None

    def line_with(self, seq: int) -> LogLine:
        """The own append that holds an event. Raises `NotFound`."""
        place = bisect_right(self.starts, seq) - 1
        line = self._line(place) if place >= 0 else None
        if line is None or line.last_seq < seq:
            raise NotFound(f"session {self.key.session!r} has no event {seq} of its own")
        return line

    def rewrite(self, before: Sequence[bytes], changed: dict[int, bytes]) -> None:
        """Writes the log anew: more lines in front, or some lines changed. This view is stale afterwards."""
        self.writable()
        lines = list(before)
        for number, seq in enumerate(self.starts):
            line = self._line(number)
            data = changed.get(seq, line.data)
            lines.append(frame_append(msgspec.structs.replace(line.sealed(""), data=data), line.takes, line.index))
        self.disk.put(self.log_path, b"".join(lines), sync=True)
        self.disk.sync_directory(self.path)
        (self.path / "index.json").unlink(missing_ok=True)
        if self.index is not None:
            kept = KeptIndex(log_end=sum(map(len, lines)), row=self.index)
            self.disk.put(self.path / "index.json", msgspec.json.encode(kept), sync=False)
        self.files.wrote = True

    # --- snapshots

    def put_snapshot(self, snapshot: Snapshot) -> None:
        room = self.path / "snapshots"
        room.mkdir(exist_ok=True)
        self.disk.put(room / f"{snapshot.seq:016d}.snap", msgspec.msgpack.encode(snapshot), sync=False)
        for path in self._snapshots()[:-SNAPSHOTS_KEPT]:
            path.unlink()

    def get_snapshot(self, at_most: int | None) -> Snapshot | None:
        for path in reversed(self._snapshots()):
            if at_most is not None and int(path.stem) > at_most:
                continue
            try:
                return msgspec.msgpack.decode(path.read_bytes(), type=Snapshot)
            except msgspec.DecodeError:
                path.unlink()  # disposable: one that a crash cut short is as good as none
        return None

    def drop_snapshots(self) -> int:
        paths = self._snapshots()
        for path in paths:
            path.unlink()
        return len(paths)

    def _snapshots(self) -> list[pathlib.Path]:
        return sorted((self.path / "snapshots").glob("*.snap"))


def _stamp(path: pathlib.Path) -> Stamp:
    status = path.stat()
    return (status.st_ino, status.st_size)


def _behind_line_break(handle: int, end: int, bare: bool) -> int:
    """Where to read on: a record that had lost its line break may have got it back from another process."""
    return end + 1 if bare and os.pread(handle, 1, end) == b"\n" else end


def _decoded(path: pathlib.Path, kind: type[Kept]) -> Kept | None:
    """A small file's value; None if it is not there or a crash left it unreadable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeError):
        return None


def _untold(key: Key, path: pathlib.Path) -> list[Recovered]:
    room = path / "torn"
    if not room.exists():
        return []
    told = _decoded(room / "told.json", list[str])
    found = []
    for kept in sorted(room.glob("*.bin")):
        if told and kept.name in told:
            continue
        parts = kept.stem.split("-")
        size = kept.stat().st_size
        found.append(Recovered(key=key, seq=int(parts[-1]), offset=int(parts[-3]), size=size, path=str(kept)))
    return found
