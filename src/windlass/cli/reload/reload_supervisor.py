"""Keeps an address, and a server at it: a fresh one when files change, and again when it was killed.

The socket listens from the first moment to the last, in this process: while no server takes connections, they wait. A
fresh server loads the agents first; only when that went well is the one before it asked to drain and end, and then the
fresh one opens the store. What cannot be loaded leaves the server as it was.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from typing import Any

from windlass.cli import options
from windlass.cli.exits import FAILED, INTERRUPTED
from windlass.cli.terminal.text import tell
from windlass.cli.terminal.visible_text import spelt
from windlass.runtime.api.termination import TERMINATED
from windlass.server.http_server import CLOSE_S
from windlass.server.listener import listen_on_address, listen_on_path

from .server_process import ServerProcess, started
from .watched_files import WatchedFiles, file_of

WORD_S = 120
"""How long loading agents may take, and opening the store."""
LATE_S = 10
"""How long a server may take to close, beyond draining and its last answers, before it is killed."""
DEATHS_MAX = 3
"""How often servers may die until it is a change of a file that has one started again."""
MENDED = "nothing is served until a file changes; connections wait"


class Supervisor:
    """The one server that serves, the one that is to take over, and the files that decide about it."""

    def __init__(self, args: argparse.Namespace, listening: socket.socket) -> None:
        self._args = args
        self._listening = listening
        self._files = WatchedFiles(str(file_of(place)) for place in args.files)
        self._failure = FAILED
        self._serving: ServerProcess | None = None
        self._fresh: ServerProcess | None = None
        self._deaths = 0
        self.close_s = options.drain_ms(args) / 1000 + CLOSE_S + LATE_S

    async def run(self) -> int:
        """Serves until it is cancelled. Gives an exit code if nothing can be served to begin with."""
        while not await self._take_over(first=True):
            if not self._files.changes():
                return self._failure
        while True:
            changed = await self._changed()
            if changed:
                self._deaths = 0
                tell(f"changed: {', '.join(map(shown, changed))}")
            if not await self._take_over(first=False) and not self._files.changes():
                tell("the server before it goes on" if self._serving is not None else MENDED)

    def send(self, number: int) -> None:
        """Sends a signal to all that is there."""
        for process in (self._serving, self._fresh):
            if process is not None:
                process.send(number)

    async def close(self) -> None:
        """Has all end: what serves is drained first."""
        for process in (self._fresh, self._serving):
            if process is not None:
                await process.stop(self.close_s)

    async def _changed(self) -> list[str]:
        """Waits for a change, or for a server that is to be started again; then there is none."""
        changed = asyncio.create_task(self._files.changed())
        try:
            if self._serving is not None:
                ended = asyncio.create_task(self._serving.ended())
                await asyncio.wait([changed, ended], return_when=asyncio.FIRST_COMPLETED)
                ended.cancel()
                if not changed.done() and self._again(self._serving):
                    return []
            return await changed
        finally:
            changed.cancel()

    def _again(self, dead: ServerProcess) -> bool:
        """Tells of a server that has died, and whether it is started again."""
        self._serving = None
        self._deaths += 1
        again = self._deaths < DEATHS_MAX
        tell(f"the server has ended ({ending(dead)}): " + ("it is started again" if again else MENDED))
        return again

    async def _take_over(self, *, first: bool) -> bool:
        """Has a fresh server take over. Gives False if it cannot, which it has told."""
        self._files.renew()
        since_ns = time.time_ns()
        fresh = self._fresh = await started(self._args, self._listening, first=first)
        word = await self._word(fresh, since_ns)
        if word.get("word") != "loaded":
            return await self._gave_up(fresh, word)
        self._files.keep(word["files"])
        if self._serving is not None:
            if not await self._serving.stop(self.close_s):
                tell("the server before it was killed: it did not end in time")
            self._serving = None
        fresh.go()
        word = await self._word(fresh, since_ns)
        if word.get("word") != "up":
            return await self._gave_up(fresh, word)
        self._serving, self._fresh = fresh, None
        if not first:
            tell(f"serving again: agents {', '.join(map(spelt, word['agents'])) or 'none'}")
        return True

    async def _word(self, fresh: ServerProcess, since_ns: int) -> dict[str, Any]:
        """What a fresh server says. One that says nothing for long, or whose files change meanwhile, is given up."""
        said = asyncio.create_task(fresh.word())
        changed = asyncio.create_task(self._files.changed())
        try:
            await asyncio.wait([said, changed], timeout=WORD_S, return_when=asyncio.FIRST_COMPLETED)
            if not said.done():
                tell("the fresh server is given up: " + ("files change" if changed.done() else "it says nothing"))
                return {"word": "late"}
            word = said.result()
            self._files.add(word.get("files", ()), since_ns)
            return word
        finally:
            said.cancel()
            changed.cancel()

    async def _gave_up(self, fresh: ServerProcess, word: dict[str, Any]) -> bool:
        if word.get("word") == "failed":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LATE_S):
                    await fresh.ended()  # it writes what is wrong
        await fresh.kill()
        self._fresh = None
        self._failure = max(fresh.code or 0, FAILED)
        if not word:
            tell(f"the fresh server has ended ({ending(fresh)}) before it could serve")
        return False


def shown(path: str) -> str:
    """A file as the developer names it."""
    return spelt(os.path.relpath(path))


def ending(process: ServerProcess) -> str:
    """How a process ended, in words."""
    code = process.code or 0
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


@contextlib.contextmanager
def listening_at(args: argparse.Namespace) -> Iterator[socket.socket]:
    """The socket that listens as long as this is entered. Raises `UsageError` if it cannot be had."""
    on_path = args.socket is not None
    with listen_on_path(args.socket) if on_path else listen_on_address(args.host, args.port) as made:
        try:
            yield made
        finally:
            if on_path:
                with contextlib.suppress(OSError):
                    os.unlink(args.socket)


async def supervised(args: argparse.Namespace) -> int:
    """Serves until a signal comes, and leaves nothing running. A second signal does not wait."""
    with listening_at(args) as listening:
        supervisor = Supervisor(args, listening)
        running = asyncio.create_task(supervisor.run())
        heard: list[int] = []

        def hear(code: int) -> None:
            heard.append(code)
            if len(heard) > 1:
                supervisor.send(signal.SIGKILL)
            else:
                tell(options.DRAINING)
                running.cancel()

        loop = asyncio.get_running_loop()
        for number, code in ((signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)):
            loop.add_signal_handler(number, hear, code)
        try:
            await asyncio.wait([running])
            await supervisor.close()
        finally:
            supervisor.send(signal.SIGKILL)
        return heard[0] if heard else running.result()
