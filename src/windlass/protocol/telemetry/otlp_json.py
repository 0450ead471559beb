"""OTLP in its JSON form: spans and histograms as the objects that collectors take, without the SDK. The same log gives
the same bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

from . import names
from .span import Attribute, Measurement, Span

KINDS = {"internal": 1, "client": 3}
ERROR = 2
CUMULATIVE = 2
TOKENS = tuple(float(4**power) for power in range(14))
SECONDS = tuple(0.01 * 2**power for power in range(14))
BOUNDS = {names.TOKEN_USAGE: TOKENS}
UNITS = {names.TOKEN_USAGE: "{token}"}


def traces(spans: Sequence[Span], *, service: str, tenant: str) -> dict[str, Any]:
    """Spans as an `ExportTraceServiceRequest`."""
    scope = {"scope": _scope(), "schemaUrl": names.SCHEMA_URL, "spans": [_span(span) for span in spans]}
    return {"resourceSpans": [{**_resource(service, tenant), "scopeSpans": [scope]}]}


def metrics(measured: Iterable[Measurement], *, service: str, tenant: str, since_ms: int) -> dict[str, Any]:
    """Measurements as an `ExportMetricsServiceRequest`: histograms, counted from the beginning."""
    by_metric: dict[str, dict[tuple[tuple[str, Attribute], ...], list[Measurement]]] = {}
    for one in measured:
        by_metric.setdefault(one.metric, {}).setdefault(tuple(sorted(one.attributes.items())), []).append(one)
    made = [
        {
            "name": metric,
            "unit": UNITS.get(metric, "s"),
            "histogram": {
                "aggregationTemporality": CUMULATIVE,
                "dataPoints": [_point(metric, points, since_ms) for _, points in sorted(series.items(), key=str)],
            },
        }
        for metric, series in sorted(by_metric.items())
    ]
    scope = {"scope": _scope(), "schemaUrl": names.SCHEMA_URL, "metrics": made}
    return {"resourceMetrics": [{**_resource(service, tenant), "scopeMetrics": [scope]}]}


def _scope() -> dict[str, Any]:
    return {"name": names.SCOPE, "version": version("windlass")}


def _resource(service: str, tenant: str) -> dict[str, Any]:
    about = _attributes({names.SERVICE_NAME: service, names.TENANT: tenant})
    return {"resource": {"attributes": about}, "schemaUrl": names.SCHEMA_URL}


def _span(span: Span) -> dict[str, Any]:
    made: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": KINDS[span.kind],
        "startTimeUnixNano": _nanos(span.start_ms),
        "endTimeUnixNano": _nanos(span.end_ms),
        "attributes": _attributes(span.attributes),
        "status": {"code": ERROR, "message": span.error} if span.error else {},
        "flags": span.flags,
    }
    if span.parent_id:
        made["parentSpanId"] = span.parent_id
    if span.links:
        made["links"] = [{"traceId": link.trace_id, "spanId": link.span_id} for link in span.links]
    return made


def _point(metric: str, points: list[Measurement], since_ms: int) -> dict[str, Any]:
    bounds = BOUNDS.get(metric, SECONDS)
    counts = [0] * (len(bounds) + 1)
    values = [point.value for point in points]
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    return {
        "attributes": _attributes(points[0].attributes),
        "startTimeUnixNano": _nanos(since_ms),
        "timeUnixNano": _nanos(max(point.at_ms for point in points)),
        "count": str(len(points)),
        "sum": sum(values),
        "min": min(values),
        "max": max(values),
        "bucketCounts": [str(count) for count in counts],
        "explicitBounds": list(bounds),
    }


def _nanos(at_ms: int) -> str:
    return str(at_ms * 1_000_000)


def _attributes(about: dict[str, Attribute]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in about.items()]


def _value(value: Attribute) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, tuple):
        return {"arrayValue": {"values": [{"stringValue": one} for one in value]}}
    return {"stringValue": value}
