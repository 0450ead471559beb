"""One process with everything that it starts: run in a thread of its own, beneath a supervisor that leaves nothing of
it behind, its output bounded. Every sandbox on this machine runs its processes here; a kind only says how they start.

The supervisor (`process_supervisor.py`) is a child of ours. It ends by itself after the process and whoever that left
behind; it is told to end early by closing its lifeline, which the death of this process does too. If it is killed
before it has done so, by what it ran or by somebody who kills everything, what it started is found by its mark and
ended here.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import pathlib
import secrets
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from windlass.events.errors import UsageError
from windlass.tools.context import ToolError
from windlass.tools.processes import process_tree

from .guarded_names import Guarded
from .sandbox import Heard, Launch, Limits, Output, Process, ProcessResult
from .scratch import mark_launched
from .terminal import Terminal

CHUNK = 64 * 1024
POLL_S = 0.05
"""How often the end of a process is looked for, on systems that do not tell."""
GIVE_UP_S = 12.0
"""How long the end of a killed process is waited for; one that hangs in the system itself is left to it."""
STATUS_BYTES_MAX = 64 * 1024
SUPERVISOR = str(pathlib.Path(__file__).with_name("process_supervisor.py"))

Starter = Callable[[int | None], Launch]
"""Says how a process is started, given the descriptor on which what is wrong with that can be said, if there is one."""


class Plan:
    """A process, how it is started, and what it is held to from outside."""

    def __init__(
        self,
        process: Process,
        start: Starter,
        limits: Limits,
        *,
        tells: bool = False,
        guarded: Guarded | None = None,
        watches: bool = False,
        scratch: str = "",
        after: tuple[str, ...] = (),
    ) -> None:
        self.process = process
        self.start = start
        self.limits = limits
        self.tells = tells
        """Whether what is started says by itself, on the descriptor, that the program could not be."""
        self.guarded = guarded or Guarded()
        """Names that nothing may appear under; what does is given another name at the end."""
        self.watches = watches
        """Whether what is under such names must be put back at the end, since nothing else holds it."""
        self.scratch = scratch
        """A place that must not be removed while the process lives."""
        self.after = after
        """A command that ends whatever was started elsewhere, run at the end."""

    def supervised(self, *flags: str) -> list[str]:
        """The words that begin the command line of a supervisor."""
        if not sys.executable:
            raise UsageError("processes need an interpreter that says where it is: sys.executable is empty")
        words = [f"limit={name}:{value}" for name, value in self.limits.set.items()]
        words += [f"root={self.guarded.root}"] if self.guarded.root else []
        words += [f"absent={name}" for name in self.guarded.absent]
        words += [f"watch={name}" for name in self.guarded.held] if self.watches else []
        words += [f"after={word}" for word in self.after]
        return [sys.executable, "-I", "-S", SUPERVISOR, *flags, *words, "--"]

    def launch(self) -> Launch:
        """How somebody else starts it, who sees it through by himself: within its limits, and with what a supervisor
        of ours has to do at its end, if there is anything."""
        launch = self.start(None)
        inside = ["only=limits"]
        if self.scratch:
            inside = [f"hold={self.scratch}", f"mark={mark_launched(self.scratch)}"]
        return Launch(argv=(*self.supervised(*inside), *launch.argv), cwd=launch.cwd, env=launch.env)


async def run(plan: Plan, heard: Heard | None = None) -> ProcessResult:
    """Runs a process to its end or to its timeout. Nothing that it started is left then, nor when this is cancelled.
    `heard` is told what it writes, in a thread. Raises `ToolError` for a program that cannot be started."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[ProcessResult] = loop.create_future()
    group = ProcessGroup(plan, heard)

    def settle(result: ProcessResult | None, error: BaseException | None) -> None:
        if ended.cancelled():
            return
        if error is not None:
            ended.set_exception(error)
        elif result is not None:
            ended.set_result(result)

    def work() -> None:
        result, failure = None, None
        try:
            result = group.run()
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            return  # the loop is closed

    threading.Thread(target=work, name="windlass-process", daemon=True).start()
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        group.stop()
        await asyncio.wait([ended], timeout=GIVE_UP_S)
        if ended.done() and not ended.cancelled():
            ended.exception()  # nobody asks for it any more
        raise


