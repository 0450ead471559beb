"""One session of the JSON-lines store: its directory, and the view of it that a process keeps in memory.

All methods run under the store's lock, so no other process writes meanwhile. A view is brought up to date by what the
files have grown since; it never trusts its memory over the disk.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import msgspec

from windlass.events.errors import Damaged, StorageFull
from windlass.events.stored.record import GENESIS, Sealed
from windlass.store.base import Claim, Head, InboxCommand, IndexRow, Key, Message, Sent
from windlass.store.rules.session_ledger import Ledger

from .line_file import Damage, Files, LineFile, stamp
from .line_format import INBOX, LogLine, frame_append, frame_command
from .log_file import LogFile
from .small_files import About, KeptIndex, Lease, decoded
from .torn_end import TornEnds

INBOX_FILE_BYTES = 256 * 1024
"""An inbox file of which everything was taken is begun anew when it is this long."""


def is_session(path: pathlib.Path) -> bool:
    """Whether a folder is a session's. Raises `Damaged` if it was one, and has lost what says so."""
    if (path / "session.json").exists():
        return True
    try:
        lost = (path / "log.jsonl").stat().st_size > 0
    except OSError:
        return False
    if lost:
        raise Damaged(f"{str(path / 'session.json')!r} is missing: put back a copy of it")
    return False


def about_in(path: pathlib.Path) -> About:
    """What a session's folder says of it. Raises `Damaged`."""
    for name in ("log.jsonl", "inbox.jsonl"):
        if not (path / name).exists():
            raise Damaged(f"{str(path / name)!r} is missing: put back a copy of it")
    about = decoded(path / "session.json", About)
    if about is None or not about.is_at(path):
        raise Damaged(f"{str(path / 'session.json')!r} is damaged: put back a copy of it")
    return about


