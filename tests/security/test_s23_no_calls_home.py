"""S23: Windlass speaks to nobody of its own accord: not when it is imported, not the first time that it runs, not when
something fails."""

from __future__ import annotations

import pathlib
import subprocess
import sys

PROGRAM = """
import sys

told = []
OUT = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "urllib.Request",
       "subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "http.client.connect")
sys.addaudithook(lambda name, args: told.append((name, args)) if name in OUT else None)

import asyncio
import windlass
from windlass.cli.main import main
from windlass.testing.scripted import ScriptedModel, call, fail

@windlass.tool
def pay(amount: int) -> str:
    "Pays."
    return "paid"

async def live():
    agent = windlass.Agent("clerk", model=ScriptedModel([call("pay", amount=1), "done", fail("invalid_request")]),
                           tools=[pay], policy=windlass.ALLOW_ALL)
    async with windlass.open("first.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        await session.prompt("and fail")
        assert (await session.result()).status == "failed"

asyncio.run(live())
for words in (["--version"], ["--help"], ["ps", "--store", "first.db"], ["show", "s", "--store", "first.db"],
              ["logs", "s", "--store", "first.db"], ["verify", "s", "--store", "first.db"], ["no-such-verb"]):
    try:
        main(words)
    except SystemExit:
        pass
print("TOLD", told)
"""
"""A first hour: imported, an agent at work, a run that fails, verbs that look, one that there is not."""


def test_nobody_is_spoken_to_by_what_was_not_asked_to(tmp_path: pathlib.Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "TOLD []"


def test_the_hook_sees_who_is_spoken_to(tmp_path: pathlib.Path) -> None:
    calls = "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 9), 0.1)\nexcept OSError:\n    pass\n"
    planted = PROGRAM.replace("asyncio.run(live())", calls + "asyncio.run(live())")
    run = subprocess.run(
        [sys.executable, "-c", planted], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert "socket.connect" in run.stdout.splitlines()[-1]
