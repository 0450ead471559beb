"""The sides that are compared: two loops as one would write them by hand, and a session of ours.

Both loops are one aiohttp ClientSession, `json.dumps` of the whole message list for each request, and two commits a
turn to SQLite in WAL mode. `Bare` reads the answer as a stream, split by lines, with `json.loads` of each event;
`Whole` does not ask for a stream and has no more to do than `json.loads` of one body.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

INSTRUCTIONS = "You are a careful worker. " * 40
RESULT = "line of a file that a tool has read\n" * 20
SHORT_RESULT = "one line"
"""With this the histories of the loops stay so short that writing them anew for each request costs little."""
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}

Tool = Callable[[], Awaitable[str]]


class Bare:
    """What one would write by hand: a message list, a loop, a table."""

    def __init__(self, session: Any, connection: Any, url: str) -> None:
        self._session = session
        self._connection = connection
        self._url = url
        function = {"name": "read", "description": "Reads a file.", "parameters": SCHEMA}
        self._tools = [{"type": "function", "function": function}]

    async def run(self, name: str, tool: Tool) -> int:
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

    def _posted(self, messages: list[dict[str, Any]], *, stream: bool) -> Any:
        body = {"model": "m", "stream": stream, "tools": self._tools, "messages": messages}
        headers = {"Authorization": "Bearer k", "Content-Type": "application/json"}
        return self._session.post(self._url, data=json.dumps(body), headers=headers)

    async def _ask(self, messages: list[dict[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
        text: list[str] = []
        calls: list[dict[str, Any]] = []
        async with self._posted(messages, stream=True) as response:
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


class Whole(Bare):
    """The same without streaming: the least that a loop over HTTP and SQLite can do."""

    async def _ask(self, messages: list[dict[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
        async with self._posted(messages, stream=False) as response:
            said = json.loads(await response.read())["choices"][0]["message"]
        return [said["content"]], said.get("tool_calls") or []


async def bare_at(
    place: str,
    port: int,
    turns: int | str,
    durability: str,
    work: Callable[[Bare], Awaitable[Any]],
    kind: type[Bare] = Bare,
) -> Any:
    """Has something done with a loop of some kind over a new file."""
    import aiohttp
    import apsw

    connection = apsw.Connection(os.path.join(place, f"{kind.__name__}.db"))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
    connection.execute("CREATE TABLE IF NOT EXISTS log(seq INTEGER PRIMARY KEY, session TEXT, data TEXT)")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        found = await work(kind(session, connection, f"http://127.0.0.1:{port}/{turns}/chat/completions"))
    connection.close()
    return found


def agent_at(port: int, turns: int | str, tool: Tool, **more: Any) -> Any:
    """An agent of ours whose model is the server."""
    import msgspec

    import windlass
    from windlass.events.values.settings import Settings
    from windlass.models.base import ModelInfo
    from windlass.models.catalogue.endpoints import ENDPOINTS, connect

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
async def opened(path: str, agent: Any, durability: Any = "normal", **more: Any) -> AsyncIterator[Any]:
    """A runtime for one agent; the model was given, so it is closed here."""
    import windlass

    try:
        async with windlass.open(path, agents=[agent], durability=durability, **more) as rt:
            yield rt
    finally:
        await agent.model.close()


async def session_of(place: str, port: int, turns: int, tool: Tool, durability: str = "normal", **more: Any) -> None:
    """One session of ours to its end, with somebody who reads all that is told of it."""
    agent = agent_at(port, turns, tool)
    async with opened(os.path.join(place, "ours.db"), agent, durability, **more) as rt:
        session = await rt.session(agent, "s")
        async for _ in session.prompt("Read the files."):
            pass
        assert (await session.result()).ok


class Meter:
    """A tool that notes how much CPU was used when it was called."""

    def __init__(self, result: str = RESULT) -> None:
        self.at: list[float] = []
        self._result = result

    async def __call__(self) -> str:
        self.at.append(time.process_time())
        return self._result

    def per_turn(self, first: int, last: int) -> float:
        """CPU milliseconds per turn between two turns."""
        return (self.at[last] - self.at[first]) * 1000 / (last - first)


async def silent() -> str:
    return RESULT


async def brief() -> str:
    return SHORT_RESULT
