"""How the model layer compares with a bare aiohttp loop, measured side by side in one run.

    python -m benchmarks.models [--quick]

The server runs in its own process and sends prepared bytes. The bare loop is one ClientSession, `json.dumps` of the
whole message list for each request, SSE split by lines and `json.loads` of each event. Both run on asyncio's own loop.
Exits with 1 if a ratio misses its bound.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import msgspec

from windlass.events.values.blocks import Text
from windlass.events.values.items import AssistantItem, CallPart, HistoryItem, ResultItem, ToolSchema, UserItem
from windlass.models.base import Model, Reply, Request
from windlass.models.catalogue.endpoints import ENDPOINTS, connect

TOOL = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = (ToolSchema(name="read", description="Reads a file.", parameters=TOOL),)
INSTRUCTIONS = "You are a careful worker. " * 40
RESULT = "line of a file that a tool has read\n" * 20
STREAMS = 200
REQUESTS_PER_STREAM = 5

SERVER = """
import asyncio, json, sys
from aiohttp import web

def event(**delta):
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\\n\\n"

def reply(count):
    body = b"".join(event(content=f" word{n}") for n in range(count))
    last = {"id": "chatcmpl-1", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    usage = {"id": "chatcmpl-1", "model": "m", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9}}
    tail = b"".join(b"data: " + json.dumps(x).encode() + b"\\n\\n" for x in (last, usage))
    return body + tail + b"data: [DONE]\\n\\n"

REPLIES = {"short": reply(20), "long": reply(40000)}

async def answer(request):
    await request.read()
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    body = REPLIES[request.match_info["size"]]
    for at in range(0, len(body), 65536):
        await response.write(body[at : at + 65536])
    await response.write_eof()
    return response

async def main():
    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/{size}/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


