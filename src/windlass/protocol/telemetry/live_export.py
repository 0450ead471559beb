"""Spans and measurements of sessions while they work: the logs of the sessions that a runtime drives, read behind their
commits, folded by the very same view as an export, and given to an exporter of the OpenTelemetry SDK.

Nobody waits for it. It remembers which sessions were added to, not what: while an exporter is slow, the logs hold what
was not sent. Spans are sent at least once, also by the process after a killed one, and have the same ids each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from windlass.events.errors import NotFound, UsageError, WindlassError
from windlass.protocol.log_tail import records_in
from windlass.protocol.view import UnknownRecord
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.streams.record import Record
from windlass.store.base import Key, Query, Store

from .sent_marks import SentMarks, marks_folder
from .span import Form, Span
from .span_outlet import SpanOutlet
from .span_view import SpanView

if TYPE_CHECKING:
    from .sdk_spans import Histograms

LOG = logging.getLogger("windlass.telemetry")
EVERY_MS = 1_000
BATCH_SPANS = 512
BATCH_CHARS = 1_000_000
"""What is said in spans may be long: so much of it fills a batch, too."""
PENDING_MAX = 10_000
"""So many sessions are remembered that were added to; if there are more, the store is asked which they were."""
VIEWS_MAX = 256
"""So many sessions are folded at a time; others are folded again when they are added to."""
PLACES_MAX = 100_000
"""Of so many sessions it is remembered how far they were told."""
MARGIN_MS = 60_000
"""By so much clocks may differ: what is younger than a mark less this is told again after a restart."""
RETRY_S = (1.0, 2.0, 5.0, 15.0, 60.0)
CLOSE_S = 5.0
"""How long the end of a runtime waits for the last spans to be taken."""
PAGE = 500
MISSING = "telemetry needs the SDK of OpenTelemetry: pip install 'windlass[otel]'"


def check_sdk() -> None:
    """Raises `UsageError` if the SDK is not installed."""
    try:
        spec = importlib.util.find_spec("opentelemetry.sdk")
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        raise UsageError(MISSING)


class Telemetry:
    """Turns live export on: `windlass.open(..., telemetry=Telemetry(exporter))`."""

    def __init__(
        self,
        exporter: Any,
        *,
        meters: Any = None,
        content: bool = False,
        marks: str | os.PathLike[str] | None = None,
        every_ms: int = EVERY_MS,
    ) -> None:
        """`exporter` is a `SpanExporter` of the OpenTelemetry SDK, `meters` a `MeterProvider` for the metrics; whoever
        made them shuts them down. With `content`, spans have what was said. `marks` is the folder in which is kept what
        was sent: one in the user's state folder if the store is a file or directory. Spans are sent every so often."""
        check_sdk()
        if not callable(getattr(exporter, "export", None)):
            wanted = "such as OTLPSpanExporter() of opentelemetry-exporter-otlp-proto-http"
            raise UsageError(f"telemetry needs a SpanExporter of the OpenTelemetry SDK, {wanted}, got {exporter!r}")
        self._outlet = SpanOutlet(exporter)
        self._meters = meters
        self.content = content
        self._marks = marks
        self.every_ms = every_ms

    def follower(self, tenant: str, place: str | None, now: Callable[[], int]) -> LiveExport:
        """What follows the sessions of one runtime."""
        from .sdk_spans import Histograms, readable, resource_of

        resource = resource_of(tenant)

        async def send(spans: list[Span]) -> str:
            return await self._outlet.send([readable(span, resource) for span in spans])

        folder = marks_folder(self._marks, place, tenant)
        marks = SentMarks(folder) if folder is not None else None
        histograms = Histograms(self._meters) if self._meters is not None else None
        return LiveExport(tenant, send, marks, histograms, content=self.content, every_ms=self.every_ms, now=now)


class Followed:
    """A session that is being folded."""

    def __init__(self, session: str, *, content: bool) -> None:
        self.view = SpanView(session, content=content)
        self.seq = 0


