"""Everything that goes wrong with a provider, met over HTTP: one kind of failure after another, each on record."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import msgspec

import windlass
from windlass.events.base import Event
from windlass.events.values.failures import failure
from windlass.models.base import ModelInfo, Request
from windlass.models.catalogue.credentials import CredentialError
from windlass.models.catalogue.endpoints import ENDPOINTS
from windlass.models.transport.http_model import WireModel
from windlass.models.transport.timeouts import Timeouts
from windlass.testing.model_server import FORMATS, closed_port, fault

from .stage import QUICK, SHORT, Stage, keys

PATIENT = msgspec.structs.replace(QUICK, retries_max=1, sleep_over_ms=90_000_000)
RETRIED = (
    "429_ms", "500", "502", "529", "truncated", "closed", "reset", "reset_at_once", "cut_in_json", "no_end_marker",
    "error_event", "error_event_overloaded", "error_event_rate_limited", "headers_late", "first_output_late", "stall",
    "html_error", "html_ok", "empty_reply",
)  # fmt: skip
FATAL = (
    "429_quota", "400", "400_content_filter", "401", "402", "403", "404", "410", "413", "redirect", "huge_line",
    "content_filter",
)  # fmt: skip


async def passing(stage: Stage) -> None:
    """Faults after which the same request is made again and answered."""
    script: list[Any] = []
    for name in RETRIED:
        script += [fault(name), f"after {name}"]
    async with stage.serving(*script) as server:
        agent = windlass.Agent("worker", model=stage.model(server), settings=QUICK)
        async with stage.open(agent) as rt:
            session = await stage.session(rt, agent, "faults_passing")
            for name in RETRIED:
                await stage.said(session, f"meet {name}")


async def fatal(stage: Stage) -> None:
    """Faults that no second try mends."""
    async with stage.serving(*[fault(name) for name in FATAL]) as server:
        agent = windlass.Agent("worker", model=stage.model(server), settings=QUICK)
        async with stage.open(agent) as rt:
            session = await stage.session(rt, agent, "faults_fatal")
            for name in FATAL:
                await stage.said(session, f"meet {name}")


async def overfull(stage: Stage) -> None:
    """A context that does not fit, as each vendor says it, and limits as each vendor names them."""
    for form in FORMATS:
        script = [fault("429_in_body"), fault("400_context")]
        async with stage.serving(*script, window_tokens=90_000) as server:
            settings = msgspec.structs.replace(QUICK, retries_max=0)
            agent = windlass.Agent("worker", model=stage.model(server, form), settings=settings)
            async with stage.open(agent, store=form) as rt:
                session = await stage.session(rt, agent, f"overfull_{form}")
                await stage.said(session, "limited")
                await stage.said(session, "far too much")


@contextlib.contextmanager
def deaf_port() -> Iterator[int]:
    """A port that listens and takes no more connections: whoever comes waits in vain."""
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            knocking = opened.enter_context(socket.socket())
            knocking.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                knocking.connect(server.getsockname())
        yield server.getsockname()[1]


def model_at(port: int, credential: Any = "", timeouts: Timeouts = SHORT) -> WireModel:
    endpoint = msgspec.structs.replace(ENDPOINTS["openai"], base_url=f"http://127.0.0.1:{port}/v1")
    known = ModelInfo(name="openai/m", provider="openai", model="m")
    key = credential if credential != "" else f"sk-stage-{next(keys):08}"
    return WireModel(endpoint, "m", credential=key, info=known, timeouts=timeouts)


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes a request and breaks the connection."""
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()


def expired() -> str:
    """A sign-in that is over."""
    told = failure("reauth_required", "the sign-in is no longer valid: sign in again", detail={"credential": "work"})
    raise CredentialError(told)


async def unreachable(stage: Stage) -> None:
    """No connection, none in time, too slow as a whole, an open circuit, no key, a sign-in that is over."""
    once = msgspec.structs.replace(QUICK, retries_max=0)
    rude = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    hung_up = rude.sockets[0].getsockname()[1]
    with deaf_port() as deaf:
        models = {
            "refused": model_at(closed_port()),
            "deaf": model_at(deaf, timeouts=Timeouts(connect=0.2, headers=9, first_output=9, idle=9, total=9)),
            "hung_up": model_at(hung_up),
            "keyless": model_at(closed_port(), None),
            "expired": model_at(closed_port(), expired),
        }
        for name, model in models.items():
            agent = windlass.Agent(name, model=model, settings=once)
            async with stage.open(agent, store=name) as rt:
                await stage.said(await stage.session(rt, agent, f"unreachable_{name}"), "go")
            await model.close()
    rude.close()
    async with stage.serving(fault("drip", delay_ms=60)) as server:
        slow = Timeouts(connect=1, headers=1, first_output=1, idle=1, total=0.4)
        agent = windlass.Agent("slow", model=stage.model(server, timeouts=slow), settings=once)
        async with stage.open(agent, store="slow") as rt:
            await stage.said(await stage.session(rt, agent, "unreachable_slow"), "go")
    async with stage.serving(*[fault("500")] * 12) as server:
        agent = windlass.Agent(
            "ill", model=stage.model(server), settings=msgspec.structs.replace(PATIENT, retries_max=9)
        )
        async with stage.open(agent, store="ill") as rt:
            session = await stage.session(rt, agent, "unreachable_ill")
            await session.prompt("go")
            await stage.until_event(session, circuit_is_open)
            await session.cancel()
            await session.wait_idle()


def circuit_is_open(event: Event) -> bool:
    found = getattr(event, "failure", None)
    return found is not None and found.kind == "circuit_open"


class Ill:
    """A model whose author made a mistake."""

    info = ModelInfo(name="ill/m", provider="ill", model="m")

    def stream(self, request: Request) -> Any:
        raise RuntimeError("a mistake of its author's")

    async def close(self) -> None:
        await asyncio.sleep(0)


async def mistaken(stage: Stage) -> None:
    """A model that raises instead of answering."""
    agent = windlass.Agent("mistaken", model=Ill(), settings=QUICK)
    async with stage.open(agent) as rt:
        await stage.said(await stage.session(rt, agent, "mistaken"), "go")


SCENARIOS = {
    "faults_passing": passing,
    "faults_fatal": fatal,
    "overfull": overfull,
    "unreachable": unreachable,
    "mistaken": mistaken,
}
