"""One request on its way through the server: who makes it, what it names and sends, and what it may touch."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import msgspec
from starlette.datastructures import Headers, QueryParams
from starlette.types import Receive, Scope

from windlass.events.errors import NotFound
from windlass.protocol.unknown_fields import unknown_field
from windlass.protocol.wire_commands import WireError, read_object
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.api.session import Session
from windlass.store.base import Key, Store
from windlass.store.rules.ids import check_id

from .access.limits import Limits
from .access.roles import Role, allows
from .access.token_file import Token
from .problems import Problem
from .server_state import ServerState

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")
WORDS = {"true": True, "false": False}


class Call:
    """A request that has passed the gate."""

    def __init__(
        self, scope: Scope, receive: Receive, token: Token, names: Mapping[str, str], server: ServerState
    ) -> None:
        self.headers = Headers(scope=scope)
        self.query = QueryParams(scope["query_string"])
        self.token = token
        self.names = names
        """The parts of the path that name something."""
        self.server = server
        self.scope = scope
        self.receive = receive

    @property
    def limits(self) -> Limits:
        return self.server.limits

    async def runtime(self) -> Runtime:
        """The runtime of the caller's tenant."""
        return await self.server.tenants.runtime(self.token.tenant)

    async def store(self) -> Store:
        """The store, of which only the caller's tenant may be looked at."""
        return (await self.runtime()).store

    def key(self, name: str = "session_id") -> Key:
        """A session that the path names, of the caller's tenant."""
        return Key(self.token.tenant, check_id("session id", self.names[name]))

    async def session(self) -> Session:
        """The session that the path names. Raises `NotFound`, also for one of another tenant."""
        key = self.key()
        return await (await self.runtime()).get(key.session)

    def require(self, role: Role) -> None:
        """Raises `Problem` if the caller's roles are not enough."""
        if not allows(self.token.roles, role):
            raise Problem(403, "role", f"this needs a token with the role {role!r}, and {self.token.name!r} has not")

    # --- what is asked ---

    def number(self, name: str, default: int, *, least: int = 0, most: int) -> int:
        """A whole number of the query."""
        given = self.query.get(name)
        if given is None:
            return default
        if not given.isascii() or not given.isdecimal() or len(given) > 15 or not least <= int(given) <= most:
            raise Problem(400, "usage", f"{name}={given[:40]}: give a whole number from {least} to {most}")
        return int(given)

    def flag(self, name: str, default: bool) -> bool:
        """A yes or no of the query."""
        given = self.query.get(name)
        if given is not None and given not in WORDS:
            raise Problem(400, "usage", f"{name}={given[:40]}: write true or false")
        return default if given is None else WORDS[given]

    def check_query(self, known: tuple[str, ...]) -> None:
        """Raises `Problem` for what a query says that nobody reads, or says twice."""
        for name in self.query:
            if name not in known:
                there = f"there is {', '.join(known)}" if known else "there are none"
                raise Problem(400, "usage", f"no parameter {name[:40]!r}: {there}")
            if len(self.query.getlist(name)) > 1:
                raise Problem(400, "usage", f"the parameter {name!r} is given twice: give it once")

    # --- what is sent ---

    async def body(self, most: int | None = None) -> bytes:
        """The bytes that are sent. Raises `Problem` if they are too many or too slow."""
        most = self.limits.body_bytes if most is None else most
        said = self.headers.get("content-length")
        if said is not None and said.isdecimal() and int(said) > most:
            raise too_large(most)
        try:
            async with asyncio.timeout(self.limits.body_s):
                return await self._received(most)
        except TimeoutError:
            raise Problem(408, "slow", f"the body took longer than {self.limits.body_s:g} s", headers=LAST) from None

    async def _received(self, most: int) -> bytes:
        parts, size, more = [], 0, True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Problem(400, "left", "the client has left")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > most:
                raise too_large(most)
        return b"".join(parts)

    async def unless_left(self, work: Coroutine[Any, Any, R]) -> R:
        """What some work gives, which nobody waits for once the client has left: it is given up then. For requests
        whose body was read."""
        working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(left(self.receive))
        stopping = asyncio.ensure_future(self.server.stopped.wait())
        try:
            await asyncio.wait((working, leaving, stopping), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            if leaving.done():
                raise Problem(400, "left", "the client has left")
            raise Problem(503, "draining", "the server is being stopped: ask again once it is back")
        finally:
            for task in (working, leaving, stopping):
                task.cancel()
            await asyncio.gather(working, leaving, stopping, return_exceptions=True)

    async def json(self, kind: type[T]) -> T:
        """The JSON that is sent, read strictly. Raises `WireError`, or `Problem` if it is said to be something else."""
        data = await self.json_bytes()
        plain = read_object(data) if data else {}
        stray_field = unknown_field(plain, kind)
        if stray_field is not None:
            raise WireError(stray_field.path, stray_field.advice)
        try:
            return msgspec.convert(plain, kind)
        except msgspec.ValidationError as error:
            message, _, path = str(error).partition(" - at ")
            raise WireError(path.strip("`") or "$", message) from None

    async def json_bytes(self, most: int | None = None) -> bytes:
        """The bytes of a JSON body. A browser sends no such type across origins without asking first."""
        media = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        data = await self.body(most)
        if data and media != "application/json":
            raise Problem(415, "media_type", "send JSON, with Content-Type: application/json")
        return data


LAST = {"Connection": "close"}
"""What the last answer of a connection says."""


async def left(receive: Receive) -> None:
    """Waits until a client leaves, whose request was read to its end."""
    while (await receive())["type"] != "http.disconnect":
        continue


def too_large(most: int) -> Problem:
    """What is said of a body that is too large; the rest of it is not read."""
    return Problem(413, "too_large", f"the body is larger than the {most} bytes that are taken here", headers=LAST)


def none_such(what: str) -> NotFound:
    """What is said of something that is not there."""
    return NotFound(f"there is no {what}")


def no_agent(call: Call, name: str) -> Problem:
    """What is said of an agent that is not served."""
    there = ", ".join(call.server.tenants.agents) or "none"
    return Problem(404, "no_agent", f"no agent {name[:80]!r} is served here: there are {there}", path="$.agent")
