"""How a durable session compares with a bare aiohttp + SQLite loop, measured side by side in one run.

    python -m benchmarks.runtime [--quick] [--part turns|deltas|sessions|resume|parked|import]

The server runs in its own process and sends prepared bytes. The bare loop is one ClientSession, `json.dumps` of the
whole message list for each request, SSE split by lines, `json.loads` of each event, and two commits a turn to SQLite in
WAL mode under the same `synchronous` as the run that it is compared with. Each part runs in a fresh process. Exits with
1 if a ratio misses its bound.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

TURNS = (50, 200)
STEPS = 10
SESSIONS = 200
TURNS_EACH = 5
PARKED = 1_000
INSTRUCTIONS = "You are a careful worker. " * 40
RESULT = "line of a file that a tool has read\n" * 20
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}

SERVER = """
import asyncio, json, sys
from aiohttp import web

def event(finish=None, **delta):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\\n\\n"

USAGE = {"id": "chatcmpl-1", "model": "m", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 40}}
TAIL = b"data: " + json.dumps(USAGE).encode() + b"\\n\\ndata: [DONE]\\n\\n"
WORDS = b"".join(event(content=f" word{n}") for n in range(20))
LONG = b"".join(event(content=f" word{n}") for n in range(40000)) + event("stop") + TAIL
DONE = WORDS + event("stop") + TAIL

def asks(number):
    arguments = json.dumps({"path": f"/srv/data/{number}.txt"})
    function = {"name": "read", "arguments": arguments}
    call = {"index": 0, "id": f"call-{number}", "type": "function", "function": function}
    return WORDS + event(tool_calls=[call]) + event("tool_calls") + TAIL

async def answer(request):
    body = await request.read()
    turns = request.match_info["turns"]
    if turns == "long":
        reply = LONG
    else:
        done = body.count(b'"role":"tool"') + body.count(b'"role": "tool"')
        reply = asks(done) if done < int(turns) else DONE
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for at in range(0, len(reply), 65536):
        await response.write(reply[at : at + 65536])
    await response.write_eof()
    return response

async def main():
    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/{turns}/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


# --- the bare loop ------------------------------------------------------------------------------------------------


