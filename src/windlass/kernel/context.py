"""The context plan: how full the window is, and what leaves the history when it is too full.

Three steps, each an event: old results are elided, older exchanges are summarised, and where no summary is to be had
they are cut by rule. An exchange is never split: an item of the model and all the results of its calls go together.
Pinned items, the last thing a person said and the newest exchanges stay verbatim.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, cast

from windlass.events.base import Decision
from windlass.events.context import (
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    ContextElided,
    ContextPagedOut,
    ContextTruncated,
)
from windlass.events.failures import Failure
from windlass.events.specs import ItemRef
from windlass.events.turns import ModelReplied

from . import budgets, requests
from .evolve import ELIDED_TOKENS
from .state import State

Trigger = Literal["tokens", "bytes", "overflow", "command"]
TASK_TOKENS = 256
"""A guess at the rendered task state, where there is one."""


def fixed_tokens(state: State) -> int:
    """What every request carries besides the history."""
    task = TASK_TOKENS if state.task.goal or state.task.todos or state.task.plan or state.signals else 0
    return state.instructions_tokens + state.knowledge_tokens + state.tool_tokens + task


def context_tokens(state: State) -> int:
    """How large the next request will be: what the provider counted last time plus what came since, or our estimate
    where that is larger."""
    arriving = sum([state.inputs[seq].tokens for seq in state.steering]) if state.steering else 0
    pending = sum([ref.tokens for ref in state.notes]) if state.notes else 0
    estimate = fixed_tokens(state) + state.history_tokens
    if state.measured_tokens:
        since = max(0, state.history_tokens - state.measured_at_tokens)
        estimate = max(estimate, state.measured_tokens + since)
    return estimate + arriving + pending


def trigger_of(state: State) -> Trigger | None:
    """Why room must be made before the next request, if it must."""
    if state.compaction.wanted:
        return cast(Trigger, state.compaction.wanted)
    if context_tokens(state) > state.current_model.window_tokens * state.settings.compact_at:
        return "tokens"
    if state.history_bytes > state.settings.compact_bytes:
        return "bytes"
    return None


def units(history: list[ItemRef]) -> list[list[ItemRef]]:
    """The history in parts that stay together: one thing said to the model, or one reply with all its results."""
    found: list[list[ItemRef]] = []
    for ref in history:
        follows = ref.kind == "result" or (ref.kind == "import" and ref.part.endswith("+"))
        if follows and found and found[-1][0].kind in ("assistant", "import"):
            found[-1].append(ref)
        else:
            found.append([ref])
    return found


def older(state: State, keep: int | None = None) -> tuple[list[ItemRef], list[int]]:
    """The items that may leave, and the seqs among them that stay verbatim all the same."""
    parts = units(state.history)
    keep = state.settings.keep_exchanges if keep is None else keep
    head, tail = parts[:-keep], parts[-keep:]
    return [ref for unit in head for ref in unit], _kept(state, head, tail)


def _kept(state: State, head: list[list[ItemRef]], tail: list[list[ItemRef]]) -> list[int]:
    """What stays verbatim of exchanges that leave: what is pinned, and the last request where none comes after it."""
    leaving = [ref for unit in head for ref in unit]
    kept = {ref.seq for ref in leaving if ref.seq in state.pinned}
    if not any(ref.kind == "user" for unit in tail for ref in unit):
        said = [ref.seq for ref in leaving if ref.kind == "user"]
        kept.update(said[-1:])
    return sorted(_whole_units(head, kept))


def _whole_units(parts: list[list[ItemRef]], kept: set[int]) -> set[int]:
    """A kept item keeps its exchange: a result without its call, or a call without its result, helps nobody."""
    return {ref.seq for unit in parts if any(ref.seq in kept for ref in unit) for ref in unit}


def movable(state: State, keep: int | None = None) -> list[ItemRef]:
    """The items that a compaction would take out; none where all that is left of the past is its summary."""
    leaving, kept = older(state, keep)
    stays = set(kept)
    found = [ref for ref in leaving if ref.seq not in stays]
    return [] if len(found) == 1 and found[0].kind == "summary" else found


def make_room(state: State) -> Iterator[Decision]:
    """Elides, then summarises (and the phase is `Compacting` then) or cuts."""
    trigger = trigger_of(state)
    if trigger is not None:
        yield from compact(state, trigger)
    if state.compaction.attempt == 0 and not fits(state):
        yield from cut_deep(state)


def compact(state: State, trigger: Trigger) -> Iterator[Decision]:
    """The ordinary steps, each only where the one before was not enough."""
    yield from elide(state, state.settings.keep_exchanges)
    if small_again(state, trigger):
        return
    if not movable(state):
        # Said only where somebody asked for it, not before each request of a full context.
        if state.compaction.wanted:
            yield CompactionFailed(reason="useless")
        return
    leaving, kept = older(state)
    if can_summarise(state, leaving):
        yield from start(state, trigger, leaving)
    else:
        yield from truncate(state, leaving, kept, "no_summary")


def small_again(state: State, trigger: Trigger) -> bool:
    """Whether shortening results was all that was needed."""
    if trigger == "tokens":
        return context_tokens(state) <= int(state.current_model.window_tokens * state.settings.compact_to)
    return trigger == "bytes" and state.history_bytes <= state.settings.compact_bytes


def fits(state: State) -> bool:
    """Whether the next request and a short answer fit the window, as far as we can tell."""
    model = state.current_model
    return context_tokens(state) + min(budgets.OUTPUT_TOKENS_MIN, model.max_output_tokens) <= model.window_tokens


def cut_deep(state: State) -> Iterator[Decision]:
    """The newest exchanges alone are too much: all but the last one goes, then what results it has are shortened.
    Where that is not enough either the request is made all the same: our count is a guess, the provider's is not."""
    yield from elide(state, 1)
    if not fits(state) and movable(state, 1):
        leaving, kept = older(state, 1)
        yield from truncate(state, leaving, kept, "overflow")
    if not fits(state):
        yield from elide(state, 0)


