"""Compaction: what leaves the history when the window is too full, in steps that are each an event.

(too full, too large, overflowed, asked for)
    ──▶ context.elided        old results are left out; often enough
    ──▶ compaction.started ─┬─▶ compaction.finished   a summary stands for the older exchanges
                            └─▶ compaction.failed ──▶ context.truncated
    ──▶ context.truncated     they are cut by rule, if no summary is to be had
undo.received ──▶ compaction.undone
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from windlass.events.context import (
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    CompactionUndone,
    CompactReceived,
    ContextElided,
    ContextTruncated,
    UndoReceived,
)
from windlass.events.errors import Refused
from windlass.events.runs import (
    RunAsked,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunSlept,
    RunStarted,
    Terminal,
)
from windlass.events.sessions import SessionRewound
from windlass.events.turns import ModelReplied
from windlass.events.values.blocks import Value
from windlass.events.values.failures import Failure
from windlass.events.values.setup import ItemRef
from windlass.kernel.part import Decisions, Part, Row, Why
from windlass.kernel.parts import budgets, output, queue, requests, retries, runs
from windlass.kernel.phases import RESTING, WORKING, Asleep, BackingOff, Compacting

from . import archive, context_size, history, prefix

if TYPE_CHECKING:
    from windlass.kernel.state import State


COMPACTIONS_KEPT_MAX = 5
ELIDED_TOKENS = 24
Trigger = Literal["tokens", "bytes", "overflow", "command"]


class Compacted(Value, frozen=True, kw_only=True):
    """What one compaction did to the history, for the model that works with what is left."""

    seq: int
    how: Literal["summarised", "cut"]
    items: int
    tokens_before: int
    tokens_after: int


class Compaction(msgspec.Struct, kw_only=True, gc=False):
    """Where a compaction stands and how often it failed."""

    trigger: str = ""
    first: int = 0
    last: int = 0
    items: int = 0
    attempt: int = 0
    """Not 0 while a summary is being made."""
    failures: int = 0
    wanted: Trigger | Literal[""] = ""
    """Set if a compaction must happen before the next request: its trigger."""
    count: int = 0
    log: list[Compacted] = []
    """The newest of those that the history has seen."""


def want(state: State, trigger: Trigger | Literal[""]) -> None:
    """Has room made before the next request."""
    state.compaction.wanted = trigger


# --- fold ---------------------------------------------------------------------------------------------------------


def compact_received(state: State, event: CompactReceived) -> None:
    state.compaction.wanted = "command"
    state.compaction.failures = 0


def dropped(state: State, indexes: list[int]) -> None:
    """Items left the history, at these places: the compaction under way is about so many fewer."""
    here = state.compaction
    if here.attempt:
        here.items -= sum(index < here.items for index in indexes)


def compaction_started(state: State, event: CompactionStarted) -> None:
    here = state.compaction
    here.trigger = event.trigger
    here.first, here.last = event.first, event.last
    here.items = event.items
    here.attempt = event.attempt
    here.wanted = ""
    requests.room_made(state)


def compaction_finished(state: State, event: CompactionFinished) -> None:
    here = state.compaction
    summary = ItemRef(seq=event.summary_seq, kind="summary", tokens=event.summary_tokens)
    history.cut(state, here.items, event.kept, summary)
    remember(state, "summarised", event, event.items_before - event.items_after + 1)
    here.failures = 0
    here.attempt = 0
    here.count += 1
    prefix.differs(state, "compaction")
    leave_phase(state)


def compaction_failed(state: State, event: CompactionFailed) -> None:
    if event.reason != "interrupted":
        state.compaction.failures += 1
    state.compaction.attempt = 0
    state.compaction.wanted = ""
    leave_phase(state)


def leave_phase(state: State) -> None:
    if isinstance(state.phase, Compacting | BackingOff):
        runs.between(state)


def compaction_undone(state: State, event: CompactionUndone) -> None:
    history.replace_items(state, list(event.history))
    state.compaction.count -= 1
    del state.compaction.log[-1:]
    prefix.differs(state, "compaction")


def context_elided(state: State, event: ContextElided) -> None:
    history.shorten(state, event.seqs, ELIDED_TOKENS)
    prefix.differs(state, "elision")


def context_truncated(state: State, event: ContextTruncated) -> None:
    gone = event.items_before - event.items_after
    history.cut(state, event.items or gone + len(event.kept), event.kept, None)
    remember(state, "cut", event, gone)
    state.compaction.wanted = ""
    state.compaction.count += 1
    prefix.differs(state, "compaction")
    requests.room_made(state)


def remember(
    state: State, how: Literal["summarised", "cut"], event: CompactionFinished | ContextTruncated, items: int
) -> None:
    """Keeps what became of the history."""
    compacted = Compacted(
        seq=state.seq, how=how, items=items, tokens_before=event.tokens_before, tokens_after=event.tokens_after
    )
    state.compaction.log.append(compacted)
    del state.compaction.log[:-COMPACTIONS_KEPT_MAX]


def run_started(state: State, event: RunStarted) -> None:
    if event.continues is None:
        state.compaction.failures = 0


def run_ended(state: State, event: Terminal) -> None:
    state.compaction.attempt = 0


def session_rewound(state: State, event: SessionRewound) -> None:
    # Which compactions the earlier history had seen is no longer told.
    state.compaction.count = 0
    state.compaction.log.clear()


# --- making room --------------------------------------------------------------------------------------------------


def trigger_of(state: State, tokens: int) -> Trigger | None:
    """Why room must be made before the next request of so many tokens, if it must."""
    settings = state.setup.settings
    if state.compaction.wanted:
        return state.compaction.wanted
    if tokens > state.current_model.window_tokens * settings.compact_at:
        return "tokens"
    if state.history.bytes > settings.compact_bytes:
        return "bytes"
    return None


def make_room(state: State, tokens: int) -> Decisions:
    """Elides, then summarises (and the phase is `Compacting` then) or cuts. `tokens` is the size of the next request as
    it is now."""
    trigger = trigger_of(state, tokens)
    if trigger is not None:
        yield from compact(state, trigger)
        tokens = context_size.context_tokens(state)
    if state.compaction.attempt == 0 and not context_size.fits(state, tokens):
        yield from cut_deep(state)


def compact(state: State, trigger: Trigger) -> Decisions:
    """The ordinary steps, each only if the one before was not enough."""
    yield from elide(state, state.setup.settings.keep_exchanges)
    if small_again(state, trigger):
        return
    if not context_size.movable(state):
        # Said only if somebody asked for it, not before each request of a full context.
        if state.compaction.wanted:
            yield CompactionFailed(reason="useless")
        return
    leaving, kept = context_size.older(state)
    if can_summarise(state, leaving):
        yield from start(state, trigger, leaving)
    else:
        yield from truncate(state, leaving, kept, "no_summary")


def small_again(state: State, trigger: Trigger) -> bool:
    """Whether shortening results was all that was needed."""
    settings = state.setup.settings
    if trigger == "tokens":
        return context_size.context_tokens(state) <= int(state.current_model.window_tokens * settings.compact_to)
    return trigger == "bytes" and state.history.bytes <= settings.compact_bytes


def cut_deep(state: State) -> Decisions:
    """The newest exchanges alone are too much: all but the last one goes, then what results it has are shortened.
    If that is not enough either the request is made all the same: our count is a guess, the provider's is not."""
    yield from elide(state, 1)
    if not context_size.fits(state, context_size.context_tokens(state)) and context_size.movable(state, 1):
        leaving, kept = context_size.older(state, 1)
        yield from truncate(state, leaving, kept, "overflow")
    if not context_size.fits(state, context_size.context_tokens(state)):
        yield from elide(state, 0)


