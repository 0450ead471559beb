"""One worker as the runtime has it: a process that was started for one session, its messages, and its end."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import logging
import os
import pathlib
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import msgspec

from windlass.events.errors import UsageError
from windlass.events.stored.known_secrets import SECRETS
from windlass.events.user_folders import home_folder
from windlass.tools.processes import process_tree
from windlass.tools.sandboxes.sandbox import Launch

from . import guard
from .messages import BYTES, HEAD, Broken, Message, Ready, ToRuntime, frame, size_of, to_runtime

START_S = 60.0
"""How long a worker may take to come up."""
END_S = 8.0
"""How long its guard may take to end everything, before the guard itself is killed."""
BY_ITSELF_S = 2.0
"""How long the guard of a worker that fell silent may take to say how it ended."""
LINE_CHARS_MAX = 2_000
LINES_MAX = 1_000
"""Of what the tools of one call print so many lines are logged."""
TAIL_LINES = 40
POLL_S = 0.01

logger = logging.getLogger("windlass.tools")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker, with everything that it starts, may use at most. The system holds each process to the first four;
    the number of processes is counted for the whole worker, whoever it runs as."""

    memory_bytes: int | None = None
    file_bytes: int | None = None
    open_files: int | None = None
    cpu_s: int | None = None
    processes: int = 256

    def __post_init__(self) -> None:
        if any(value is not None and value <= 0 for value in msgspec.structs.astuple(self)):
            raise UsageError(f"{self}: each limit of a worker is above 0, or None")

    def resources(self) -> dict[str, int]:
        """As the system knows them."""
        named = {
            "RLIMIT_AS": self.memory_bytes,
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_CPU": self.cpu_s,
        }
        return {"RLIMIT_CORE": 0, **{name: most for name, most in named.items() if most is not None}}


class WorkerDied(Exception):
    """A worker ended while it was needed. `how` says how, `told` what it printed last."""

    def __init__(self, how: str, told: str = "") -> None:
        super().__init__(how)
        self.how = how
        self.told = told


def command(limits: Limits) -> tuple[str, ...]:
    """The words that start a worker: an interpreter that believes no variable, nor the folder that it is in. All that
    it starts wears the mark that the last of them names."""
    if not sys.executable:
        raise UsageError("there is no Python interpreter to start workers with: sys.executable is empty")
    paths = [os.path.abspath(path) for path in sys.path]
    given: dict[str, object] = {"limits": limits.resources(), "processes_max": limits.processes, "paths": paths}
    given["mark"] = process_tree.mark_of(secrets.token_hex(16))
    return (sys.executable, "-I", os.path.abspath(guard.__file__), json.dumps(given))


def code_folders() -> tuple[str, ...]:
    """Where a worker finds code: what must be readable in a sandbox. A home, or what lies above one, never is as a
    whole: what hides it would hide nothing."""
    home = os.path.realpath(home_folder())
    own = str(pathlib.Path(__file__).resolve().parents[4])
    paths = dict.fromkeys(os.path.realpath(path) for path in (own, *sys.path))
    return tuple(path for path in paths if os.path.exists(path) and os.path.commonpath([path, home]) != path)


