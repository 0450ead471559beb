"""Logs as a whole: folding one, its state's hash, snapshots of it, and checking it on three levels."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from windlass.events.base import Event, Fact
from windlass.events.context import CompactionFinished, CompactionUndone, ContextTruncated
from windlass.events.errors import CodecError, Damaged, KernelError, NeedsNewer, Refused
from windlass.events.known_types import BUILDING
from windlass.events.sessions import SessionRewound, SessionStarted
from windlass.events.stored import codec, record
from windlass.events.values.setup import ItemRef
from windlass.kernel import parts
from windlass.kernel.fold import evolve, evolve_all, tick
from windlass.kernel.phases import New
from windlass.kernel.state import STATE_VERSION, State
from windlass.kernel.step import step

KERNEL_VERSION = "4"
PROBLEMS_MAX = 100
SNAPSHOT_DIGEST_BYTES = 16
COMPACTED = (CompactionFinished, ContextTruncated)


def fold_append(state: State, append: codec.Appended) -> None:
    """Folds one append. Raises `NeedsNewer` at an event that may not be skipped, `Damaged` at a gap."""
    _fold(state, append.first_seq, append.at_ms, append.events)


def _fold(state: State, first_seq: int, at_ms: int, events: list[Event | codec.Unknown]) -> None:
    if first_seq != state.seq + 1:
        raise Damaged(f"append begins at {first_seq}, expected {state.seq + 1}", seq=state.seq + 1)
    if at_ms > state.now_ms:
        tick(state, at_ms, type(events[0]))
    evolve_all(state, events)


def fold_lines(lines: Iterable[bytes], state: State | None = None) -> State:
    """The state of a log as stored, from nothing or from an earlier state (which is changed). Reads no content."""
    folded = state if state is not None else State()
    read = codec.skeletons
    for line in lines:
        first_seq, at_ms, events = read(line)
        _fold(folded, first_seq, at_ms, events)
    return folded


def visible(state: State) -> tuple[ItemRef, ...]:
    """The history as it could be gone back to: a reply whose calls are still open is no part of it yet."""
    turn = state.turn
    if not turn.open or not turn.calls:
        return tuple(state.history.items)
    return tuple(ref for ref in state.history.items if ref.seq != turn.reply_seq)


def before_compaction(lines: Iterable[bytes]) -> tuple[ItemRef, ...]:
    """What the last compaction of a log took out of sight, put back: the history just before it, then what came since.
    Empty if there is none to undo."""
    state = State()
    compactions: list[tuple[list[ItemRef], set[tuple[int, str]]]] = []
    for line in lines:
        for event in codec.decode(line, bodies=False).events:
            known = codec.require_known(event, state.seq + 1)
            if known is None:
                state.seq += 1
                continue
            earlier = state.history.items[:] if isinstance(known, COMPACTED) else []
            evolve(state, known)
            if isinstance(known, COMPACTED):
                compactions.append((earlier, {(ref.seq, ref.part) for ref in state.history.items}))
            elif isinstance(known, CompactionUndone):
                compactions.pop()
            elif isinstance(known, SessionRewound):
                compactions.clear()
    if not compactions:
        return ()
    before, after = compactions[-1]
    return (*before, *(ref for ref in visible(state) if (ref.seq, ref.part) not in after))


def state_hash(state: State) -> str:
    """One digest for the whole state, the same in every process: tables keep the order in which the log filled them."""
    return hashlib.blake2b(msgspec.msgpack.encode(state), digest_size=16).hexdigest()


@functools.cache
def _snapshots() -> msgspec.msgpack.Decoder[State]:
    with BUILDING:
        return msgspec.msgpack.Decoder(State)


def dump(state: State) -> bytes:
    """A state as a snapshot's bytes, which begin with their digest: no chain covers them."""
    data = msgspec.msgpack.encode(state)
    return _digest(data) + data


