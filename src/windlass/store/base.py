"""The seam between the runtime and every store: what a log is kept in, and what is promised about it.

A store is five parts (log, inbox, leases, index, blobs) that share one transaction, `Log.append`. It knows appends as
sealed lines, never their meaning. All methods are safe to call from one event loop. Every key begins with the tenant.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from windlass.events.stored.record import Sealed
from windlass.events.values.ids import ID_CHARS_MAX as ID_CHARS_MAX

Durability = Literal["full", "normal"]
"""`full`: acknowledged means kept, also after a power loss. `normal`: kept after a crash of the process; a power loss
may take the tail since the last barrier, never a hole."""

BLOB_BYTES_MAX = 256 * 1024 * 1024
COMMAND_BYTES_MAX = 4 * 1024 * 1024
INBOX_COMMANDS_MAX = 10_000
"""How many commands may wait in one inbox; a further one is refused with `StorageFull`."""
LEASE_MS_MAX = 600_000
"""The longest lease, and how long one is believed that reaches further ahead: a clock must have been wrong then."""
MEDIA_TYPE = "application/octet-stream"
"""What a blob is if nobody says otherwise."""
DAMAGED = "damaged"
"""The state of a session whose index row cannot be read."""
SNAPSHOTS_KEPT = 4
"""How many snapshots of a session a store keeps; older ones are dropped as new ones come."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a store can promise beyond the seam's semantics, declared so that weaker stores are honest."""

    durable: bool
    """What was acknowledged is there after the process died and the store was opened again."""
    multi_process: bool
    """Several processes may have it open; epochs fence them against each other."""
    transactional: bool
    """All that belongs to one `append` is kept together or not at all, also through a crash."""
    sends: bool = False
    """`append` takes messages to other sessions. For a store that does not, their sender puts them into the inboxes
    itself, after the append and again whenever the session is loaded."""


class Key(msgspec.Struct, frozen=True, order=True):
    """A session: whose, and which."""

    tenant: str
    session: str


class Origin(msgspec.Struct, frozen=True):
    """Where a forked session's history comes from: the origin's records up to `seq`, which end in `hash`."""

    session: str
    seq: int
    hash: str


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Where a log ends. A session that was created and has no records of its own yet has seq = its origin's (or 0)."""

    seq: int
    hash: str
    epoch: int
    origin: Origin | None = None
    damage: str = ""
    """If it is not empty, the log is damaged behind `seq`, may only be read, and this says where and how."""


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """A torn end of a file, cut off before the next write. The bytes are kept beside the store at `path`."""

    key: Key
    seq: int
    """The last record that is whole."""
    offset: int
    size: int
    path: str


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The right to write: the epoch that appends must carry, and how long others will keep away."""

    epoch: int
    head: Head
    until_ms: int
    recovered: tuple[Recovered, ...] = ()
    """What was cut from this log and not yet told in it; told again on each claim until an append is kept."""
    lost: bool = False
    """Whether another runner had the session before and did not give it back: its process died, or it was cut off."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a session, under which epoch, and until when that is believed if nothing more is heard."""

    runner: str
    epoch: int
    until_ms: int


class InboxCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command on its way to a session's owner. `data` is the encoded fact that it will become."""

    command_id: str
    at_ms: int
    data: bytes
    position: int = 0


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A command that one session sends to another of the same tenant, with the append that says so."""

    session: str
    command: InboxCommand
    creates: bool = False
    """Whether the other session is made, empty, if there is none; else the message is dropped then."""


class IndexRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What can be asked about a session without folding it. Computed from the state; can be rebuilt at any time."""

    session: str
    tenant: str = "default"
    state: str = "idle"
    """new, idle, running, asked, sleeping, left (it goes on in another store), parked; damaged if the row itself cannot
    be read"""
    waiting_for: tuple[str, ...] = ()
    """The ids of what people or clients owe."""
    waiting_words: tuple[str, ...] = ()
    """The same for people: what each of them is, with the tool that it is about."""
    stands: str = ""
    """Where its workflow or its state machine stands, in a few words; empty if it has none."""
    owed: bool = False
    """Whether a driver would have something to do right now."""
    next_wake_ms: int | None = None
    agent: str = ""
    title: str = ""
    root: str = ""
    parent: str | None = None
    scope: str = "primary"
    seq: int = 0
    created_ms: int = 0
    updated_ms: int = 0
    clock_ms: int | None = None
    """What the clock said when `updated_ms` was written, if the log was ahead of it."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nanos: int = 0
    own_input_tokens: int | None = None
    own_output_tokens: int | None = None
    own_cost_nanos: int | None = None
    """The part of these that it used itself: not its children, nor the origin of a fork, which have rows of their own.
    None in a row that was written before this was told."""
    metadata: dict[str, str] = {}
    losses: int = 0
    """How many owners in a row were lost while it worked: what it does may be what ends them."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list. Everything given must hold; `metadata` pairs must all be there; `text` is searched in
    session id, title and agent, ignoring case; `unread` is whether commands wait in the inbox; at `free_at_ms` nobody's
    lease lasts, as it is written. Newest change first."""

    tenant: str = "default"
    states: tuple[str, ...] = ()
    agent: str | None = None
    parent: str | None = None
    root: str | None = None
    owed: bool | None = None
    unread: bool | None = None
    free_at_ms: int | None = None
    wake_before_ms: int | None = None
    updated_after_ms: int | None = None
    updated_before_ms: int | None = None
    metadata: dict[str, str] = {}
    text: str | None = None
    limit: int = 100
    offset: int = 0


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A folded state, disposable: it may be dropped at any time and is ignored if version or hash do not fit."""

    seq: int
    hash: str
    state_version: int
    data: bytes


