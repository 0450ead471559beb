"""What a server does with its sessions for those who only ask: begin, fork, erase, and tell what happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import quote

import msgspec

from windlass.store.base import Key

from .asker import Asker, session_path


class _Agent(msgspec.Struct, frozen=True):
    name: str


class _Agents(msgspec.Struct, frozen=True):
    agents: list[_Agent]


AGENTS = msgspec.json.Decoder(_Agents)


class ServedSessions:
    """The sessions of a server, as its clients reach them."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def begin(
        self, key: Key, agent: str, *, title: str, metadata: Mapping[str, str], labels: Sequence[str]
    ) -> None:
        """Begins a session of an agent that is served there, or finds it."""
        asked = {"agent": agent, "session_id": key.session, "title": title, "metadata": dict(metadata)}
        await self._post("/v1/sessions", key.tenant, asked | {"labels": list(labels)})

    async def fork(self, key: Key, branch: Key, *, at_seq: int | None, reopen: str | None) -> None:
        """Makes a session that continues another one. Asked once: a second time the branch would be there already."""
        asked = {"session_id": branch.session, "at_seq": at_seq, "reopen": reopen}
        await self._post(session_path(key.session, "/fork"), key.tenant, asked, again=False)

    async def erase(self, key: Key, seq: int, *, why: str) -> None:
        """Erases the content of one record."""
        await self._post(session_path(key.session, "/erase"), key.tenant, {"seq": seq, "why": why})

    async def agents(self, tenant: str) -> list[str]:
        """The names of the agents that are served there."""
        data = await self._asker.request("GET", "/v1/agents", tenant)
        return [agent.name for agent in self._asker.read(data, AGENTS).agents]

    def follow(self, key: Key, after: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """What happens behind a cursor, as server-sent events."""
        return self._asker.stream(session_path(key.session, f"/events?after={quote(after)}"), key.tenant)

    async def _post(self, path: str, tenant: str, body: Mapping[str, Any], *, again: bool = True) -> None:
        await self._asker.request("POST", path, tenant, msgspec.json.encode(body), again=again)
