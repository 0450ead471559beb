"""Sends an answer, whole or streamed, under a fault or none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec
from aiohttp import web

from windlass.testing.model_server.faults.fault import Fault
from windlass.testing.model_server.faults.sending_steps import body_frames, bomb, disturbed, plain
from windlass.testing.model_server.wires.parsed import Recorded
from windlass.testing.model_server.wires.wire import Frame, Made, Wire, WireRefused, encode

from .wire_output import Delivery

SSE = "text/event-stream; charset=utf-8"
HTML = "text/html; charset=utf-8"
ERROR_PAGE = b"<!DOCTYPE html><html><head><title>Error</title></head><body><h1>Error</h1></body></html>"

BLANK = b"\n"
"""What keeps a connection alive before a JSON body, which may begin with any white space."""


REQUEST_ID_HEADERS: dict[str, str] = {
    "anthropic": "request-id",
    "openai": "x-request-id",
    "responses": "x-request-id",
    "gemini": "x-request-id",
}


def request_id(recorded: Recorded) -> str:
    """What the vendor calls this request, in its headers and errors."""
    return f"req_{recorded.number:08d}"


async def play(
    delivery: Delivery, wire: Wire, made: Made, met: Fault, headers: dict[str, str], elsewhere: str
) -> web.StreamResponse:
    """A reply that meets a fault. `elsewhere` is the root address that a redirect leads to."""
    headers = {**headers, **met.headers}
    match met.how:
        case "html":
            return await delivery.body(met.status, ERROR_PAGE, HTML, headers)
        case "redirect":
            headers["Location"] = elsewhere + delivery.request.path_qs
            return await delivery.body(met.status, b"", "text/plain", headers)
        case "gzip_bomb":
            headers["Content-Encoding"] = "gzip"
            data = await asyncio.to_thread(bomb, met.size)
            return await delivery.body(200, data, SSE if made.request.stream else "application/json", headers)
        case "headers_late":
            await delivery.stopping.hold(met.delay_ms)
    return await send(delivery, wire, made, headers, met)


async def send(
    delivery: Delivery, wire: Wire, made: Made, headers: dict[str, str], met: Fault | None = None
) -> web.StreamResponse:
    """Writes an answer, streamed or whole, under a fault or none."""
    stream = made.request.stream
    kind = SSE if stream else "application/json"
    if met is None and not stream:
        return await delivery.json(200, wire.reply(made), headers)
    if met is not None and met.how == "content_type":
        kind = "text/plain; charset=utf-8"
    frames: Iterable[Frame] = wire.frames(made) if stream else body_frames(encode(wire.reply(made)))
    if met is None:
        return await delivery.steps(plain(frames, made.answer.pace_ms), kind=kind, headers=headers)
    length = None
    if not stream:
        if met.how == "error_event":
            refused = WireRefused(met.message, status=met.status, kind=met.error_type, code=met.code)
            return await delivery.json(200, wire.error(refused, request_id(delivery.recorded)), headers)
        if met.how == "flood":
            frames, met = [Frame("text", encode(wire.reply(made)))], msgspec.structs.replace(met, one_line=True)
        if met.how == "cut" and met.end != "clean":
            length = len(encode(wire.reply(made)))
    ping = wire.ping().data if stream else BLANK
    return await delivery.steps(disturbed(frames, met, wire, ping), kind=kind, headers=headers, length=length)
