"""The files of the JSON-lines store as its writer's thread sees them: one group of jobs at a time, under a lock that
other processes respect."""

from __future__ import annotations

import os
import pathlib
import resource
import struct
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from windlass.events import known_types
from windlass.events.errors import (
    Damaged,
    NotFound,
    StorageFull,
    StoreError,
    StorePoisoned,
    UsageError,
    WindlassError,
)
from windlass.store.base import Durability, Key, Message
from windlass.store.group_commit import Job
from windlass.store.rules.ids import check_digest, file_name

from .disk import Disk, disk_error
from .line_file import Files
from .plain_files import refuse_links, refuse_odd
from .session import SessionView, is_session
from .small_files import About
from .store_lock import StoreLock

FORMAT = 1
VIEWS_MAX = 256
"""How many sessions a process keeps open; the rest are read again when they are needed."""
FILES_SHARE = 8
"""Each of them has two files open: together no more than a quarter of those that the process may have."""


def views_max() -> int:
    """How many sessions are kept open here."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return VIEWS_MAX if most == resource.RLIM_INFINITY else max(1, min(VIEWS_MAX, most // FILES_SHARE))


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
        self._views_max = views_max()
        self._read_only = disk.read_only
        if os.path.islink(root):
            raise UsageError(f"{str(root)!r} is a link, and a store is not reached through one: name what it leads to")
        if not self._read_only:
            for folder in disk.make_folder(root):
                disk.sync_directory(folder)
        self._refuse_foreign()  # before anything is written into a folder that is somebody else's
        self._lock = StoreLock(root / "lock", read_only=self._read_only)
        try:
            with self._lock.held():
                self._check_format()
        except BaseException:
            self._lock.close()
            raise

    def _refuse_foreign(self) -> None:
        refuse_odd(self.root)
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
        try:
            made = known_types.decode(path.read_bytes(), _Format)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise Damaged(f"{str(path)!r} is damaged ({error}): put back a copy of it") from error
        if made.format > FORMAT:
            raise UsageError(
                f"{str(self.root)!r} was written by a newer windlass (format {made.format}, this one knows {FORMAT}): "
                "upgrade windlass to open it"
            )

    # --- the group writer's side

    def commit(self, jobs: list[Job[Directory]], *, wait: bool) -> bool:
        """Does the jobs under the store's lock, then one sync for each file that they wrote."""
        if self.poison is not None:
            for job in jobs:
                job.error = self.poison
            return True
        if not wait and not self._lock.try_once():
            return False
        if wait:
            try:
                self._lock.take()
            except StoreError as error:
                for job in jobs:
                    job.error = error
                return True
        try:
            self._perform(jobs)
        except StorePoisoned as error:
            self.poison = error
            for job in jobs:
                job.error = job.error or error
        finally:
            self._lock.give()
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
        os.pwrite(self._lock.handle, struct.pack("<Q", self.changes() + 1), 0)

    def changes(self) -> int:
        data = os.pread(self._lock.handle, 8, 0)
        return int(struct.unpack("<Q", data)[0]) if len(data) == 8 else 0

    def rest_is_due(self) -> bool:
        return False

    def rest(self) -> None:
        """Nothing is put off here."""

    def end(self) -> None:
        """Lets everything go, whatever the disk says: a lock that stays would keep every other process out."""
        try:
            if self.poison is None and not self._read_only:
                self._keep_indexes()
        finally:
            for view in self._views.values():
                try:
                    view.close()
                except StorePoisoned as error:
                    self.poison = error
            self._lock.close()

    def _keep_indexes(self) -> None:
        """Saves later openers work; what cannot be saved now is read off the logs then."""
        try:
            with self._lock.held():
                for view in self._views.values():
                    self._keep_index(view)
        except (WindlassError, OSError):
            return

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
            refuse_links(self.root, path)
            if not is_session(path):
                return None
            refuse_odd(path)
            view = self._views[key] = SessionView(key, path, self.files)
            self._bound_views()
        self._views.move_to_end(key)
        view.refresh()
        if view.unsent and not self._read_only:
            self.deliver(key, view)
        return view

    def view(self, key: Key) -> SessionView:
        view = self.lookup(key)
        if view is None:
            raise NotFound(f"tenant {key.tenant!r} has no session {key.session!r}")
        return view

    def deliver(self, key: Key, view: SessionView) -> None:
        """Puts what the last line of a log sends into the inboxes, each message once. What its writer did not live to
        deliver is delivered by whoever looks at the session next; if there is no room, with the look after that."""
        sends, view.unsent = view.unsent, ()
        for message in sends:
            try:
                self._put_message(Key(key.tenant, message.session), message)
            except StorageFull:
                view.unsent = sends
                return
            except Damaged:
                continue  # the append itself is kept; nobody can write to the receiver

    def _put_message(self, key: Key, message: Message) -> None:
        view = self.lookup(key)
        if view is None and message.creates:
            self.put_session(self.session_path(key), About(key.tenant, key.session, None, 0), b"")
            view = self.lookup(key)
        if view is not None and not view.ledger.knows(message.command.command_id):
            view.receive(message.command)

    def put_session(self, path: pathlib.Path, about: About, log: bytes) -> None:
        """Writes the files of a new session into a folder; the one that says that it is there comes last."""
        refuse_links(self.root, path)
        self.make_folder(path)
        refuse_odd(path)
        self.disk.put(path / "log.jsonl", log, sync=bool(log))
        self.disk.put(path / "inbox.jsonl", b"", sync=False)
        self.disk.put(path / "session.json", msgspec.json.encode(about), sync=True)
        # In either mode, before a line can be in the log: one without its description would be taken for damaged.
        self.disk.sync_directory(path)
        self.files.unsynced_directories.add(path.parent)
        self.files.wrote = True

    def forget(self, key: Key) -> None:
        view = self._views.pop(key, None)
        if view is not None:
            view.close()

    def _bound_views(self) -> None:
        while len(self._views) > self._views_max:
            key = next(iter(self._views))
            self._keep_index(self._views[key])
            self.forget(key)

    def _keep_index(self, view: SessionView) -> None:
        """Saves a later opener some work, if it can be done."""
        if not self._read_only and view.is_current_file():
            view.keep_index()

    def make_folder(self, path: pathlib.Path) -> None:
        """A folder that lasts with the next sync."""
        self.files.unsynced_directories.update(self.disk.make_folder(path))

    def blob_path(self, tenant: str, digest: str) -> pathlib.Path:
        name = check_digest(digest).removeprefix("sha256:")
        return self.tenant(tenant) / "blobs" / name[:2] / name