class ProcessGroup:
    """A process beneath its supervisor, and its pipes or its terminal. `run` belongs to one thread; `stop` may be
    called from any."""

    def __init__(self, plan: Plan, heard: Heard | None = None) -> None:
        self._plan = plan
        self._heard = heard
        self._process = plan.process
        self._woken, self._wake = os.pipe()
        self._held, self._lifeline = os.pipe()
        self._status, self._tell = os.pipe()
        self._lock = threading.Lock()
        self._stopped = False
        self._mark = process_tree.mark_of(secrets.token_hex(16))
        self._terminal = Terminal() if plan.process.pty else None
        given = plan.process.stdin
        self._to_write = memoryview(given if self._terminal is None else self._terminal.typed(given))
        self._said = b""

    def stop(self) -> None:
        """Has everything killed."""
        with self._lock:
            self._stopped = True
            if self._wake >= 0:
                os.write(self._wake, b"x")

    def run(self) -> ProcessResult:
        """Starts the process and sees it through to its end. Raises `ToolError` if it cannot be started."""
        try:
            child = self._started()
            try:
                return self._watched(child)
            finally:
                self._end(child)
                for pipe in (child.stdin, child.stdout, child.stderr):
                    if pipe is not None:
                        pipe.close()
        finally:
            self._close()

    def _close(self) -> None:
        with self._lock:
            for fd in (self._woken, self._wake, self._held, self._lifeline, self._status, self._tell):
                if fd >= 0:
                    os.close(fd)
            self._woken = self._wake = self._held = self._lifeline = self._status = self._tell = -1
        if self._terminal is not None:
            self._terminal.close()

    def _words(self, launch: Launch) -> list[str]:
        flags = [*(["pty=1"] if self._terminal else []), *(["pass=1"] if self._plan.tells else [])]
        told = (f"status={self._tell}", f"lifeline={self._held}", f"wear={self._mark}", *flags)
        return [*self._plan.supervised(*told), *launch.argv]

    def _started(self) -> subprocess.Popen[bytes]:
        launch = self._plan.start(self._tell)
        streams: tuple[int, int, int]
        if self._terminal is not None:
            streams = (self._terminal.inner, self._terminal.inner, self._terminal.inner)
        else:
            given = subprocess.PIPE if self._process.stdin else subprocess.DEVNULL
            streams = (given, subprocess.PIPE, subprocess.PIPE)
        try:
            child = subprocess.Popen(
                self._words(launch),
                cwd=launch.cwd,
                env=launch.env,
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                bufsize=0,
                start_new_session=True,
                pass_fds=(self._held, self._tell),
            )
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.filename == launch.cwd:
                raise ToolError(f"there is no folder {self._process.cwd!r}", code="not_found") from None
            told = error.strerror if isinstance(error, OSError) else str(error)
            raise _not_started(self._process, told or str(error)) from None
        os.close(self._held)
        os.close(self._tell)
        self._held = self._tell = -1
        if self._terminal is not None:
            self._terminal.close_inner()
        return child

    def _watched(self, child: subprocess.Popen[bytes]) -> ProcessResult:
        if self._terminal is not None:
            fds = [self._terminal.outer]
        else:
            fds = [pipe.fileno() for pipe in (child.stdout, child.stderr) if pipe is not None]
        most = self._process.output_bytes_max
        outputs = {fd: Kept(most, self._ear(stream)) for stream, fd in enumerate(fds, 1)}
        exits = _exit_descriptor(child.pid)
        try:
            with selectors.DefaultSelector() as ready:
                timed_out = self._until_the_end(child, outputs, exits, ready)
        finally:
            if exits is not None:
                os.close(exits)
        self._end(child)
        for fd, kept in outputs.items():
            while _drain(fd, kept) == CHUNK:
                pass  # what was written before the end; nobody who is left is waited for
        stdout, stderr = [*(kept.output for kept in outputs.values()), Output()][:2]
        code, notices = self._told(child, stderr.text if not timed_out and not self._stopped else None)
        return ProcessResult(exit_code=code, stdout=stdout, stderr=stderr, timed_out=timed_out, notices=notices)

    def _ear(self, stream: int) -> Callable[[bytes], None] | None:
        return functools.partial(self._heard, stream) if self._heard is not None else None

    def _until_the_end(
        self,
        child: subprocess.Popen[bytes],
        outputs: dict[int, Kept],
        exits: int | None,
        ready: selectors.BaseSelector,
    ) -> bool:
        """Carries input and output until the process ends, is stopped, or its time is over; says whether it was."""
        for fd in (self._woken, *((exits,) if exits is not None else ()), *outputs):
            os.set_blocking(fd, False)
            ready.register(fd, selectors.EVENT_READ)
        self._register_input(child, outputs, ready)
        deadline = time.monotonic() + self._process.timeout_ms / 1000
        while not _has_ended(child.pid) and not self._stopped:
            left = deadline - time.monotonic()
            if left <= 0:
                return True
            for key, events in ready.select(left if exits is not None else min(left, POLL_S)):
                if events & selectors.EVENT_WRITE:
                    self._feed(child, ready)
                if key.fd in outputs and events & selectors.EVENT_READ and _drain(key.fd, outputs[key.fd]) == 0:
                    ready.unregister(key.fd)
        return False

    def _register_input(
        self, child: subprocess.Popen[bytes], outputs: dict[int, Kept], ready: selectors.BaseSelector
    ) -> None:
        if child.stdin is not None:
            os.set_blocking(child.stdin.fileno(), False)
            ready.register(child.stdin, selectors.EVENT_WRITE)
        elif self._terminal is not None:
            ready.modify(self._terminal.outer, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _feed(self, child: subprocess.Popen[bytes], ready: selectors.BaseSelector) -> None:
        into = self._terminal.outer if self._terminal is not None else child.stdin
        assert into is not None
        fd = into if isinstance(into, int) else into.fileno()
        try:
            written = os.write(fd, self._to_write[:CHUNK])
            self._to_write = self._to_write[written:]
        except BlockingIOError:
            return
        except OSError:
            self._to_write = memoryview(b"")  # it does not read any more
        if self._to_write:
            return
        if child.stdin is not None:
            ready.unregister(child.stdin)
            child.stdin.close()
        else:
            ready.modify(fd, selectors.EVENT_READ)

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        """Has the supervisor end everything, and does so in its place if it was killed, or does not end itself."""
        if child.returncode is not None:
            return
        with self._lock:
            if self._lifeline >= 0:
                os.close(self._lifeline)
                self._lifeline = -1
        try:
            child.wait(GIVE_UP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.returncode != 0:
            process_tree.end_marked(self._mark, GIVE_UP_S, "command")
            self._clean_up()

    def _clean_up(self) -> None:
        """Runs the command that ends what was started elsewhere, which the supervisor did not live to run."""
        if self._plan.after:
            nowhere = subprocess.DEVNULL
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(
                    self._plan.after, stdin=nowhere, stdout=nowhere, stderr=nowhere, timeout=GIVE_UP_S, check=False
                )

    def _told(self, child: subprocess.Popen[bytes], complaint: str | None) -> tuple[int, tuple[str, ...]]:
        """What the supervisor said: the exit code, and what else there is to know. Raises `ToolError` if the program
        was not started; `complaint` is what was said instead, None if it was ended by us."""
        os.set_blocking(self._status, False)
        kept = Kept(STATUS_BYTES_MAX)
        while _drain(self._status, kept) > 0:
            pass
        code, notices = None, []
        lines = kept.output.text.splitlines()
        if self._plan.tells and complaint is not None and "started" not in lines:
            raise ToolError(f"the sandbox could not be made: {complaint.strip()[-500:]}", code="sandbox_failed")
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "failed":
                raise _not_started(self._process, os.strerror(int(rest)) if rest.isdigit() else rest)
            if word == "exit":
                code = int(rest)
            elif word == "aside":
                notices.append(f"a protected name appeared in the workspace and was given another one: {rest}")
            elif word == "restored":
                notices.append(f"a protected name in the workspace was changed; it is as it was again: {rest}")
            elif word == "unwatched":
                notices.append(f"whether a protected name in the workspace was changed is not known: {rest}")
            elif word == "left":
                notices.append("a process that this one started could not be killed")
        if code is None:  # the supervisor was killed: by whatever it ran, or by somebody who kills everything
            code = child.returncode if child.returncode < 0 else -signal.SIGKILL
        return code, tuple(notices)


def _not_started(process: Process, told: str) -> ToolError:
    return ToolError(f"the program {process.argv[0]!r} cannot be run: {told}", code="not_started")


class Kept:
    """The head and the tail of what comes."""

    def __init__(self, most: int, heard: Callable[[bytes], None] | None = None) -> None:
        self._heard = heard
        self._head_max = most - most // 2
        self._tail_max = most // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0

    def add(self, data: bytes) -> None:
        """The next piece."""
        if self._heard is not None and data:
            self._heard(data)
        self._size += len(data)
        room = self._head_max - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_max + CHUNK:
            del self._tail[: len(self._tail) - self._tail_max]

    @property
    def output(self) -> Output:
        tail = self._tail[max(0, len(self._tail) - self._tail_max) :]
        return Output(head=bytes(self._head), tail=bytes(tail), size=self._size)


def _drain(fd: int, kept: Kept) -> int:
    """Takes what is there; says how much that was, 0 at the end."""
    try:
        data = os.read(fd, CHUNK)
    except BlockingIOError:
        return -1
    except OSError:
        return 0
    kept.add(data)
    return len(data)


def _exit_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, on systems that have one."""
    open_pid = getattr(os, "pidfd_open", None)
    try:
        return open_pid(pid) if open_pid is not None else None
    except OSError:
        return None


def _has_ended(pid: int) -> bool:
    """Whether a process has ended; it is not reaped, so that its number stays its own."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
