"""Our spans and measurements as those of the OpenTelemetry SDK. Imported on first use: it needs the SDK."""

from __future__ import annotations

import functools
from importlib.metadata import version

from opentelemetry.metrics import Histogram, MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from . import names, otlp_json
from .span import Measurement, Span

KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
UNNAMED = "unknown_service"
NANOS_PER_MS = 1_000_000


def resource_of(tenant: str = "") -> Resource:
    """What the spans of a tenant come from: as the OTEL_ variables of the environment say, else `windlass`."""
    made = Resource.create({names.TENANT: tenant} if tenant else {})
    if str(made.attributes.get(names.SERVICE_NAME, UNNAMED)).startswith(UNNAMED):
        made = made.merge(Resource({names.SERVICE_NAME: names.SCOPE}))
    return made


@functools.cache
def scope() -> InstrumentationScope:
    """Who says so."""
    return InstrumentationScope(names.SCOPE, version("windlass"), names.SCHEMA_URL)


def readable(span: Span, resource: Resource) -> ReadableSpan:
    """A span as exporters of the SDK take it."""
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id, span.flags),
        parent=_context(span.trace_id, span.parent_id, span.flags) if span.parent_id else None,
        resource=resource,
        attributes=span.attributes,
        links=[Link(_context(link.trace_id, link.span_id, span.flags)) for link in span.links],
        kind=KINDS[span.kind],
        instrumentation_scope=scope(),
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
        start_time=span.start_ms * NANOS_PER_MS,
        end_time=span.end_ms * NANOS_PER_MS,
    )


def _context(trace_id: str, span_id: str, flags: int) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(flags))


class Histograms:
    """Where measurements are added up: the histograms of the conventions, of somebody's meter provider."""

    def __init__(self, meters: MeterProvider) -> None:
        self._meter = meters.get_meter(names.SCOPE, version("windlass"), names.SCHEMA_URL)
        self._made: dict[str, Histogram] = {}

    def record(self, measured: Measurement) -> None:
        """Adds one."""
        metric = measured.metric
        if metric not in self._made:
            self._made[metric] = self._meter.create_histogram(
                metric,
                unit=otlp_json.UNITS.get(metric, "s"),
                explicit_bucket_boundaries_advisory=otlp_json.BOUNDS.get(metric, otlp_json.SECONDS),
            )
        self._made[metric].record(measured.value, measured.attributes)