class TakenCommand(msgspec.Struct, frozen=True, array_like=True):
    """A command id that an append has taken, and the first seq of that append."""

    command_id: str
    seq: int


class BlobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a blob without reading it."""

    size: int
    media_type: str


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a command put in an inbox: whether it is new, and whether an append has taken it already."""

    new: bool
    taken: bool


class Log(Protocol):
    """The logs of sessions, their forks, and the snapshots that shorten the way to a log's end."""

    async def create(self, key: Key, *, origin: Origin | None = None) -> bool:
        """Makes an empty session, or one that continues an origin of the same tenant; False if it was there already
        (with the same origin; another origin is refused). The origin's seq must be the end of one of its appends,
        its hash that append's; the fork's epochs continue from that append's. Refuses ids that could leave the store's
        room. Refusals here are `UsageError`s."""
        ...

    async def append(
        self,
        key: Key,
        sealed: Sealed,
        *,
        takes: Sequence[str] = (),
        index: IndexRow | None = None,
        blobs: Mapping[str, bytes] | None = None,
        barrier: bool = False,
        sends: Sequence[Message] = (),
    ) -> None:
        """The one transaction over all five parts: the append, the command ids it takes from the inbox, the index row,
        the blobs and the messages that it puts into other inboxes (each once per id, as `Inbox.send` does) are kept
        together or not at all, fenced by the epoch of the lease. When it returns, they are kept as the durability mode
        says (`barrier` asks for `full` once). Raises `StaleEpoch` (also if the session was never
        claimed), `SeqConflict` (seq or previous hash do not continue the log) or `CommandTaken`, in this order, and
        then nothing has changed."""
        ...

    async def adopt(
        self,
        key: Key,
        lines: Sequence[Sealed],
        *,
        origin: Origin | None = None,
        takes: Sequence[TakenCommand] = (),
        index: IndexRow | None = None,
    ) -> None:
        """Makes a session out of lines that were written in another store: all of it in one transaction, or nothing.
        The lines keep the epochs that they carry, and the session's epoch becomes the highest of them. Raises what
        `create` raises, and `UsageError` if there is such a session; `SeqConflict` for lines that are no log."""
        ...

    async def head(self, key: Key) -> Head | None:
        """Where the log ends; None if there is no such session."""
        ...

    def read(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
        """The session's own appends that begin after seq `after` and end at or before `until`, in order. If the log is
        damaged, yields what is whole before the damage and then raises `Damaged`."""
        ...

    async def erase(self, key: Key, seq: int, *, by: str, why: str, at_ms: int) -> None:
        """Replaces the body of one event by a tombstone; the chain still verifies. Snapshots are dropped, those of
        forks too. Raises `NotFound` if the session's own log has no such event."""
        ...

    async def forks(self, key: Key) -> list[str]:
        """The sessions that continue this one."""
        ...

    async def detach(self, key: Key) -> None:
        """Copies the origin's history into a forked session, so that the origin may be deleted."""
        ...

    async def delete(self, key: Key) -> None:
        """Removes a session with all that is its own. Refused (`UsageError`) while forks refer to it."""
        ...

    async def put_snapshot(self, key: Key, snapshot: Snapshot) -> None:
        """Keeps a snapshot; of those there, the newest `SNAPSHOTS_KEPT` stay."""
        ...

    async def get_snapshot(self, key: Key, *, at_most: int | None = None) -> Snapshot | None:
        """The newest snapshot (at or before `at_most`)."""
        ...

    async def drop_snapshots(self, key: Key) -> int:
        """Removes all snapshots of a session and says how many there were."""
        ...


class Inbox(Protocol):
    """The commands on their way to sessions. `Log.append` takes them out."""

    async def send(self, key: Key, command: InboxCommand) -> Sent:
        """Puts a command in the inbox, once per id for the session's life, kept when this returns."""
        ...

    async def waiting(self, key: Key, *, limit: int = 100) -> list[InboxCommand]:
        """The commands not yet taken, in the order in which they were sent."""
        ...

    async def taken(self, key: Key, *, after: str = "", limit: int = 1000) -> list[TakenCommand]:
        """The command ids that appends have taken, in the order of the ids, beginning behind `after`."""
        ...


class Leases(Protocol):
    """Who may write to a session. A lease keeps others away for a while; the epoch is what fences `Log.append`."""

    async def claim(self, key: Key, *, runner: str, ttl_ms: int, now_ms: int, renew: bool = False) -> Claim:
        """Takes the session for `runner` and raises its epoch; with `renew`, the runner that took it last keeps its
        epoch (also when it gave the lease back, or let it run out, and nobody has taken the session since). Raises
        `LeaseHeld` while another runner's lease lasts, `NotFound` for an unknown session, `Damaged` for a log that
        may only be read, `UsageError` for a `ttl_ms` above `LEASE_MS_MAX`. A lease that reaches further ahead than that
        is believed for `LEASE_MS_MAX` from the first claim through this handle that met it, unless it is prolonged."""
        ...

    async def keep(self, key: Key, *, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        """Prolongs the lease. Raises `StaleEpoch` if the session was taken."""
        ...

    async def release(self, key: Key, *, runner: str, epoch: int) -> None:
        """Gives the lease back; the epoch stays. Nothing happens if it was lost before."""
        ...

    async def holder(self, key: Key, *, now_ms: int) -> Holder | None:
        """Whose lease lasts at `now_ms`, which is whom a claim would be refused for; None if there is none. Raises
        `NotFound` for an unknown session."""
        ...


class Index(Protocol):
    """What can be asked about sessions without reading their logs. `Log.append` writes rows too."""

    async def put(self, row: IndexRow) -> None:
        """Replaces the index row of a session that exists (`NotFound` otherwise)."""
        ...

    async def get(self, key: Key) -> IndexRow | None:
        """The row of a session; None if there is no session or it has no row yet."""
        ...

    async def find(self, query: Query) -> list[IndexRow]:
        """The rows that a query asks for, newest change first."""
        ...


class Blobs(Protocol):
    """Large contents beside the logs, by their digest. `Log.append` keeps blobs too."""

    async def put(self, tenant: str, data: bytes, *, media_type: str = MEDIA_TYPE) -> str:
        """Keeps bytes under their digest (`sha256:<hex>`) and returns it. Once per tenant."""
        ...

    async def get(self, tenant: str, digest: str, *, start: int = 0, length: int | None = None) -> bytes:
        """The bytes, or a part of them. Raises `NotFound` if there is no such blob."""
        ...

    async def info(self, tenant: str, digest: str) -> BlobInfo | None:
        """What is known of a blob without reading it; None if there is none."""
        ...

    async def erase(self, tenant: str, digest: str) -> bool:
        """Removes a blob for good; False if it was not there. Logs that name its digest still verify."""
        ...


@runtime_checkable
class Store(Protocol):
    """Five parts over one place where things are kept. Raises `StoreError`s of `windlass.events.errors` and nothing
    else for what storage does.

    The parts share one transaction. A store gives each of them the same thing that commits (SQLite: the one writing
    connection; JSON lines: the directory under its lock; memory: the dictionaries), and `log.append` writes through
    what `inbox`, `index` and `blobs` write through, in one commit that the epoch given out by `leases` fences."""

    @property
    def log(self) -> Log: ...

    @property
    def inbox(self) -> Inbox: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def index(self) -> Index: ...

    @property
    def blobs(self) -> Blobs: ...

    @property
    def durability(self) -> Durability: ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def changed(self) -> bool:
        """Whether anything was written by others, or sent by anyone, since the last call: cheap enough to ask ten times
        a second. What was written through this very handle may count or not."""
        ...

    async def close(self) -> None:
        """Keeps what is queued and lets everything go. Closing twice does no harm."""
        ...


def blob_digest(data: bytes) -> str:
    """The name of a blob."""
    import hashlib

    return "sha256:" + hashlib.sha256(data).hexdigest()


def store_stats(store: Store) -> Mapping[str, Any]:
    """Counters that a store keeps about itself (commits, syncs), empty if it keeps none."""
    stats = getattr(store, "stats", None)
    return dict(stats) if stats else {}
