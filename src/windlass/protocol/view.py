"""The seam for views: the records and live events of a session, turned one by one into an outside form (entries of a
timeline, lines of JSON, messages of somebody's protocol).

A view is a small fold. What it makes of something depends only on what it was fed before. It may use live events to
tell earlier what a later record says in full, but it must not need them: a reader who missed some, or all, is told
everything by the records. So a view is resumed from a cursor by feeding it the records up to there again, whose forms
the reader has, and then what lies behind: `forms(view, session.tail(), after=seq)`.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Protocol, TypeVar

import msgspec

from windlass.events.live import Live
from windlass.runtime.streams.record import Record
from windlass.runtime.streams.tree_merge import Scoped

Form = TypeVar("Form")
Form_co = TypeVar("Form_co", covariant=True)


class UnknownRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A committed record of a kind that only a newer version knows, and that may be passed over."""

    seq: int
    at_ms: int
    first: int
    """The seq of the fact that caused it; its own if it is the fact."""
    tag: str
    skeleton: bytes
    """The record without its content, as JSON."""


Told = Record | UnknownRecord | Live
"""What a view is fed."""


class View(Protocol[Form_co]):
    """A fold from what is told about a session to an outside form."""

    def feed(self, told: Told) -> Sequence[Form_co]:
        """The forms of one record or live event; none if the outside need not know of it."""
        ...


class TreeView(Protocol):
    """The same over a session and those below it, to lines."""

    def feed(self, one: Scoped) -> Sequence[str]:
        """The lines of one record or live event of a tree."""
        ...


async def forms(view: View[Form], told: AsyncIterable[Told], *, after: int = 0) -> AsyncIterator[Form]:
    """What a view makes of a session. Records up to `after` are fed to it and not given out: the reader has them."""
    async for one in told:
        made = view.feed(one)
        if isinstance(one, Live) or one.seq > after:
            for form in made:
                yield form
