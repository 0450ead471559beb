"""The archive: what left the history is handed over, confirmed, and can be called back.

context.paged_out ──▶ paged ──▶ context.archived
context.paged_in: a page is shown to the model again
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from windlass.events.context import ContextArchived, ContextPagedIn, ContextPagedOut
from windlass.events.errors import Refused
from windlass.events.sessions import SessionForked
from windlass.events.values.setup import ItemRef
from windlass.kernel.effects import PageOut
from windlass.kernel.part import Part, Row
from windlass.kernel.parts.context import history
from windlass.kernel.parts.tools import labels
from windlass.kernel.phases import STARTED

if TYPE_CHECKING:
    from windlass.kernel.state import State


PAGED_MAX = 64


class Archive(msgspec.Struct, kw_only=True, gc=False):
    """What left the history and is to be kept at hand."""

    paged: list[int] = []
    """The records of pages that the archive has not confirmed yet."""


def context_paged_out(state: State, event: ContextPagedOut) -> None:
    paged = state.archive.paged
    paged.append(state.seq)
    del paged[: max(0, len(paged) - PAGED_MAX)]


def context_archived(state: State, event: ContextArchived) -> None:
    state.archive.paged.remove(event.paged_seq)


def context_paged_in(state: State, event: ContextPagedIn) -> None:
    if event.labels:
        labels.meet(state, event.labels, "page")
    history.add(state, ItemRef(seq=state.seq, kind="note", tokens=event.tokens, bytes=event.bytes, part="page"))


def session_forked(state: State, event: SessionForked) -> None:
    state.archive.paged = []  # the origin hands its own pages over


def paged_out(leaving: list[ItemRef], gone: list[ItemRef]) -> ContextPagedOut:
    return ContextPagedOut(first=leaving[0].seq, last=leaving[-1].seq, items=len(gone), refs=tuple(gone))


def check_archived(state: State, fact: ContextArchived) -> None:
    if fact.paged_seq not in state.archive.paged:
        raise Refused("stale", f"nothing that was paged out at {fact.paged_seq} waits for the archive")


def owes(state: State) -> Iterable[PageOut]:
    return [PageOut(effect_id=f"page/{seq}", paged_seq=seq) for seq in state.archive.paged]


PART = Part(
    name="archive",
    facts={
        ContextArchived: Row(when=STARTED, check=check_archived, fold=context_archived),
        ContextPagedIn: Row(when=STARTED, fold=context_paged_in),
    },
    decisions={ContextPagedOut: context_paged_out},
    hears={SessionForked: session_forked},
    keeps=lambda state: state.archive.paged,
    owes=owes,
)
