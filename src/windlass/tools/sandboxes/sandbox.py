"""Sandboxes: run the processes of one session's tools, and hold its files beneath a root. Which isolation there is, is
the kind's affair; a tool sees only this."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.access import Access as Access
from windlass.events.values.blocks import Value
from windlass.tools.context import ToolError

TIMEOUT_MS = 120_000
OUTPUT_BYTES_MAX = 1024 * 1024
"""How much of each output is kept: its head and its tail, in equal parts. The rest is counted and dropped."""
FILE_BYTES_MAX = 16 * 1024 * 1024
OPENED_MAX = 32
"""How many paths and hosts one process may be given beyond what its sandbox gives to all."""
STDIN_BYTES_MAX = 16 * 1024 * 1024
ENV_ALLOWED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME")
"""What a process gets of the environment of this one. Keys and tokens are not among it."""


class Capabilities(Value, frozen=True, kw_only=True):
    """What a sandbox holds its processes to, and what it can do. A policy may rest on this, so it says no more than it
    enforces."""

    name: str
    confines_files: bool = False
    """Whether nothing outside the root can be written but what `Access` names."""
    confines_network: bool = False
    """Whether nobody can be reached but whom `Access` names."""
    gives_hosts: bool = False
    """Whether `Access` can name hosts: there is a way to give a process some and not all."""
    hides: bool = False
    """Whether single files of the folder can be kept from its processes (`Process.unseen`)."""
    pty: bool = False
    jobs: bool = False
    """Whether its processes can outlive the runtime and be found again; such a sandbox has `launch`."""


class Process(Value, frozen=True, kw_only=True):
    """A process to be run: no shell reads its words."""

    argv: tuple[str, ...]
    cwd: str = "."
    """Relative to the sandbox's root."""
    env: dict[str, str] = {}
    """In addition to what the sandbox lets through."""
    stdin: bytes = b""
    timeout_ms: int = TIMEOUT_MS
    output_bytes_max: int = OUTPUT_BYTES_MAX
    pty: bool = False
    """Whether it gets a terminal; its two outputs are one then."""
    secrets: dict[str, str] = {}
    """Variables whose values are secrets, by the secrets' names: they are looked up when the process starts, and are in
    its environment only."""
    access: Access = Access()
    unseen: tuple[str, ...] = ()
    """Globs of files of the folder that it must not see, if its sandbox can hide them. A confinement gets the files."""

    def __post_init__(self) -> None:
        texts = (*self.argv, self.cwd, *self.env, *self.env.values(), *self.secrets)
        if not self.argv or not self.argv[0] or not all(isinstance(text, str) and "\0" not in text for text in texts):
            raise UsageError(f"no process can be run from {self.argv!r}: give a program and its arguments as texts")
        if any(not name or "=" in name for name in (*self.env, *self.secrets)):
            raise UsageError("a name in the environment of a process must not be empty nor hold '='")
        if self.timeout_ms <= 0 or self.output_bytes_max < 0 or len(self.stdin) > STDIN_BYTES_MAX:
            raise UsageError(
                f"a process has a timeout above 0, a bound of output, and at most {STDIN_BYTES_MAX} bytes of input"
            )


class Output(Value, frozen=True, kw_only=True):
    """What a process wrote: whole, or its head and its tail if it was more than is kept."""

    head: bytes = b""
    tail: bytes = b""
    size: int = 0

    @property
    def whole(self) -> bool:
        """Whether nothing is missing."""
        return len(self.head) + len(self.tail) == self.size

    @property
    def text(self) -> str:
        """As text, with a line where something is missing; bytes that are not UTF-8 are shown as such."""
        missing = self.size - len(self.head) - len(self.tail)
        between = f"\n[… {missing} of {self.size} bytes are missing here …]\n".encode() if missing else b""
        return (self.head + between + self.tail).decode("utf-8", "replace")


class ProcessResult(Value, frozen=True, kw_only=True):
    """How a process ended. A negative exit code is the signal that ended it."""

    exit_code: int
    stdout: Output
    stderr: Output
    timed_out: bool = False
    notices: tuple[str, ...] = ()
    """What the sandbox has to say beside it: hosts that were asked for, names that were refused."""

    @property
    def ok(self) -> bool:
        """Whether it ended by itself and said that all went well."""
        return self.exit_code == 0 and not self.timed_out


class Limits(Value, frozen=True, kw_only=True):
    """What the system holds each process of a sandbox to; None leaves what holds for this process. No process leaves a
    dump of its memory."""

    processes: int | None = None
    """Processes of this user, all together: the system counts no others, and does not count those of root."""
    file_bytes: int | None = 8 * 1024**3
    """The largest file that a process may write."""
    address_bytes: int | None = None
    """The memory that one process may ask for."""
    open_files: int | None = 4_096

    def __post_init__(self) -> None:
        wrong = [name for name, value in self.set.items() if not isinstance(value, int) or value < 0]
        if wrong:
            raise UsageError(f"a limit of a process is a number from 0 on, or None: {', '.join(wrong)}")

    @property
    def set(self) -> dict[str, int]:
        """Those that are set, by name."""
        named = {
            "processes": self.processes,
            "file_bytes": self.file_bytes,
            "address_bytes": self.address_bytes,
            "open_files": self.open_files,
        }
        return {"core": 0, **{name: value for name, value in named.items() if value is not None}}


class Offer(Value, frozen=True, kw_only=True):
    """What a sandbox would open for a process, of what was asked for."""

    access: Access = Access()
    asked: Access = Access()
    """The part that was asked for in so many words."""
    problem: str | None = None
    """Why it cannot open that, in words for the model."""


