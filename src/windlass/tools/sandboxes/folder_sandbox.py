"""What all sandboxes over a folder of this machine share: files beneath it, an environment without secrets of ours, and
the running of processes. How a process is started and what it is held to, a confinement says, one for each kind."""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import shutil
from typing import Protocol

import msgspec

from windlass.events.errors import UsageError
from windlass.tools.context import ToolError
from windlass.tools.files.root import Root, checked
from windlass.tools.files.shown_names import shown
from windlass.tools.files.write.temporary_files import mode_of, put

from . import process_group
from .offered_access import Place, offer_of
from .process_group import Plan, Starter
from .sandbox import (
    ENV_ALLOWED,
    FILE_BYTES_MAX,
    Access,
    Capabilities,
    Heard,
    Launch,
    Limits,
    Offer,
    Process,
    ProcessResult,
    SecretsByName,
    environment,
)
from .unseen_files import unseen_in

PROCESSES_MAX = 16
"""Processes of one session that run at the same time; further ones wait."""
LISTED_MAX = 20_000


class Confinement(Protocol):
    """What one kind of sandbox adds: how a process is started inside, and what it is held to there."""

    async def capabilities(self) -> Capabilities: ...

    async def ready(self, process: Process) -> None:
        """Whatever a process needs that must be there before it starts. Raises `ToolError` for what cannot be given."""

    def launch(self, process: Process, cwd: str, env: dict[str, str], status: int | None) -> Launch:
        """How a process is started. `status` is the descriptor on which it can say why it was not, if there is one."""

    def plan(self, process: Process, start: Starter, limits: Limits) -> Plan:
        """How it is held from outside."""

    def heard(self) -> tuple[str, ...]:
        """What there is to say since the last time."""

    async def close(self) -> None: ...