class Bare:
    """The loop that one would write by hand, with its message list."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self._tools = [{"type": "function", "function": {"name": "read", "description": "x", "parameters": TOOL}}]

    async def ask(self, messages: list[dict[str, Any]]) -> int:
        body = {"model": "m", "stream": True, "tools": self._tools, "messages": messages}
        count = 0
        text = []
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
                    if choices and choices[0]["delta"].get("content"):
                        text.append(choices[0]["delta"]["content"])
                        count += 1
        return count


async def ask(model: Model, items: list[HistoryItem], session: str) -> int:
    count = 0
    request = Request(model="m", instructions=INSTRUCTIONS, items=items, tools=TOOLS, session=session)
    async for answer in model.stream(request):
        if isinstance(answer, list):
            count += len(answer)
        else:
            assert isinstance(answer, Reply), answer
    return count


def turn_items(number: int) -> list[HistoryItem]:
    call_id = f"call-{number}"
    call = CallPart(call_id=call_id, tool="read", args={"path": f"/srv/data/{number}.txt"})
    return [
        AssistantItem(key=f"a{number}", content=(Text(text="I read the next file."), call)),
        ResultItem(key=f"r{number}", call_id=call_id, tool="read", content=(Text(text=RESULT),)),
    ]


def turn_messages(number: int) -> list[dict[str, Any]]:
    call_id = f"call-{number}"
    function = {"name": "read", "arguments": json.dumps({"path": f"/srv/data/{number}.txt"})}
    call = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": "I read the next file.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": RESULT},
    ]


def first_items(turns: int) -> list[HistoryItem]:
    items: list[HistoryItem] = [UserItem(key="u", content=(Text(text="Read the files."),))]
    for number in range(turns):
        items += turn_items(number)
    return items


def first_messages(turns: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": INSTRUCTIONS}]
    messages.append({"role": "user", "content": "Read the files."})
    for number in range(turns):
        messages += turn_messages(number)
    return messages


async def cpu_ms(work: Callable[[], Awaitable[object]]) -> float:
    gc.collect()
    before = time.process_time()
    await work()
    return (time.process_time() - before) * 1000


async def per_request(bare: Bare, model: Model, turns: int, rounds: int) -> tuple[float, float]:
    """CPU milliseconds per request with this much history: bare, ours. The history grows by a turn each request."""
    steps = 10
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        messages, items, name = first_messages(turns), first_items(turns), f"s{turns}-{number}"
        await ask(model, items, name)
        await bare.ask(messages)

        async def ours(items: list[HistoryItem] = items, name: str = name) -> None:
            for step in range(steps):
                items += turn_items(turns + step)
                await ask(model, items, name)

        async def by_hand(messages: list[dict[str, Any]] = messages) -> None:
            for step in range(steps):
                messages += turn_messages(turns + step)
                await bare.ask(messages)

        for place, work in ((1, ours), (0, by_hand)) if number % 2 else ((0, by_hand), (1, ours)):
            times[place].append(await cpu_ms(work) / steps)
    return statistics.median(times[0]), statistics.median(times[1])


async def deltas(bare: Bare, model: Model, rounds: int) -> tuple[float, float]:
    """Typed text deltas per CPU second: bare, ours."""
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for place in (0, 1):
            gc.collect()
            before = time.process_time()
            count = await (bare.ask(first_messages(1)) if place == 0 else ask(model, first_items(1), "deltas"))
            rates[place].append(count / (time.process_time() - before))
    return statistics.median(rates[0]), statistics.median(rates[1])


async def concurrent(bare: Bare, model: Model, rounds: int) -> tuple[float, float]:
    """Sessions per second with many streams at once: bare, ours. A session is a few requests that grow."""
    rates: tuple[list[float], list[float]] = ([], [])

    async def by_hand(number: int) -> None:
        messages = first_messages(3)
        for step in range(REQUESTS_PER_STREAM):
            messages += turn_messages(3 + step)
            await bare.ask(messages)

    async def ours(number: int) -> None:
        items = first_items(3)
        for step in range(REQUESTS_PER_STREAM):
            items += turn_items(3 + step)
            await ask(model, items, f"c{number}")

    for _ in range(rounds):
        for place, work in ((0, by_hand), (1, ours)):
            gc.collect()
            before = time.perf_counter()
            await asyncio.gather(*(work(number) for number in range(STREAMS)))
            rates[place].append(STREAMS / (time.perf_counter() - before))
    return statistics.median(rates[0]), statistics.median(rates[1])


async def measure(port: int, rounds: int) -> bool:
    base = msgspec.structs.replace(ENDPOINTS["openai"], base_url=f"http://127.0.0.1:{port}/short")
    short = connect(base, "m", credential="k")
    long = connect(msgspec.structs.replace(base, base_url=f"http://127.0.0.1:{port}/long"), "m", credential="k")
    met = True
    print(f"{'what':38} {'bare':>12} {'ours':>12} {'ratio':>7}  bound")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        bare = Bare(session, f"http://127.0.0.1:{port}/short/chat/completions")
        stream = Bare(session, f"http://127.0.0.1:{port}/long/chat/completions")
        for turns, bound in ((50, 1.3), (200, 0.7)):
            theirs, ours = await per_request(bare, short, turns, rounds)
            met &= row(f"CPU ms per request, {turns} turns", theirs, ours, ours / theirs, f"<= {bound}", bound)
        theirs, ours = await deltas(stream, long, rounds)
        met &= row("text deltas per CPU second", theirs, ours, ours / theirs, ">= 1.0", -1.0)
        theirs, ours = await concurrent(bare, short, max(3, rounds // 3))
        met &= row(f"sessions/s, {STREAMS} streams at once", theirs, ours, ours / theirs, ">= 0.8", -0.8)
    await short.close()
    await long.close()
    return met


def row(what: str, bare: float, ours: float, ratio: float, said: str, bound: float) -> bool:
    ok = ratio <= bound if bound > 0 else ratio >= -bound
    print(f"{what:38} {bare:12,.3f} {ours:12,.3f} {ratio:7.2f}  {said} {'ok' if ok else 'MISSED'}", flush=True)
    return ok


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 5 if parser.parse_args().quick else 15
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        return 0 if asyncio.run(measure(int(server.stdout.readline()), rounds)) else 1
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    raise SystemExit(main())
