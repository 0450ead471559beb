"""Spans while sessions work: the very spans of an export, at least once whatever is killed, and nobody waits for them."""

from __future__ import annotations

import asyncio
import os
import pathlib
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import windlass
from windlass.events.errors import UsageError
from windlass.protocol.log_tail import records
from windlass.protocol.telemetry import live_export, names
from windlass.protocol.telemetry.live_export import BATCH_SPANS, LiveExport
from windlass.protocol.telemetry.sent_marks import SentMarks
from windlass.protocol.telemetry.span import Measurement, Span
from windlass.protocol.telemetry.span_view import SpanView
from windlass.store import open_store
from windlass.store.base import Key, Store
from windlass.telemetry import Telemetry
from windlass.testing import ScriptedModel, call
from windlass.testing.scripted import by_history

from .otlp_receiver import Receiver, receiving
from .telemetry_target import look, reader


async def exported(store: Store, *keys: Key) -> list[Span | Measurement]:
    """What an export gives of sessions."""
    return [
        form for key in keys for view in (SpanView(key.session),) async for one in records(store, key)
        for form in view.feed(one)
    ]  # fmt: skip


async def span_ids(store: Store, *keys: Key) -> set[str]:
    return {form.span_id for form in await exported(store, *keys) if isinstance(form, Span)}


class Kept(InMemorySpanExporter):
    """Keeps what it is given, and says so."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        taken = super().export(spans)
        self.heard.set()
        return taken

    @property
    def ids(self) -> list[str]:
        return [f"{span.context.span_id:016x}" for span in self.get_finished_spans() if span.context is not None]

    async def until(self, wanted: set[str]) -> None:
        while not wanted <= set(self.ids):
            await asyncio.to_thread(self.heard.wait)
            self.heard.clear()


async def test_spans_are_told_while_a_session_works_and_are_those_of_an_export():
    exporter, reader_of_metrics = Kept(), InMemoryMetricReader()
    half, whole = asyncio.Event(), asyncio.Event()

    @windlass.tool
    async def wait() -> str:
        "Waits."
        half.set()
        await whole.wait()
        return "it was said"

    agent = windlass.Agent("waiter", model=ScriptedModel([call("wait"), "Secret words."]), tools=[wait])
    telemetry = Telemetry(exporter, meters=MeterProvider([reader_of_metrics]), every_ms=1)
    async with windlass.open(None, agents=[agent], telemetry=telemetry) as runtime:
        session = await runtime.session(agent, "march")
        await session.prompt("Wait.")
        await half.wait()
        await exporter.until(
            {form.span_id for form in await exported(runtime.store, session.key) if isinstance(form, Span)}
        )
        assert [span.name for span in exporter.get_finished_spans()] == ["chat scripted"]
        whole.set()
        await session.result()
        forms = await exported(runtime.store, session.key)
    spans = [form for form in forms if isinstance(form, Span)]
    told = exporter.get_finished_spans()
    assert exporter.ids == [span.span_id for span in spans]
    assert [dict(span.attributes or {}) for span in told] == [span.attributes for span in spans]
    assert [(span.start_time, span.end_time) for span in told] == [
        (span.start_ms * 1_000_000, span.end_ms * 1_000_000) for span in spans
    ]
    assert {span.resource.attributes[names.SERVICE_NAME] for span in told} == {"windlass"}
    assert "Secret words." not in str([span.attributes for span in told])
    data: Any = reader_of_metrics.get_metrics_data()
    (scope,) = data.resource_metrics[0].scope_metrics
    counted = {metric.name: sum(point.count for point in metric.data.data_points) for metric in scope.metrics}
    measured = [form.metric for form in forms if isinstance(form, Measurement)]
    assert counted == {name: measured.count(name) for name in set(measured)}


async def test_what_was_said_is_in_spans_if_it_is_asked_for():
    exporter = Kept()
    agent = windlass.Agent("a", model=ScriptedModel(["Secret words."]))
    async with windlass.open(None, agents=[agent], telemetry=Telemetry(exporter, content=True, every_ms=1)) as runtime:
        session = await runtime.session(agent, "march")
        await session.prompt("Say it.")
        await session.result()
    assert "Secret words." in str([span.attributes for span in exporter.get_finished_spans()])


class Hanging(Kept):
    """Does not come back until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.free = threading.Event(), threading.Event()
        self.most = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.began.set()
        self.most = max(self.most, len(spans))
        self.free.wait()
        return super().export(spans)


