"""The inbox, the leases, the index and the blobs of a store behind a server.

For a client that only asks, commands are taken under the name of its token, and the sessions are the server's to drive.
A runtime of its own gets the parts as they are (`raw`).
"""

from __future__ import annotations

from windlass.events.errors import LeaseHeld
from windlass.store.base import (
    LEASE_MS_MAX,
    MEDIA_TYPE,
    BlobInfo,
    Claim,
    Holder,
    InboxCommand,
    IndexRow,
    Key,
    Query,
    Sent,
    TakenCommand,
)
from windlass.store.rules.ids import check_digest, check_id, check_key

from .asker import Asker
from .log import renamed
from .questions import (
    Deliver,
    EraseBlob,
    FindRows,
    GetBlob,
    GetBlobInfo,
    GetHolder,
    GetRow,
    GetTaken,
    GetWaiting,
    KeepLease,
    Post,
    PutBlob,
    PutRow,
    ReleaseLease,
    TakeLease,
)


class RemoteInbox:
    """Inboxes over HTTP."""

    def __init__(self, asker: Asker, *, raw: bool) -> None:
        self._asker = asker
        self._raw = raw
        """Whether commands are put there as they are, which is for those who may write logs."""

    async def send(self, key: Key, command: InboxCommand) -> Sent:
        """Puts a command in the inbox; or has it taken by the server, under the name of the token."""
        check_id("command id", command.command_id)
        name = check_key(key).session
        question = (
            Post(session=name, command=command)
            if self._raw
            else Deliver(session=name, command_id=command.command_id, data=command.data)
        )
        sent: Sent = await self._asker.ask(key.tenant, question, Sent)
        return sent

    async def waiting(self, key: Key, *, limit: int = 100) -> list[InboxCommand]:
        """The commands not yet taken."""
        question = GetWaiting(session=check_key(key).session, limit=limit)
        commands: list[InboxCommand] = await self._asker.ask(key.tenant, question, list[InboxCommand])
        return commands

    async def taken(self, key: Key, *, after: str = "", limit: int = 1000) -> list[TakenCommand]:
        """The command ids that appends have taken."""
        question = GetTaken(session=check_key(key).session, after=after, limit=limit)
        commands: list[TakenCommand] = await self._asker.ask(key.tenant, question, list[TakenCommand])
        return commands


class RemoteLeases:
    """Leases over HTTP."""

    def __init__(self, asker: Asker, *, raw: bool) -> None:
        self._asker = asker
        self._raw = raw
        """Whether sessions may be claimed from here at all."""

    async def claim(self, key: Key, *, runner: str, ttl_ms: int, now_ms: int, renew: bool = False) -> Claim:
        """Takes the session for `runner`. Raises `LeaseHeld` where only the server drives."""
        if not self._raw:
            where = self._asker.place.url
            raise LeaseHeld(f"the sessions of {where} are driven there", owner=where, until_ms=now_ms + LEASE_MS_MAX)
        question = TakeLease(session=check_key(key).session, runner=runner, ttl_ms=ttl_ms, now_ms=now_ms, renew=renew)
        claim: Claim = await self._asker.ask(key.tenant, question, Claim)
        return claim

    async def keep(self, key: Key, *, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        """Prolongs the lease."""
        question = KeepLease(session=check_key(key).session, runner=runner, epoch=epoch, ttl_ms=ttl_ms, now_ms=now_ms)
        await self._asker.ask(key.tenant, question)

    async def release(self, key: Key, *, runner: str, epoch: int) -> None:
        """Gives the lease back."""
        await self._asker.ask(key.tenant, ReleaseLease(session=check_key(key).session, runner=runner, epoch=epoch))

    async def holder(self, key: Key, *, now_ms: int) -> Holder | None:
        """Whose lease lasts."""
        question = GetHolder(session=check_key(key).session, now_ms=now_ms)
        holder: Holder | None = await self._asker.ask(key.tenant, question, Holder | None)
        return holder


class RemoteIndex:
    """The index over HTTP. The tenants of rows are called what they are called here."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def put(self, row: IndexRow) -> None:
        """Replaces the index row of a session that exists."""
        check_key(Key(row.tenant, row.session))
        await self._asker.ask(row.tenant, PutRow(row=row))

    async def get(self, key: Key) -> IndexRow | None:
        """The row of a session."""
        question = GetRow(session=check_key(key).session)
        row: IndexRow | None = await self._asker.ask(key.tenant, question, IndexRow | None)
        return renamed(row, key.tenant) if row is not None else None

    async def find(self, query: Query) -> list[IndexRow]:
        """The rows that a query asks for."""
        check_id("tenant", query.tenant)
        rows: list[IndexRow] = await self._asker.ask(query.tenant, FindRows(query=query), list[IndexRow])
        return [renamed(row, query.tenant) for row in rows]


class RemoteBlobs:
    """Blobs over HTTP."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def put(self, tenant: str, data: bytes, *, media_type: str = MEDIA_TYPE) -> str:
        """Keeps bytes under their digest."""
        digest: str = await self._asker.ask(tenant, PutBlob(data=data, media_type=media_type), str)
        return digest

    async def get(self, tenant: str, digest: str, *, start: int = 0, length: int | None = None) -> bytes:
        """The bytes, or a part of them."""
        question = GetBlob(digest=check_digest(digest), start=start, length=length)
        data: bytes = await self._asker.ask(tenant, question, bytes)
        return data

    async def info(self, tenant: str, digest: str) -> BlobInfo | None:
        """What is known of a blob without reading it."""
        info: BlobInfo | None = await self._asker.ask(tenant, GetBlobInfo(digest=check_digest(digest)), BlobInfo | None)
        return info

    async def erase(self, tenant: str, digest: str) -> bool:
        """Removes a blob for good."""
        gone: bool = await self._asker.ask(tenant, EraseBlob(digest=check_digest(digest)), bool)
        return gone
