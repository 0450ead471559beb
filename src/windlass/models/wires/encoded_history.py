"""The encoded history of a conversation: each item is encoded once, and bytes once written never change.

What is kept is what a later request begins with; it is only ever a copy of what the items say.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from windlass.events.values.blocks import Audio, BlobRef, Document, Image, Resource
from windlass.events.values.items import AssistantItem, HistoryItem, ResultItem, UserItem

HISTORIES_MAX = 1_024
HISTORY_BYTES_MAX = 128 * 1024 * 1024

sorted_json = msgspec.json.Encoder(order="deterministic").encode
"""JSON whose bytes do not depend on the order of dictionaries."""
plain_json = msgspec.json.Encoder().encode

Blobs = Mapping[str, str | None]
"""Base64 of blobs by digest; none for those that are gone."""


class History(Protocol):
    """The items of one conversation as bytes of one wire format. A format adds one item at a time; it may look back but
    never change what it wrote, and leaves open whatever the next item might continue."""

    buffer: bytearray
    items: list[HistoryItem]
    blobs: Blobs

    def add_user(self, item: UserItem) -> None: ...

    def add_assistant(self, item: AssistantItem) -> None: ...

    def add_result(self, item: ResultItem) -> None: ...


def extend(history: History, items: list[HistoryItem], blobs: Blobs) -> None:
    """Encodes the items that are new."""
    history.blobs = blobs
    for item in items:
        kind = type(item)
        if kind is ResultItem:
            history.add_result(item)  # type: ignore[arg-type]
        elif kind is UserItem:
            history.add_user(item)  # type: ignore[arg-type]
        else:
            history.add_assistant(item)  # type: ignore[arg-type]
        history.items.append(item)
    history.blobs = {}


class Kept:
    """What is kept of one conversation: its encoded history, and its head with what the head was made from."""

    __slots__ = ("head", "head_from", "history")

    def __init__(self, history: History) -> None:
        self.history = history
        self.head = b""
        self.head_from: tuple[Any, ...] | None = None


class Histories:
    """The encoded histories of many conversations, the least recently used dropped first."""

    def __init__(self, make: Callable[[], History]) -> None:
        self._make = make
        self._kept: OrderedDict[tuple[str, str], Kept] = OrderedDict()
        self._bytes = 0

    def take(self, session: str, lane: str, items: list[HistoryItem]) -> Kept:
        """The kept history that these items continue, or a new one. Items are compared by identity first and by value
        otherwise, so a history that was changed anywhere is encoded afresh."""
        if not session:
            return Kept(self._make())
        key = (session, lane)
        kept = self._kept.get(key)
        if kept is not None:
            known = kept.history.items
            if known == (items if len(known) == len(items) else items[: len(known)]):
                self._kept.move_to_end(key)
                return kept
            self._bytes -= len(kept.history.buffer)
        made = self._kept[key] = Kept(self._make())
        if kept is not None:
            made.head, made.head_from = kept.head, kept.head_from
        self._kept.move_to_end(key)
        return made

    def grown(self, added: int) -> None:
        """Accounts for bytes added to the one just taken, and makes room. The newest always stays."""
        self._bytes += added
        while len(self._kept) > 1 and (len(self._kept) > HISTORIES_MAX or self._bytes > HISTORY_BYTES_MAX):
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped.history.buffer)


def blob_refs(items: list[HistoryItem]) -> list[BlobRef]:
    """What these items hold by reference."""
    references: list[BlobRef] = []
    for item in items:
        if isinstance(item, AssistantItem):
            continue
        for block in item.content:
            if isinstance(block, Image | Audio | Document | Resource) and block.blob is not None:
                references.append(block.blob)
    return references
