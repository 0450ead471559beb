"""Spans and measurements: rebuilt from the log, the same each time, by the names of the conventions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

from tests.operate.support import DONE, sessions
from windlass import Agent, ToolContext, tool
from windlass.events.errors import Refused, UsageError
from windlass.events.values.traces import TraceContext, span_id, trace_context, trace_id
from windlass.protocol.log_tail import records
from windlass.protocol.telemetry import names
from windlass.protocol.telemetry.span import Form, Measurement, Span
from windlass.protocol.telemetry.span_view import SpanView
from windlass.protocol.telemetry.tree_export import check_collector, otlp_documents, send
from windlass.runtime.api.runtime import Runtime
from windlass.store.base import Key, Store
from windlass.store.memory import MemoryStore
from windlass.testing import ScriptedModel, call, turn

BROUGHT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def told(store: Store, key: Key, *, content: bool = False) -> list[Form]:
    view = SpanView(key.session, content=content)
    return [form async for record in records(store, key) for form in view.feed(record)]


def spans_of(forms: list[Form]) -> list[Span]:
    return [form for form in forms if isinstance(form, Span)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (BROUGHT, TraceContext(trace_id="0af7651916cd43dd8448eb211c80319c", span_id="b7ad6b7169203331")),
        (
            f"01{BROUGHT[2:]}-more",
            TraceContext(trace_id="0af7651916cd43dd8448eb211c80319c", span_id="b7ad6b7169203331"),
        ),
        (f"{BROUGHT}-more", None),
        (f"ff{BROUGHT[2:]}", None),
        (BROUGHT.upper(), None),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", None),
        (f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01", None),
        ("", None),
    ],
)
def test_a_traceparent_is_read_as_its_standard_says(text: str, wanted: TraceContext | None):
    assert trace_context(text) == wanted


def test_names_are_those_of_the_conventions():
    known = {
        value
        for module in (gen_ai_attributes, gen_ai_metrics)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    ours = {value for value in vars(names).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    assert ours - known == set()
    assert list(Schemas)[-1].value == names.SCHEMA_URL
    operations = {one.value for one in gen_ai_attributes.GenAiOperationNameValues}
    assert {names.CHAT, names.EXECUTE_TOOL, names.INVOKE_AGENT, names.INVOKE_WORKFLOW} <= operations
    assert set(names.PROVIDERS.values()) <= {one.value for one in gen_ai_attributes.GenAiProviderNameValues}


async def test_a_run_is_a_span_with_its_requests_and_calls_below_it_and_is_the_same_each_time():
    async with sessions() as store:
        forms = await told(store, DONE)
        assert forms == await told(store, DONE)
        documents = await otlp_documents(store, DONE)
        assert documents == await otlp_documents(store, DONE)
    spans = spans_of(forms)
    run = spans[-1]
    assert [span.name.partition(" ")[0] for span in spans] == ["chat", "execute_tool", "chat", "invoke_agent"]
    assert {span.trace_id for span in spans} == {trace_id(DONE.session)}
    assert [span.parent_id for span in spans] == [run.span_id] * 3 + [""]
    assert len({span.span_id for span in spans}) == 4
    assert all(span.start_ms <= span.end_ms and not span.error for span in spans)
    measured = [form.metric for form in forms if isinstance(form, Measurement)]
    assert measured.count(names.OPERATION_DURATION) == 2


async def test_content_is_told_only_if_it_is_asked_for():
    async with sessions() as store:
        silent = json.dumps([span.attributes for span in spans_of(await told(store, DONE))])
        loud = [span.attributes for span in spans_of(await told(store, DONE, content=True))]
    assert "Done: 7." not in silent
    assert names.OUTPUT_MESSAGES not in silent
    assert "Done: 7." in str(loud[-2][names.OUTPUT_MESSAGES])
    assert names.TOOL_CALL_ARGUMENTS in loud[1]


async def test_what_the_sdk_keeps_of_our_spans_is_what_they_say():
    async with sessions() as store:
        spans = spans_of(await told(store, DONE))
    exporter = InMemorySpanExporter()
    exporter.export([sdk_span(span) for span in spans])
    kept = exporter.get_finished_spans()
    assert [json.loads(one.to_json())["context"]["span_id"] for one in kept] == [f"0x{span.span_id}" for span in spans]
    assert [dict(one.attributes or {}) for one in kept] == [span.attributes for span in spans]
    assert all(one.context is not None and one.context.is_valid for one in kept)


def sdk_span(span: Span) -> ReadableSpan:
    def context(name: str) -> SpanContext:
        return SpanContext(int(span.trace_id, 16), int(name, 16), is_remote=False, trace_flags=TraceFlags(span.flags))

    return ReadableSpan(
        name=span.name,
        context=context(span.span_id),
        parent=context(span.parent_id) if span.parent_id else None,
        attributes=span.attributes,
        kind=SpanKind.CLIENT if span.kind == "client" else SpanKind.INTERNAL,
        start_time=span.start_ms * 1_000_000,
        end_time=span.end_ms * 1_000_000,
    )


async def test_a_trace_that_a_caller_brings_is_that_of_the_run_and_is_given_to_tools():
    seen: list[str] = []

    @tool
    def look(ctx: ToolContext) -> str:
        "Looks."
        seen.append(ctx.traceparent)
        return "seen"

    agent = Agent("looker", model=ScriptedModel([turn(call("look")), turn("done")]), tools=[look])
    store = MemoryStore()
    async with Runtime(store, agents=[agent]) as runtime:
        session = await runtime.session(agent, "traced")
        with pytest.raises(Refused, match="is no trace context"):
            await session.prompt("go", trace="nonsense")
        await session.prompt("go", trace=BROUGHT)
        await session.result()
        spans = spans_of(await told(store, session.key))
    assert {span.trace_id for span in spans} == {"0af7651916cd43dd8448eb211c80319c"}
    assert spans[-1].parent_id == "b7ad6b7169203331"
    (looked,) = [span for span in spans if span.name == "execute_tool look"]
    assert seen == [TraceContext(trace_id=looked.trace_id, span_id=looked.span_id).traceparent]
    assert looked.span_id == span_id("traced", str(looked.attributes[names.TOOL_CALL_ID]))


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1", "http://collector.invalid:4318", "http://", "http://127.0.0.1/?a=b"]
)
def test_a_collector_that_cannot_be_meant_is_refused(url: str):
    with pytest.raises(UsageError, match=r"collector|clear"):
        check_collector(url)


async def test_a_collector_gets_traces_and_metrics_and_its_refusal_is_said():
    got: dict[str, Any] = {}

    async def take(request: web.Request) -> web.Response:
        got[request.path] = await request.json()
        return web.json_response({}, status=200 if request.path == "/v1/traces" else 503)

    app = web.Application()
    app.router.add_post("/v1/{kind}", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        async with sessions() as store:
            documents = await otlp_documents(store, DONE)
        with pytest.raises(UsageError, match="refused metrics: HTTP 503"):
            await send(f"http://127.0.0.1:{port}/", documents)
    finally:
        await runner.cleanup()
    (resource,) = got["/v1/traces"]["resourceSpans"]
    assert [len(span["traceId"]) for span in resource["scopeSpans"][0]["spans"]] == [32] * 4
    (measured,) = got["/v1/metrics"]["resourceMetrics"]
    assert names.OPERATION_DURATION in [metric["name"] for metric in measured["scopeMetrics"][0]["metrics"]]
