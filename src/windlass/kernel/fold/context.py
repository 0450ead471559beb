"""Compaction, elision and paging: how their events change what is visible."""

from __future__ import annotations

from typing import Literal

from windlass.events import context
from windlass.events.specs import ItemRef
from windlass.kernel import state as st
from windlass.kernel.state import State

from .history import ELIDED_TOKENS, cut, dirty, push, replace_history
from .runs import between


def compact_received(state: State, event: context.CompactReceived) -> None:
    state.compaction.wanted = "command"
    state.compaction.failures = 0


def compaction_started(state: State, event: context.CompactionStarted) -> None:
    compaction = state.compaction
    compaction.trigger = event.trigger
    compaction.first, compaction.last = event.first, event.last
    compaction.items = event.items
    compaction.attempt = event.attempt
    compaction.wanted = ""
    room_made(state)


def compaction_finished(state: State, event: context.CompactionFinished) -> None:
    summary = ItemRef(seq=event.summary_seq, kind="summary", tokens=event.summary_tokens)
    cut(state, state.compaction.items, event.kept, summary)
    note(state, "summarised", event, event.items_before - event.items_after + 1)
    state.compaction.failures = 0
    state.compaction.attempt = 0
    state.compaction.count += 1
    dirty(state, "compaction")
    settle_phase(state)


def compaction_failed(state: State, event: context.CompactionFailed) -> None:
    if event.reason != "interrupted":
        state.compaction.failures += 1
    state.compaction.attempt = 0
    state.compaction.wanted = ""
    settle_phase(state)


def settle_phase(state: State) -> None:
    if isinstance(state.phase, st.Compacting | st.BackingOff):
        between(state)


def compaction_undone(state: State, event: context.CompactionUndone) -> None:
    replace_history(state, list(event.history))
    state.compaction.count -= 1
    del state.compaction.log[-1:]
    dirty(state, "compaction")


def context_elided(state: State, event: context.ContextElided) -> None:
    chosen = set(event.seqs)
    left = len(chosen)
    # From the end: what was not elided before is among the newest.
    for index in range(len(state.history) - 1, -1, -1):
        ref = state.history[index]
        if ref.seq in chosen and ref.kind == "result" and not ref.elided:
            tokens = min(ref.tokens, ELIDED_TOKENS)
            state.history[index] = ItemRef(seq=ref.seq, kind="result", tokens=tokens, part=ref.part, elided=True)
            state.history_tokens += tokens - ref.tokens
            state.history_bytes -= ref.bytes
            left -= 1
            if not left:
                break
    state.measured_tokens = 0
    dirty(state, "elision")


def context_truncated(state: State, event: context.ContextTruncated) -> None:
    gone = event.items_before - event.items_after
    cut(state, event.items or gone + len(event.kept), event.kept, None)
    note(state, "cut", event, gone)
    state.compaction.wanted = ""
    state.compaction.count += 1
    dirty(state, "compaction")
    room_made(state)


def note(
    state: State,
    how: Literal["summarised", "cut"],
    event: context.CompactionFinished | context.ContextTruncated,
    items: int,
) -> None:
    """Remembers what became of the history."""
    done = st.Compacted(
        seq=state.seq, how=how, items=items, tokens_before=event.tokens_before, tokens_after=event.tokens_after
    )
    state.compaction.log.append(done)
    del state.compaction.log[: -st.COMPACTIONS_KEPT_MAX]


def room_made(state: State) -> None:
    """A request that was too large is answered by a smaller one: the failure is dealt with."""
    if state.run is not None:
        state.run.failure = None


def context_paged_out(state: State, event: context.ContextPagedOut) -> None:
    state.paged.append(state.seq)
    del state.paged[: max(0, len(state.paged) - st.PAGED_MAX)]


def context_archived(state: State, event: context.ContextArchived) -> None:
    state.paged.remove(event.paged_seq)


def context_paged_in(state: State, event: context.ContextPagedIn) -> None:
    ref = ItemRef(seq=state.seq, kind="note", tokens=event.tokens, bytes=event.bytes, part="page")
    if state.turn is None:
        push(state, ref)
    else:
        state.notes.append(ref)
