"""Pager of one session: hands what left the history to the archive, and finds it again. The log stands behind the
archive: what the archive lost, or cannot be asked for, is looked for there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from windlass.events.context import ContextArchived, ContextPagedIn, ContextPagedOut, PageBody
from windlass.events.errors import Refused, StoreError, UsageError
from windlass.events.sessions import NoticeGiven
from windlass.events.values.failures import failure
from windlass.events.values.setup import ItemRef
from windlass.models.tokens import ITEM_OVERHEAD_TOKENS, estimate_text

from .archive import PAGES_AT_ONCE, Archive, LogArchive, events_of
from .archive_page import Leaf, Page, leaves, page, shown

if TYPE_CHECKING:
    from windlass.runtime.owner.owner import Owner

ARCHIVE_TIMEOUT_MS = 10_000
"""How long an archive may take for one request."""
FOUND = 5
FOUND_MAX = 20
"""How many pages a query finds, unless told otherwise, and at the most."""
RECALL_TOKENS_MAX = 6_000
RECALL_SHARE = 8
"""How much is brought back at once: so many tokens, or one part in so many of the model's window."""


class Pager:
    """Page-out and page-in of a session that this process owns."""

    def __init__(self, owner: Owner, archive: Archive | None, log: LogArchive) -> None:
        self._owner = owner
        self._archive = archive
        self._log = log

    # --- out ---

    async def out(self, paged_seq: int) -> ContextArchived:
        """Hands what was paged out at a seq to the archive, at least once. A failure is told and stops nothing."""
        event = await self._owner.event(paged_seq)
        assert isinstance(event, ContextPagedOut)
        parts = leaves(event.refs)
        if self._archive is None:
            return ContextArchived(paged_seq=paged_seq, pages=len(parts))
        kept = 0
        for start in range(0, len(parts), PAGES_AT_ONCE):
            pages = await self._read(parts[start : start + PAGES_AT_ONCE])
            try:
                async with asyncio.timeout(ARCHIVE_TIMEOUT_MS / 1000):
                    await self._archive.put(self._owner.key, pages)
            except Exception as error:  # the archive is its author's code; the log has the pages all the same
                told = failure("internal", f"the archive {_why(error)}", retryable=False)
                return ContextArchived(paged_seq=paged_seq, pages=kept, failure=told)
            kept += len(pages)
        return ContextArchived(paged_seq=paged_seq, pages=kept)

    async def _read(self, parts: Sequence[Leaf]) -> list[Page]:
        owner = self._owner
        refs = [ref for leaf in parts for ref in leaf.refs]
        events = await owner.insist(lambda: events_of(owner.log, owner.key, refs))
        labels = {name: spec.labels for name, spec in owner.state.toolset.tools.items() if spec.labels}
        return [page(leaf, events.__getitem__, labels) for leaf in parts]

    # --- in ---

    async def find(self, query: str, page_ids: Sequence[str], limit: int) -> list[Page]:
        """The pages of these ids, then those that fit the query, each once. Raises `UsageError` if nothing is asked
        for or too much."""
        if not query.strip() and not page_ids:
            raise UsageError("say what to look for: give a query or page ids")
        if not 1 <= limit <= FOUND_MAX or len(page_ids) > FOUND_MAX:
            raise UsageError(f"at most {FOUND_MAX} pages can be looked for at once, and at least one")
        pages = {asked_page.page_id: asked_page for asked_page in await self._get(page_ids)} if page_ids else {}
        if query.strip():
            for hit in await self._search(query, limit):
                pages.setdefault(hit.page_id, hit)
        return list(pages.values())

    async def _get(self, page_ids: Sequence[str]) -> list[Page]:
        """Pages by id, in the order asked for: the archive's, and what it does not have from the log."""
        owner, own = self._owner, self._archive
        there = await self._asked(lambda: own.get(owner.key, page_ids)) if own is not None else None
        pages = {page.page_id: page for page in there or ()}
        missing = [page_id for page_id in page_ids if page_id not in pages]
        if missing:
            more = await owner.insist(lambda: self._log.get(owner.key, missing))
            pages.update((page.page_id, page) for page in more)
        return [pages[page_id] for page_id in dict.fromkeys(page_ids) if page_id in pages]

    async def _search(self, query: str, limit: int) -> Sequence[Page]:
        owner, own = self._owner, self._archive
        if own is not None:
            hits = await self._asked(lambda: own.search(owner.key, query, limit))
            if hits is not None:
                return hits[:limit]
        return await owner.insist(lambda: self._log.search(owner.key, query, limit))

    async def _asked(self, work: Callable[[], Awaitable[Sequence[Page]]]) -> list[Page] | None:
        """What the archive answers; None, and a notice, if it does not."""
        try:
            async with asyncio.timeout(ARCHIVE_TIMEOUT_MS / 1000):
                pages = list(await work())
            if not all(isinstance(page, Page) for page in pages):
                raise TypeError("it gave something else than pages")
        except Exception as error:  # the archive is its author's code; the log is asked instead
            await self._notice(f"the archive {_why(error)}; the log was asked instead")
            return None
        return pages

    async def _notice(self, message: str) -> None:
        try:
            await self._owner.take(NoticeGiven(level="warning", code="archive_failed", message=message))
        except (Refused, StoreError):
            return

    async def result(self, call_id: str) -> ItemRef | None:
        """Where the result of a call stands that left the history."""
        owner = self._owner
        return await owner.insist(lambda: self._log.result(owner.key, call_id))

    def shown(self, pages: Sequence[Page]) -> tuple[str, tuple[Page, ...]]:
        """Pages as the model gets them, and those that there was room for."""
        window = self._owner.state.current_model.window_tokens
        return shown(pages, min(RECALL_TOKENS_MAX, window // RECALL_SHARE))

    def paged_in(self, query: str, pages: Sequence[Page]) -> tuple[ContextPagedIn, tuple[Page, ...]]:
        """The fact that brings pages back into the history, and those of them that are in it."""
        text, there = self.shown(pages)
        fact = ContextPagedIn(
            query=query,
            page_ids=tuple(page.page_id for page in there),
            tokens=estimate_text(text) + ITEM_OVERHEAD_TOKENS,
            bytes=len(text.encode()),
            labels=tuple(sorted({label for page in there for label in page.labels})),
            body=PageBody(text=text),
        )
        return fact, there


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"did not answer within {ARCHIVE_TIMEOUT_MS // 1000} s"
    return f"raised {type(error).__name__}: {str(error)[:500]}"