def can_summarise(state: State, leaving: list[ItemRef]) -> bool:
    """Whether a summary may be asked for: wanted, not failed too often, small enough to be read, and payable."""
    settings, model = state.settings, state.summary_model
    if not settings.summarise or state.compaction.failures >= settings.compact_attempts_max:
        return False
    tokens = sum(ref.tokens for ref in leaving) + fixed_tokens(state)
    if tokens + min(settings.summary_tokens_max, model.max_output_tokens) > model.window_tokens:
        return False
    return budgets.exhausted(state, tokens, model) is None


def start(state: State, trigger: Trigger, leaving: list[ItemRef]) -> Iterator[Decision]:
    yield CompactionStarted(
        trigger=trigger,
        first=leaving[0].seq,
        last=leaving[-1].seq,
        items=len(leaving),
        tokens=sum(ref.tokens for ref in leaving),
        attempt=state.compaction.failures + 1,
    )
    tokens = summary_tokens(state)
    yield requests.intend(state, "compact", tokens, budgets.output_room(state, tokens, state.summary_model), attempt=1)


def summary_tokens(state: State) -> int:
    """How large the request for the summary under way is."""
    return sum(ref.tokens for ref in state.history[: state.compaction.items]) + fixed_tokens(state)


def elide(state: State, keep: int) -> Iterator[Decision]:
    """Shortens old results, but for pinned ones and those of the newest exchanges."""
    parts = units(state.history)
    chosen = [
        ref
        for unit in parts[: max(0, len(parts) - keep)]
        for ref in unit
        if ref.kind == "result"
        and not ref.elided
        and ref.tokens > state.settings.elide_over_tokens
        and ref.seq not in state.pinned
    ]
    if chosen:
        before = state.history_tokens
        saved = sum(ref.tokens - min(ref.tokens, ELIDED_TOKENS) for ref in chosen)
        yield ContextElided(seqs=tuple(ref.seq for ref in chosen), tokens_before=before, tokens_after=before - saved)


def finish(state: State, reply: ModelReplied, reply_seq: int) -> Iterator[Decision]:
    """What follows from a summary: it stands for the older items, or it is no use and they are cut."""
    leaving, kept = span(state)
    if reply.empty or reply.calls or reply.finish not in ("stop", "length", "stop_sequence", "other"):
        yield from give_up(state, "empty")
        return
    gone = [ref for ref in leaving if ref.seq not in set(kept)]
    removed = sum(ref.tokens for ref in gone)
    summary_tokens = reply.usage.output_tokens or reply.tokens
    if summary_tokens >= removed and state.compaction.trigger != "command":
        yield from give_up(state, "useless")
        return
    if state.settings.archive:
        yield paged_out(leaving, gone)
    yield CompactionFinished(
        summary_seq=reply_seq,
        summary_tokens=summary_tokens,
        items_before=len(state.history),
        items_after=len(state.history) - len(gone) + 1,
        tokens_before=state.history_tokens,
        tokens_after=state.history_tokens - removed + summary_tokens,
        kept=tuple(kept),
    )


def paged_out(leaving: list[ItemRef], gone: list[ItemRef]) -> ContextPagedOut:
    return ContextPagedOut(first=leaving[0].seq, last=leaving[-1].seq, items=len(gone), refs=tuple(gone))


def span(state: State) -> tuple[list[ItemRef], list[int]]:
    """The items that the compaction under way is about, whatever the settings say by now, and what stays of them."""
    leaving = state.history[: state.compaction.items]
    return leaving, _kept(state, units(leaving), units(state.history[state.compaction.items :]))


def give_up(
    state: State, reason: Literal["model", "empty", "budget", "useless"], why: Failure | None = None
) -> Iterator[Decision]:
    """No summary is to be had: the older exchanges are cut by rule."""
    leaving, kept = span(state)
    yield CompactionFailed(reason=reason, failure=why)
    yield from truncate(state, leaving, kept, "no_summary")


def truncate(
    state: State, leaving: list[ItemRef], kept: list[int], reason: Literal["overflow", "no_summary", "policy"]
) -> Iterator[Decision]:
    """Cuts older exchanges off by rule; always possible, always smaller."""
    gone = [ref for ref in leaving if ref.seq not in set(kept)]
    if not gone:
        return
    if state.settings.archive:
        yield paged_out(leaving, gone)
    removed = sum(ref.tokens for ref in gone)
    yield ContextTruncated(
        first=leaving[0].seq,
        last=leaving[-1].seq,
        items=len(leaving),
        items_before=len(state.history),
        items_after=len(state.history) - len(gone),
        tokens_before=state.history_tokens,
        tokens_after=state.history_tokens - removed,
        reason=reason,
        kept=tuple(kept),
    )
