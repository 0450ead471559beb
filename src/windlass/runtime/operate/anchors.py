"""Anchors: where logs ended at some time, kept away from the store. A hash chain shows whoever changes a record, unless
they write the whole log anew; what was noted elsewhere they cannot change with it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

import msgspec

from windlass.events.errors import Damaged, UsageError
from windlass.events.stored.record import GENESIS, UNREADABLE
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key, Store
from windlass.store.chain import verify_chain

from .verification import Verdict

KEY_BYTES_MIN = 16


class Anchor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a log ended: at record `seq`, with this chain hash. `mac` shows that whoever noted it had the key."""

    tenant: str
    session: str
    seq: int
    hash: str
    at_ms: int
    mac: str = ""

    @property
    def key(self) -> Key:
        return Key(self.tenant, self.session)


_decode = msgspec.json.Decoder(Anchor).decode
_encode = msgspec.json.Encoder().encode


async def anchor_of(store: Store, key: Key, *, now_ms: int, secret: bytes = b"") -> Anchor:
    """The anchor of one session, whose chain is verified first. Raises `Damaged`."""
    chain = await verify_chain(store, key)
    anchor = Anchor(tenant=key.tenant, session=key.session, seq=chain.seq, hash=chain.hash, at_ms=now_ms)
    return msgspec.structs.replace(anchor, mac=_mac(anchor, secret)) if secret else anchor


def written(anchor: Anchor) -> bytes:
    """An anchor as a line of JSON, without its line break."""
    return _encode(anchor)


def read_anchors(lines: Iterable[bytes], secret: bytes = b"") -> list[Anchor]:
    """The anchors of a file. Raises `UsageError` for a line that is none and, if there is a key, for one that was not
    noted with it."""
    anchors = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            anchor = _decode(line)
        except UNREADABLE as error:
            raise UsageError(f"line {number} is no anchor ({error}): 'windlass anchor' writes them") from error
        if secret and not hmac.compare_digest(anchor.mac, _mac(anchor, secret)):
            raise UsageError(
                f"line {number}: the anchor of {anchor.session!r} was not noted with this key, or is changed"
            )
        anchors.append(anchor)
    return anchors


def check_secret(secret: bytes) -> bytes:
    """A key, if it is long enough to be one."""
    if len(secret) < KEY_BYTES_MIN:
        raise UsageError(f"a key of {len(secret)} bytes is guessed too easily: use {KEY_BYTES_MIN} or more random ones")
    return secret


def _mac(anchor: Anchor, secret: bytes) -> str:
    said = _encode([anchor.tenant, anchor.session, anchor.seq, anchor.hash, anchor.at_ms])
    return hmac.new(secret, said, hashlib.sha256).hexdigest()


async def judged(store: Store, verdicts: Iterable[Verdict], anchors: Iterable[Anchor]) -> list[Verdict]:
    """The verdicts of a verification, with what the logs are not that was noted of them; a session that was noted and
    is gone has one too."""
    by_name = {verdict.session: verdict for verdict in verdicts}
    for anchor in anchors:
        if anchor.session in by_name and by_name[anchor.session].unread:
            continue  # whether it holds what was noted is not known either
        problem = await missed(store, anchor)
        if problem:
            by_name[anchor.session] = _damaged(by_name.get(anchor.session, Verdict(session=anchor.session)), problem)
    return list(by_name.values())


async def judged_by_hash(store: Store, tenant: str, verdict: Verdict, digest: str) -> Verdict:
    """The verdict on one session, of which one chain hash was noted."""
    if verdict.unread:
        return verdict
    if verdict.sound:
        async for sealed in LogReader(store).appends(Key(tenant, verdict.session)):
            if sealed.hash == digest:
                return verdict
    return _damaged(verdict, "anchor: no record of the log has this hash: it was cut off or written anew")


def _damaged(verdict: Verdict, problem: str) -> Verdict:
    return msgspec.structs.replace(verdict, sound=False, problems=(*verdict.problems, problem))


async def missed(store: Store, anchor: Anchor) -> str:
    """Why a log does not hold what was noted of it; empty if it does."""
    head = await store.log.head(anchor.key)
    if head is None:
        return f"anchor: the session is gone, and had {anchor.seq} records"
    if head.seq < anchor.seq:
        return f"anchor: the log ends at record {head.seq}, and had {anchor.seq}: it was cut off or written anew"
    try:
        log_hash = await _hash_at(store, anchor.key, anchor.seq)
    except Damaged as damage:
        return f"anchor: the log cannot be read up to record {anchor.seq}: {damage}"
    if log_hash == anchor.hash:
        return ""
    return f"anchor: up to record {anchor.seq} the log is not the one that was noted: it was written anew"


async def _hash_at(store: Store, key: Key, seq: int) -> str:
    if seq == 0:
        return GENESIS
    last = await LogReader(store).boundary(key, seq)
    return last.hash if last is not None and last.last_seq == seq else ""
