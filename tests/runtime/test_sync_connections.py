"""`run_sync` over and over with one model: each loop that ends takes its connections along."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator

import pytest

import windlass
from windlass.models.transport import http
from windlass.testing.model_server import ModelServer

from .serving import model_at

RUNS = 20
SETTLES_S = 60.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts open files where /proc lists them")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model server with a loop and a thread of its own, since `run_sync` is called from none."""
    found: list[ModelServer] = []
    ready = threading.Event()

    async def serve(ended: asyncio.Event) -> None:
        async with ModelServer() as server:
            found.append(server)
            ready.set()
            await ended.wait()

    def run() -> None:
        loop.run_until_complete(serve(ended))
        loop.close()

    loop, ended = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    yield found[0]
    loop.call_soon_threadsafe(ended.set)
    thread.join()


def sockets() -> int:
    gc.collect()
    return sum(os.readlink(f"/proc/self/fd/{name}").startswith("socket:") for name in _open_files())


def _open_files() -> list[str]:
    return [name for name in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{name}")]


def comes_down_to(count: int) -> bool:
    """Whether there are soon no more sockets: the server, in this process too, needs a moment to see its end close."""
    until = time.monotonic() + SETTLES_S
    while sockets() > count and time.monotonic() < until:
        time.sleep(0.01)
    return sockets() <= count


def test_run_sync_again_and_again_leaves_no_connection_open(server: ModelServer):
    agent = windlass.Agent("a", model=model_at(server))
    before = sockets()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(RUNS):
            agent.run_sync("hello")
        assert comes_down_to(before)
    assert [str(warning.message) for warning in warned if warning.category is ResourceWarning] == []
    assert all(not loop.is_closed() for loop in http._transports)


def test_run_sync_inside_a_loop_leaves_that_loops_connections_alone(server: ModelServer):
    model = model_at(server)
    agent = windlass.Agent("a", model=model)

    async def both() -> None:
        await agent.run("outside")
        session = http.transport().session()
        agent.run_sync("inside")
        assert not session.closed
        await agent.run("outside again")
        assert http.transport().session() is session
        await model.close()
        assert session.closed

    asyncio.run(both())


def test_loops_that_ended_with_a_model_open_are_let_go_at_the_next_use(server: ModelServer):
    agent = windlass.Agent("a", model=model_at(server))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # whoever ends a loop should close the model before
        before = sockets()
        for _ in range(5):
            asyncio.run(agent.run("hello"))
        agent.run_sync("hello")
        assert comes_down_to(before)
    assert all(not loop.is_closed() for loop in http._transports)
