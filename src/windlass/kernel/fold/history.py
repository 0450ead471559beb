"""The history as an index: what enters it, what leaves it, and why the next request begins with other bytes."""

from __future__ import annotations

from windlass.events.ids import prompt_id
from windlass.events.specs import ItemRef
from windlass.kernel.state import State

ELIDED_TOKENS = 24


def push(state: State, ref: ItemRef) -> None:
    state.history.append(ref)
    state.history_tokens += ref.tokens
    state.history_bytes += ref.bytes


def replace_history(state: State, history: list[ItemRef]) -> None:
    state.history = history
    state.history_tokens = sum(ref.tokens for ref in history)
    state.history_bytes = sum(ref.bytes for ref in history)
    state.measured_tokens = 0


def cut(state: State, items: int, kept: tuple[int, ...], summary: ItemRef | None) -> None:
    """Takes the oldest items out of the history, but for the kept ones. What came since is at the other end."""
    keep = set(kept)
    stays = [ref for ref in state.history[:items] if ref.seq in keep]
    first = [summary] if summary is not None else []
    replace_history(state, first + stays + state.history[items:])


def flush_notes(state: State) -> None:
    if state.notes:
        for ref in state.notes:
            push(state, ref)
        state.notes = []


def absorb(state: State, seq: int) -> None:
    """Takes an input into the history."""
    taken = state.inputs.pop(seq)
    if seq in state.steering:
        state.steering.remove(seq)
    if seq in state.queue:
        state.queue.remove(seq)
    if taken.edited_seq is not None:
        seq, taken.part = taken.edited_seq, prompt_id(seq)
    push(state, ItemRef(seq=seq, kind=taken.kind, tokens=taken.tokens, bytes=taken.bytes, part=taken.part))


def dirty(state: State, reason: str) -> None:
    """Remembers why the next request will not begin with the last one's bytes."""
    if state.requested_once and reason not in state.prefix_reasons:
        state.prefix_reasons.append(reason)
