"""A real server over a real SQLite file on loopback, and a client that speaks HTTP to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import msgspec

import windlass
from windlass.server.access.limits import Limits
from windlass.server.access.token_file import TokenFile
from windlass.server.http_server import HttpServer
from windlass.testing.scripted import ScriptedModel, by_history, call

PROMPT = {"type": "prompt.received", "body": {"content": [{"type": "text", "text": "Pay the invoice."}]}}
WAIT_S = 200


@windlass.tool
def pay(amount: int) -> str:
    """Pays an amount."""
    return f"paid {amount}"


def clerk(name: str = "clerk", *, ask: bool = True) -> windlass.Agent:
    """An agent that pays once, after asking if it must, and says so."""
    policy = windlass.Policy(rules=(windlass.ask("pay"),)) if ask else windlass.ALLOW_ALL
    model = ScriptedModel(by_history([call("pay", amount=3), "It is paid."]))
    return windlass.Agent(name, model=model, tools=[pay], policy=policy)


class Said(msgspec.Struct, frozen=True):
    """An answer of the server."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The word of a problem, in the form of whichever protocol."""
        said = self.json
        code: str = said["code"] if "code" in said else said["error"]["code"]
        return code


class Client:
    """Somebody with a token."""

    def __init__(self, http: aiohttp.ClientSession, url: str, token: str | None) -> None:
        self.http = http
        self.url = url
        self.token = token

    def heads(self, headers: dict[str, str] | None = None) -> dict[str, str]:
        return ({"Authorization": f"Bearer {self.token}"} if self.token is not None else {}) | (headers or {})

    async def ask(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, json: Any = None, data: Any = None
    ) -> Said:
        """One request. Its path is sent as it is written."""
        from yarl import URL

        url = URL(self.url + path, encoded=True)
        more = {"json": json} if json is not None else {"data": data}
        async with self.http.request(method, url, headers=self.heads(headers), **more) as answer:
            return Said(answer.status, await answer.read(), {key.lower(): val for key, val in answer.headers.items()})

    async def get(self, path: str) -> Any:
        said = await self.ask("GET", path)
        assert said.status == 200, said
        return said.json

    async def post(self, path: str, body: Any, key: str | None = None) -> Any:
        said = await self.ask("POST", path, json=body, headers={"Idempotency-Key": key} if key else None)
        assert said.status in (200, 201, 202), said
        return said.json if said.body else None

    async def begin(self, session: str, agent: str = "clerk") -> None:
        await self.post("/v1/sessions", {"agent": agent, "session_id": session})

    async def prompt(self, session: str, key: str | None = None) -> Any:
        return await self.post(f"/v1/sessions/{session}/commands", PROMPT, key)

    async def asked(self, session: str) -> dict[str, Any]:
        """The permission that a session asks for, once it does."""
        await self.get(f"/v1/sessions/{session}/result?wait_s=60")
        permissions = (await self.get(f"/v1/sessions/{session}/requests"))["permissions"]
        assert len(permissions) == 1, permissions
        asked: dict[str, Any] = permissions[0]
        return asked

    async def paid(self, session: str) -> None:
        """A session that has asked, was allowed, and is done."""
        await self.begin(session)
        await self.prompt(session)
        asked = await self.asked(session)
        answer = {"decision": "approve", "digest": asked["digest"]}
        await self.post(f"/v1/sessions/{session}/requests/{asked['request_id']}", answer)
        ended = (await self.get(f"/v1/sessions/{session}/result?wait_s=60"))["result"]
        assert ended["status"] == "completed", ended

    async def records(self, session: str) -> list[dict[str, Any]]:
        """The whole log."""
        page = await self.get(f"/v1/sessions/{session}/records?limit=1000")
        assert not page["more"]
        found: list[dict[str, Any]] = page["records"]
        return found

    @contextlib.asynccontextmanager
    async def stream(self, session: str, after: str | None = None, query: str = "") -> AsyncIterator[Stream]:
        """The events of a session."""
        headers = self.heads({"Last-Event-ID": after} if after else None)
        url = f"{self.url}/v1/sessions/{session}/events{query}"
        async with self.http.get(url, headers=headers) as answer:
            assert answer.status == 200, await answer.read()
            assert answer.headers["Content-Type"] == "text/event-stream"
            yield Stream(answer.content)


class Sse(msgspec.Struct, frozen=True):
    """One server-sent event."""

    id: str | None
    kind: str
    data: Any


class Stream:
    """Server-sent events as they come."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    async def next(self) -> Sse | None:
        """The next event; None at the end of the stream. Comments are passed over."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(WAIT_S):
            while line := await self._content.readline():
                text = line.decode().rstrip("\n")
                if not text:
                    if "data" in fields:
                        return Sse(fields.get("id"), fields.get("event", "message"), json.loads(fields["data"]))
                    fields = {}
                elif not text.startswith(":"):
                    name, _, value = text.partition(": ")
                    fields[name] = value
        return None

    async def record(self) -> dict[str, Any]:
        """The next committed event."""
        while (event := await self.next()) is not None:
            if event.kind == "record":
                assert event.id == event.data["cursor"]
                found: dict[str, Any] = event.data
                return found
            assert event.id is None
        raise AssertionError("the stream has ended")

    async def until(self, kind: str) -> list[dict[str, Any]]:
        """The records up to the first of a kind."""
        found = [await self.record()]
        while found[-1]["event"]["type"] != kind:
            found.append(await self.record())
        return found


class Running:
    """A server that answers, and those who may ask it."""

    def __init__(self, server: HttpServer, http: aiohttp.ClientSession) -> None:
        self.server = server
        self._http = http

    def client(self, *roles: str, name: str | None = None, tenant: str = "default") -> Client:
        """Somebody with a token of these roles; the first token without any."""
        if not roles:
            return Client(self._http, self.server.url, self.server.tokens.first_path.read_text().strip())
        made = self.server.tokens.add(name or "-".join((*roles, tenant)), roles, tenant=tenant)
        return Client(self._http, self.server.url, made)

    def stranger(self, token: str | None = None) -> Client:
        """Somebody without a token that is known."""
        return Client(self._http, self.server.url, token)


@contextlib.asynccontextmanager
async def serving(
    folder: pathlib.Path,
    agents: Sequence[windlass.Agent] = (),
    *,
    limits: Limits | None = None,
    tokens: str = "tokens.json",
    **more: Any,
) -> AsyncIterator[Running]:
    """A server over `folder/store.db`, open as long as the block is."""
    server = HttpServer(str(folder / "store.db"), agents, TokenFile(folder / tokens), limits=limits, **more)
    await server.open()
    running = asyncio.ensure_future(server.run())
    try:
        timeout = aiohttp.ClientTimeout(total=600)
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as http:
            yield Running(server, http)
    finally:
        server.stop()
        await running
        await server.close()
