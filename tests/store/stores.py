"""The stores under test, by name: how each is opened at a place, and what it declares."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Awaitable, Callable

import msgspec
from examples.own_store import FileMapStore, Folder

from tests.store.planted import open_planted
from windlass.store.base import Capabilities, Store
from windlass.store.jsonl.store import JsonlStore
from windlass.store.memory import MemoryStore
from windlass.store.sqlite.store import SqliteStore
from windlass.testing.store_kit import StoreCase

SQLITE_NAME = "store.db"
JSONL_NAME = "store.jsonl.d"


class Subject(msgspec.Struct, frozen=True):
    """One kind of store."""

    name: str
    open: Callable[[pathlib.Path], Awaitable[Store]]
    capabilities: Capabilities

    def case(self, place: pathlib.Path) -> StoreCase:
        return StoreCase(lambda: self.open(place), self.capabilities)


async def open_memory(place: pathlib.Path) -> Store:
    return MemoryStore()


async def open_sqlite(place: pathlib.Path) -> Store:
    return await SqliteStore.open(place / SQLITE_NAME)


async def open_sqlite_normal(place: pathlib.Path) -> Store:
    return await SqliteStore.open(place / SQLITE_NAME, durability="normal")


async def open_jsonl(place: pathlib.Path) -> Store:
    return await JsonlStore.open(place / JSONL_NAME)


async def open_jsonl_normal(place: pathlib.Path) -> Store:
    return await JsonlStore.open(place / JSONL_NAME, durability="normal")


async def open_filemap(place: pathlib.Path) -> Store:
    return FileMapStore(Folder(place / "files"))


SUBJECTS = (
    Subject("memory", open_memory, Capabilities(durable=False, multi_process=False, transactional=True, sends=True)),
    Subject("sqlite", open_sqlite, SqliteStore.CAPABILITIES),
    Subject("sqlite-normal", open_sqlite_normal, SqliteStore.CAPABILITIES),
    Subject("jsonl", open_jsonl, JsonlStore.CAPABILITIES),
    Subject("jsonl-normal", open_jsonl_normal, JsonlStore.CAPABILITIES),
    Subject("filemap", open_filemap, Capabilities(durable=True, multi_process=False, transactional=True)),
)


def opener(name: str) -> Callable[[pathlib.Path], Awaitable[Store]]:
    """How the store of this name is opened, a planted one too."""
    for subject in SUBJECTS:
        if subject.name == name:
            return subject.open
    return functools.partial(open_planted, name)
