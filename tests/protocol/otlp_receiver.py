"""A collector on loopback: OTLP over HTTP, read by the official protobuf types. It can refuse, and it can hang."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Receiver:
    """What it was sent."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Span] = []
        self.metrics: list[Any] = []
        self.about: dict[str, str] = {}
        """What the last spans said of where they come from."""
        self.asked = 0
        self.status = 200
        self.free = asyncio.Event()
        """Cleared, it takes requests and never answers."""
        self.free.set()
        self._heard = asyncio.Condition()

    @property
    def ids(self) -> set[str]:
        return {span.span_id.hex() for span in self.spans}

    async def until(self, wanted: set[str]) -> None:
        """Waits until it has these spans."""
        async with self._heard:
            await self._heard.wait_for(lambda: wanted <= self.ids)

    async def until_asked(self, times: int) -> None:
        async with self._heard:
            await self._heard.wait_for(lambda: self.asked >= times)

    async def until_metrics(self) -> None:
        async with self._heard:
            await self._heard.wait_for(lambda: self.metrics)

    async def _traces(self, request: web.Request) -> web.Response:
        told = ExportTraceServiceRequest.FromString(await request.read())
        await self._note()
        if not self.free.is_set():
            await self.free.wait()
            return web.Response(status=503)
        if self.status == 200:
            for resource in told.resource_spans:
                self.about = {one.key: one.value.string_value for one in resource.resource.attributes}
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
            async with self._heard:
                self._heard.notify_all()
        body = ExportTraceServiceResponse().SerializeToString()
        return web.Response(status=self.status, body=body, content_type="application/x-protobuf")

    async def _metrics(self, request: web.Request) -> web.Response:
        told = ExportMetricsServiceRequest.FromString(await request.read())
        for resource in told.resource_metrics:
            self.metrics += [metric for scope in resource.scope_metrics for metric in scope.metrics]
        async with self._heard:
            self._heard.notify_all()
        return web.Response(body=b"", content_type="application/x-protobuf")

    async def _note(self) -> None:
        async with self._heard:
            self.asked += 1
            self._heard.notify_all()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A collector at an address of its own."""
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/v1/traces", receiver._traces)
    app.router.add_post("/v1/metrics", receiver._metrics)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield receiver
    finally:
        receiver.free.set()
        await runner.cleanup()
