"""Telemetry as the OTEL_ variables of the environment describe it: OTLP over HTTP, by the SDK's own exporters."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
from typing import Any

from windlass.events.errors import UsageError

from .live_export import MISSING, Telemetry, check_sdk
from .span_outlet import in_a_thread

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
PROTOCOLS = ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL")
HTTP = "http/protobuf"
SHUT_S = 3.0
"""How long the exporters may take to end."""


class OtelExport:
    """The exporters that the environment describes. Raises `UsageError` for what it describes and is not there."""

    def __init__(self) -> None:
        check_sdk()
        if importlib.util.find_spec("opentelemetry.exporter") is None:
            raise UsageError(MISSING)
        for name in PROTOCOLS:
            if (told := os.environ.get(name, HTTP)) != HTTP:
                raise UsageError(f"{name} is {told!r}: spans are sent by {HTTP}, most often to port 4318")
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ModuleNotFoundError:
            raise UsageError(MISSING) from None
        self._meters = _meters() if os.environ.get("OTEL_METRICS_EXPORTER", "otlp") != "none" else None
        self._exporter = OTLPSpanExporter()
        content = os.environ.get(CONTENT, "").strip().lower() == "true"
        self.telemetry = Telemetry(self._exporter, meters=self._meters, content=content)

    @property
    def place(self) -> str:
        """Where spans are sent."""
        return str(self._exporter._endpoint)

    async def close(self) -> None:
        """Ends the exporters; those that do not end in time are left."""
        for one in (self._exporter, self._meters):
            if one is not None:
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(SHUT_S):
                        await in_a_thread(one.shutdown)


def _meters() -> Any:
    """What adds measurements up and sends them every minute, or as OTEL_METRIC_EXPORT_INTERVAL says."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    from .sdk_spans import resource_of

    return MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource=resource_of())
