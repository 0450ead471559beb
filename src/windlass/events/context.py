"""Memory management of the history: elision, summaries, cuts, paging. The log itself is never touched."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.values.blocks import Value
from windlass.events.values.failures import Failure
from windlass.events.values.setup import ItemRef

from .base import Category, Command, Decision, Fact, Nat


class CompactReceived(Command, frozen=True, kw_only=True, tag="compact.received"):
    """Compact the history now."""

    instructions: str = ""


class UndoReceived(Command, frozen=True, kw_only=True, tag="undo.received"):
    """Undo the last compaction. `restored` is what the host found visible just before it, and what came since."""

    restored: tuple[ItemRef, ...] = ()


class CompactionStarted(Decision, frozen=True, kw_only=True, tag="compaction.started"):
    """Older exchanges are to be summarised. `first` and `last` are the seqs of the items concerned."""

    CATEGORY: ClassVar[Category] = "mm"
    trigger: Literal["tokens", "bytes", "overflow", "command"]
    first: Nat
    last: Nat
    items: Nat
    tokens: Nat
    attempt: Nat = 1


class CompactionFinished(Decision, frozen=True, kw_only=True, tag="compaction.finished"):
    """A summary (the reply at `summary_seq`) stands for the items now; these were kept verbatim."""

    CATEGORY: ClassVar[Category] = "mm"
    summary_seq: Nat
    summary_tokens: Nat
    items_before: Nat
    items_after: Nat
    tokens_before: Nat
    tokens_after: Nat
    kept: tuple[Nat, ...] = ()


class CompactionFailed(Decision, frozen=True, kw_only=True, tag="compaction.failed"):
    """No summary was to be had. Not fatal: a deterministic cut follows where room is needed."""

    CATEGORY: ClassVar[Category] = "mm"
    failure: Failure | None = None
    reason: Literal["model", "empty", "interrupted", "budget", "useless"] = "model"


class CompactionUndone(Decision, frozen=True, kw_only=True, tag="compaction.undone"):
    """The items that the last compaction put away are visible again."""

    CATEGORY: ClassVar[Category] = "mm"
    items_before: Nat
    items_after: Nat
    history: tuple[ItemRef, ...] = ()


class ContextElided(Decision, frozen=True, kw_only=True, tag="context.elided"):
    """Old results are shown to the model as one line with a reference."""

    CATEGORY: ClassVar[Category] = "mm"
    seqs: tuple[Nat, ...]
    tokens_before: Nat
    tokens_after: Nat


class ContextTruncated(Decision, frozen=True, kw_only=True, tag="context.truncated"):
    """Older exchanges were cut off without a summary, by rule."""

    CATEGORY: ClassVar[Category] = "mm"
    first: Nat
    last: Nat
    items: Nat = 0
    """How many of the oldest items this is about, the kept ones among them."""
    items_before: Nat
    items_after: Nat
    tokens_before: Nat
    tokens_after: Nat
    reason: Literal["overflow", "no_summary"] = "overflow"
    kept: tuple[Nat, ...] = ()


class ContextPagedOut(Decision, frozen=True, kw_only=True, tag="context.paged_out"):
    """Items that left the history are offered to the archive."""

    CATEGORY: ClassVar[Category] = "mm"
    first: Nat
    last: Nat
    items: Nat
    refs: tuple[ItemRef, ...] = ()
    """The items, so that whoever archives them need not fold the log again."""


class ContextArchived(Fact, frozen=True, kw_only=True, tag="context.archived"):
    """The archive took what was paged out at `paged_seq`, or could not. The log keeps it either way."""

    CATEGORY: ClassVar[Category] = "mm"
    paged_seq: Nat
    pages: Nat = 0
    failure: Failure | None = None


class PageBody(Value, frozen=True, kw_only=True):
    """What was found in the archive."""

    text: str


class ContextPagedIn(Fact, frozen=True, kw_only=True, tag="context.paged_in"):
    """Archived content was brought back into the history, by query or by id."""

    CATEGORY: ClassVar[Category] = "mm"
    query: str = ""
    page_ids: tuple[str, ...] = ()
    tokens: Nat = 0
    bytes: Nat = 0
    labels: tuple[str, ...] = ()
    """What the pages are marked with."""
    body: PageBody | None = None


class PinsChanged(Decision, frozen=True, kw_only=True, tag="pins.changed"):
    """These items stay verbatim through every compaction, or no longer do."""

    CATEGORY: ClassVar[Category] = "mm"
    pinned: tuple[Nat, ...] = ()
    unpinned: tuple[Nat, ...] = ()
