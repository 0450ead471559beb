"""Where a run is played: a folder of its own, real SQLite files, models behind a loopback server or scripted, and a
recorder that keeps the logs, what readers were streamed, and what callers were refused with."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import pathlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from dev import evidence

import windlass
from windlass.events.base import Command, Event
from windlass.events.errors import WindlassError
from windlass.events.live import Live
from windlass.events.stored import codec
from windlass.events.values.settings import Settings
from windlass.events.values.usage import Price
from windlass.models.base import ModelInfo
from windlass.models.catalogue.endpoints import ENDPOINTS
from windlass.models.transport.http_model import WireModel
from windlass.models.transport.timeouts import Timeouts
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.api.session import Session
from windlass.runtime.host.ports import SystemPorts
from windlass.store import open_store
from windlass.store.base import InboxCommand, Key
from windlass.store.transfer.exporter import export_session
from windlass.testing.model_server import Format, ModelServer
from windlass.testing.scripted import ScriptedModel

QUICK = Settings(retry_base_ms=5, retry_cap_ms=20, rate_limit_floor_ms=0)
"""Retries that keep nobody waiting."""
SHORT = Timeouts(connect=0.5, headers=0.4, first_output=0.4, idle=0.4, total=5)
PRICE = Price(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000, as_of="2026-01-01")
ENDPOINT_OF: dict[Format, str] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "responses": "openai-responses",
    "gemini": "gemini",
}
WAIT_S = 30.0
STEP_S = 0.005
keys = itertools.count(1)


class StagePorts(SystemPorts):
    """The real world with a wall clock that can be moved, and names that say nothing of the machine."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ms = 0
        self._ids = itertools.count(1)
        self._runners = itertools.count(1)

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def fresh_id(self) -> str:
        return f"id-{next(self._ids):04}"

    def runner(self) -> str:
        return f"runner-{next(self._runners)}"


