"""The process of a server on this machine: beneath a supervisor that leaves nothing of it behind, also if this
process is killed; what it writes is read line by line within bounds, and of its errors the end is kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
from collections.abc import AsyncIterator

from windlass.events.errors import UsageError
from windlass.tools.processes import process_tree
from windlass.tools.sandboxes.process_group import SUPERVISOR
from windlass.tools.sandboxes.sandbox import Launch, Limits

LINE_BYTES_MAX = 16 * 1024 * 1024
"""The largest message that a server may send."""
ERRORS_BYTES_MAX = 16 * 1024
CHUNK = 16 * 1024
GRACE_S = 1.0
"""How long a server may take to end by itself once nobody speaks to it any more."""
GIVE_UP_S = 12.0
POLL_S = 0.01
STATUS_BYTES_MAX = 4_096


class TooLong(Exception):
    """A server sent a message that is larger than any may be."""


class ServerProcess:
    """A server that was started. Its end is the end of all that it started."""

    def __init__(self, child: asyncio.subprocess.Process, lifeline: int, status: int, mark: int) -> None:
        self._child = child
        self._mark = mark
        """What the server and all that it starts wear, by which it is ended if somebody kills the supervisor."""
        self._lifeline = lifeline
        self._status = status
        self._errors = bytearray()
        self._listening = asyncio.get_running_loop().create_task(self._hear_errors(), name="windlass:mcp:errors")

    @property
    def pid(self) -> int:
        """The supervisor's."""
        return self._child.pid

    @property
    def errors(self) -> str:
        """The end of what it wrote to its standard error."""
        return bytes(self._errors).decode("utf-8", "replace")

    async def lines(self) -> AsyncIterator[bytes]:
        """What it writes, a line at a time, until it ends. Raises `TooLong`."""
        out = self._child.stdout
        assert out is not None, "it is started with pipes"
        while True:
            try:
                line = await out.readline()
            except ValueError:
                raise TooLong(f"it sent a message of more than {LINE_BYTES_MAX} bytes") from None
            except ConnectionError:
                return
            if not line:
                return
            yield line

    async def send(self, data: bytes) -> None:
        """Writes to it. Raises `OSError` if it is gone."""
        given = self._child.stdin
        assert given is not None, "it is started with pipes"
        given.write(data)
        await given.drain()

    async def how_it_ended(self) -> str:
        """Why nothing more comes, in words; waits for the end of a process that has closed its output."""
        await self._ended(GRACE_S)
        await asyncio.wait([self._listening], timeout=GRACE_S)
        said = self._said()
        if "failed" in said:
            return f"its program cannot be started: {os.strerror(int(said['failed']))}"
        code = int(said.get("exit", "0"))
        how = f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"
        last = self.errors.strip().splitlines()[-1:] if self.errors.strip() else []
        return f"{how}; it said last: {last[0][:500]}" if last else how

    def _said(self) -> dict[str, str]:
        """What the supervisor said."""
        if self._status < 0:
            return {}
        try:
            text = os.read(self._status, STATUS_BYTES_MAX).decode("utf-8", "replace")
        except OSError:
            return {}
        return {word: rest for word, _, rest in (line.partition(" ") for line in text.splitlines())}

    async def _hear_errors(self) -> None:
        err = self._child.stderr
        assert err is not None, "it is started with pipes"
        with contextlib.suppress(ConnectionError):
            while piece := await err.read(CHUNK):
                self._errors += piece
                del self._errors[:-ERRORS_BYTES_MAX]

    async def close(self) -> None:
        """Lets it end by itself for a moment, then ends it with all that it started. Safe twice."""
        if self._child.stdin is not None:
            with contextlib.suppress(OSError):
                self._child.stdin.close()
        try:
            await self._ended(GRACE_S)
        finally:
            self._cut()
        await self._ended(GIVE_UP_S)
        if self._child.returncode != 0:
            await asyncio.to_thread(process_tree.end_marked, self._mark, GIVE_UP_S, "command")
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        transport = getattr(self._child, "_transport", None)
        if transport is not None:
            transport.close()

    async def _ended(self, within_s: float) -> None:
        """Waits for its end, not for the end of its output: what was never read would be waited for in vain."""
        clock = asyncio.get_running_loop().time
        until = clock() + within_s
        while self._child.returncode is None and clock() < until:
            await asyncio.sleep(POLL_S)

    def _cut(self) -> None:
        """Closes the lifeline: the supervisor ends everything."""
        for fd in (self._lifeline, self._status):
            if fd >= 0:
                os.close(fd)
        self._lifeline = self._status = -1


async def start(launch: Launch) -> ServerProcess:
    """Starts a server. Raises `UsageError` if not even a supervisor can be started."""
    if not sys.executable:
        raise UsageError("servers need an interpreter that says where it is: sys.executable is empty")
    held, lifeline = os.pipe()
    status, tell = os.pipe()
    os.set_blocking(status, False)
    limits = [f"limit={name}:{value}" for name, value in Limits().set.items()]
    mark = process_tree.mark_of(secrets.token_hex(16))
    told = [f"status={tell}", f"lifeline={held}", f"wear={mark}", *limits]
    words = [sys.executable, "-I", "-S", SUPERVISOR, *told, "--", *launch.argv]
    try:
        child = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=launch.cwd,
            env=launch.env,
            start_new_session=True,
            pass_fds=(held, tell),
            limit=LINE_BYTES_MAX,
        )
    except BaseException as error:
        for fd in (lifeline, status):
            os.close(fd)
        if isinstance(error, OSError | ValueError):
            raise UsageError(f"it cannot be started in {launch.cwd!r}: {error}") from None
        raise
    finally:
        os.close(held)
        os.close(tell)
    return ServerProcess(child, lifeline, status, mark)
