"""Commands and events as lines of JSON over a pair of streams, for the one program that started this process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from windlass.events.values.blocks import JsonObject
from windlass.protocol.json_rpc.input_lines import input_lines
from windlass.runtime.api.agent import Agent

from .turn_runner import Opening, TurnRunner
from .view.event_view import TERMINALS
from .view.fold import system

LINE_BYTES_MAX = 64 * 1024 * 1024
"""The longest line that is read: a state holds a whole conversation."""
WAITING_MAX = 10_000
"""Events that may wait to be written; a turn goes on only as fast as its events are read."""
DROPPED_FROM = 5_000
"""From so many on, what is being written is left out: the canonical step follows."""
DELTAS = frozenset({"text_delta", "reasoning_delta"})
END = None
LOOK_S = 1.0
"""How often it is looked whether the caller is still there."""


class LineServer:
    """Talks with one caller."""

    def __init__(
        self,
        agents: Sequence[Agent],
        opening: Opening,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        once: bool = False,
    ) -> None:
        """`once` = it leaves after the first turn."""
        self._runner = TurnRunner(agents, opening, self._tell)
        self._reader = reader
        self._writer = writer
        self._once = once
        self._outbox: asyncio.Queue[JsonObject | None] = asyncio.Queue(WAITING_MAX)
        self._turned = asyncio.Event()

    async def run(self) -> None:
        """Takes commands until the caller closes its end, then brings the turn to its end. Leaves at once if nobody
        reads any more."""
        loop = asyncio.get_running_loop()
        writing = loop.create_task(self._write_all(), name="windlass:duet:write")
        reading = loop.create_task(self._take_all(), name="windlass:duet:read")
        gone = loop.create_task(self._until_gone(), name="windlass:duet:gone")
        try:
            await asyncio.wait([writing, reading, gone], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
                ending = loop.create_task(self._outbox.put(END))
                await asyncio.wait([writing, gone], return_when=asyncio.FIRST_COMPLETED)
                ending.cancel()
        finally:
            for task in (reading, writing, gone):
                task.cancel()
            await asyncio.gather(reading, writing, gone, return_exceptions=True)
            await self._runner.close()

    async def _until_gone(self) -> None:
        """Waits until nobody is there to read: a turn that says nothing for long would not notice by itself."""
        while not self._writer.transport.is_closing():
            await asyncio.sleep(LOOK_S)

    async def _take_all(self) -> None:
        loop = asyncio.get_running_loop()
        lines = loop.create_task(self._take_lines(), name="windlass:duet:lines")
        turned = loop.create_task(self._turned.wait(), name="windlass:duet:turned")
        try:
            await asyncio.wait([lines, turned], return_when=asyncio.FIRST_COMPLETED)
            if lines.done():
                lines.result()
        finally:
            for task in (lines, turned):
                task.cancel()
            await asyncio.gather(lines, turned, return_exceptions=True)

    async def _take_lines(self) -> None:
        async for line in input_lines(self._reader, LINE_BYTES_MAX):
            if line is None:
                await self._tell(system("error", f"a line of more than {LINE_BYTES_MAX:,} bytes is not read"))
            elif line.strip():
                await self._runner.take_line(line)
        await self._runner.finish()

    async def _tell(self, event: JsonObject) -> None:
        if event["type"] == "step" and event["step"]["type"] in DELTAS and self._outbox.qsize() >= DROPPED_FROM:
            return
        await self._outbox.put(event)
        if self._once and event["type"] in TERMINALS:
            self._turned.set()

    async def _write_all(self) -> None:
        try:
            while (event := await self._outbox.get()) is not END:
                self._writer.write(msgspec.json.encode(event) + b"\n")
                await self._writer.drain()
        except ConnectionError:
            return  # nobody reads any more
