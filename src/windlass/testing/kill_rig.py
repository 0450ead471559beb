"""Kills a real process over and over and asks what is left: a fork server, a target, and a tally of where it died.

The server is a process of its own that imports the target once and then forks a child for each life, so that a life
costs milliseconds. The child dies by SIGKILL a random number of microseconds after it said that it is at work, or when
it passes a numbered crash point, and never notices. SIGKILL keeps what the kernel has: this proves safety against the
death of a process, not against the loss of power.

    with KillRig("tests.store.kill_targets:write", seed=7) as rig:
        life = rig.run({"place": "/tmp/x"}, after_us=300)      # or at_point=17, or neither: runs to its end
"""

from __future__ import annotations

import gc
import importlib
import json
import mmap
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, BinaryIO

import msgspec

READY_TIMEOUT_S = 120.0
"""How long a child may take until it is at work, and how long one that is not killed may live."""
ERROR_CHARS_MAX = 4_000
ACK_BYTES = 256
"""The length of each acknowledgement in its file. It divides every page size, so that none lies on two pages."""

_ACK_END = b"\n"

_READY, _MARK, _POINTS, _TARGET, _ERROR = 0, 1, 8, 16, 32
_SHARED_BYTES = 8_192


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """How one child ended: killed or by itself, what it was doing (its last mark), how many crash points it passed."""

    killed: bool
    exit_code: int
    mark: int
    points: int
    error: str = ""


class Tally(msgspec.Struct, kw_only=True):
    """What a campaign came to."""

    lives: int = 0
    kills: int = 0
    marks: Counter[int] = msgspec.field(default_factory=Counter)

    def share(self, mark: int) -> float:
        """The part of the kills that hit while the child had set this mark."""
        return self.marks[mark] / self.kills if self.kills else 0.0


class Child:
    """What a target may use in its child. Marks and points live in memory that survives the child."""

    def __init__(self, shared: mmap.mmap) -> None:
        self._shared = shared

    def ready(self) -> None:
        """The work begins: from now on the clock of the kill runs."""
        self._shared[_READY] = 1

    def mark(self, value: int) -> None:
        """Says what the child is doing, as a number from 0 to 255."""
        self._shared[_MARK] = value

    def point(self) -> None:
        """A crash point: passing the chosen one is death."""
        points, target = struct.unpack_from("<QQ", self._shared, _POINTS)
        struct.pack_into("<Q", self._shared, _POINTS, points + 1)
        if points + 1 == target:
            os.kill(os.getpid(), signal.SIGKILL)


class Acks:
    """The oracle: a file to which a child writes what was acknowledged to it, in slots of one length.

    A kill can cut a write in two where it goes from one page of the file to the next, and half a line would pass for
    something that was acknowledged and is gone. So no slot lies on two pages, and one that is cut all the same (a full
    disk can do it) is told by its missing end: what it says was never given."""

    def __init__(self, path: str) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if begun := os.fstat(self._handle).st_size % ACK_BYTES:
            # The slot that an earlier life left torn is filled up, and stays torn: the next one must begin behind it.
            self._write(bytes(ACK_BYTES - begun))

    def say(self, text: str) -> None:
        """Keeps one line, of fewer than `ACK_BYTES` bytes; blanks at its end are not kept."""
        data = text.encode()
        if len(data) >= ACK_BYTES or b"\n" in data:
            raise ValueError(f"an acknowledgement is one line of fewer than {ACK_BYTES} bytes: {text!r}")
        self._write(data.ljust(ACK_BYTES - 1) + _ACK_END)

    def _write(self, data: bytes) -> None:
        written = os.write(self._handle, data)
        if written != len(data):
            raise OSError(f"only {written} of {len(data)} bytes of an acknowledgement could be written")

    @staticmethod
    def read(path: str) -> list[str]:
        """All lines that were given so far, none if there is no file yet."""
        return [slot.rstrip().decode() for slot in _slots(path) if slot.endswith(_ACK_END)]

    @staticmethod
    def torn(path: str) -> list[bytes]:
        """What is left of lines whose writing was cut."""
        return [slot.rstrip(b"\0") for slot in _slots(path) if not slot.endswith(_ACK_END)]