class WorkerProcess:
    """A running worker. `take` hears its messages, of one call after the other; it ends with `end`, or by itself."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self._writer: asyncio.StreamWriter | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._transports: list[asyncio.BaseTransport] = []
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ending: asyncio.Task[None] | None = None
        self._printed: collections.deque[str] = collections.deque(maxlen=TAIL_LINES)
        self._lines = 0
        self.tool = ""
        self.place: object = None
        """The sandbox that it was started in."""
        self.take: Callable[[ToRuntime | bytes], None] | None = None
        self.lost: Callable[[WorkerDied], None] | None = None
        self.broken = ""
        self._status: int | None = None
        self._mark = 0

    @classmethod
    async def start(cls, launch: Launch) -> WorkerProcess:
        """Starts a worker and waits until it can take a call. Raises `WorkerDied` if it does not come up."""
        mark = int(json.loads(launch.argv[-1])["mark"])
        worker = cls(_started(launch))
        worker._mark = mark
        try:
            await worker._connect()
            await asyncio.wait([worker._ready], timeout=START_S)
            if not worker._ready.done():
                raise WorkerDied(f"it did not come up within {START_S:g} s")
            worker._ready.result()
        except BaseException as error:
            await worker.end()
            if isinstance(error, WorkerDied):
                raise WorkerDied(error.how, worker.told) from None
            raise
        return worker

    @property
    def alive(self) -> bool:
        """Whether it can take a call."""
        return self._ending is None and not self._readers[0].done() and self._child.poll() is None

    @property
    def told(self) -> str:
        """What was printed last."""
        return "\n".join(self._printed)

    async def send(self, message: Message) -> None:
        """Sends a message, also to one that has ended."""
        assert self._writer is not None, "it was started"
        self._writer.write(frame(message))
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    def begins(self, tool: str) -> None:
        """What is printed from now on belongs to a call of this tool."""
        self.tool, self._lines = tool, 0
        self._printed.clear()

    async def end(self) -> None:
        """Ends the worker with everything that it started. Safe twice, and not cut short by a cancellation."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())
        while not self._ending.done():
            try:
                await asyncio.shield(self._ending)
            except asyncio.CancelledError:
                if self._ending.done():
                    break
                await asyncio.wait([self._ending])
                raise
        self._ending.result()

    async def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()  # the guard sees that, and ends all of it
        elif self._child.stdin is not None:
            self._child.stdin.close()
        if not await self._has_ended(END_S):
            with contextlib.suppress(OSError):
                os.killpg(self._child.pid, signal.SIGKILL)
            await self._has_ended(END_S)
        if self._readers:
            await asyncio.wait(self._readers, timeout=1.0)  # what was printed last
        if self._status is None:  # the guard did not live to say that everything has ended
            await asyncio.to_thread(process_tree.end_marked, self._mark, END_S)
        for transport in self._transports:
            transport.close()
        for task in self._readers:
            task.cancel()
        if self._readers:
            await asyncio.wait(self._readers)
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        await asyncio.sleep(0)  # the transports close in the next step of the loop

    async def _has_ended(self, within_s: float) -> bool:
        """Waits for the end of the guard, which comes after the end of everything else."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        while self._child.poll() is None and loop.time() < until:
            await asyncio.sleep(POLL_S)
        return self._child.returncode is not None

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        child = self._child
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, child.stdin)
        self._transports.append(transport)
        self._writer = asyncio.StreamWriter(transport, protocol, None, loop)
        messages, printed = asyncio.StreamReader(limit=1024 * 1024), asyncio.StreamReader(limit=64 * 1024)
        for pipe, reader in ((child.stdout, messages), (child.stderr, printed)):
            read, _ = await loop.connect_read_pipe(
                lambda reader=reader: asyncio.StreamReaderProtocol(reader),  # type: ignore[misc]
                pipe,
            )
            self._transports.append(read)
        self._readers.append(loop.create_task(self._read(messages), name="windlass:worker"))
        self._readers.append(loop.create_task(self._hear(printed), name="windlass:worker-output"))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Reads messages until there are no more, or until one is none."""
        try:
            while True:
                kind, size = size_of(await reader.readexactly(HEAD.size))
                data = await reader.readexactly(size)
                self._taken(data if kind == BYTES else to_runtime(data))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except Broken as error:
            self.broken = str(error)
        except asyncio.CancelledError:
            raise
        finally:
            self._gone()

    def _taken(self, message: ToRuntime | bytes) -> None:
        if isinstance(message, Ready):
            if not self._ready.done():
                self._ready.set_result(None)
        elif self.take is not None:
            self.take(message)

    def _gone(self) -> None:
        died = WorkerDied("it said something that is no message" if self.broken else "it ended")
        if not self._ready.done():
            self._ready.set_exception(died)
            self._ready.exception()  # looked at, also if nobody waits any more
        if self.lost is not None:
            self.lost(died)

    async def died(self) -> WorkerDied:
        """How it ended; whatever is left of it is ended as well."""
        if not self.broken:
            await self._has_ended(BY_ITSELF_S)  # asked to end, its guard would not say how
        await self.end()
        return WorkerDied(self._how(), self.told)

    def _how(self) -> str:
        code = self._child.returncode if self._status is None else self._status
        if self.broken:
            return "its process said something that is no message, and was ended"
        if code == guard.TOO_MANY:
            return "its process started too many others, and was ended with all of them"
        if code is not None and code > guard.BY_SIGNAL:
            return f"its process was ended by {_signal_name(code - guard.BY_SIGNAL)}"
        if code is not None and code < 0:
            return f"its process was ended by {_signal_name(-code)}"
        return f"its process ended with status {code}"

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        """Logs what tools print; a line is cut, and there are only so many of one call."""
        rest = b""
        while data := await reader.read(64 * 1024):
            lines = (rest + data).split(b"\n")
            rest = lines.pop()[-LINE_CHARS_MAX:]
            for line in lines:
                self._print(line)
        if rest:
            self._print(rest)

    def _print(self, line: bytes) -> None:
        if line.startswith(guard.LAST_WORD):
            told = line.removeprefix(guard.LAST_WORD)
            self._status = int(told) if told.isdigit() and len(told) <= 3 else self._status
            return
        text = "".join(_shown(SECRETS.hidden_text(line[:LINE_CHARS_MAX].decode("utf-8", "replace"))))
        self._printed.append(text)
        self._lines += 1
        if self._lines <= LINES_MAX:
            logger.info("tool %r printed: %s", self.tool, text)
        elif self._lines == LINES_MAX + 1:
            logger.info("tool %r prints more than is logged", self.tool)


def _started(launch: Launch) -> subprocess.Popen[bytes]:
    """Starts a process. Raises `WorkerDied` if that cannot be done."""
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            launch.argv,
            cwd=launch.cwd,
            env=launch.env,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise WorkerDied(f"it cannot be started: {error}") from None


def _shown(text: str) -> Iterator[str]:
    for char in text:
        yield char if char.isprintable() or char == "\t" else f"\\x{ord(char):02x}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
