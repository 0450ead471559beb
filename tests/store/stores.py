"""The stores under test, by name: how each is opened at a place, and what it declares."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Awaitable, Callable

import msgspec

from tests.store.planted import open_planted
from windlass.store.base import Capabilities, Store
from windlass.store.filemap import FileMapStore
from windlass.store.jsonl import JsonlStore
from windlass.store.memory import MemoryStore
from windlass.store.sqlite import SqliteStore
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


class DirectoryMap:
    """A host that keeps each file as one file."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root

    async def get(self, path: str) -> bytes | None:
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None

    async def put(self, path: str, data: bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + "~")
        part.write_bytes(data)
        part.replace(target)

    async def list(self, prefix: str) -> list[str]:
        folder = self.root / prefix.rpartition("/")[0]
        paths = [str(path.relative_to(self.root)) for path in folder.rglob("*") if path.is_file()]
        return [path for path in paths if path.startswith(prefix) and not path.endswith("~")]

    async def delete(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)


async def open_filemap(place: pathlib.Path) -> Store:
    return FileMapStore(DirectoryMap(place / "files"))


SUBJECTS = (
    Subject("memory", open_memory, Capabilities(durable=False, multi_process=False, transactional=True)),
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
