"""A tool server that counts what was really done, so that a test can tell "once" from "twice" and from "not at all".

Effects happen at the moment of the request; the reply may be delayed, held or dropped after that. It never undoes one.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from types import TracebackType
from typing import Any

import msgspec
from aiohttp import web

LOOPBACK = "127.0.0.1"
EFFECTS_KEPT = 100_000
HOLD_LIMIT_S = 600.0
"""The longest that a reply is held, whatever a test forgets."""

SHUTDOWN_S = 1.0
KEY_HEADER = "idempotency-key"


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One request that changed the world. `repeated` marks a key that was seen before: the effect was not done again,
    and the caller got the first reply."""

    number: int
    tool: str
    key: str
    args: Any
    repeated: bool


class Ledger:
    """`POST /<tool>` does the effect and answers `{"number": n}`; with an `idempotency-key` header the same key does it
    once. Without a key every request is an effect of its own, which is what an at-most-once tool must live with.

    `delay_ms` delays every reply. `hold()` keeps replies back until `release()`; `drop(n)` cuts the connection of the
    next n after their effect: the caller cannot know whether it happened."""

    def __init__(self, *, delay_ms: float = 0.0, port: int = 0) -> None:
        self.delay_ms = delay_ms
        self.port = port
        self.effects: deque[Effect] = deque(maxlen=EFFECTS_KEPT)
        self._first: dict[tuple[str, str], int] = {}
        self._open = asyncio.Event()
        self._open.set()
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._drops = 0
        self._count = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def done(self) -> Counter[str]:
        """How often each key's effect was really done; effects without a key count under the tool's name."""
        return Counter(each.key or each.tool for each in self.effects if not each.repeated)

    @property
    def asked(self) -> Counter[str]:
        """How often each key was asked for, repeats included."""
        return Counter(each.key or each.tool for each in self.effects)

    def hold(self) -> None:
        """Keeps every reply back from now on."""
        self._open.clear()

    def release(self) -> None:
        """Lets held replies go."""
        self._open.set()

    def drop(self, count: int = 1) -> None:
        """Cuts the connection of the next requests, after their effect."""
        self._drops += count

    async def happened(self, count: int) -> None:
        """Returns once `count` requests have had their effect."""
        while self._count < count:
            self._changed.clear()
            await self._changed.wait()

    async def start(self) -> Ledger:
        app = web.Application()
        app.router.add_post("/{tool}", self._do)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_S)
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, self.port).start()
        self._runner, self.port = runner, int(runner.addresses[0][1])
        return self

    async def stop(self) -> None:
        """Ends held replies and closes the port; what was done stays counted."""
        self._stopping.set()
        self.release()
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Ledger:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _do(self, request: web.Request) -> web.StreamResponse:
        effect = self._record(request.match_info["tool"], request.headers.get(KEY_HEADER, ""), await request.read())
        if self._drops > 0:
            self._drops -= 1
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        await self._wait()
        return web.json_response({"number": effect.number, "repeated": effect.repeated})

    def _record(self, tool: str, key: str, raw: bytes) -> Effect:
        number = self._first.get((tool, key)) if key else None
        repeated = number is not None
        self._count += 1
        if number is None:
            number = len(self.effects) + 1
            if key:
                self._first[tool, key] = number
        args = msgspec.json.decode(raw) if raw else None
        effect = Effect(number=number, tool=tool, key=key, args=args, repeated=repeated)
        self.effects.append(effect)
        self._changed.set()
        return effect

    async def _wait(self) -> None:
        try:
            await asyncio.wait_for(self._open.wait(), HOLD_LIMIT_S)
            if self.delay_ms:
                await asyncio.wait_for(self._stopping.wait(), self.delay_ms / 1000)
        except TimeoutError:
            return
