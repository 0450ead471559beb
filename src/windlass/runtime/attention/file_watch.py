"""A folder that is watched for a session: each file that comes or changes is told as a signal, once.

What was told is in the session's log and nowhere else. The id of a signal follows from the version of the file, so that
it is taken once, whoever looks and however often; and what came while nobody looked is found at the next look.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pathlib
from types import TracebackType
from typing import TYPE_CHECKING, Any

from windlass.events.errors import CommandTaken, StoreError, UsageError
from windlass.events.values.attention import URGENCIES, Urgency
from windlass.runtime.streams.log_reader import LogReader

from .folder_scan import CLOCK_GRAIN_NS, FILES_MAX, Seen, TooMany, scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.runtime.api.session import Session

logger = logging.getLogger("windlass.signals")

EVERY_S = 1.0
EVERY_S_MIN = 0.01
AT_ONCE = 100
"""How many files are told at one look, the oldest first; the others follow at the next."""


class FileWatch:
    """Watches a folder while it is entered: `async with FileWatch(session, "inbox", "*.csv"):`.

    What came or changed since the session began and was not told yet is told first. A file is told when two looks found
    it the same, so that one that is being written is told when it is whole.
    """

    def __init__(
        self,
        session: Session,
        folder: str | os.PathLike[str],
        pattern: str = "*",
        *,
        kind: str = "file",
        urgency: Urgency = "normal",
        every: float = EVERY_S,
        recursive: bool = False,
        labels: Sequence[str] = (),
        files_max: int = FILES_MAX,
    ) -> None:
        """`every` is the seconds between two looks; `labels` are what the signals are marked with. Raises `UsageError`
        for what cannot be watched."""
        if urgency not in URGENCIES:
            raise UsageError(f"urgency {urgency!r}: there are {', '.join(URGENCIES)}")
        if not isinstance(every, int | float) or isinstance(every, bool) or not every >= EVERY_S_MIN:
            raise UsageError(f"every {every!r}: give a number of seconds of at least {EVERY_S_MIN}")
        if not pattern or not kind:
            raise UsageError("a watch needs a pattern, such as '*.csv', and a kind, such as 'file'")
        self.session = session
        self.folder = pathlib.Path(os.path.abspath(folder))
        self._pattern, self._recursive, self._files_max = pattern, recursive, files_max
        self._kind, self._urgency, self._labels = kind, urgency, tuple(labels)
        self._every_ms = round(every * 1000)
        self._log = LogReader(session.runtime.store)
        self._before: dict[str, Seen] = {}
        """What the look before found."""
        self._told: dict[str, Seen] = {}
        """The versions that the log is known to have."""
        self._since_ns = 0
        self._complaint = ""
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> FileWatch:
        if not self.folder.is_dir():
            raise UsageError(f"{self.folder} is no folder: make it, or name another one")
        self._since_ns = (await self.session.state()).started_ms * 1_000_000 - CLOCK_GRAIN_NS
        await self.look()
        self._task = self.session.runtime.ports.spawn(self._watch(), f"windlass:watch:{self.session.session_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        ended = (await asyncio.gather(task, return_exceptions=True))[0]
        if error is None and isinstance(ended, Exception):
            raise ended

    async def _watch(self) -> None:
        while True:
            await self.session.runtime.ports.sleep_ms(self._every_ms)
            try:
                await self.look()
            except StoreError as error:
                self._complain(f"the store did not answer: {error}")  # what was not told is told at the next look

    async def look(self) -> int:
        """Looks once, and tells what is to be told. Returns how many files that were."""
        try:
            files = await asyncio.to_thread(
                scan, self.folder, self._pattern, recursive=self._recursive, files_max=self._files_max
            )
        except (OSError, TooMany) as error:
            self._complain(str(error))
            return 0
        self._complaint = ""
        before, self._before = self._before, files
        self._told = {path: seen for path, seen in self._told.items() if path in files}
        new = [seen for path, seen in files.items() if self._is_new(seen) and seen.same_content(before.get(path))]
        told = 0
        for seen in sorted(new, key=lambda seen: (seen.arrived_ns, seen.path))[:AT_ONCE]:
            told += await self._tell(seen)
            self._told[seen.path] = seen
        return told

    def _is_new(self, seen: Seen) -> bool:
        return seen.arrived_ns >= self._since_ns and not seen.same_content(self._told.get(seen.path))

    async def _tell(self, seen: Seen) -> int:
        """Sends the signal of one version, unless the log has it. Returns whether it did."""
        name = f"file:{seen.digest()}"
        if await self._log.taken_at(self.session.key, name) is not None:
            return 0
        payload: dict[str, Any] = {"path": _shown(seen.path), "folder": _shown(str(self.folder)), "size": seen.size}
        try:
            await self.session.signal(
                self._kind,
                f"{_shown(seen.path)} ({seen.size} bytes) is in {_shown(str(self.folder))}",
                payload=payload,
                source=_shown(str(self.folder)),
                urgency=self._urgency,
                labels=self._labels,
                command_id=name,
                actor="watch",
            )
        except CommandTaken:
            return 0
        return 1

    def _complain(self, told: str) -> None:
        """Says once what is wrong for as long as it is."""
        if told != self._complaint:
            logger.warning("the watch of %s tells nothing for now: %s", self.folder, told)
        self._complaint = told


def _shown(path: str) -> str:
    """A path as text: names that are no text are written with escapes."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")
