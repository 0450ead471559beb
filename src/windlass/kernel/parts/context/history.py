"""The history as an index: what enters it, what leaves it, what is pinned in it, and how it is rewound.

a prompt, a reply, the results of a turn, a note ──▶ items ──▶ shortened, summarised or cut (see `compaction`)
rewind.received ──▶ session.rewound: the items of an earlier moment are visible again
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from windlass.events.changes import ChangePins
from windlass.events.context import PinsChanged
from windlass.events.errors import Refused
from windlass.events.runs import RunStarted
from windlass.events.sessions import ContentErased, RewindReceived, SessionRewound, SessionStarted
from windlass.events.values.setup import ItemRef
from windlass.kernel.part import Decisions, Part, Row
from windlass.kernel.parts import queue, skills
from windlass.kernel.parts.context import compaction, prefix
from windlass.kernel.phases import RESTING

if TYPE_CHECKING:
    from windlass.kernel.state import State


PINS_MAX = 256


class History(msgspec.Struct, kw_only=True, gc=False):
    """What the model sees, as an index: where each item is in the log and what it weighs."""

    items: list[ItemRef] = []
    tokens: int = 0
    bytes: int = 0
    notes: list[ItemRef] = []
    """What enters behind the results of the open turn."""
    pinned: dict[int, bool] = {}
    measured_tokens: int = 0
    """What the provider counted for the last request of the main lane."""
    measured_at_tokens: int = 0
    """Our own estimate of the history at that moment."""


# --- verbs --------------------------------------------------------------------------------------------------------


def push(state: State, ref: ItemRef) -> None:
    """Adds an item."""
    here = state.history
    here.items.append(ref)
    here.tokens += ref.tokens
    here.bytes += ref.bytes


def note(state: State, ref: ItemRef) -> None:
    """Adds an item behind the results of the open turn, which are not there yet."""
    state.history.notes.append(ref)


def add(state: State, ref: ItemRef) -> None:
    """Adds an item now, or behind the open turn."""
    if state.turn.open:
        state.history.notes.append(ref)
    else:
        push(state, ref)


def flush_notes(state: State) -> None:
    for ref in state.history.notes:
        push(state, ref)
    state.history.notes = []


def drop(state: State, seq: int) -> bool:
    """Takes the items of one record out of the history; whether there were some."""
    here = state.history
    here.notes = [ref for ref in here.notes if ref.seq != seq]
    gone = [index for index, ref in enumerate(here.items) if ref.seq == seq]
    if gone:
        compaction.dropped(state, gone)
        replace_items(state, [ref for ref in here.items if ref.seq != seq])
    return bool(gone)


def replace_items(state: State, items: list[ItemRef]) -> None:
    """Makes other items the visible ones."""
    here = state.history
    here.items = items
    here.tokens = sum(ref.tokens for ref in items)
    here.bytes = sum(ref.bytes for ref in items)
    here.measured_tokens = 0


def cut(state: State, items: int, kept: tuple[int, ...], summary: ItemRef | None) -> None:
    """Takes the oldest items out of the history, but for the kept ones. What came since is at the other end."""
    keep = set(kept)
    stays = [ref for ref in state.history.items[:items] if ref.seq in keep]
    first = [summary] if summary is not None else []
    replace_items(state, first + stays + state.history.items[items:])


def shorten(state: State, seqs: tuple[int, ...], tokens_each: int) -> None:
    """Leaves results out, but for a word that they were there."""
    here, chosen = state.history, set(seqs)
    left = len(chosen)
    # From the end: what was not shortened before is among the newest.
    for index in range(len(here.items) - 1, -1, -1):
        ref = here.items[index]
        if ref.seq in chosen and ref.kind == "result" and not ref.elided:
            tokens = min(ref.tokens, tokens_each)
            here.items[index] = ItemRef(seq=ref.seq, kind="result", tokens=tokens, part=ref.part, elided=True)
            here.tokens += tokens - ref.tokens
            here.bytes -= ref.bytes
            left -= 1
            if not left:
                break
    here.measured_tokens = 0


def measured(state: State, tokens: int) -> None:
    """The provider has counted the last request."""
    state.history.measured_tokens = tokens
    state.history.measured_at_tokens = state.history.tokens


def forget_measure(state: State) -> None:
    state.history.measured_tokens = 0


# --- fold ---------------------------------------------------------------------------------------------------------


def session_started(state: State, event: SessionStarted) -> None:
    for ref in event.imported:
        push(state, msgspec.structs.replace(ref, seq=state.seq))


def content_erased(state: State, event: ContentErased) -> None:
    if any(ref.seq == event.seq for ref in state.history.items):
        prefix.differs(state, "erasure")


def run_started(state: State, event: RunStarted) -> None:
    sent = state.prefix.sent
    if sent is not None and sent.model != state.current_model.name:
        state.history.measured_tokens = 0


def pins_changed(state: State, event: PinsChanged) -> None:
    for seq in event.pinned:
        state.history.pinned[seq] = True
    for seq in event.unpinned:
        state.history.pinned.pop(seq, None)


def session_rewound(state: State, event: SessionRewound) -> None:
    replace_items(state, list(event.history))
    prefix.differs(state, "rewind")


# --- when, and what follows ---------------------------------------------------------------------------------------


def check_pins(state: State, change: ChangePins) -> None:
    known = {ref.seq for ref in state.history.items}
    strange = [seq for seq in change.pin if seq not in known]
    if strange:
        raise Refused("not_there", f"no visible item at {strange}")
    if len(state.history.pinned) + len(change.pin) > PINS_MAX:
        raise Refused("too_many", f"at most {PINS_MAX} pins")


def check_rewind(state: State, fact: RewindReceived) -> None:
    if state.turn.open:
        # What its calls give would have no call to stand behind.
        raise Refused(
            "busy", "the session rests in the middle of a turn, behind a call that is open: interrupt it first"
        )
    if fact.to_seq > state.seq:
        raise Refused("not_there", f"the log ends at {state.seq}")
    if any(ref.seq > fact.to_seq for ref in fact.restored):
        raise Refused("malformed", "what is restored must lie at or before the point rewound to")


def on_rewind(state: State, fact: RewindReceived) -> Decisions:
    yield from skills.rewound(state, fact.to_seq)
    yield SessionRewound(
        to_seq=fact.to_seq,
        items_before=len(state.history.items),
        items_after=len(fact.restored),
        history=fact.restored,
    )
    yield queue.done(fact.command_id)


def needs(state: State) -> Iterator[int]:
    for ref in (*state.history.items, *state.history.notes):
        yield ref.seq


PART = Part(
    name="history",
    facts={RewindReceived: Row(when=RESTING, check=check_rewind, then=on_rewind)},
    decisions={SessionRewound: session_rewound, PinsChanged: pins_changed},
    hears={SessionStarted: session_started, ContentErased: content_erased, RunStarted: run_started},
    needs=needs,
)
