"""The process that serves under `--reload`: it loads the agents, says so, and serves when it is told to.

It listens on a socket that it was started with, and talks with its parent over another. It says, in lines of JSON,
`loaded` or `failed` with the files it has read, and then `up`. It is told its arguments and `go`. When the other end
closes, it drains and ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time
from typing import Any

from windlass.cli.exits import FAILED, USAGE
from windlass.cli.main import complain, spell_out
from windlass.cli.server_log import ServerLog
from windlass.cli.terminal.standard_streams import be_courteous_on_stderr, be_courteous_on_stdout
from windlass.cli.verbs.work.serve import answered, greet, otel_of, server_of
from windlass.events.errors import UsageError, WindlassError
from windlass.runtime.api.termination import TERMINATED

from .watched_files import candidates, file_of

FILES_MAX = 2_000
LATE_S = 15
"""What closing may take beyond draining before a server whose parent is gone ends all the same."""


class Parent:
    """The other end: whoever started this process."""

    def __init__(self, control: io.BufferedRWPair[Any, Any], drain_s: float) -> None:
        self._control = control
        self._drain_s = drain_s
        self._turn = threading.Event()
        threading.Thread(target=self._hear, name="windlass:reload", daemon=True).start()

    async def turn(self) -> None:
        """Waits until it is this process's turn."""
        await asyncio.to_thread(self._turn.wait)

    def say(self, **word: Any) -> None:
        """Tells the other end. If that is gone, the thread hears it."""
        with contextlib.suppress(OSError):
            self._control.write(json.dumps(word).encode() + b"\n")
            self._control.flush()

    def _hear(self) -> None:
        if not self._line():
            os._exit(TERMINATED)
        self._turn.set()
        self._line()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(self._drain_s + LATE_S)
        os._exit(TERMINATED)

    def _line(self) -> bytes:
        """What the other end says next; nothing once it is gone, also if it went with words of ours unread."""
        try:
            return self._control.readline()
        except OSError:
            return b""


def files_read(args: argparse.Namespace) -> list[str]:
    """The files of agents, and the modules that were loaded from beneath their folders, without installed packages."""
    folders = folders_of(args.files)
    files = {str(path) for path in map(file_of, args.files)}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and is_own(pathlib.Path(file), folders):
            files.add(file)
    return sorted(files)[:FILES_MAX]


def is_own(path: pathlib.Path, folders: set[pathlib.Path]) -> bool:
    """Whether a file is the developer's: beneath one of the folders, and not an installed package."""
    if path.suffix != ".py" or "site-packages" in path.parts:
        return False
    return any(path.is_relative_to(folder) for folder in folders)


def folders_of(files: list[str]) -> set[pathlib.Path]:
    return {file_of(place).parent for place in files}


def files_of_failure(args: argparse.Namespace, error: BaseException) -> list[str]:
    """The files whose change may mend what went wrong."""
    folders, files = folders_of(args.files), files_read(args)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, SyntaxError) and cause.filename is not None:
            files.append(str(pathlib.Path(cause.filename).resolve()))
        if isinstance(cause, ImportError) and cause.name is not None:
            files += candidates(folders, cause.name)
        trace = cause.__traceback__
        while trace is not None:
            path = pathlib.Path(trace.tb_frame.f_code.co_filename)
            files += [str(path)] if is_own(path, folders) else []
            trace = trace.tb_next
        cause = cause.__cause__
    return list(dict.fromkeys(files))[:FILES_MAX]


async def serve(args: argparse.Namespace, listening: socket.socket, parent: Parent, first: bool) -> int:
    """Loads, and serves when it is this process's turn."""
    otel = otel_of(args)
    server = server_of(args, listening, otel)
    parent.say(word="loaded", files=files_read(args))
    await parent.turn()
    try:
        await server.open()
        if first:
            greet(server, args, otel)
        parent.say(word="up", agents=list(server.tenants.agents))
        return await answered(server, quiet=True)
    finally:
        await server.close()
        if otel is not None:
            await otel.close()


def main(listening_fd: int, control_fd: int) -> int:
    """Serves with the arguments that the other end sends."""
    for fd in (listening_fd, control_fd):
        os.set_inheritable(fd, False)  # what tools start shall not keep them open
    control = socket.socket(fileno=control_fd).makefile("rwb")
    if not (line := control.readline()):
        return TERMINATED
    asked = json.loads(line)
    args = argparse.Namespace(**asked["args"])
    parent = Parent(control, args.drain)
    be_courteous_on_stderr()
    be_courteous_on_stdout()
    spell_out()
    sys.dont_write_bytecode = True  # what is compiled counts as fresh for a second: a quick edit would be overlooked
    try:
        with ServerLog():
            return asyncio.run(serve(args, socket.socket(fileno=listening_fd), parent, asked["first"]))
    except WindlassError as error:
        parent.say(word="failed", files=files_of_failure(args, error))
        return complain(error, USAGE if isinstance(error, UsageError) else FAILED)
