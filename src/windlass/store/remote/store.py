"""A store behind a server: opened by address and token, in one of two ways.

`connect` is for those who only ask: they read, and what they send is taken under the name of their token. `open_whole`
is for a runtime that drives sessions from another machine: it needs a token for everything.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.events.errors import UsageError
from windlass.store.base import Capabilities, Durability

from .asker import Asker, Place
from .log import RemoteLog
from .parts import RemoteBlobs, RemoteInbox, RemoteIndex, RemoteLeases
from .questions import About, Changes, StoreAbout
from .served_sessions import ServedSessions

TENANT = "default"
"""What the tenant of a token is called by whoever has one token."""


ADOPT_BYTES_MAX = 11 * 1024 * 1024
"""How large a log one request can bring: what is sent grows by a third on the way, and its size is bounded."""


class RemoteStore:
    """Five parts over HTTP."""

    adopt_bytes_max = ADOPT_BYTES_MAX

    def __init__(self, asker: Asker, about: StoreAbout, *, raw: bool) -> None:
        self._asker = asker
        self._changes = -1
        self._tenant = TENANT
        self.durability: Durability = about.durability
        self.capabilities: Capabilities = about.capabilities
        self.log = RemoteLog(asker)
        self.inbox = RemoteInbox(asker, raw=raw)
        self.leases = RemoteLeases(asker, raw=raw)
        self.index = RemoteIndex(asker)
        self.blobs = RemoteBlobs(asker)
        self.elsewhere = None if raw else ServedSessions(asker)
        """Who drives these sessions; None if this process may."""

    @classmethod
    async def connect(cls, url: str, token: str) -> RemoteStore:
        """The store of a server, for somebody who only asks. Raises `UsageError` for a token that is not known."""
        return await cls._open(url, {TENANT: _checked(token)}, raw=False)

    @classmethod
    async def open_whole(cls, url: str, tokens: str | Mapping[str, str]) -> RemoteStore:
        """The same for a runtime that drives sessions over it, with a token for everything, or one for each tenant."""
        given = {TENANT: _checked(tokens)} if isinstance(tokens, str) else tokens
        return await cls._open(url, given, raw=True)

    @classmethod
    async def _open(cls, url: str, tokens: Mapping[str, str], *, raw: bool) -> RemoteStore:
        asker = Asker(Place(url), tokens)
        try:
            about: StoreAbout = await asker.ask(TENANT, About(), StoreAbout)
        except BaseException:
            await asker.close()
            raise
        return cls(asker, about, raw=raw)

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._asker.place.url

    async def changed(self) -> bool:
        """Whether anything was written since the last call."""
        count: int = await self._asker.ask(self._tenant, Changes(), int)
        before, self._changes = self._changes, count
        return count != before

    async def close(self) -> None:
        """Lets the connections go. Safe twice."""
        await self._asker.close()


def _checked(token: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError("this is no token: 'windlass token add' makes one, and the server's first is in tokens.first")
    return token
