"""A server in a process of its own, as the process that started it sees it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import socket
import sys
from typing import Any

START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from windlass.cli.reload.server_child import main
raise SystemExit(main(int(sys.argv[2]), int(sys.argv[3])))
"""
WORD_BYTES_MAX = 8_000_000
"""2,000 names of files."""


class ServerProcess:
    """One server. It has a process group of its own, so that Ctrl-C reaches its parent alone, which then asks it."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._asked = False

    @property
    def code(self) -> int | None:
        """How it ended; None while it lives."""
        return self._process.returncode

    async def word(self) -> dict[str, Any]:
        """What it says next; empty if it has ended."""
        try:
            line = await self._reader.readline()
        except (OSError, ValueError):
            return {}
        return json.loads(line) if line.endswith(b"\n") else {}

    def go(self) -> None:
        """Has it serve what it has loaded."""
        self._writer.write(b"go\n")

    def send(self, number: int) -> None:
        """Sends it a signal, if it is still there."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def ended(self) -> None:
        """Waits until it is gone."""
        await self._process.wait()

    async def stop(self, most_s: float) -> bool:
        """Asks it to end, once, and kills it if that takes too long. Gives whether it ended by itself."""
        if not self._asked:
            self._asked = True  # asked twice, it would not wait for what has begun
            self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(most_s):
                await self.ended()
        except TimeoutError:
            await self.kill()
            return False
        self._writer.close()
        return True

    async def kill(self) -> None:
        """Ends it at once. Safe twice."""
        self.send(signal.SIGKILL)
        await self.ended()
        self._writer.close()


async def started(args: argparse.Namespace, listening: socket.socket, *, first: bool) -> ServerProcess:
    """Starts one, which loads the agents. The first says where it listens."""
    ours, theirs = socket.socketpair()
    with theirs:
        fds = (listening.fileno(), theirs.fileno())
        words = (sys.executable, "-P", "-c", START, json.dumps(sys.path), *map(str, fds))
        none = asyncio.subprocess.DEVNULL  # a question to the terminal would stop it without a word
        process = await asyncio.create_subprocess_exec(*words, pass_fds=fds, process_group=0, stdin=none)
    reader, writer = await asyncio.open_connection(sock=ours, limit=WORD_BYTES_MAX)
    writer.write(json.dumps({"args": vars(args), "first": first}).encode() + b"\n")
    return ServerProcess(process, reader, writer)
