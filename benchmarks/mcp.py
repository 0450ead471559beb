"""What tools of MCP servers cost a turn beyond tools of ours, in machine instructions.

    python -m benchmarks.mcp

Runs itself twice under valgrind's callgrind (see `instructions`): a session with 200 local tools, then one with 200 of
three connected servers, all shown to the model. Each turn calls one local tool, so that what is compared is a turn, not
the way to a server.
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


def measured(kind: str) -> float:
    """Thousand instructions of a turn."""
    with tempfile.TemporaryDirectory() as place:
        profile = pathlib.Path(place, "callgrind.out")
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={profile}"]
        command += [sys.executable, "-m", "benchmarks.mcp", "--inside", place, "--kind", kind]
        env = {**os.environ, "PYTHONHASHSEED": "0", "XDG_STATE_HOME": place}
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env=env)
        return counted_instructions(profile) / (TURNS + 1) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=("local", "servers"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        asyncio.run(work(given.inside, remote=given.kind == "servers"))
        return
    local, remote = measured("local"), measured("servers")
    print(f"thousand instructions of a turn with {TOOLS} tools: local {local:,.0f}, of {SERVERS} servers {remote:,.0f}")
    print(f"more with servers: {remote / local - 1:+.1%}")


if __name__ == "__main__":
    main()