def may_help(state: State) -> bool:
    """Whether the failure that ended the turn is answered by a smaller request."""
    return state.compaction.wanted == "overflow" and bool(context_size.movable(state))


def can_summarise(state: State, leaving: list[ItemRef]) -> bool:
    """Whether a summary may be asked for: wanted, not failed too often, small enough to be read, and payable."""
    settings, model = state.setup.settings, state.summary_model
    if not settings.summarise or state.compaction.failures >= settings.compact_attempts_max:
        return False
    tokens = sum(ref.tokens for ref in leaving) + context_size.fixed_tokens(state)
    if tokens + min(settings.summary_tokens_max, model.max_output_tokens) > model.window_tokens:
        return False
    return budgets.exhausted(state, tokens, model) is None


def start(state: State, trigger: Trigger, leaving: list[ItemRef]) -> Decisions:
    yield CompactionStarted(
        trigger=trigger,
        first=leaving[0].seq,
        last=leaving[-1].seq,
        items=len(leaving),
        tokens=sum(ref.tokens for ref in leaving),
        attempt=state.compaction.failures + 1,
    )
    tokens = summary_tokens(state)
    room = budgets.output_room(state, tokens, state.summary_model)
    yield requests.intend(state, "compact", tokens, room, attempt=1)


def summary_tokens(state: State) -> int:
    """How large the request for the summary under way is."""
    return sum(ref.tokens for ref in state.history.items[: state.compaction.items]) + context_size.fixed_tokens(state)


def elide(state: State, keep: int) -> Decisions:
    """Shortens old results, but for pinned ones and those of the newest exchanges."""
    exchanges = context_size.units(state.history.items)
    chosen = [
        ref
        for unit in exchanges[: max(0, len(exchanges) - keep)]
        for ref in unit
        if ref.kind == "result"
        and not ref.elided
        and ref.tokens > state.setup.settings.elide_over_tokens
        and ref.seq not in state.history.pinned
    ]
    if chosen:
        before = state.history.tokens
        saved = sum(ref.tokens - min(ref.tokens, ELIDED_TOKENS) for ref in chosen)
        yield ContextElided(seqs=tuple(ref.seq for ref in chosen), tokens_before=before, tokens_after=before - saved)


