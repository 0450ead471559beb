"""The process behind one stdio client: it serves that client, and stays until what was begun has come to rest.

It is not the process that the client started, which may be killed with it, but one of its own session beside it
(`bridge`). Killed itself, it leaves everything to the next one that opens the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time

from windlass.runtime.api.runtime import Runtime

from .caller import Caller
from .desk import Desk
from .line_streams import line_streams
from .service import service

LINGER_S = 3_600.0


class StdioHost:
    """Serves one client over a socket that its bridge holds the other end of."""

    def __init__(self, desk: Desk, caller: Caller, wire: socket.socket, *, linger_s: float = LINGER_S) -> None:
        self._desk = desk
        self._caller = caller
        self._wire = wire
        self._linger_s = linger_s
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Answers until the client has left, then waits for what is at work, for so long. Closes everything."""
        try:
            runtime = await self._desk.tenants.runtime(self._caller.tenant)
            await self._answer()
            be_silent()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._linger_s):
                    await self._rest(runtime)
        finally:
            await self._desk.tenants.close()

    def stop(self) -> None:
        """Has `run` answer no more and wait no longer."""
        self._stopped.set()

    async def _answer(self) -> None:
        reader, writer = await asyncio.open_connection(sock=self._wire)
        server = service(self._desk, lambda ctx: self._caller)
        try:
            async with line_streams(reader, writer) as (read, write):
                serving = asyncio.ensure_future(server.run(read, write, server.create_initialization_options()))
                stopping = asyncio.ensure_future(self._stopped.wait())
                await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
                for task in (serving, stopping):
                    task.cancel()
                await asyncio.gather(serving, stopping, return_exceptions=True)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _rest(self, runtime: Runtime) -> None:
        """Waits until no session is at work here and none is to be woken soon, or until it is asked to stop."""
        stopping = asyncio.ensure_future(self._stopped.wait())
        try:
            while not stopping.done():
                tasks = [slot.driven.task for slot in runtime.slots.driven if slot.driven is not None]
                at_work = [task for task in tasks if task is not None and not task.done()]
                wakes = [slot.wake_at_ms for slot in runtime.slots.timed if slot.wake_at_ms is not None]
                soon = min(wakes, default=None)
                if not at_work and (soon is None or soon > _now_ms() + self._linger_s * 1000):
                    return
                pause = 1.0 if soon is None else max(0.05, min(1.0, (soon - _now_ms()) / 1000))
                await asyncio.wait((stopping, *at_work), timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def be_silent() -> None:
    """Lets go of the standard streams: whoever waits for their end must not wait for a run."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)
