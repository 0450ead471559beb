"""A process whose store lies on a disk that it fills and empties: a small tmpfs of its own, or a limit on the size of
files if it may mount nothing.

    unshare -rm python -m tests.runtime.full_disk_target FOLDER STORE mount|limit
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
import resource
import signal
import subprocess
import sys
import time

import windlass
from windlass.events.errors import StorageFull
from windlass.events.live import StorePaused
from windlass.events.runs import RunCompleted
from windlass.store import open_store
from windlass.testing.scripted import ScriptedModel, by_history, call

from .support import until

DISK = "3m"
LEASE_MS = 1_500
LIMIT_S = 30.0
"""How long anything may take that must not wait for room."""


class SmallDisk:
    """Can be filled to the last byte, and emptied."""

    def __init__(self, folder: pathlib.Path, *, mount: bool) -> None:
        self.folder = folder
        self.mounted = mount
        if mount:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", str(folder)], check=True)
        else:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill(self) -> None:
        if not self.mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
            return
        with open(self.folder / "ballast", "ab", buffering=0) as ballast, contextlib.suppress(OSError):
            while ballast.write(b"x" * 512):
                pass

    def empty(self) -> None:
        if not self.mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        (self.folder / "ballast").unlink(missing_ok=True)


async def main(folder: pathlib.Path, store: str, *, mount: bool) -> None:
    disk = SmallDisk(folder, mount=mount)
    place = str(folder / store)
    await paused_and_closed(disk, place)
    await opened_on_a_full_disk(disk, place)
    print("done", flush=True)


def agent_with(release: asyncio.Event) -> windlass.Agent:
    @windlass.tool(contract="idempotent")
    async def slow() -> str:
        await release.wait()
        return "x" * 20_000

    return windlass.Agent(
        "worker",
        model=ScriptedModel(by_history([call("slow"), "finished"])),
        tools=[slow],
        policy=windlass.ALLOW_ALL,
    )


async def paused_and_closed(disk: SmallDisk, place: str) -> None:
    """A session at work waits for room and says so; closing does not."""
    release = asyncio.Event()
    agent = agent_with(release)
    seen: list[StorePaused] = []
    warnings = Warnings()
    async with asyncio.timeout(4 * LIMIT_S):
        runtime = await windlass.open(place, agents=[agent], lease_ms=LEASE_MS).start()
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await until(lambda: started(runtime, session))

        async def listen() -> None:
            async for told in session.tail():
                if isinstance(told, StorePaused):
                    seen.append(told)

        listening = asyncio.create_task(listen())
        await asyncio.sleep(0.05)
        disk.fill()
        release.set()
        await until(lambda: bool(runtime.paused))
        assert list(runtime.paused) == [session.key]
        assert (await session.waiting())[0].kind == "room in the store", await session.waiting()
        try:
            await session.interrupt()
        except StorageFull:
            pass
        else:
            raise AssertionError("a command that is not kept was acknowledged")
        await until(lambda: bool(seen))
        assert len(seen) == 1
        assert "waits for room" in warnings.said[0], warnings.said
        if disk.mounted:
            looked_at(place)
        began = time.monotonic()
        await runtime.close()
        assert time.monotonic() - began < LIMIT_S
        listening.cancel()
    disk.empty()


async def opened_on_a_full_disk(disk: SmallDisk, place: str) -> None:
    """Opening with work owed does not wait for room; what is owed goes on when there is some."""
    release = asyncio.Event()
    release.set()
    agent = agent_with(release)
    # SQLite needs a little room to open a file that nobody has open, and says so at once.
    other = await open_store(place)
    disk.fill()
    began = time.monotonic()
    async with windlass.open(place, agents=[agent], lease_ms=LEASE_MS) as runtime:
        assert time.monotonic() - began < LIMIT_S
        session = await runtime.get("s")
        await until(lambda: bool(runtime.paused))
        try:
            await runtime.session(agent, "other")
        except StorageFull:
            pass
        else:
            raise AssertionError("a session was begun on a full disk")
        disk.empty()
        result = await asyncio.wait_for(session.result(), 4 * LIMIT_S)
        assert result.text == "finished", result
        assert runtime.paused == {}
        ends = [record.event async for record in session.records() if isinstance(record.event, RunCompleted)]
        assert len(ends) == 1
    await other.close()


def started(runtime: windlass.Runtime, session: windlass.Session) -> bool:
    driven = runtime.slots.driven_at(session.key)
    return driven is not None and any(c.status == "started" for c in driven.owner.state.calls.by_id.values())


def looked_at(place: str) -> None:
    """What an operator sees from another process, and that it is not kept waiting."""
    for verb in (["ps"], ["show", "s"], ["doctor"]):
        command = [sys.executable, "-m", "windlass.cli.main", *verb, "--store", place]
        told = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert "paused: storage_full" in told.stdout + told.stderr, (verb, told)


class Warnings(logging.Handler):
    """What the program's log was told."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        logging.getLogger("windlass.store").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


if __name__ == "__main__":
    where, name, how = sys.argv[1:]
    asyncio.run(main(pathlib.Path(where), name, mount=how == "mount"))