async def test_a_collector_that_hangs_slows_no_session_and_memory_holds_one_batch():
    exporter = Hanging()
    agent = windlass.Agent("a", model=ScriptedModel(by_history([call("look", page=1), "Read."])), tools=[look])
    async with windlass.open(None, agents=[agent], telemetry=Telemetry(exporter, every_ms=1)) as runtime:
        follower = runtime.life.follower
        assert isinstance(follower, LiveExport)
        first = await runtime.session(agent, "first")
        await first.prompt("Read.")
        await asyncio.to_thread(exporter.began.wait)
        keys = [first.key]
        for number in range(400):  # each ends while the exporter hangs
            session = await runtime.session(agent, f"s{number}")
            await session.prompt("Read.")
            assert (await session.result()).status == "completed"
            keys.append(session.key)
        assert len(follower._batch) <= BATCH_SPANS
        assert exporter.ids == []
        wanted = await span_ids(runtime.store, *keys)
        exporter.free.set()
        await exporter.until(wanted)
    assert sorted(exporter.ids) == sorted(wanted), "each once"
    assert exporter.most <= BATCH_SPANS


class Moody(Kept):
    """Fails, raises, and then takes what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.asked += 1
        if self.asked == 1:
            return SpanExportResult.FAILURE
        if self.asked == 2:
            raise OSError("no route to it")
        return super().export(spans)


async def test_what_a_collector_does_not_take_is_offered_again(monkeypatch, caplog):
    monkeypatch.setattr(live_export, "RETRY_S", (0.0,))
    exporter, agent = Moody(), reader()
    async with windlass.open(None, agents=[agent], telemetry=Telemetry(exporter, every_ms=1)) as runtime:
        session = await runtime.session(agent, "march")
        await session.prompt("Read.")
        await session.result()
        await exporter.until(wanted := await span_ids(runtime.store, session.key))
    assert sorted(exporter.ids) == sorted(wanted)
    said = [one.getMessage() for one in caplog.records if one.name == "windlass.telemetry"]
    assert [line.partition(": ")[2] for line in said] == [
        "the exporter says that it failed",
        "OSError: no route to it",
        "",
    ]


@pytest.mark.parametrize(("bound", "most"), [("PENDING_MAX", 2), ("VIEWS_MAX", 1), ("BATCH_SPANS", 1), ("PAGE", 2)])
async def test_bounds_leave_nothing_out_and_tell_nothing_twice(monkeypatch, bound, most):
    monkeypatch.setattr(live_export, bound, most)
    exporter, agent = Kept(), reader()
    async with windlass.open(None, agents=[agent], telemetry=Telemetry(exporter, every_ms=1)) as runtime:
        sessions = [await runtime.session(agent, f"s{number}") for number in range(7)]
        for _ in range(2):
            for session in sessions:
                await session.prompt("Read.")
            for session in sessions:
                await session.result()
        await exporter.until(wanted := await span_ids(runtime.store, *(session.key for session in sessions)))
    assert sorted(exporter.ids) == sorted(wanted)


async def test_a_session_from_before_is_told_from_where_it_goes_on(tmp_path):
    place, agent, exporter = str(tmp_path / "s.db"), reader(), Kept()
    async with windlass.open(place, agents=[agent]) as runtime:
        session = await runtime.session(agent, "march")
        await session.prompt("Read.")
        await session.result()
        before = await span_ids(runtime.store, session.key)
    async with windlass.open(place, agents=[agent], telemetry=Telemetry(exporter, every_ms=1)) as runtime:
        session = await runtime.session(agent, "march")
        await session.prompt("Read on.")
        await session.result()
        after = await span_ids(runtime.store, session.key)
    assert set(exporter.ids) == after - before


# --- over a restart ---


class Process:
    """The target, as a process of its own."""

    def __init__(self, place: pathlib.Path, url: str, *session: str) -> None:
        self._words = (sys.executable, "-m", "tests.protocol.telemetry_target", str(place / "s.db"), str(place / "m"))
        self._session = session
        self._env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_SERVICE_NAME": "reading-room"}

    async def __aenter__(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self._words, *self._session, stdin=pipe, stdout=pipe, env=self._env
        )
        assert self._process.stdout is not None
        assert await self._process.stdout.readline() == b"done\n"
        return self._process

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


async def wanted_of(place: pathlib.Path) -> set[str]:
    store = await open_store(str(place / "s.db"))
    try:
        return await span_ids(store, Key("default", "march"))
    finally:
        await store.close()


@pytest.mark.parametrize("how", ["hangs", "refuses"])
async def test_what_a_killed_process_had_not_sent_is_sent_by_the_next_with_the_same_ids(tmp_path, how):
    async with receiving() as receiver:
        if how == "hangs":
            receiver.free.clear()
        receiver.status = 503
        async with Process(tmp_path, receiver.url, "march") as process:
            await receiver.until_asked(1)
            process.kill()
            await process.wait()
        wanted = await wanted_of(tmp_path)
        receiver.free.set()
        assert receiver.ids == set()
        receiver.status = 200
        async with Process(tmp_path, receiver.url):
            await receiver.until(wanted)
        assert receiver.ids == wanted
        assert receiver.about[names.SERVICE_NAME] == "reading-room"
        assert receiver.about[names.TENANT] == "default"
        check_as_sent(receiver)


def check_as_sent(receiver: Receiver) -> None:
    """The official types say of the spans what they are."""
    assert sorted(span.name for span in receiver.spans) == [
        "chat scripted", "chat scripted", "execute_tool look", "invoke_agent reader",
    ]  # fmt: skip
    (run,) = [span for span in receiver.spans if span.name == "invoke_agent reader"]
    assert {span.parent_span_id for span in receiver.spans if span is not run} == {run.span_id}
    assert len({span.trace_id for span in receiver.spans}) == 1


async def test_a_process_that_is_ended_in_order_sends_what_is_left_and_its_metrics(tmp_path):
    async with receiving() as receiver:
        async with Process(tmp_path, receiver.url, "march") as process:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
        assert receiver.ids == await wanted_of(tmp_path)
        await receiver.until_metrics()
        asked = receiver.asked
        async with Process(tmp_path, receiver.url) as process:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
        assert set(receiver.ids) == await wanted_of(tmp_path), "what is younger than the margin may come again"
        assert receiver.asked >= asked


# --- marks ---


def test_marks_that_nobody_holds_are_taken_over_and_others_are_not(tmp_path):
    folder = tmp_path / "marks"
    first, second = SentMarks(folder), SentMarks(folder)
    assert first.begin(1_000) == 1_000
    assert second.begin(2_000) == 2_000, "the first is held"
    first.note(1_500)
    first.close()
    third = SentMarks(folder)
    assert third.begin(3_000) == 1_500
    fourth = SentMarks(folder)
    assert fourth.begin(4_000) == 4_000, "the third has it now"
    for one in (second, third, fourth):
        one.close()
    assert SentMarks(folder).begin(5_000) == 1_500


def test_a_mark_that_cannot_be_read_is_passed_over(tmp_path):
    (tmp_path / "x.mark").write_text("nonsense")
    (tmp_path / "y.mark").symlink_to("/nowhere")
    assert SentMarks(tmp_path).begin(7) == 7


def test_a_folder_for_marks_that_cannot_be_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"marks.*cannot be used.*Telemetry\(marks="):
        SentMarks(tmp_path / "file").begin(1)


def test_what_is_no_exporter_is_refused():
    with pytest.raises(UsageError, match="SpanExporter"):
        Telemetry("http://127.0.0.1:4318")
