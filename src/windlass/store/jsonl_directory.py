"""The files of the JSON-lines store as its writer's thread sees them: one group of jobs at a time, under a lock that
other processes respect."""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import msgspec

from windlass.events import record
from windlass.events.errors import NotFound, StorePoisoned, UsageError, WindlassError
from windlass.events.record import Sealed

from .base import Durability, IndexRow, Key, Origin, Query, TakenCommand
from .disk import Disk, disk_error
from .groups import Job
from .jsonl_lines import frame_append
from .jsonl_session import About, Files, KeptIndex, SessionView
from .keys import check_digest, file_name
from .search import asks_ledger, ledger_fits, matches

FORMAT = 1
VIEWS_MAX = 256
"""How many sessions a process keeps open; the rest are read again when they are needed."""
DEFAULT_TYPE = "application/octet-stream"


class _Format(msgspec.Struct, frozen=True):
    windlass: str
    format: int


class Directory:
    """The files, as the writer's thread sees them."""

    sync_apart: Callable[[], WindlassError | None] | None = None

    def __init__(self, root: pathlib.Path, durability: Durability, disk: Disk, stats: dict[str, int]) -> None:
        self.root = root
        self.durability = durability
        self.disk = disk
        self.files = Files(disk)
        self.stats = stats
        self.poison: StorePoisoned | None = None
        self._views: OrderedDict[Key, SessionView] = OrderedDict()
        root.mkdir(parents=True, exist_ok=True)
        self._refuse_foreign()  # before anything is written into a folder that is somebody else's
        self.lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        try:
            self._check_format()
        finally:
            fcntl.flock(self.lock, fcntl.LOCK_UN)

    def _refuse_foreign(self) -> None:
        if (self.root / "windlass.json").exists():
            return
        if any(child.name not in ("lock", "windlass.json", "windlass.json.part") for child in self.root.iterdir()):
            raise UsageError(f"{str(self.root)!r} is not empty and not a windlass store: give another path")

    def _check_format(self) -> None:
        path = self.root / "windlass.json"
        if not path.exists():
            self._refuse_foreign()
            self.disk.put(path, msgspec.json.encode(_Format("jsonl store", FORMAT)), sync=True)
            self.disk.sync_directory(self.root)
            return
        found = msgspec.json.decode(path.read_bytes(), type=_Format)
        if found.format > FORMAT:
            raise UsageError(
                f"{str(self.root)!r} was written by a newer windlass (format {found.format}, this one knows {FORMAT}): "
                "upgrade windlass to open it"
            )

    # --- the group writer's side

    def commit(self, jobs: list[Job[Directory]], *, wait: bool) -> bool:
        """Does the jobs under the store's lock, then one sync for each file that they wrote."""
        if self.poison is not None:
            for job in jobs:
                job.error = self.poison
            return True
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        try:
            self._perform(jobs)
        except StorePoisoned as error:
            self.poison = error
            for job in jobs:
                job.error = job.error or error
        finally:
            fcntl.flock(self.lock, fcntl.LOCK_UN)
        return True

    def _perform(self, jobs: list[Job[Directory]]) -> None:
        self.files.wrote = False
        for job in jobs:
            try:
                job.result = job.work(self, *job.args)
            except StorePoisoned:
                raise
            except WindlassError as refusal:
                job.error = refusal
            except OSError as error:
                job.error = disk_error(error)
                if isinstance(job.error, StorePoisoned):
                    raise job.error from error
        if self.files.wrote:
            if self.durability == "full" or any(job.barrier for job in jobs):
                self.files.sync()
            self._count_change()
        self.stats["commits"] += 1
        self.stats["group_max"] = max(self.stats["group_max"], len(jobs))
        self.stats["syncs"] = self.disk.syncs

    def _count_change(self) -> None:
        """A number in the lock file tells other processes that something is new. It need not last."""
        os.pwrite(self.lock, struct.pack("<Q", self.changes() + 1), 0)

    def changes(self) -> int:
        data = os.pread(self.lock, 8, 0)
        return int(struct.unpack("<Q", data)[0]) if len(data) == 8 else 0

    def rest_is_due(self) -> bool:
        return False

    def rest(self) -> None:
        """Nothing is put off here."""

    def end(self) -> None:
        if self.poison is None:
            fcntl.flock(self.lock, fcntl.LOCK_EX)
            for view in self._views.values():
                if view.is_current_file():
                    view.keep_index()
        for view in self._views.values():
            try:
                view.close()
            except StorePoisoned as error:
                self.poison = error
        os.close(self.lock)

    # --- sessions

    def tenant(self, tenant: str) -> pathlib.Path:
        return self.root / "tenants" / file_name(tenant)

    def session_path(self, key: Key) -> pathlib.Path:
        return self.tenant(key.tenant) / "sessions" / file_name(key.session)

    def lookup(self, key: Key) -> SessionView | None:
        """The session's view, up to date; None if there is no such session."""
        view = self._views.get(key)
        if view is not None and not view.is_current_file():
            self.forget(key)
            view = None
        if view is None:
            path = self.session_path(key)
            if not (path / "session.json").exists():
                return None
            view = self._views[key] = SessionView(key, path, self.files)
            self._bound_views()
        self._views.move_to_end(key)
        view.refresh()
        return view

    def view(self, key: Key) -> SessionView:
        view = self.lookup(key)
        if view is None:
            raise NotFound(f"tenant {key.tenant!r} has no session {key.session!r}")
        return view

    def forget(self, key: Key) -> None:
        view = self._views.pop(key, None)
        if view is not None:
            view.close()

    def _bound_views(self) -> None:
        while len(self._views) > VIEWS_MAX:
            key = next(iter(self._views))
            if self._views[key].is_current_file():
                self._views[key].keep_index()
            self.forget(key)

    def create(self, key: Key, origin: Origin | None) -> bool:
        view = self.lookup(key)
        if view is not None:
            if view.ledger.origin != origin:
                raise UsageError(f"session {key.session!r} exists with another origin: {view.ledger.origin!r}")
            return False
        epoch = 0
        if origin is not None:
            epoch = self._epoch_at(key.tenant, origin)
            marks = self.session_path(Key(key.tenant, origin.session)) / "forks"
            marks.mkdir(exist_ok=True)
            self.disk.put(marks / file_name(key.session), key.session.encode(), sync=True)
        path = self.session_path(key)
        path.mkdir(parents=True, exist_ok=True)
        for name in ("log.jsonl", "inbox.jsonl"):
            self.disk.put(path / name, b"", sync=False)
        about = About(key.tenant, key.session, origin, epoch)
        self.disk.put(path / "session.json", msgspec.json.encode(about), sync=self.durability == "full")
        self.files.unsynced_directories.update((path, path.parent, path.parent.parent, path.parent.parent.parent))
        self.files.wrote = True
        return True

    def _epoch_at(self, tenant: str, origin: Origin) -> int:
        """The epoch of the append at which a fork begins; there must be one."""
        view = self.view(Key(tenant, origin.session))
        while (above := view.ledger.origin) is not None and origin.seq <= above.seq:
            view = self.view(Key(tenant, above.session))
        epoch = view.epoch_at(origin.seq, origin.hash)
        if epoch is None:
            raise UsageError(f"session {origin.session!r} has no append that ends at {origin.seq} with this hash")
        return epoch

    def append(
        self, key: Key, sealed: Sealed, takes: Sequence[str], index: IndexRow | None, blobs: Mapping[str, bytes]
    ) -> None:
        view = self.view(key)
        view.writable()
        view.ledger.judge(sealed, takes)
        for digest, data in blobs.items():
            self.put_blob(key.tenant, digest, data, DEFAULT_TYPE)
        view.append([(sealed, takes, index)])

    def adopt(self, key: Key, lines: Sequence[Sealed], epoch: int, takes: Sequence[TakenCommand]) -> None:
        view = self.view(key)
        view.writable()
        view.ledger.judge_lines(lines, epoch, takes)
        by_seq: dict[int, list[str]] = {}
        for take in takes:
            by_seq.setdefault(take.seq, []).append(take.command_id)
        view.append([(sealed, by_seq.get(sealed.first_seq, []), None) for sealed in lines])

    def release(self, key: Key, runner: str, epoch: int) -> None:
        view = self.view(key)
        if view.ledger.release(runner, epoch):
            view.put_lease()
            view.keep_index()

    def keep(self, key: Key, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        view = self.view(key)
        view.ledger.keep(runner, epoch, ttl_ms, now_ms)
        view.put_lease()

    def index_rows(self, query: Query) -> list[IndexRow]:
        """The rows of a tenant's sessions whose ledgers fit; logs are read only where they hold a newer row than the
        kept one, and for a query that asks for what only a ledger knows."""
        rows = []
        for path in sorted((self.tenant(query.tenant) / "sessions").glob("*/session.json")):
            row = None if path.parent.name.startswith(".") else self._index_row(path.parent)
            if row is not None and (not asks_ledger(query) or self._fits(query, row, path.parent)):
                rows.append(row)
        return rows

    def _fits(self, query: Query, row: IndexRow, path: pathlib.Path) -> bool:
        """Whether a session is asked for. An inbox that nobody ever wrote to is not opened to see that it is empty."""
        if not matches(query, row) or (query.unread and not (path / "inbox.jsonl").stat().st_size):
            return False
        return ledger_fits(query, self.view(Key(row.tenant, row.session)).ledger)

    def _index_row(self, path: pathlib.Path) -> IndexRow | None:
        try:
            kept = msgspec.json.decode((path / "index.json").read_bytes(), type=KeptIndex)
            if kept.log_end == (path / "log.jsonl").stat().st_size:
                return kept.row
        except (FileNotFoundError, msgspec.DecodeError):
            pass  # no kept row, or one that a crash cut short: the log knows
        about = msgspec.json.decode((path / "session.json").read_bytes(), type=About)
        return self.view(Key(about.tenant, about.session)).index

    # --- erasing, forks, deletion

    def erase(self, key: Key, seq: int, by: str, why: str, at_ms: int) -> None:
        view = self.view(key)
        line = view.line_with(seq)
        view.rewrite([], {line.first_seq: record.erase(line.data, seq, by=by, why=why, at_ms=at_ms)})
        self.forget(key)
        self._drop_snapshots_of_tree(key)

    def _drop_snapshots_of_tree(self, key: Key) -> None:
        self.view(key).drop_snapshots()
        for fork in self.forks(key):
            self._drop_snapshots_of_tree(Key(key.tenant, fork))

    def forks(self, key: Key) -> list[str]:
        names = []
        for mark in (self.view(key).path / "forks").glob("*"):
            if mark.name.endswith(".part"):
                continue
            name = mark.read_bytes().decode()
            fork = self.lookup(Key(key.tenant, name))
            # A mark without its fork is left by a crash between the two, or by a detachment.
            if fork is not None and fork.ledger.origin is not None and fork.ledger.origin.session == key.session:
                names.append(name)
        return sorted(names)

    def delete(self, key: Key) -> None:
        path = self.view(key).path
        if names := self.forks(key):
            raise UsageError(f"session {key.session!r} has forks {names!r}: delete or detach them first")
        self.forget(key)
        # A name that begins with a dot is no session's: after the rename it is gone, whatever happens to the files.
        gone = path.with_name(f".gone-{path.name}")
        shutil.rmtree(gone, ignore_errors=True)
        self.disk.replace(path, gone)
        self.disk.sync_directory(path.parent)
        shutil.rmtree(gone)
        self.files.wrote = True

    def detach(self, key: Key) -> None:
        view = self.view(key)
        if view.ledger.origin is None:
            return
        before = [frame_append(sealed, (), None) for sealed in self._inherited(key.tenant, view.ledger.origin)]
        view.rewrite(before, {})
        about = About(key.tenant, key.session)
        self.disk.put(view.path / "session.json", msgspec.json.encode(about), sync=True)
        self.files.unsynced_directories.add(view.path)
        self.forget(key)

    def _inherited(self, tenant: str, origin: Origin) -> list[Sealed]:
        """The appends up to an origin's seq, oldest first."""
        parts: list[list[Sealed]] = []
        above: Origin | None = origin
        until = origin.seq
        while above is not None:
            until = min(until, above.seq)
            view = self.view(Key(tenant, above.session))
            parts.append(_all_lines(view, until))
            above = view.ledger.origin
        return [sealed for part in reversed(parts) for sealed in part]

    # --- blobs

    def blob_path(self, tenant: str, digest: str) -> pathlib.Path:
        name = check_digest(digest).removeprefix("sha256:")
        return self.tenant(tenant) / "blobs" / name[:2] / name

    def put_blob(self, tenant: str, digest: str, data: bytes, media_type: str) -> None:
        path = self.blob_path(tenant, digest)
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if media_type != DEFAULT_TYPE:
            self.disk.put(path.with_suffix(".type"), media_type.encode(), sync=True)
        self.disk.put(path, data, sync=True)
        self.files.unsynced_directories.update((path.parent, path.parent.parent, path.parent.parent.parent))
        self.files.wrote = True

    def erase_blob(self, tenant: str, digest: str) -> bool:
        path = self.blob_path(tenant, digest)
        if not path.exists():
            return False
        path.unlink()
        path.with_suffix(".type").unlink(missing_ok=True)
        self.files.unsynced_directories.add(path.parent)
        self.files.wrote = True
        return True


def _all_lines(view: SessionView, until: int) -> list[Sealed]:
    lines: list[Sealed] = []
    more = True
    while more:
        page, more = view.page(lines[-1].last_seq if lines else 0, until)
        lines.extend(page)
    return lines