class Unconfined:
    """Processes can do whatever this process can."""

    async def capabilities(self) -> Capabilities:
        """It holds processes to nothing."""
        return Capabilities(name="local", pty=True, jobs=True)

    async def ready(self, process: Process) -> None:
        """Nothing is needed."""

    def launch(self, process: Process, cwd: str, env: dict[str, str], status: int | None) -> Launch:
        """The process as it is."""
        return Launch(argv=process.argv, cwd=cwd, env=env)

    def plan(self, process: Process, start: Starter, limits: Limits) -> Plan:
        """With the limits of the system."""
        return Plan(process, start, limits)

    def heard(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    async def close(self) -> None:
        """Nothing is held."""


class FolderSandbox:
    """Processes and files over one directory, which is opened now and held. Files cannot lead out of it; what
    processes can do is the confinement's affair."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        confinement: Confinement | None = None,
        *,
        env_allowed: tuple[str, ...] = ENV_ALLOWED,
        limits: Limits | None = None,
        secrets: SecretsByName | None = None,
        kept: tuple[str, ...] = (),
    ) -> None:
        if not os.path.isdir(root):  # a session's folder may be removed while the session is there
            raise ToolError(f"there is no folder {os.fspath(root)!r} any more to work in", code="not_found")
        self._root = Root(root)
        self._kept = kept
        self._confinement = confinement or Unconfined()
        self._env_allowed = env_allowed
        self._limits = limits or Limits()
        self._secrets = secrets
        self._places = asyncio.Semaphore(PROCESSES_MAX)
        self._running: set[asyncio.Task[ProcessResult]] = set()
        self._closed = False

    async def capabilities(self) -> Capabilities:
        """What this kind holds its processes to."""
        return await self._confinement.capabilities()

    async def offer(self, asked: Access, named: Access) -> Offer:
        """What it would open for a process that asks for some things and names others; looks at the disk."""
        return await asyncio.to_thread(offer_of, await self._place(), asked, named)

    async def _place(self) -> Place:
        gives_hosts = (await self.capabilities()).gives_hosts
        return Place(root=self._root.path, kept=self._kept, gives_hosts=gives_hosts)

    async def launch(self, process: Process) -> Launch:
        """The command line that starts a process inside."""
        self._check_open()
        cwd = await asyncio.to_thread(self._folder, process.cwd)
        plan = await self._plan(process, cwd)
        await asyncio.to_thread(self._check_program, process, cwd)
        return plan.launch()

    async def run(self, process: Process, heard: Heard | None = None) -> ProcessResult:
        """Runs a process to its end; nothing that it started outlives that, daemons included."""
        self._check_open()
        cwd = await asyncio.to_thread(self._folder, process.cwd)
        plan = await self._plan(process, cwd)
        async with self._places:
            self._check_open()
            task = asyncio.ensure_future(process_group.run(plan, heard))
            self._running.add(task)
            try:
                result = await task
            finally:
                self._running.discard(task)
        said = self._confinement.heard()
        return msgspec.structs.replace(result, notices=(*result.notices, *said)) if said else result

    def _check_program(self, process: Process, cwd: str) -> None:
        """Raises `ToolError` for a program that is not there: nobody could say so later who only has a command line."""
        program = process.argv[0]
        executable = os.path.join(cwd, program) if "/" in program else program
        if shutil.which(executable, path=process.env.get("PATH", os.environ.get("PATH", os.defpath))) is None:
            told = os.strerror(errno.EACCES if os.path.isfile(executable) else errno.ENOENT)
            raise ToolError(f"the program {program!r} cannot be run: {told}", code="not_started")

    async def _plan(self, process: Process, cwd: str) -> Plan:
        if process.unseen:
            process = await self._covered(process)
        await self._confinement.ready(process)
        start = functools.partial(self._confinement.launch, process, cwd, self._environment(process))
        return self._confinement.plan(process, start, self._limits)

    async def _covered(self, process: Process) -> Process:
        """The process with the files that it must not see, instead of their globs. Raises `ToolError` if there are too
        many to be sure, in a sandbox that hides them."""
        if not (await self.capabilities()).hides:
            return msgspec.structs.replace(process, unseen=())
        unseen = await asyncio.to_thread(unseen_in, self._root.path, process.unseen)
        if not unseen.whole:
            told = "this folder holds too much to find all that the policy keeps from commands: work in a smaller one"
            raise ToolError(told, code="too_large")
        return msgspec.structs.replace(process, unseen=unseen.paths)

    def _environment(self, process: Process) -> dict[str, str]:
        """What is allowed of ours, what was given, and the secrets, which are looked up now."""
        made = environment(os.environ, self._env_allowed, process.env)
        for name, secret in process.secrets.items():
            if self._secrets is None:
                raise ToolError(f"there is nobody here who knows the secret {secret!r}", code="no_secret")
            made[name] = self._secrets(secret)
        return made

    async def read(self, path: str) -> bytes:
        """A regular file, whole. Raises `ToolError` for one that is too large."""
        return await asyncio.to_thread(self._read, path)

    async def write(self, path: str, data: bytes) -> None:
        """Puts a file there, or in the place of the one that is: at once, never in part."""
        if len(data) > FILE_BYTES_MAX:
            raise ToolError(f"{shown(path)} would be larger than {FILE_BYTES_MAX:,} bytes", code="too_large")
        await asyncio.to_thread(self._write, path, data)

    async def list(self, path: str = ".") -> tuple[str, ...]:
        """The names in a directory, sorted; those of directories end in a slash."""
        return await asyncio.to_thread(self._list, path)

    async def close(self) -> None:
        """Kills what still runs and gives the directory back. Safe twice."""
        self._closed = True
        running = tuple(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        await self._confinement.close()
        self._root.close()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this sandbox was closed")

    def _folder(self, path: str) -> str:
        """A directory beneath the root, as processes are started in it. Raises `ToolError` for anything else."""
        with self._root.folder(path) as fd:
            if os.path.isdir("/proc/self/fd"):
                return os.readlink(f"/proc/self/fd/{fd}")
            return os.path.join(self._root.path, path)

    def _read(self, path: str) -> bytes:
        with self._root.file(path) as fd:
            if os.fstat(fd).st_size > FILE_BYTES_MAX:
                raise ToolError(f"{shown(path)} is larger than {FILE_BYTES_MAX:,} bytes", code="too_large")
            with open(fd, "rb", closefd=False) as file:
                return file.read(FILE_BYTES_MAX)

    def _write(self, path: str, data: bytes) -> None:
        checked(path)
        folder, _, name = path.rpartition("/")
        if name in ("", ".", "..") or path.startswith("/"):
            raise ToolError(f"{shown(path)} names no file beneath the root", code="not_a_file")
        with self._root.folder(folder or ".") as fd:
            try:
                put(fd, name, data, mode_of(name, fd))
            except OSError as error:
                raise ToolError(f"{shown(path)} cannot be written: {error.strerror}", code="not_written") from None

    def _list(self, path: str) -> tuple[str, ...]:
        with self._root.folder(path) as fd, os.scandir(fd) as entries:
            names = [
                entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "")
                for entry, _ in zip(entries, range(LISTED_MAX), strict=False)
            ]
        return tuple(sorted(names))