def load(data: bytes) -> State:
    """A state from a snapshot. Raises `CodecError` if the bytes are none of this version, or are not as written."""
    body = data[SNAPSHOT_DIGEST_BYTES:]
    if _digest(body) != data[:SNAPSHOT_DIGEST_BYTES]:
        raise CodecError("snapshot: its bytes are not what was written")
    try:
        return _snapshots().decode(body)
    except msgspec.DecodeError as error:
        raise CodecError(f"snapshot: {error}") from error


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=SNAPSHOT_DIGEST_BYTES).digest()


def copy(state: State) -> State:
    """An independent copy."""
    return _snapshots().decode(msgspec.msgpack.encode(state))


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong where. `drift` is no damage: the kernel would decide otherwise today. Nor is `newer`: the log is
    as it was written, by a version that knows more than this one."""

    level: Literal["chain", "legal", "decisions"]
    seq: int
    message: str
    drift: bool = False
    newer: bool = False


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification found. `sound` = nothing is damaged; there may be drift, or what a newer version wrote."""

    records: int
    problems: list[Problem]
    state: State | None = None

    @property
    def sound(self) -> bool:
        return all(problem.drift or problem.newer for problem in self.problems)


def verify(lines: Sequence[bytes], *, start: State | None = None, prev_hash: str = record.GENESIS) -> Report:
    """Checks a log: the chain holds; every event is legal where it stands; `step`, run again over the facts, gives
    the same decisions. A forked log is checked from its origin's state (`start`) and hash."""
    state = copy(start) if start is not None else State()
    problems: list[Problem] = []
    for line in lines:
        seq = state.seq + 1
        try:
            record.check(line, prev_hash=prev_hash, expected_seq=seq)
            append = codec.decode(line)
        except Damaged as error:
            problems.append(Problem(level="chain", seq=seq, message=str(error)))
            break
        except CodecError as error:
            # Its hash holds, so it is what somebody wrote.
            problems.append(Problem(level="legal", seq=seq, message=_newer(error), newer=True))
            break
        prev_hash = append.hash
        try:
            state = _verify_append(state, append, problems)
        except KernelError as error:
            problems.append(Problem(level="legal", seq=seq, message=str(error)))
            break
        except NeedsNewer as error:
            problems.append(Problem(level="legal", seq=seq, message=_newer(error), newer=True))
            break
        if len(problems) >= PROBLEMS_MAX:
            break
    return Report(records=state.seq, problems=problems, state=state)


def _newer(error: CodecError) -> str:
    return f"written by a newer version of windlass, and checked up to here: {error}"


def _verify_append(state: State, append: codec.Appended, problems: list[Problem]) -> State:
    """Folds an append and decides it again; the recorded decisions win."""
    facts = [event for event in append.events if isinstance(event, Fact)]
    erased = any(isinstance(event, Event) and event.erased is not None for event in append.events)
    unknown = any(isinstance(event, codec.Unknown) for event in append.events)
    if not unknown and (not isinstance(append.events[0], Fact) or type(facts[0]) not in parts.TABLES.facts):
        raise KernelError(f"event {append.first_seq}: an append begins with a fact")
    if len(facts) > 1 and not isinstance(append.events[0], SessionStarted):
        raise KernelError(f"append {append.first_seq}: one append holds one fact, unless it begins a session")
    if erased or unknown:
        fold_append(state, append)
        return state
    before = dump(state)
    recorded = [codec.encode_entry(event, str)[0:2] for event in append.events]
    try:
        decided = [event for fact in facts for event in step(state, fact, append.at_ms)]
        again = [codec.encode_entry(event, str)[0:2] for event in decided]
    except (Refused, KernelError) as error:
        again = []
        message = f"the fact would not be taken today: {error}"
    else:
        message = "other decisions would be made today"
    if again != recorded:
        problems.append(Problem(level="decisions", seq=append.first_seq, message=message, drift=True))
        state = load(before)
        fold_append(state, append)
    return state


def is_new(state: State) -> bool:
    """Whether nothing has happened yet."""
    return isinstance(state.phase, New)


__all__ = [
    "KERNEL_VERSION",
    "STATE_VERSION",
    "Problem",
    "Report",
    "before_compaction",
    "copy",
    "dump",
    "fold_append",
    "fold_lines",
    "is_new",
    "load",
    "state_hash",
    "verify",
    "visible",
]