class LiveExport:
    """Follows the sessions of one runtime."""

    def __init__(
        self,
        tenant: str,
        send: Callable[[list[Span]], Any],
        marks: SentMarks | None,
        histograms: Histograms | None,
        *,
        content: bool,
        every_ms: int,
        now: Callable[[], int],
    ) -> None:
        self._tenant = tenant
        self._send = send
        self._marks = marks
        self._histograms = histograms
        self._content = content
        self._every_s = every_ms / 1000
        self._now = now
        self._unsent_ms: int | None = None
        """From when on another process may have left something unsent."""
        self._sent_ms = now()
        """Up to here everything was sent."""
        self._pending: dict[Key, None] = {}
        self._look = False
        """Whether the store must be asked which sessions were added to."""
        self._views: dict[Key, Followed] = {}
        self._places: dict[Key, int] = {}
        """Up to where each session was told."""
        self._firsts: dict[Key, int] = {}
        """Of sessions that were not told yet, what was added first here."""
        self._batch: list[Span] = []
        self._chars = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._store: Store | None = None

    async def begin(self, store: Store) -> None:
        """Looks what was left unsent, and follows from now on. Raises `UsageError` if its marks cannot be kept."""
        self._store = store
        if self._marks is not None:
            marked_ms = self._marks.begin(self._sent_ms)
            if marked_ms < self._sent_ms:
                self._unsent_ms, self._look = marked_ms - MARGIN_MS, True
                self._sent_ms = marked_ms
                self._wake.set()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="windlass:telemetry")

    def committed(self, key: Key, seq: int) -> None:
        """A session was added to."""
        if key not in self._pending:
            if len(self._pending) >= PENDING_MAX:
                self._look = True
                self._unsent_ms = min(self._sent_ms - MARGIN_MS, self._unsent_ms or self._sent_ms)
                return
            self._pending[key] = None
            if key not in self._places:
                self._firsts.setdefault(key, seq)
        self._wake.set()

    async def close(self) -> None:
        """Sends what is left, if somebody takes it in time; else the next process does."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._pass()
            if self._batch or self._pending or self._look:
                LOG.warning("the last spans of tenant %s were not taken in time%s", self._tenant, self._later())
        if self._marks is not None:
            self._marks.close()

    def _later(self) -> str:
        return ": whoever opens the store next with telemetry sends them" if self._marks is not None else ""

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(self._every_s)
            await self._pass()

    async def _pass(self) -> None:
        """Tells all that was committed before it began."""
        began_ms = self._now()
        self._wake.clear()
        try:
            if self._look:
                await self._tell_changed()
            for key in tuple(self._pending):
                del self._pending[key]
                await self._told(key)
            await self._flush()
        except WindlassError as error:  # the store does not answer: it is asked again
            LOG.warning("telemetry waits for the store: %s", error)
            self._wake.set()
            return
        self._sent_ms = began_ms
        if self._marks is not None:
            self._marks.note(began_ms)

    async def _tell_changed(self) -> None:
        """Tells what is new in all sessions that may have been added to."""
        self._look = False
        try:
            async for key in self._changed(self._sent_ms - MARGIN_MS):
                await self._tell(key)
        except BaseException:
            self._look = True
            raise

    async def _told(self, key: Key) -> None:
        """Tells what is new in a session that is not pending any more; it is again if that was cut off."""
        try:
            await self._tell(key)
        except BaseException:
            self._pending[key] = None
            raise

    async def _changed(self, since_ms: int) -> AsyncIterator[Key]:
        """The sessions that were added to since."""
        assert self._store is not None
        offset = 0
        while True:
            query = Query(tenant=self._tenant, updated_after_ms=max(0, since_ms), limit=PAGE, offset=offset)
            rows = await self._store.index.find(query)
            for row in rows:
                yield Key(self._tenant, row.session)
            if len(rows) < PAGE:
                return
            offset += len(rows)

    async def _tell(self, key: Key) -> None:
        """Folds what is new in a session, and puts what ended in it into the batch."""
        assert self._store is not None
        followed = self._views.pop(key, None) or Followed(key.session, content=self._content)
        self._views[key] = followed
        if len(self._views) > VIEWS_MAX:
            del self._views[next(iter(self._views))]
        is_new = self._is_new(key)
        with contextlib.suppress(NotFound):  # removed meanwhile
            async for sealed in LogReader(self._store).appends(key, after=followed.seq):
                for record in records_in(sealed):
                    forms = followed.view.feed(record)
                    if is_new(record):
                        self._keep(forms)
                followed.seq = sealed.last_seq
                self._place(key, sealed.last_seq)
                if len(self._batch) >= BATCH_SPANS or self._chars >= BATCH_CHARS:
                    await self._flush()

    def _is_new(self, key: Key) -> Callable[[Record | UnknownRecord], bool]:
        """Which records of a session were not told yet: those behind the last that was; of one that was not told here,
        those that were added here, and those that a process before this one may have left."""
        if (told := self._places.get(key)) is not None:
            return lambda record: record.seq > told
        first, unsent_ms = self._firsts.get(key), self._unsent_ms
        return lambda record: (
            (first is not None and record.seq >= first) or (unsent_ms is not None and record.at_ms >= unsent_ms)
        )

    def _place(self, key: Key, seq: int) -> None:
        self._firsts.pop(key, None)
        self._places[key] = max(seq, self._places.pop(key, 0))
        if len(self._places) > PLACES_MAX:
            del self._places[next(iter(self._places))]

    def _keep(self, forms: list[Form]) -> None:
        for form in forms:
            if isinstance(form, Span):
                self._batch.append(form)
                self._chars += sum(len(value) for value in form.attributes.values() if isinstance(value, str))
            elif self._histograms is not None:
                self._histograms.record(form)

    async def _flush(self) -> None:
        """Sends the batch, again and again until it is taken."""
        tries = 0
        while self._batch:
            part = self._batch[:BATCH_SPANS]
            why = await self._send(part)
            if not why:
                if tries:
                    LOG.warning("spans are taken again")
                del self._batch[: len(part)]
                self._chars = 0
                continue
            wait_s = RETRY_S[min(tries, len(RETRY_S) - 1)]
            LOG.warning("%d spans were not taken and are sent again in %g s: %s", len(part), wait_s, why)
            tries += 1
            await asyncio.sleep(wait_s)
