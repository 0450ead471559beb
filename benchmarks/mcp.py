"""What MCP servers cost, in machine instructions: a turn with their tools beyond one with tools of ours, and opening a
runtime whose agent has servers that no session uses.

    python -m benchmarks.mcp

Runs itself four times under valgrind's callgrind (see `instructions`): a session with 200 local tools, then one with
200 of three connected servers, all shown to the model. Each turn calls one local tool, so that what is compared is a
turn, not the way to a server. Then runtimes are opened and closed, without servers and with three that nobody uses.
Exits with 1 where a bound is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from .counting import UNWATCHED_MS
from .instructions import LEASE_MS, NEVER, counted, counted_instructions
from .sides import INSTRUCTIONS, SHORT_RESULT, opened

SERVER = pathlib.Path(__file__).parents[1] / "tests" / "mcp_client" / "strange_server.py"
TOOLS = 200
SERVERS = 3
TURNS = 20
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["path"],
}
PATIENT_MS = 3_600_000
OPENINGS = 20
TURN_MOST = 0.10
OPENING_MOST = 0.02
"""What may come on top of an opening: threads and files make that much of a difference from run to run."""


def local_tools() -> list[Any]:
    """Tools of ours, as many as the servers have, with the same words."""
    from windlass.tools.tool import Options, Tool

    async def run(path: str, limit: int = 0) -> str:
        return SHORT_RESULT

    names = [f"s{number % SERVERS}__tool_{number}" for number in range(TOOLS)]
    return [Tool(run, Options(name=name, description="Does something.", parameters=SCHEMA)) for name in names]


def servers(place: str) -> Any:
    """The servers, each with its share of the tools."""
    from windlass.mcp_servers import Mcp, McpServer

    found = []
    for number in range(SERVERS):
        folder = pathlib.Path(place, f"server{number}")
        folder.mkdir()
        tools = [
            {"name": f"tool_{index}", "description": "Does something.", "inputSchema": SCHEMA}
            for index in range(number, TOOLS, SERVERS)
        ]
        (folder / "tools.json").write_text(json.dumps(tools))
        argv = ("-S", str(SERVER), str(folder))
        found.append(McpServer(name=f"s{number}", command=sys.executable, args=argv, start_timeout_ms=PATIENT_MS))
    return Mcp(servers=tuple(found), defer_above=TOOLS, wait_ms=PATIENT_MS)


async def work(place: str, *, remote: bool) -> None:
    """A prompt that warms up, then one that is counted."""
    import windlass
    from windlass.testing import ScriptedModel, call

    @windlass.tool(contract="pure")
    async def read(path: str) -> str:
        "Reads a file."
        return SHORT_RESULT

    asks = [call("read", path=f"/srv/data/{number}.txt") for number in range(TURNS)]
    agent = windlass.Agent(
        "worker",
        model=ScriptedModel([*asks, "warm", *asks, "done"]),
        instructions=INSTRUCTIONS,
        tools=[read, *([] if remote else local_tools())],
        mcp=servers(place) if remote else None,
    )
    async with opened(os.path.join(place, "ours.db"), agent, poll_ms=UNWATCHED_MS, lease_ms=LEASE_MS) as runtime:
        session = await runtime.session(agent, "one")
        await session.prompt("Read the files.")
        assert (await session.result()).ok
        assert len((await session.state()).toolset.tools) == TOOLS + 1
        gc.collect()
        gc.set_threshold(700, 10, NEVER)
        with counted():
            await session.prompt("Read them again.")
            assert (await session.result()).ok


async def open_and_close(place: str, *, remote: bool) -> None:
    """Runtimes that are opened, and closed before anybody works with them."""
    import windlass
    from windlass.testing import ScriptedModel

    agent = windlass.Agent("worker", model=ScriptedModel([]), mcp=servers(place) if remote else None)

    async def once() -> None:
        async with windlass.open(os.path.join(place, "ours.db"), agents=[agent], poll_ms=UNWATCHED_MS):
            pass

    await once()
    gc.collect()
    gc.set_threshold(700, 10, NEVER)
    with counted():
        for _ in range(OPENINGS):
            await once()
    assert "mcp" not in sys.modules, "the official package is loaded, and nobody uses it"


def measured(kind: str) -> float:
    """Thousand instructions of a turn, or of an opening."""
    with tempfile.TemporaryDirectory() as place:
        profile = pathlib.Path(place, "callgrind.out")
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={profile}"]
        command += [sys.executable, "-m", "benchmarks.mcp", "--inside", place, "--kind", kind]
        env = {**os.environ, "PYTHONHASHSEED": "0", "XDG_STATE_HOME": place}
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env=env)
        return counted_instructions(profile) / (OPENINGS if "unused" in kind else TURNS + 1) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=("local", "servers", "unused", "unused-servers"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        doing = open_and_close if "unused" in given.kind else work
        asyncio.run(doing(given.inside, remote=given.kind.endswith("servers")))
        return
    local, remote = measured("local"), measured("servers")
    print(f"thousand instructions of a turn with {TOOLS} tools: local {local:,.0f}, of {SERVERS} servers {remote:,.0f}")
    print(f"more with servers: {remote / local - 1:+.1%} (at most {TURN_MOST:.0%})")
    plain, unused = measured("unused"), measured("unused-servers")
    print(f"of the opening of a runtime: without servers {plain:,.0f}, with {SERVERS} that nobody uses {unused:,.0f}")
    print(f"more with servers: {unused / plain - 1:+.1%} (at most {OPENING_MOST:.0%})")
    if remote / local - 1 > TURN_MOST or unused / plain - 1 > OPENING_MOST:
        sys.exit(1)


if __name__ == "__main__":
    main()