def _slots(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return []
    return [data[start : start + ACK_BYTES] for start in range(0, len(data), ACK_BYTES)]


class KillRig:
    """Runs lives of one target, named `module:function` and called with (Child, arguments)."""

    def __init__(self, target: str, *, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path)}
        self._server = subprocess.Popen(
            [sys.executable, "-m", "windlass.testing.kill_rig", target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def run(self, arguments: dict[str, Any], *, after_us: int | None = None, at_point: int | None = None) -> Life:
        """One life. Raises `RuntimeError` if the child ended with an error of its own."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = {"arguments": arguments, "after_us": after_us, "at_point": at_point or 0}
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise RuntimeError(f"the fork server ended with code {self._server.wait()}")
        life = msgspec.json.decode(answer, type=Life)
        if life.error or (not life.killed and life.exit_code != 0):
            raise RuntimeError(f"the target failed by itself (exit code {life.exit_code}):\n{life.error}")
        return life

    def campaign(
        self,
        kills: int,
        window_us: int,
        arguments: Callable[[int], dict[str, Any]],
        check: Callable[[dict[str, Any]], None],
    ) -> Tally:
        """Lives with random ends until there were so many kills, each followed by `check`. `arguments(n)` gives those
        of life n; lives with equal ones continue each other's work. A failed check names the seed and the life."""
        tally = Tally()
        while tally.kills < kills:
            given = arguments(tally.lives)
            after_us = self.random.randrange(window_us)
            life = self.run(given, after_us=after_us)
            tally.lives += 1
            if life.killed:
                tally.kills += 1
                tally.marks[life.mark] += 1
            try:
                check(given)
            except Exception as error:
                where = f"seed {self.seed}, life {tally.lives}, killed {after_us} us after it began, mark {life.mark}"
                raise AssertionError(f"{where}: {error}") from error
        return tally

    def sweep(
        self, arguments: Callable[[int], dict[str, Any]], check: Callable[[dict[str, Any]], None], *, step: int = 1
    ) -> int:
        """Kills at crash point 1, 1 + step, 1 + 2 step … until a life passes them all, and checks each. Returns how
        many lives were killed. Each point should get fresh arguments, so that all lives are alike."""
        for number in self._points(step):
            given = arguments(number)
            life = self.run(given, at_point=number)
            try:
                check(given)
            except Exception as error:
                raise AssertionError(f"killed at crash point {number}: {error}") from error
            if not life.killed:
                return (number - 1) // step
        raise AssertionError("unreachable")

    @staticmethod
    def _points(step: int) -> Iterator[int]:
        number = 1
        while True:
            yield number
            number += step

    def close(self) -> None:
        """Ends the server; it leaves no child behind."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def __enter__(self) -> KillRig:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


# --- the fork server


def serve(target: Callable[[Child, dict[str, Any]], None], requests: BinaryIO, answers: BinaryIO) -> None:
    """Forks a child for each request line and answers with its life, until the requests end."""
    shared = mmap.mmap(-1, _SHARED_BYTES)
    gc.collect()
    gc.freeze()  # else each child's collector touches, and so copies, all that it shares with the server
    for line in requests:
        request = json.loads(line)
        shared[:] = bytes(_SHARED_BYTES)
        struct.pack_into("<Q", shared, _TARGET, request["at_point"])
        life = _live(target, shared, request)
        answers.write(msgspec.json.encode(life) + b"\n")
        answers.flush()


def _live(target: Callable[[Child, dict[str, Any]], None], shared: mmap.mmap, request: dict[str, Any]) -> Life:
    child = os.fork()
    if child == 0:
        _be_child(target, shared, request["arguments"])
    deadline = time.monotonic() + READY_TIMEOUT_S
    watch = os.pidfd_open(child)
    try:
        if request["after_us"] is not None and _wait_ready(shared, watch, deadline):
            _pause(request["after_us"] / 1e6, watch)
            os.kill(child, signal.SIGKILL)
        elif not _has_ended(watch, max(0.0, deadline - time.monotonic())):
            os.kill(child, signal.SIGKILL)
            _say_error(shared, f"the child was still running after {READY_TIMEOUT_S} s")
    finally:
        os.close(watch)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    error = bytes(shared[_ERROR : _ERROR + ERROR_CHARS_MAX]).rstrip(b"\0").decode(errors="replace")
    (points,) = struct.unpack_from("<Q", shared, _POINTS)
    return Life(killed=code == -signal.SIGKILL, exit_code=code, mark=shared[_MARK], points=points, error=error)


def _be_child(target: Callable[[Child, dict[str, Any]], None], shared: mmap.mmap, arguments: dict[str, Any]) -> None:
    code = 1
    os.dup2(2, 1)  # the server's answers go to its standard output: the child must not print there
    try:
        target(Child(shared), arguments)
        code = 0
    except BaseException:
        _say_error(shared, traceback.format_exc())
    finally:
        # Not sys.exit: nothing of the server's may run a second time in the child.
        os._exit(code)


def _say_error(shared: mmap.mmap, text: str) -> None:
    data = text.encode(errors="replace")[-ERROR_CHARS_MAX:]
    shared[_ERROR : _ERROR + len(data)] = data


def _wait_ready(shared: mmap.mmap, watch: int, deadline: float) -> bool:
    """False if the child ended, or never became ready."""
    while not shared[_READY]:
        if _has_ended(watch, 0.0002) or time.monotonic() > deadline:
            return False
    return True


def _has_ended(watch: int, timeout_s: float) -> bool:
    return bool(select.select([watch], [], [], timeout_s)[0])


def _pause(seconds: float, watch: int) -> None:
    """Waits to the microsecond where it is short, and gives up when the child ends first."""
    until = time.perf_counter() + seconds
    while (left := until - time.perf_counter()) > 0:
        if left > 0.0005 and _has_ended(watch, left - 0.0003):
            return


def main() -> None:
    """The fork server's own program."""
    module, _, name = sys.argv[1].partition(":")
    target = getattr(importlib.import_module(module), name)
    serve(target, sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