SecretsByName = Callable[[str], str]
"""Gives the value of a secret, when a process starts. Raises `ToolError` for one that there is not."""


class Launch(Value, frozen=True, kw_only=True):
    """How this machine starts a process inside a sandbox: the words of a command line that any process may run."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]


class Launcher(Protocol):
    """A sandbox on this machine, of which processes can be had that outlive the runtime."""

    async def launch(self, process: Process) -> Launch: ...


Heard = Callable[[int, bytes], None]
"""Told what a process writes, as it comes: to its output (1) or its errors (2). In any thread, and never for long."""


class Sandbox(Protocol):
    """Runs processes, and reads and writes files beneath its root. Whatever a tool started is gone when `run` ends,
    also when it is cancelled. What cannot be done raises `ToolError`, in words for the model.

    One that can tell what a process writes while it runs takes a `Heard` as the second argument of `run`."""

    async def capabilities(self) -> Capabilities: ...

    async def run(self, process: Process) -> ProcessResult: ...

    async def read(self, path: str) -> bytes: ...

    async def write(self, path: str, data: bytes) -> None: ...

    async def list(self, path: str = ".") -> tuple[str, ...]: ...

    async def close(self) -> None: ...


class SandboxKind(Protocol):
    """What a runtime is opened with: gives each session a sandbox of its own, over the folder that it works in."""

    async def open(self, session: str, folder: str | None) -> Sandbox: ...


class Sandboxes:
    """The sandboxes of a runtime: what its sessions have open."""

    def __init__(self, kind: SandboxKind, secrets: SecretsByName | None = None) -> None:
        self.kind = kind
        self.secrets = secrets
        self.in_use: set[SessionSandboxes] = set()

    def for_session(self, session: str) -> SessionSandboxes:
        """The sandboxes of one session; none is opened before it is used."""
        return SessionSandboxes(self, session)

    async def close(self) -> None:
        """Closes what sessions still have open. Safe twice."""
        for session in tuple(self.in_use):
            await session.close()


class SessionSandboxes:
    """What one session has open: one sandbox for each folder that it worked in."""

    def __init__(self, sandboxes: Sandboxes, session: str) -> None:
        self._sandboxes = sandboxes
        self._session = session
        self._open: dict[str | None, OnDemand] = {}

    @property
    def is_open(self) -> bool:
        """Whether there is anything to close."""
        return self in self._sandboxes.in_use

    def over(self, folder: str | None) -> Sandbox:
        """The sandbox over a folder. It is opened when a tool first needs it."""
        if folder not in self._open:
            self._open[folder] = OnDemand(functools.partial(self._opened, folder), self._sandboxes.secrets)
        return self._open[folder]

    async def _opened(self, folder: str | None) -> Sandbox:
        self._sandboxes.in_use.add(self)
        return await self._sandboxes.kind.open(self._session, folder)

    async def close(self) -> None:
        """Closes what was opened. Safe twice; a session that is taken up again opens others."""
        for folder, sandbox in tuple(self._open.items()):
            await sandbox.close()
            del self._open[folder]
        self._sandboxes.in_use.discard(self)


class OnDemand:
    """A sandbox that is opened with its first use. Secrets that a process names are looked up here, right before it is
    started, and are in its environment from there on."""

    def __init__(self, opener: Callable[[], Awaitable[Sandbox]], secrets: SecretsByName | None = None) -> None:
        self._opener = opener
        self._secrets = secrets
        self._open: Sandbox | None = None
        self._lock = asyncio.Lock()

    async def _sandbox(self) -> Sandbox:
        async with self._lock:
            if self._open is None:
                self._open = await self._opener()
            return self._open

    async def capabilities(self) -> Capabilities:
        return await (await self._sandbox()).capabilities()

    async def launch(self, process: Process) -> Launch:
        sandbox: Any = await self._sandbox()
        if not (await sandbox.capabilities()).jobs:
            raise ToolError("processes of this sandbox cannot go on in the background", code="no_jobs")
        launched: Launch = await sandbox.launch(await self._with_secrets(process))
        return launched

    async def offer(self, asked: Access, named: Access) -> Offer:
        sandbox: Any = await self._sandbox()
        if hasattr(sandbox, "offer"):
            offer: Offer = await sandbox.offer(asked, named)
            return offer
        return Offer(problem=None if asked == Access() else "this sandbox opens nothing: leave out what it should open")

    async def run(self, process: Process, heard: Heard | None = None) -> ProcessResult:
        sandbox: Any = await self._sandbox()
        process = await self._with_secrets(process)
        result: ProcessResult = await (sandbox.run(process) if heard is None else sandbox.run(process, heard))
        return result

    async def _with_secrets(self, process: Process) -> Process:
        """The process with the values that it named. Looking one up may take its time, as a keyring does."""
        if self._secrets is None or not process.secrets:
            return process
        values = {variable: await asyncio.to_thread(self._secrets, name) for variable, name in process.secrets.items()}
        return msgspec.structs.replace(process, env={**process.env, **values}, secrets={})

    async def read(self, path: str) -> bytes:
        return await (await self._sandbox()).read(path)

    async def write(self, path: str, data: bytes) -> None:
        await (await self._sandbox()).write(path, data)

    async def list(self, path: str = ".") -> tuple[str, ...]:
        return await (await self._sandbox()).list(path)

    async def close(self) -> None:
        async with self._lock:
            if self._open is not None:
                await self._open.close()
            self._open = None


def environment(outer: Mapping[str, str], allowed: tuple[str, ...], given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process: what is allowed of the outer one, and what was given for it."""
    return {**{name: outer[name] for name in allowed if name in outer}, **given}
