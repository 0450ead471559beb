"""A history from elsewhere as the beginning of a session: checked, weighed, and referred to like any other item."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.events.errors import UsageError
from windlass.events.values.items import AssistantItem, CallPart, HistoryItem, ResultItem
from windlass.events.values.setup import ItemRef
from windlass.models.tokens import estimate_item

ITEMS_MAX = 10_000


def refs_of(items: Sequence[HistoryItem]) -> tuple[ItemRef, ...]:
    """References to imported items. Raises `UsageError` if a call has not exactly one result right after it: no
    provider would take such a history."""
    if len(items) > ITEMS_MAX:
        raise UsageError(
            f"{len(items)} items are more than the {ITEMS_MAX} that can be imported: cut or summarise them"
        )
    due: list[str] = []
    refs: list[ItemRef] = []
    for index, item in enumerate(items):
        if isinstance(item, ResultItem):
            if item.call_id not in due:
                raise UsageError(f"imported item {index}: a result for {item.call_id!r}, which is not waiting for one")
            due.remove(item.call_id)
        elif due:
            raise UsageError(f"imported item {index}: {', '.join(due)} must have a result first")
        if isinstance(item, AssistantItem):
            due = [part.call_id for part in item.content if isinstance(part, CallPart)]
        part = f"{index}+" if isinstance(item, ResultItem) else str(index)
        refs.append(ItemRef(seq=0, kind="import", tokens=estimate_item(item), part=part))
    if due:
        raise UsageError(f"the imported history ends without results for {', '.join(due)}")
    return tuple(refs)
