"""Whether logs are what was written, on three levels: the chain holds, every record is legal, the facts lead to the
same decisions."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import msgspec

from windlass.events.errors import CodecError, Damaged, NotFound, StoreError, WindlassError
from windlass.kernel import log
from windlass.kernel.state import STATE_VERSION
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key, Query, Store
from windlass.store.chain import verify_chain

SESSIONS_MAX = 10_000


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the verification of one session says. `sound`: it was read, and nothing is damaged. Drift is a problem and
    no damage, and so is what only a `newer` version can read. If it is `unread`, the system was in the way (no file
    descriptors, no rights, a disk that failed): then nobody knows whether anything is damaged."""

    session: str
    records: int = 0
    sound: bool = True
    newer: bool = False
    unread: bool = False
    problems: tuple[str, ...] = ()
    hash: str = ""


async def verify_store(store: Store, tenant: str) -> AsyncIterator[Verdict]:
    """The verdicts on every session of a tenant."""
    offset = 0
    while rows := await store.index.find(Query(tenant=tenant, limit=SESSIONS_MAX, offset=offset)):
        for row in rows:
            yield await verify_session(store, Key(tenant, row.session))
        offset += len(rows)


async def verify_session(store: Store, key: Key) -> Verdict:
    """The verdict on one session, whatever its bytes are."""
    verdict = Verdict(session=key.session)
    try:
        chain = await verify_chain(store, key)
        verdict = Verdict(session=key.session, records=chain.seq, hash=chain.hash)
        report = log.verify([sealed.data async for sealed in LogReader(store).appends(key)])
        false = await _false_snapshots(store, key) if report.sound else ()
    except Damaged as damage:
        at = f" at record {damage.seq}" if damage.seq is not None else ""
        return msgspec.structs.replace(verdict, sound=False, problems=(f"chain{at}: {damage}",))
    except WindlassError as error:
        unread = was_in_the_way(error)
        problem = f"could not be read: {error}" if unread else str(error)
        return msgspec.structs.replace(verdict, sound=False, unread=unread, problems=(problem,))
    except Exception as error:  # of bytes that nobody foresaw; the other sessions are verified all the same
        unread = was_in_the_way(error)
        problem = f"{'could not' if unread else 'cannot'} be read: {error!r}"
        return msgspec.structs.replace(verdict, sound=False, unread=unread, problems=(problem,))
    problems = (*(_told(one) for one in report.problems), *false)
    newer = any(one.newer for one in report.problems)
    return msgspec.structs.replace(verdict, sound=report.sound and not false, newer=newer, problems=problems)


def was_in_the_way(error: Exception) -> bool:
    """Whether an error says that something was not read, and nothing of what is there: it may be gone the next time."""
    if isinstance(error, StoreError):
        return not isinstance(error, NotFound)
    return isinstance(error, OSError | MemoryError)


async def _false_snapshots(store: Store, key: Key) -> tuple[str, ...]:
    """The snapshots that say what the log does not. No chain covers them, and a session is opened from them."""
    problems: list[str] = []
    snapshot = await store.log.get_snapshot(key)
    while snapshot is not None:
        if snapshot.state_version == STATE_VERSION:
            with contextlib.suppress(CodecError):  # one that cannot be read is not used
                kept, told = log.load(snapshot.data), await LogReader(store).state_at(key, snapshot.seq)
                if log.state_hash(kept) != log.state_hash(told):
                    problems.append(f"the snapshot at record {snapshot.seq} is not what the log adds up to")
        snapshot = await store.log.get_snapshot(key, at_most=snapshot.seq - 1)
    return tuple(problems)


def _told(problem: log.Problem) -> str:
    if problem.newer:
        return f"record {problem.seq}: {problem.message}"
    return f"{'drift' if problem.drift else problem.level} at record {problem.seq}: {problem.message}"