class Stage:
    """One run: what it opens is closed when it ends, and what happened is in `logs`, `live` and `raised`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.ports = StagePorts()
        self.logs: dict[str, bytes] = {}
        self.live: dict[str, list[Live]] = {}
        self.raised: list[evidence.Raised] = []
        self._models: list[WireModel] = []

    # --- models ---

    @contextlib.asynccontextmanager
    async def serving(self, *script: Any, **more: Any) -> AsyncIterator[ModelServer]:
        """A model server on loopback."""
        async with ModelServer(script=list(script), **more) as server:
            yield server
            for model in self._models:
                await model.close()
            self._models.clear()

    def model(self, server: ModelServer, form: Format = "openai", *, timeouts: Timeouts = SHORT, **info: Any) -> Any:
        """A model behind the server, with a key of its own: a key shares its circuit breaker."""
        endpoint = msgspec.structs.replace(ENDPOINTS[ENDPOINT_OF[form]], base_url=server.url(form))
        credential = info.pop("credential", f"sk-stage-{next(keys):08}")
        info.setdefault("price", PRICE)
        known = ModelInfo(name=f"{endpoint.name}/m", provider=endpoint.name, model="m", **info)
        made = WireModel(endpoint, "m", credential=credential, info=known, timeouts=timeouts)
        self._models.append(made)
        return made

    # --- sessions ---

    @contextlib.asynccontextmanager
    async def open(
        self, *agents: windlass.Agent | windlass.flows.Flow, store: str = "work", **more: Any
    ) -> AsyncIterator[Runtime]:
        """A runtime over this run's store. When it closes, the sessions in it are exported."""
        more.setdefault("ports", self.ports)
        place = str(self.folder / f"{store}.db")
        readers: list[asyncio.Task[None]] = []
        async with windlass.open(place, agents=list(agents), durability="normal", poll_ms=10, **more) as rt:
            rt.readers = readers  # type: ignore[attr-defined]
            try:
                yield rt
                await self._export(rt)
            finally:
                for reader in readers:
                    reader.cancel()
                await asyncio.gather(*readers, return_exceptions=True)

    async def session(self, rt: Runtime, agent: windlass.Agent, name: str, **more: Any) -> Session:
        """A session whose live events are kept."""
        session = await rt.session(agent, name, **more)
        self.listen(rt, session)
        return session

    def listen(self, rt: Runtime, session: Session) -> None:
        readers: list[asyncio.Task[None]] = rt.readers  # type: ignore[attr-defined]
        readers.append(asyncio.create_task(self._listen(session)))

    async def _listen(self, session: Session) -> None:
        kept = self.live.setdefault(session.session_id, [])
        async for event in session.events(after=await session.cursor()):
            if isinstance(event, Live):
                kept.append(event)

    async def _export(self, rt: Runtime) -> None:
        for row in await rt.sessions(limit=1_000):
            session = await rt.get(row.session)
            lines = [line async for line in export_session(rt.store, session.key, whole=True)]
            self.logs[row.session] = b"".join(lines)

    async def leave(self, key: Key, command: Command, *, export: bool = False) -> None:
        """Leaves a command in the inbox of a session that nobody drives; exports it with the log if asked."""
        store = await open_store(str(self.folder / "work.db"))
        try:
            data = codec.encode_command(command)
            await store.inbox.send(
                key, InboxCommand(command_id=command.command_id, at_ms=self.ports.now_ms(), data=data)
            )
            if export:
                lines = [line async for line in export_session(store, key, whole=True)]
                self.logs[key.session] = b"".join(lines)
        finally:
            await store.close()

    # --- what happens in it ---

    async def said(self, session: Session, text: Any, **more: Any) -> Any:
        """Sends a prompt and waits for the end of its run."""
        await session.prompt(text, **more)
        return await session.result()

    async def until(self, session: Session, kind: type[Any], count: int = 1) -> list[Any]:
        """Waits until the log holds so many events of a kind, and gives them."""
        async with asyncio.timeout(WAIT_S):
            while True:
                found = [record.event async for record in session.records() if isinstance(record.event, kind)]
                if len(found) >= count:
                    return found
                await asyncio.sleep(STEP_S)

    async def until_event(self, session: Session, wanted: Callable[[Event], bool]) -> None:
        """Waits until the log holds an event of which this is true."""
        async with asyncio.timeout(WAIT_S):
            while not [record async for record in session.records() if wanted(record.event)]:
                await asyncio.sleep(STEP_S)

    async def heard(self, session: Session, text: str, times: int = 1) -> None:
        """Waits until readers were streamed a text so often."""
        kept = self.live[session.session_id]
        await self.reached(lambda: sum(getattr(event, "text", "") == text for event in kept) >= times)

    async def reached(self, reached: Callable[[], Any]) -> None:
        """Waits until something holds that no event tells of."""
        async with asyncio.timeout(WAIT_S):
            while not reached():
                await asyncio.sleep(STEP_S)

    @contextlib.contextmanager
    def refused(self, did: str) -> Any:
        """Keeps the error that a caller gets for what they do in the block."""
        try:
            yield
        except WindlassError as error:
            for cls in type(error).__mro__:
                if issubclass(cls, WindlassError) and cls.__module__ == "windlass.events.errors":
                    self.raised.append(evidence.Raised(did=did, error=cls.__name__, message=str(error)))
        else:
            raise AssertionError(f"{did}: nothing was raised")

    # --- keeping it ---

    def keep(self, folder: pathlib.Path) -> None:
        """Writes what was recorded: the logs whole, of the live events those that show something new."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.logs.items():
            (folder / f"{name}.jsonl").write_bytes(data)
        for name, events in self.live.items():
            lines = b"".join(msgspec.json.encode(event) + b"\n" for event in telling(events))
            if lines:
                (folder / f"{name}{evidence.LIVE}.jsonl").write_bytes(lines)


Play = Callable[[Stage], Awaitable[Any]]
"""One run."""


def telling(events: list[Live]) -> list[Live]:
    """Those events that show a field or a word that none before them showed."""
    kept: list[Live] = []
    seen: set[tuple[str, str, str]] = set()
    for event in events:
        shown = {
            (type(event).__name__, name, value if name in ("reason", "point", "kind") else "")
            for name, value in msgspec.structs.asdict(event).items()
            if evidence.says(type(event), name, value)
        }
        if shown - seen:
            kept.append(event)
            seen |= shown
    return kept


def scripted(*turns: Any, **more: Any) -> ScriptedModel:
    return ScriptedModel(list(turns), **more)


def priced(*turns: Any, **info: Any) -> ScriptedModel:
    """A scripted model that costs something."""
    info.setdefault("window_tokens", 128_000)
    known = ModelInfo(name="scripted/priced", provider="scripted", model="priced", price=PRICE, **info)
    return ScriptedModel(list(turns), info=known)