class Bare:
    """What one would write by hand: a message list, a loop, a table."""

    def __init__(self, session: Any, connection: Any, url: str) -> None:
        self._session = session
        self._connection = connection
        self._url = url
        function = {"name": "read", "description": "Reads a file.", "parameters": SCHEMA}
        self._tools = [{"type": "function", "function": function}]

    async def run(self, name: str, tool: Callable[[], Awaitable[str]]) -> int:
        """One session to its end; how many text deltas there were."""
        messages: list[dict[str, Any]] = [{"role": "system", "content": INSTRUCTIONS}]
        messages.append({"role": "user", "content": "Read the files."})
        self._keep(name, messages[-1])
        count = 0
        while True:
            text, calls = await self._ask(messages)
            count += len(text)
            reply: dict[str, Any] = {"role": "assistant", "content": "".join(text)}
            if calls:
                reply["tool_calls"] = calls
            messages.append(reply)
            self._keep(name, reply)
            if not calls:
                return count
            for call in calls:
                json.loads(call["function"]["arguments"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": await tool()})
            self._keep(name, messages[-1])

    def _keep(self, name: str, message: dict[str, Any]) -> None:
        with self._connection:
            self._connection.execute("INSERT INTO log(session, data) VALUES(?, ?)", (name, json.dumps(message)))

    async def _ask(self, messages: list[dict[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
        body = {"model": "m", "stream": True, "tools": self._tools, "messages": messages}
        text: list[str] = []
        calls: list[dict[str, Any]] = []
        headers = {"Authorization": "Bearer k", "Content-Type": "application/json"}
        async with self._session.post(self._url, data=json.dumps(body), headers=headers) as response:
            rest = b""
            async for chunk in response.content.iter_any():
                lines = (rest + chunk).split(b"\n")
                rest = lines.pop()
                for line in lines:
                    if not line.startswith(b"data: ") or line == b"data: [DONE]":
                        continue
                    choices = json.loads(line[6:])["choices"]
                    if not choices:
                        continue
                    delta = choices[0]["delta"]
                    if delta.get("content"):
                        text.append(delta["content"])
                    for call in delta.get("tool_calls") or ():
                        calls.append({"id": call["id"], "type": "function", "function": call["function"]})
        return text, calls


async def bare_at(
    place: str, port: int, turns: int | str, durability: str, work: Callable[[Bare], Awaitable[Any]]
) -> Any:
    import aiohttp
    import apsw

    connection = apsw.Connection(os.path.join(place, "bare.db"))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
    connection.execute("CREATE TABLE IF NOT EXISTS log(seq INTEGER PRIMARY KEY, session TEXT, data TEXT)")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        found = await work(Bare(session, connection, f"http://127.0.0.1:{port}/{turns}/chat/completions"))
    connection.close()
    return found


# --- ours ---------------------------------------------------------------------------------------------------------


def agent_at(port: int, turns: int | str, tool: Callable[[], Awaitable[str]], **more: Any) -> Any:
    import msgspec

    import windlass
    from windlass.events.specs import Settings
    from windlass.models.base import ModelInfo
    from windlass.models.endpoints import ENDPOINTS, connect

    endpoint = msgspec.structs.replace(ENDPOINTS["openai"], base_url=f"http://127.0.0.1:{port}/{turns}")
    info = ModelInfo(name="openai/m", provider="openai", model="m", window_tokens=10_000_000)

    @windlass.tool(contract="pure")
    async def read(path: str) -> str:
        "Reads a file."
        return await tool()

    return windlass.Agent(
        "worker",
        model=connect(endpoint, "m", credential="k", info=info),
        instructions=INSTRUCTIONS,
        tools=[read],
        settings=Settings(turns_max=1_000),
        **more,
    )


@contextlib.asynccontextmanager
async def opened(path: str, agent: Any, durability: Any = "normal") -> AsyncIterator[Any]:
    """A runtime for one agent; the model was given, so it is closed here."""
    import windlass

    try:
        async with windlass.open(path, agents=[agent], durability=durability) as rt:
            yield rt
    finally:
        await agent.model.close()


class Meter:
    """A tool that notes how much CPU was used when it was called."""

    def __init__(self) -> None:
        self.at: list[float] = []

    async def __call__(self) -> str:
        self.at.append(time.process_time())
        return RESULT

    def per_turn(self, turn: int) -> float:
        """CPU milliseconds per turn around a turn."""
        first, last = self.at[turn - STEPS // 2], self.at[turn + STEPS // 2]
        return (last - first) * 1000 / STEPS


async def silent() -> str:
    return RESULT


# --- the parts ----------------------------------------------------------------------------------------------------


async def turns(port: int, rounds: int) -> bool:

    met = True
    length = max(TURNS) + STEPS
    for durability in ("normal", "full"):
        found: dict[tuple[str, int], list[float]] = {}
        for number in range(rounds):
            with tempfile.TemporaryDirectory() as place:
                gc.collect()
                meter = Meter()
                await bare_at(place, port, length, durability, lambda bare, m=meter: bare.run("s", m))  # type: ignore[misc]
                for turn in TURNS:
                    found.setdefault(("bare", turn), []).append(meter.per_turn(turn))
                gc.collect()
                meter = Meter()
                agent = agent_at(port, length, meter)
                async with opened(os.path.join(place, "ours.db"), agent, durability) as rt:
                    session = await rt.session(agent, f"s{number}")
                    async for _ in session.prompt("Read the files."):
                        pass
                    assert (await session.result()).ok
                for turn in TURNS:
                    found.setdefault(("ours", turn), []).append(meter.per_turn(turn))
        for turn, bound in zip(TURNS, (2.0, 1.0), strict=True):
            theirs, ours = statistics.median(found["bare", turn]), statistics.median(found["ours", turn])
            what = f"CPU ms per durable turn at {turn}, {durability}"
            met &= row(what, theirs, ours, ours / theirs, f"<= {bound}", bound)
    return met


async def deltas(port: int, rounds: int) -> bool:
    import windlass

    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as place:
            gc.collect()
            before = time.process_time()
            count = await bare_at(place, port, "long", "normal", lambda bare: bare.run("s", silent))
            rates[0].append(count / (time.process_time() - before))
            agent = agent_at(port, "long", silent)
            async with opened(os.path.join(place, "ours.db"), agent, "normal") as rt:
                session = await rt.session(agent, "s")
                gc.collect()
                before, count = time.process_time(), 0
                async for event in session.prompt("Read the files."):
                    count += type(event) is windlass.TextDelta
                rates[1].append(count / (time.process_time() - before))
    theirs, ours = statistics.median(rates[0]), statistics.median(rates[1])
    return row("typed deltas per CPU second, subscribed", theirs, ours, ours / theirs, ">= 0.8", -0.8)


async def sessions(port: int, rounds: int) -> bool:

    met = True
    rates: dict[tuple[str, str], list[float]] = {}
    spent: dict[tuple[str, str], list[float]] = {}
    peak = 0.0

    def measured(side: str, durability: str, seconds: float, cpu: float) -> None:
        rates.setdefault((side, durability), []).append(SESSIONS / seconds)
        spent.setdefault((side, durability), []).append(SESSIONS / cpu)

    async def ours(place: str, number: int, durability: Any) -> tuple[float, float]:
        agent = agent_at(port, TURNS_EACH, silent)
        async with opened(os.path.join(place, "ours.db"), agent, durability) as rt:

            async def one(name: str) -> None:
                session = await rt.session(agent, name)
                await session.prompt("Read the files.")
                assert (await session.result()).ok

            before, used = time.perf_counter(), time.process_time()
            await asyncio.gather(*(one(f"s{number}-{n}") for n in range(SESSIONS)))
            return time.perf_counter() - before, time.process_time() - used

    async def by_hand(bare: Bare) -> tuple[float, float]:
        before, used = time.perf_counter(), time.process_time()
        await asyncio.gather(*(bare.run(f"s{n}", silent) for n in range(SESSIONS)))
        return time.perf_counter() - before, time.process_time() - used

    for number in range(max(3, rounds * 2 // 3)):
        for durability in SYNCHRONOUS:
            with tempfile.TemporaryDirectory() as place:
                gc.collect()
                measured("ours", durability, *await ours(place, number, durability))
        if number == 0:
            peak = peak_mb()  # before the other side has used any memory
        for durability in SYNCHRONOUS:
            with tempfile.TemporaryDirectory() as place:
                gc.collect()
                measured("bare", durability, *await bare_at(place, port, TURNS_EACH, durability, by_hand))
    for durability in SYNCHRONOUS:
        theirs, mine = (statistics.median(rates[side, durability]) for side in ("bare", "ours"))
        met &= row(f"sessions/s, {SESSIONS} at once, {durability}", theirs, mine, mine / theirs, ">= 0.5", -0.5)
        theirs, mine = (statistics.median(spent[side, durability]) for side in ("bare", "ours"))
        row(f"  sessions per CPU second, {durability}", theirs, mine, mine / theirs, "no bound", NO_BOUND)
    return met & row("  MB of the whole process at its peak", 0, peak, peak, "<= 80", 80)


async def resume(port: int, rounds: int) -> bool:

    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "ours.db")
        agent = agent_at(port, 200, silent)
        async with opened(path, agent) as rt:
            session = await rt.session(agent, "s")
            await session.prompt("Read the files.")
            assert (await session.result()).ok
        times = []
        for _ in range(rounds):
            again = agent_at(port, 200, silent)
            async with opened(path, again) as rt:
                gc.collect()
                before = time.perf_counter()
                session = await rt.session(again, "s")
                await session.set_title("ready")
                times.append((time.perf_counter() - before) * 1000)
    found = statistics.median(times)
    return row("ms until a 200-turn session is ready", 0, found, found, "<= 15", 15)


async def parked(port: int, rounds: int) -> bool:
    import windlass

    with tempfile.TemporaryDirectory() as place:
        policy = windlass.Policy(rules=(windlass.ask("read"),))
        agent = agent_at(port, 1, silent, policy=policy)
        async with opened(os.path.join(place, "ours.db"), agent, "normal") as rt:

            async def park(name: str) -> None:
                session = await rt.session(agent, name)
                await session.prompt("Read the files.")
                assert (await session.result()).status == "asked"

            for number in range(20):
                await park(f"warm{number}")
            gc.collect()
            before = rss_mb()
            for begin in range(0, PARKED, 50):
                await asyncio.gather(*(park(f"s{begin + n}") for n in range(50)))
            gc.collect()
            found = rss_mb() - before
    return row(f"MB that {PARKED} parked sessions add", 0, found, found, "<= 20", 20)


async def imports(port: int, rounds: int) -> bool:
    def least(code: str) -> float:
        measured = f"import time; {code}; print(time.process_time())"
        runs = [subprocess.run([sys.executable, "-c", measured], capture_output=True, check=True) for _ in range(10)]
        return min(float(run.stdout) for run in runs) * 1000

    bare = least("import msgspec")
    ours = least("import windlass; windlass.Agent; windlass.tool; windlass.open")
    return row("CPU ms of the import over msgspec's", bare, ours, ours - bare, "<= 60", 60)


PARTS: dict[str, Callable[[int, int], Awaitable[bool]]] = {
    "turns": turns,
    "deltas": deltas,
    "sessions": sessions,
    "resume": resume,
    "parked": parked,
    "import": imports,
}


def rss_mb() -> float:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_mb() -> float:
    """The most memory that the process ever had."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1e3


NO_BOUND = float("inf")
"""For a figure that helps to read another one: on a busy machine, time spent says more than time gone by."""


def row(what: str, bare: float, ours: float, ratio: float, said: str, bound: float) -> bool:
    ok = ratio <= bound if bound > 0 else ratio >= -bound
    print(f"{what:44} {bare:12,.3f} {ours:12,.3f} {ratio:7.2f}  {said} {'ok' if ok else 'MISSED'}", flush=True)
    return ok


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--part", choices=sorted(PARTS), help="one part only")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    rounds = 3 if given.quick else 9
    if given.part and given.port:
        return 0 if asyncio.run(PARTS[given.part](given.port, rounds)) else 1  # type: ignore[arg-type]
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        print(f"{'what':44} {'bare':>12} {'ours':>12} {'ratio':>7}  bound", flush=True)
        missed = 0
        for part in [given.part] if given.part else list(PARTS):
            again = [sys.executable, "-m", "benchmarks.runtime", "--part", part, "--port", port]
            missed |= subprocess.run([*again, "--quick"] if given.quick else again).returncode
        return 1 if missed else 0
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    raise SystemExit(main())
