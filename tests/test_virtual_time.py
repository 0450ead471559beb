"""Virtual time does what it says: waiting costs nothing, sockets and threads are waited for, order is kept."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tests.virtual_time import in_virtual_time


@in_virtual_time
async def test_an_hour_passes_at_once_and_to_the_second():
    begun, really = asyncio.get_running_loop().time(), time.monotonic()
    await asyncio.sleep(3_000)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(500):
            await asyncio.Event().wait()
    assert asyncio.get_running_loop().time() - begun == pytest.approx(3_500)
    assert time.monotonic() - really < 3_000


@in_virtual_time
async def test_what_is_under_way_between_two_sockets_comes_before_any_timer():
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await asyncio.sleep(10)
        writer.write(b"late\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"x" * 10_000 + b"\n")
        async with asyncio.timeout(0.001):
            assert await reader.readline() == b"x" * 10_000 + b"\n"
        async with asyncio.timeout(10.5):
            assert await reader.readline() == b"late\n"
        writer.close()
        await writer.wait_closed()


@in_virtual_time
async def test_a_thread_of_the_loop_is_waited_for():
    gate = threading.Event()
    asyncio.get_running_loop().call_later(5, gate.set)
    really = threading.Timer(0.1, gate.set)
    really.start()
    async with asyncio.timeout(1):
        assert await asyncio.to_thread(gate.wait, 60)
    really.join()
