"""What a store must know of one session to judge a write: where its log ends, who may write, which commands it has
seen. Pure; the rules here are the only ones, also for stores that keep these facts in a database."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from windlass.events.errors import CommandTaken, LeaseHeld, SeqConflict, StaleEpoch, StorageFull, UsageError
from windlass.events.stored.record import GENESIS, Sealed
from windlass.store.base import INBOX_COMMANDS_MAX, Claim, Head, Holder, InboxCommand, Key, Origin, Sent, TakenCommand
from windlass.store.runner_names import process_of

from .lease_expiry import Lease, Sightings
from .limits import check_sealed, check_ttl


def judge_epoch(key: Key, given: int, epoch: int, owner: str) -> None:
    """Raises `StaleEpoch` unless the writer's epoch is the session's and somebody has claimed it."""
    if given != epoch or not owner:
        raise StaleEpoch(f"session {key.session!r} is at epoch {epoch}, the writer has {given}: claim it again")


def judge_next(key: Key, sealed: Sealed, seq: int, chain: str) -> None:
    """Raises `SeqConflict` unless the append continues a log that ends at (seq, chain)."""
    if sealed.first_seq != seq + 1:
        raise SeqConflict(f"session {key.session!r} ends at {seq}, the append begins at {sealed.first_seq}")
    if sealed.prev_hash != chain:
        raise SeqConflict(f"session {key.session!r}: the append continues another history than the one up to {seq}")


def judge_claim(key: Key, runner: str, now_ms: int, renew: bool, lease: Lease, sightings: Sightings) -> int:
    """The epoch that a claim gets, given the lease that is there. Raises `LeaseHeld`."""
    epoch, owner, _ = lease
    if owner != runner and (until_ms := sightings.note(key, lease, now_ms)) > now_ms:
        raise LeaseHeld(f"session {key.session!r} is held by {process_of(owner)}", owner=owner, until_ms=until_ms)
    return epoch if renew and owner == runner else epoch + 1


def was_lost(runner: str, lease: Lease) -> bool:
    """Whether a claim by this runner takes a session from another one that never gave it back."""
    _, owner, until_ms = lease
    return bool(owner) and owner != runner and until_ms > 0


def judge_adopted(
    key: Key, lines: Sequence[Sealed], takes: Sequence[TakenCommand], origin: Origin | None
) -> tuple[int, str]:
    """Where a log of these lines ends. Raises unless they are one and the commands are theirs."""
    seq, chain = (origin.seq, origin.hash) if origin else (0, GENESIS)
    starts = {sealed.first_seq for sealed in lines}
    for sealed in lines:
        check_sealed(key, sealed)
        judge_next(key, sealed, seq, chain)
        seq, chain = sealed.last_seq, sealed.hash
    for take in takes:
        if take.seq not in starts:
            raise UsageError(f"command {take.command_id!r} was taken at {take.seq}, which is not among these lines")
    if len({take.command_id for take in takes}) != len(takes):
        raise CommandTaken(f"session {key.session!r}: a command was taken twice")
    return seq, chain


def exists(key: Key) -> UsageError:
    """Says that a session is there that was to be made."""
    return UsageError(
        f"there is a session {key.session!r} already: take another id (import: --as ID), or delete that one"
    )


class Ledger:
    """The write side of one session, in memory."""

    __slots__ = ("chain", "epoch", "key", "origin", "owner", "position", "seq", "taken", "until_ms", "waiting")

    def __init__(self, key: Key, origin: Origin | None, epoch: int = 0) -> None:
        self.key = key
        self.origin = origin
        self.seq = origin.seq if origin else 0
        self.chain = origin.hash if origin else GENESIS
        self.epoch = epoch
        self.owner = ""
        self.until_ms = 0
        self.position = 0
        self.waiting: dict[str, InboxCommand] = {}
        self.taken: dict[str, int] = {}

    def head(self, damage: str = "") -> Head:
        return Head(seq=self.seq, hash=self.chain, epoch=self.epoch, origin=self.origin, damage=damage)

    @property
    def lease(self) -> Lease:
        return self.epoch, self.owner, self.until_ms

    def holder(self, now_ms: int, sightings: Sightings) -> Holder | None:
        return sightings.holder(self.key, self.lease, now_ms)

    def claim(self, runner: str, ttl_ms: int, now_ms: int, renew: bool, sightings: Sightings) -> Claim:
        check_ttl(ttl_ms)
        lost = was_lost(runner, self.lease)
        self.epoch = judge_claim(self.key, runner, now_ms, renew, self.lease, sightings)
        self.owner, self.until_ms = runner, now_ms + ttl_ms
        return Claim(epoch=self.epoch, head=self.head(), until_ms=self.until_ms, lost=lost)

    def keep(self, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        check_ttl(ttl_ms)
        judge_epoch(self.key, epoch, self.epoch, self.owner)
        if self.owner != runner:
            raise StaleEpoch(f"session {self.key.session!r} was taken by {process_of(self.owner)}")
        self.until_ms = now_ms + ttl_ms

    def release(self, runner: str, epoch: int) -> bool:
        """Whether there was a lease to give back. The owner's name stays, so that it may renew."""
        if self.owner != runner or self.epoch != epoch:
            return False
        self.until_ms = 0
        return True

    def judge(self, sealed: Sealed, takes: Sequence[str]) -> None:
        """Raises what `Log.append` raises; changes nothing."""
        judge_epoch(self.key, sealed.epoch, self.epoch, self.owner)
        judge_next(self.key, sealed, self.seq, self.chain)
        self.judge_takes(takes)

    def judge_takes(self, takes: Sequence[str]) -> None:
        """Raises `CommandTaken` if an id is not new to the log, or given twice."""
        if len(set(takes)) != len(takes):
            raise CommandTaken(f"session {self.key.session!r}: one append takes a command twice: {list(takes)!r}")
        for command_id in takes:
            if command_id in self.taken:
                raise CommandTaken(f"session {self.key.session!r} has taken command {command_id!r} before")

    def advance(self, sealed: Sealed, takes: Sequence[str]) -> None:
        """The append is in the log: move the end, mark its commands as taken."""
        self.seq, self.chain = sealed.last_seq, sealed.hash
        self.epoch = max(self.epoch, sealed.epoch)
        for command_id in takes:
            self.take(command_id, sealed.first_seq)

    def take(self, command_id: str, seq: int) -> None:
        self.waiting.pop(command_id, None)
        self.taken[command_id] = seq

    def sent(self, command_id: str) -> Sent | None:
        """What sending this id again would answer; None if it is new. Raises `StorageFull` for one too many."""
        if command_id in self.taken:
            return Sent(new=False, taken=True)
        if command_id in self.waiting:
            return Sent(new=False, taken=False)
        if len(self.waiting) >= INBOX_COMMANDS_MAX:
            raise StorageFull(f"the inbox of session {self.key.session!r} holds {INBOX_COMMANDS_MAX} commands")
        return None

    def knows(self, command_id: str) -> bool:
        """Whether a command of this id was sent or taken before."""
        return command_id in self.taken or command_id in self.waiting

    def receive(self, command: InboxCommand) -> InboxCommand:
        """Puts a new command at the end of the inbox and returns it with its position."""
        self.position += 1
        kept = InboxCommand(
            command_id=command.command_id, at_ms=command.at_ms, data=command.data, position=self.position
        )
        self.waiting[command.command_id] = kept
        return kept

    def inbox(self, limit: int) -> list[InboxCommand]:
        return list(self.waiting.values())[:limit]

    def taken_after(self, after: str, limit: int) -> list[TakenCommand]:
        ids = sorted(self.taken)
        start = bisect_right(ids, after)
        return [TakenCommand(command_id, self.taken[command_id]) for command_id in ids[start : start + limit]]
