"""A dead neighbour's lease is not waited for; a living one's is."""

from __future__ import annotations

import asyncio
import errno
import os
import pathlib
import subprocess
import sys

import msgspec
import pytest

import windlass
from windlass.events.errors import LeaseHeld
from windlass.runtime.host import liveness
from windlass.store import runner_names
from windlass.store.base import Key
from windlass.testing.scripted import ScriptedModel, hang

HOLDER = """
import asyncio, os, signal, sys, time
from windlass.runtime.host.ports import SystemPorts
from windlass.store import open_store
from windlass.store.base import Key

async def main():
    store = await open_store(sys.argv[1])
    key = Key("default", "held")
    ports = SystemPorts()
    await store.leases.claim(key, runner=ports.runner(), ttl_ms=600_000, now_ms=ports.now_ms())
    print("held", flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


def hold(path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


async def test_the_lease_of_a_killed_process_is_taken_at_once_and_a_living_ones_is_not(tmp_path):
    path = tmp_path / "work.db"
    agent = windlass.Agent("a", model=ScriptedModel(["one", "two"]))
    async with windlass.open(str(path), agents=[agent]) as runtime:
        session = await runtime.session(agent, "held")
        await session.prompt("first")
        assert (await session.result()).text == "one"
    holder = hold(path)
    try:
        async with windlass.open(str(path), agents=[agent]) as runtime:
            with pytest.raises(LeaseHeld):
                await runtime.store.leases.claim(
                    Key("default", "held"), runner="me", ttl_ms=1, now_ms=runtime.ports.now_ms()
                )
        holder.kill()
        holder.wait()
        async with windlass.open(str(path), agents=[agent]) as runtime:
            session = await runtime.session(agent, "held")
            async for _ in session.prompt("second"):
                pass
            assert (await session.result()).text == "two"
    finally:
        holder.kill()
        holder.communicate()


def test_only_a_process_that_is_certainly_gone_is_gone():
    assert not liveness.gone(liveness.named("runner-x"))
    assert not liveness.gone("runner-x"), "nothing is known of it"
    assert not liveness.gone(f"runner-x@00000000-0000:{os.getpid()}:1"), "another machine, or before a restart"
    assert liveness.gone(f"runner-x@{liveness.room()}:{os.getpid()}:1"), "another process had this number before"


async def test_a_runtime_that_takes_nothing_up_leaves_other_sessions_alone(tmp_path):
    path = str(tmp_path / "work.db")
    model = ScriptedModel([hang(), "one", "two"])
    agent = windlass.Agent("a", model=model)
    async with windlass.open(path, agents=[agent]) as runtime:
        session = await runtime.session(agent, "cut off")
        await session.prompt("first")
        while not model.requests:
            await asyncio.sleep(0)
    async with windlass.open(path, agents=[agent], take_up=False, poll_ms=10) as runtime:
        other = await runtime.session(agent, "asked for")
        await other.prompt("second")
        assert (await other.result()).text == "one"
        assert (await (await runtime.get("asked for")).state()).run.run_id
        assert [row.session for row in await runtime.sessions(owed=True)] == ["cut off"]
    async with windlass.open(path, agents=[agent]) as runtime:
        session = await runtime.session(agent, "cut off")
        assert (await session.result()).text == "two"


async def test_a_fork_is_found_again_by_its_id(tmp_path):
    path = str(tmp_path / "work.db")
    agent = windlass.Agent("a", model=ScriptedModel(["one", "two"]))
    async with windlass.open(path, agents=[agent]) as runtime:
        session = await runtime.session(agent, "origin")
        await session.prompt("first")
        await session.result()
        await session.fork("branch")
    async with windlass.open(path, agents=[agent]) as runtime:
        branch = await runtime.session(agent, "branch")
        await branch.prompt("second")
        assert (await branch.result()).text == "two"


def test_a_runner_is_named_by_its_process_and_its_host():
    mine = liveness.named("runner-x")
    where = runner_names.whereabouts(mine)
    assert (where.pid, where.start, where.room) == (
        os.getpid(),
        liveness.started_at(os.getpid()),
        liveness.room(),
    )
    assert where.host
    assert liveness.told(mine) == "another runtime of this process"
    parent = runner_names.runner_name("runner-x", msgspec.structs.replace(where, pid=os.getppid()))
    assert liveness.told(parent) == f"process {os.getppid()}"
    elsewhere = runner_names.runner_name("runner-x", msgspec.structs.replace(where, room="0-1", host="build-7"))
    assert liveness.told(elsewhere) == f"process {os.getpid()} on build-7"
    assert liveness.told("runner-x") == "'runner-x'"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES])
def test_a_process_that_cannot_be_looked_at_is_not_taken_for_a_dead_one(monkeypatch, number):
    where = runner_names.whereabouts(liveness.named("runner-x"))
    parent = msgspec.structs.replace(where, pid=os.getppid(), start=liveness.started_at(os.getppid()))
    dead = msgspec.structs.replace(parent, start="1")
    reads = pathlib.Path.read_bytes
    assert [liveness.gone(runner_names.runner_name("runner-x", one)) for one in (parent, dead)] == [False, True]

    def without_rights(path):
        if path.name == "stat":
            raise OSError(number, os.strerror(number), str(path))
        return reads(path)

    monkeypatch.setattr(pathlib.Path, "read_bytes", without_rights)
    assert [liveness.gone(runner_names.runner_name("runner-x", one)) for one in (parent, dead)] == [False, False]


def test_a_process_of_another_container_is_not_taken_for_a_dead_one():
    """Its number means nothing here: containers of one machine count their processes apart."""
    boot, _, numbers = liveness.room().rpartition("-")
    assert boot
    for room in (boot, f"{boot}-{int(numbers) + 1}"):
        assert not liveness.gone(f"runner-x@{room}:{os.getpid()}:1")


async def test_who_has_a_session_is_named_to_whoever_cannot_have_it(tmp_path):
    path = tmp_path / "work.db"
    agent = windlass.Agent("a", model=ScriptedModel(["one"]))
    async with windlass.open(str(path), agents=[agent]) as runtime:
        session = await runtime.session(agent, "held")
        await session.prompt("first")
        await session.result()
    holder = hold(path)
    try:
        async with windlass.open(str(path), agents=[agent]) as runtime:
            session = await runtime.session(agent, "held")
            with pytest.raises(windlass.UsageError, match=f"erased from here: process {holder.pid} drives it$"):
                await session.erase(2, why="no reason")
            with pytest.raises(LeaseHeld, match=rf"session 'held' is held by process {holder.pid} on [\w.-]+$"):
                await runtime.store.leases.claim(
                    Key("default", "held"), runner="me", ttl_ms=1, now_ms=runtime.ports.now_ms()
                )
    finally:
        holder.kill()
        holder.communicate()


async def test_a_dead_neighbour_whose_clock_was_ahead_is_not_waited_for_either(tmp_path):
    path = str(tmp_path / "work.db")
    agent = windlass.Agent("a", model=ScriptedModel(["one", "two"]))
    key, year_ms = Key("default", "held"), 365 * 86_400_000
    async with windlass.open(path, agents=[agent]) as runtime:
        session = await runtime.session(agent, "held")
        await session.prompt("first")
        await session.result()
    async with windlass.open(path, agents=[agent]) as runtime:
        dead, ahead_ms = f"runner-x@{liveness.room()}:{os.getpid()}:1", runtime.ports.now_ms() + year_ms
        await runtime.store.leases.claim(key, runner=dead, ttl_ms=15_000, now_ms=ahead_ms)
        session = await runtime.session(agent, "held")
        await session.prompt("second")
        assert (await session.result()).text == "two"
        holder = await runtime.store.leases.holder(key, now_ms=runtime.ports.now_ms())
        assert holder is not None
        assert holder.runner == runtime.runner