class SessionView:
    """A session as this process knows it."""

    def __init__(self, key: Key, path: pathlib.Path, files: Files) -> None:
        self.path = path
        self._key = key
        self._files = files
        self._disk = files.disk
        about = about_in(path)
        self._about_stamp = stamp(path / "session.json")
        self.ledger = Ledger(key, about.origin, about.epoch)
        self._log_epoch = about.epoch
        self._kept_seq = 0
        self.log = LogFile(key, path / "log.jsonl", files, self.ledger.chain)
        self._inbox: LineFile[InboxCommand] = LineFile(path / "inbox.jsonl", INBOX, files)
        self._torn = TornEnds(key, path, files.disk)
        self.index: IndexRow | None = None
        self._index_offset = -1
        self._index_kept = False
        self.unsent: tuple[Message, ...] = ()
        """What the last line sends, if nobody is known to have delivered it."""

    def close(self) -> None:
        try:
            self.log.file.close()
        finally:
            self._inbox.close()

    # --- catching up with the files

    def is_current_file(self) -> bool:
        """Whether the directory still holds the files that this view has open: an erasure replaces the log, a deletion
        removes it all."""
        try:
            same = stamp(self.path / "session.json") == self._about_stamp
            return same and self.log.file.is_current() and self._inbox.is_current()
        except FileNotFoundError:
            return False

    def refresh(self) -> None:
        """Reads what other processes have written since."""
        self._refresh_log()
        self._refresh_inbox()
        lease = decoded(self.path / "lease.json", Lease) or Lease()
        self.ledger.epoch = max(lease.epoch, self._log_epoch)
        self.ledger.owner, self.ledger.until_ms = lease.owner, lease.until_ms
        kept = decoded(self.path / "index.json", KeptIndex) or KeptIndex(log_end=-1)
        if kept.log_end > self._index_offset and (kept.row is None or kept.is_of(self._key)):
            self.index = kept.row
        self._kept_seq = max(self._kept_seq, lease.seq, kept.seq)
        if self.ledger.seq < self._kept_seq and self.log.file.damage is None:
            what = f"ends at event {self.ledger.seq}, and had {self._kept_seq} when it was last written"
            self.log.damaged(self.ledger.seq + 1, self.log.file.end, what)

    def _refresh_log(self) -> None:
        news = self.log.file.news()
        if news is None:
            return
        if self.log.is_empty and news.lines and news.lines[0][1].first_seq == 1:
            # A detached session's log begins at 1, even if a crash kept its description from saying so.
            self.ledger.seq, self.ledger.chain, self.ledger.origin = 0, GENESIS, None
            self.log.first_hash = GENESIS
        for offset, line in news.lines:
            expected = self.ledger.seq + 1
            if line.first_seq != expected:
                self.log.damaged(expected, offset, f"holds append {line.first_seq} where {expected} belongs")
                return
            self._note(offset, line)
        if news.damaged:
            what = f"holds {news.torn} bytes that are no record, with whole records behind them"
            self.log.damaged(self.ledger.seq + 1, news.end, what)

    def _note(self, offset: int, line: LogLine) -> None:
        self.log.note(offset, line.first_seq)
        self.ledger.advance(line.sealed(""), line.takes)
        self._log_epoch = max(self._log_epoch, line.epoch)
        self.unsent = line.sends
        if line.index is not None:
            self.index, self._index_offset, self._index_kept = line.index, offset, False

    def _refresh_inbox(self) -> None:
        news = self._inbox.news()
        if news is None:
            return
        for _, command in news.lines:
            if command.command_id not in self.ledger.taken and command.command_id not in self.ledger.waiting:
                self.ledger.receive(command)
        if news.damaged:
            where = f"{str(self._inbox.path)!r} is damaged at byte {news.end}"
            message = f"session {self._key.session!r} may only be read: {where}"
            self._inbox.damage = Damage(message, self.ledger.seq + 1, news.end)

    def writable(self) -> None:
        """Raises `Damaged` if writing would make it worse; cuts off what a dead writer left behind."""
        damage = self.log.file.damage or self._inbox.damage
        if damage is not None:
            raise damage.error()
        self._torn.cut(self.log.file, self.ledger.seq)
        self._torn.cut(self._inbox, self.ledger.seq)

    # --- the log

    def head(self) -> Head:
        damage = self.log.file.damage or self._inbox.damage
        return self.ledger.head(damage.message if damage else "")

    def append(
        self, sealed: Sealed, takes: Sequence[str], index: IndexRow | None, sends: Sequence[Message] = ()
    ) -> None:
        """Writes a line that was judged before. What it sends is to be delivered then."""
        self.writable()
        offset = self.log.file.write(frame_append(sealed, takes, index, sends))
        self._note(offset, LogLine.of(sealed, takes, index, sends))
        self._torn.told()
        if sends:
            self.log.file.sync()  # nobody may read a message of which its sender's log does not know any more

    def rewrite(self, before: Sequence[bytes], changed: dict[int, bytes]) -> None:
        """Writes the log anew: more lines in front, or some lines changed. This view is stale afterwards."""
        self.writable()
        frames = list(before)
        for line in self.log.lines():
            data = changed.get(line.first_seq, line.data)
            frames.append(frame_append(msgspec.structs.replace(line.sealed(""), data=data), line.takes, line.index))
        self._disk.put(self.log.file.path, b"".join(frames), sync=True)
        self._disk.sync_directory(self.path)
        self._disk.remove(self.path / "index.json")
        if self.index is not None:
            kept = KeptIndex(log_end=sum(map(len, frames)), row=self.index, seq=self.ledger.seq)
            self._disk.put(self.path / "index.json", msgspec.json.encode(kept), sync=False)
        self._files.wrote = True

    # --- the inbox

    def waiting(self, limit: int) -> list[InboxCommand]:
        if self._inbox.damage is not None:
            raise self._inbox.damage.error()
        return self.ledger.inbox(limit)

    def send(self, command: InboxCommand) -> Sent:
        known = self.ledger.sent(command.command_id)
        if known is not None:
            return known
        self.receive(command)
        return Sent(new=True, taken=False)

    def receive(self, command: InboxCommand) -> None:
        """Puts a command that is new behind the others."""
        self.writable()
        if not self.ledger.waiting and self._inbox.end > INBOX_FILE_BYTES:
            # The log that says what was taken must last before the commands themselves are dropped.
            self.log.file.sync()
            self._inbox.begin_anew()
        self._inbox.write(frame_command(command))
        self.ledger.receive(command)

    # --- the lease

    def claim(self, runner: str, ttl_ms: int, now_ms: int, renew: bool) -> Claim:
        self.writable()
        if not self.log.file.lasts:
            self.log.file.sync()
        claim = self.ledger.claim(runner, ttl_ms, now_ms, renew, self._files.sightings)
        self.put_lease()
        return msgspec.structs.replace(claim, recovered=tuple(self._torn.untold))

    def put_lease(self) -> None:
        # Not synced: after a power loss all runners are gone, and the log knows which epochs have written.
        if self.log.file.lasts:
            self._kept_seq = self.ledger.seq
        lease = Lease(self.ledger.epoch, self.ledger.owner, self.ledger.until_ms, self._kept_seq)
        self._disk.put(self.path / "lease.json", msgspec.json.encode(lease), sync=False)
        self._files.wrote = True

    # --- the index row

    def put_index(self, row: IndexRow | None) -> None:
        if not self.log.file.lasts:
            self.log.file.sync()
        end = self.log.file.end
        kept = KeptIndex(log_end=end, row=row, seq=self.ledger.seq)
        self._disk.put(self.path / "index.json", msgspec.json.encode(kept), sync=False)
        self.index, self._index_offset, self._index_kept = row, end - 1, True
        self._files.wrote = True

    def keep_index(self) -> None:
        """Saves later openers from reading the log to know the index row, if there is room for that."""
        whole = self.log.file.damage is None and not self.log.file.torn
        if whole and self.index is not None and not self._index_kept:
            try:
                self.put_index(self.index)
            except StorageFull:
                return
