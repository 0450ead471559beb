"""What is asked of the store behind a server: one value for each method of the seam, told apart by the field `do`.

The tenant is no part of a question: whose sessions are meant is what the token says.
"""

from __future__ import annotations

from typing import get_args

import msgspec

from windlass.events.stored.record import Sealed
from windlass.events.values.blocks import Nat
from windlass.store.base import (
    MEDIA_TYPE,
    Capabilities,
    Durability,
    InboxCommand,
    IndexRow,
    Message,
    Origin,
    Query,
    Snapshot,
    TakenCommand,
)


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do"):
    """Something that is asked of a store."""


class About(Question, frozen=True, kw_only=True, tag="about"):
    """What the store promises."""


class Changes(Question, frozen=True, kw_only=True, tag="changes"):
    """A number that is another one whenever something was written."""


class Create(Question, frozen=True, kw_only=True, tag="log.create"):
    session: str
    origin: Origin | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An append as it is stored, and the hash that it continues. All else that is known of it is read off it."""

    data: bytes
    prev_hash: str


class Append(Question, frozen=True, kw_only=True, tag="log.append"):
    session: str
    line: Line
    takes: tuple[str, ...] = ()
    index: IndexRow | None = None
    blobs: dict[str, bytes] = {}
    barrier: bool = False
    sends: tuple[Message, ...] = ()


class Adopt(Question, frozen=True, kw_only=True, tag="log.adopt"):
    session: str
    lines: tuple[Line, ...]
    origin: Origin | None = None
    takes: tuple[TakenCommand, ...] = ()
    index: IndexRow | None = None


class GetHead(Question, frozen=True, kw_only=True, tag="log.head"):
    session: str


class Read(Question, frozen=True, kw_only=True, tag="log.read"):
    session: str
    after: int = 0
    until: int | None = None


class Erase(Question, frozen=True, kw_only=True, tag="log.erase"):
    session: str
    seq: int
    by: str
    why: str
    at_ms: int


class Forks(Question, frozen=True, kw_only=True, tag="log.forks"):
    session: str


class Detach(Question, frozen=True, kw_only=True, tag="log.detach"):
    session: str


class Delete(Question, frozen=True, kw_only=True, tag="log.delete"):
    session: str


class PutSnapshot(Question, frozen=True, kw_only=True, tag="log.put_snapshot"):
    session: str
    snapshot: Snapshot


class GetSnapshot(Question, frozen=True, kw_only=True, tag="log.get_snapshot"):
    session: str
    at_most: int | None = None


class DropSnapshots(Question, frozen=True, kw_only=True, tag="log.drop_snapshots"):
    session: str


class Post(Question, frozen=True, kw_only=True, tag="inbox.send"):
    """Puts bytes in an inbox as they are."""

    session: str
    command: InboxCommand


class Deliver(Question, frozen=True, kw_only=True, tag="inbox.deliver"):
    """Has a command taken. Who gave it is what the token says; the rest that only the host may say is left out."""

    session: str
    command_id: str
    data: bytes


class GetWaiting(Question, frozen=True, kw_only=True, tag="inbox.waiting"):
    session: str
    limit: int = 100


class GetTaken(Question, frozen=True, kw_only=True, tag="inbox.taken"):
    session: str
    after: str = ""
    limit: int = 1000


class TakeLease(Question, frozen=True, kw_only=True, tag="leases.claim"):
    session: str
    runner: str
    ttl_ms: int
    now_ms: int
    renew: bool = False


class KeepLease(Question, frozen=True, kw_only=True, tag="leases.keep"):
    session: str
    runner: str
    epoch: int
    ttl_ms: int
    now_ms: int


class ReleaseLease(Question, frozen=True, kw_only=True, tag="leases.release"):
    session: str
    runner: str
    epoch: int


class GetHolder(Question, frozen=True, kw_only=True, tag="leases.holder"):
    session: str
    now_ms: int


class PutRow(Question, frozen=True, kw_only=True, tag="index.put"):
    row: IndexRow


class GetRow(Question, frozen=True, kw_only=True, tag="index.get"):
    session: str


class FindRows(Question, frozen=True, kw_only=True, tag="index.find"):
    query: Query


class PutBlob(Question, frozen=True, kw_only=True, tag="blobs.put"):
    data: bytes
    media_type: str = MEDIA_TYPE


class GetBlob(Question, frozen=True, kw_only=True, tag="blobs.get"):
    digest: str
    start: Nat = 0
    length: Nat | None = None


class GetBlobInfo(Question, frozen=True, kw_only=True, tag="blobs.info"):
    digest: str


class EraseBlob(Question, frozen=True, kw_only=True, tag="blobs.erase"):
    digest: str


AnyQuestion = (
    About
    | Changes
    | Create
    | Append
    | Adopt
    | GetHead
    | Read
    | Erase
    | Forks
    | Detach
    | Delete
    | PutSnapshot
    | GetSnapshot
    | DropSnapshots
    | Post
    | Deliver
    | GetWaiting
    | GetTaken
    | TakeLease
    | KeepLease
    | ReleaseLease
    | GetHolder
    | PutRow
    | GetRow
    | FindRows
    | PutBlob
    | GetBlob
    | GetBlobInfo
    | EraseBlob
)
QUESTIONS: tuple[type[Question], ...] = get_args(AnyQuestion)


class StoreAbout(msgspec.Struct, frozen=True, kw_only=True):
    """What a store promises."""

    capabilities: Capabilities
    durability: Durability


class LinePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some appends, whether there are more, and where the log is damaged if it ends before its time."""

    lines: list[Sealed]
    more: bool = False
    damage: str = ""
    damaged_seq: int | None = None