def finish(state: State, reply: ModelReplied, reply_seq: int) -> Decisions:
    """What follows from a summary: it stands for the older items, or it is no use and they are cut."""
    leaving, kept = span(state)
    if reply.empty or reply.calls or reply.finish not in output.FINAL:
        yield from give_up(state, "empty")
        return
    gone = [ref for ref in leaving if ref.seq not in set(kept)]
    removed = sum(ref.tokens for ref in gone)
    tokens = reply.usage.output_tokens or reply.tokens
    if tokens >= removed and state.compaction.trigger != "command":
        yield from give_up(state, "useless")
        return
    if state.setup.settings.archive:
        yield archive.paged_out(leaving, gone)
    yield CompactionFinished(
        summary_seq=reply_seq,
        summary_tokens=tokens,
        items_before=len(state.history.items),
        items_after=len(state.history.items) - len(gone) + 1,
        tokens_before=state.history.tokens,
        tokens_after=state.history.tokens - removed + tokens,
        kept=tuple(kept),
    )


def span(state: State) -> tuple[list[ItemRef], list[int]]:
    """The items that the compaction under way is about, whatever the settings say by now, and what stays of them."""
    leaving, rest = state.history.items[: state.compaction.items], state.history.items[state.compaction.items :]
    return leaving, context_size.kept_verbatim(state, context_size.units(leaving), context_size.units(rest))


def give_up(
    state: State, reason: Literal["model", "empty", "budget", "useless"], why: Failure | None = None
) -> Decisions:
    """No summary is to be had: the older exchanges are cut by rule."""
    leaving, kept = span(state)
    yield CompactionFailed(reason=reason, failure=why)
    yield from truncate(state, leaving, kept, "no_summary")


def truncate(
    state: State, leaving: list[ItemRef], kept: list[int], reason: Literal["overflow", "no_summary"]
) -> Decisions:
    """Cuts older exchanges off by rule; always possible, always smaller."""
    gone = [ref for ref in leaving if ref.seq not in set(kept)]
    if not gone:
        return
    if state.setup.settings.archive:
        yield archive.paged_out(leaving, gone)
    removed = sum(ref.tokens for ref in gone)
    yield ContextTruncated(
        first=leaving[0].seq,
        last=leaving[-1].seq,
        items=len(leaving),
        items_before=len(state.history.items),
        items_after=len(state.history.items) - len(gone),
        tokens_before=state.history.tokens,
        tokens_after=state.history.tokens - removed,
        reason=reason,
        kept=tuple(kept),
    )


# --- commands, and the part ---------------------------------------------------------------------------------------


def check_compact(state: State, fact: CompactReceived) -> None:
    leaving, _ = context_size.older(state)
    if not leaving:
        raise Refused("too_short", "the history is too short to compact")


def on_compact(state: State, fact: CompactReceived) -> Decisions:
    if not state.active:
        yield from retries.drop(state)
        yield from runs.begin(state, "compact", (fact.command_id,), continues=isinstance(state.phase, Asleep))
        yield from make_room(state, context_size.context_tokens(state))
    else:
        yield queue.done(fact.command_id, "the history will be compacted at the next boundary")


def check_undo(state: State, fact: UndoReceived) -> None:
    if state.compaction.count == 0:
        raise Refused("nothing_to_undo", "no compaction has happened")
    if not fact.restored:
        raise Refused("malformed", "the host must supply what was visible before the compaction")


def on_undo(state: State, fact: UndoReceived) -> Decisions:
    yield CompactionUndone(items_before=len(state.history.items), items_after=len(fact.restored), history=fact.restored)
    yield queue.done(fact.command_id)


def stop(state: State, why: Why) -> Decisions:
    if state.compaction.attempt:
        yield CompactionFailed(reason="interrupted")


PART = Part(
    name="compaction",
    facts={
        CompactReceived: Row(when=(*RESTING, *WORKING), check=check_compact, fold=compact_received, then=on_compact),
        UndoReceived: Row(when=RESTING, check=check_undo, then=on_undo),
    },
    decisions={
        CompactionStarted: compaction_started,
        CompactionFinished: compaction_finished,
        CompactionFailed: compaction_failed,
        CompactionUndone: compaction_undone,
        ContextElided: context_elided,
        ContextTruncated: context_truncated,
    },
    hears={
        SessionRewound: session_rewound,
        RunStarted: run_started,
        **dict.fromkeys((RunCompleted, RunFailed, RunCancelled, RunInterrupted, RunAsked, RunSlept), run_ended),
    },
    stop=stop,
)
