"""Results of many megabytes: they cost about one copy of themselves, and the loop goes on meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import windlass
from windlass.events.tools.calls import ToolFinished
from windlass.store.base import blob_digest
from windlass.store.rules import limits
from windlass.testing.scripted import call
from windlass.tools.planes.large_output import LOOP_BYTES_MAX, Blob, Spool

from .support import agent_of, events_of, only

SIZE = 3 * LOOP_BYTES_MAX
MEASURED = """
import asyncio, resource, sys, windlass
from windlass.testing.scripted import ScriptedModel, call

SIZE = 64 * 1024 * 1024
WHOLE = "x" * SIZE

def big() -> str:
    return WHOLE

async def main():
    model = ScriptedModel([call("big"), "done"])
    agent = windlass.Agent("a", model=model, tools=[windlass.tool(big)], policy=windlass.ALLOW_ALL)
    async with windlass.open(sys.argv[1], agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await session.prompt("go")
        assert (await session.result()).text == "done"
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        print(grown / SIZE)

asyncio.run(main())
"""


@pytest.mark.parametrize("place", ["work.db", "work.jsonl.d"])
@pytest.mark.parametrize("waits", [False, True])
async def test_nothing_of_a_large_result_is_done_on_the_loop(tmp_path, monkeypatch, place, waits):
    here = threading.get_ident()
    done: list[str] = []

    def off_the_loop(owner: object, name: str, size_of: object) -> None:
        real = getattr(owner, name)

        def noted(*given: object) -> object:
            if size_of(*given) > LOOP_BYTES_MAX // 8:  # type: ignore[operator]
                assert threading.get_ident() != here, f"{name} on the loop"
                done.append(name)
            return real(*given)

        monkeypatch.setattr(owner, name, noted)

    off_the_loop(Spool, "write", lambda spool, data: len(data))
    off_the_loop(Blob, "read", lambda blob: blob.ref.size)
    off_the_loop(limits, "blob_digest", len)
    text = "x" * SIZE

    def big() -> str:
        return text

    async def big_too() -> str:
        return text

    tool = windlass.tool(big_too if waits else big)
    agent = agent_of(call(str(tool.name)), "done", tools=[tool])
    async with windlass.open(str(tmp_path / place), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        assert {"write", "read", "blob_digest"} <= set(done)
        finished = only(await events_of(session), ToolFinished)[0]
        whole = finished.body.whole
        assert whole.digest == blob_digest(text.encode())
        assert await runtime.store.blobs.get("default", whole.digest) == text.encode()


@pytest.mark.parametrize("place", ["work.db", "work.jsonl.d"])
def test_a_large_result_costs_about_one_copy_of_itself(tmp_path, place):
    command = [sys.executable, "-c", MEASURED, str(tmp_path / place)]
    copies = float(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)
    assert copies < 1.6
