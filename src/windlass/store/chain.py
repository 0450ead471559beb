"""What can be asked of any store about a log as a whole: its history through forks, and whether its chain holds."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from windlass.events.errors import Damaged, NotFound
from windlass.events.stored import record
from windlass.events.stored.record import GENESIS, Sealed

from .base import Head, Key, Origin, Store

ORIGINS_MAX = 1_000
"""How many forks of forks a history may run through."""


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """A chain that holds, and where it ends."""

    appends: int
    seq: int
    hash: str


async def origins(store: Store, key: Key) -> list[tuple[Key, int | None]]:
    """The sessions that hold a session's history, oldest first, each with the seq up to which it counts (the session
    itself: None)."""
    parts: list[tuple[Key, int | None]] = [(key, None)]
    until: int | None = None
    origin = (await _head(store, key)).origin
    while origin is not None:
        if len(parts) > ORIGINS_MAX:
            raise Damaged(f"session {key.session!r} has more than {ORIGINS_MAX} origins")
        # A fork of a fork may leave its origin before that one's own beginning.
        until = origin.seq if until is None else min(until, origin.seq)
        parts.append((Key(key.tenant, origin.session), until))
        origin = (await _head(store, parts[-1][0])).origin
    return parts[::-1]


async def history(store: Store, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
    """The appends of a session from the beginning of its oldest origin, as if it were one log: those that begin after
    `after` and end at or before `until`. Raises `Damaged` where one does not continue the one before it."""
    last: Sealed | None = None
    for part, limit in await origins(store, key):
        if limit is not None and limit <= after:
            continue
        end = limit if until is None else until if limit is None else min(limit, until)
        async for sealed in store.log.read(part, after=after, until=end):
            if last is not None and (sealed.prev_hash != last.hash or sealed.first_seq != last.last_seq + 1):
                raise Damaged(
                    f"session {key.session!r}: append {sealed.first_seq} does not continue the one that ends at "
                    f"{last.last_seq}",
                    seq=last.last_seq + 1,
                )
            yield sealed
            last = sealed


async def verify_chain(store: Store, key: Key) -> Verified:
    """Walks every hash from the first record of the oldest origin to the head. Raises `Damaged`, which names the seq,
    if a line, a link or an origin's hash does not hold."""
    head = await _head(store, key)
    links = await _links(store, key, head.origin)
    seq, chain, appends = 0, GENESIS, 0
    async for sealed in history(store, key):
        line = record.check(sealed.data, prev_hash=chain, expected_seq=seq + 1)
        if (sealed.hash, sealed.first_seq, sealed.last_seq) != (line.hash, line.seq, line.seq + len(line.events) - 1):
            raise Damaged(f"append {line.seq} is filed under other numbers than it holds", seq=line.seq)
        seq, chain = sealed.last_seq, sealed.hash
        if links.pop(seq, chain) != chain:
            raise Damaged(f"a fork of this log at {seq} names another hash", seq=seq)
        appends += 1
    if links:
        raise Damaged(f"a fork begins at {min(links)}, where no append ends", seq=min(links))
    if head.damage:
        raise Damaged(head.damage, seq=head.seq + 1)
    if (seq, chain) != (head.seq, head.hash):
        raise Damaged(f"the log ends at {seq}, its head says {head.seq} or names another hash", seq=seq)
    return Verified(appends=appends, seq=seq, hash=chain)


async def _links(store: Store, key: Key, origin: Origin | None) -> dict[int, str]:
    """The hashes that forks on the way name, by seq, as far as they lie in this history."""
    links: dict[int, str] = {}
    lowest: int | None = None
    while origin is not None:
        if lowest is None or origin.seq <= lowest:
            links[origin.seq] = origin.hash
            lowest = origin.seq
        origin = (await _head(store, Key(key.tenant, origin.session))).origin
    return links


async def _head(store: Store, key: Key) -> Head:
    head = await store.log.head(key)
    if head is None:
        raise NotFound(f"tenant {key.tenant!r} has no session {key.session!r}")
    return head
