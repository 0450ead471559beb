"""Leases in the directory: a small file in each session's."""

from __future__ import annotations

from windlass.store.base import Claim, Holder, Key
from windlass.store.rules.ids import check_key

from .directory import Directory
from .writer import DirectoryWriter


class JsonlLeases:
    """The leases of the store over a directory."""

    def __init__(self, writer: DirectoryWriter) -> None:
        self._writer = writer

    async def claim(self, key: Key, *, runner: str, ttl_ms: int, now_ms: int, renew: bool = False) -> Claim:
        check_key(key)
        return await self._writer.do(lambda directory: directory.view(key).claim(runner, ttl_ms, now_ms, renew))

    async def keep(self, key: Key, *, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        check_key(key)
        await self._writer.do(_keep, key, runner, epoch, ttl_ms, now_ms)

    async def release(self, key: Key, *, runner: str, epoch: int) -> None:
        check_key(key)
        await self._writer.do(_release, key, runner, epoch)

    async def holder(self, key: Key, *, now_ms: int) -> Holder | None:
        check_key(key)
        return await self._writer.do(
            lambda directory: directory.view(key).ledger.holder(now_ms, directory.files.sightings)
        )


def _keep(directory: Directory, key: Key, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
    view = directory.view(key)
    view.ledger.keep(runner, epoch, ttl_ms, now_ms)
    view.put_lease()


def _release(directory: Directory, key: Key, runner: str, epoch: int) -> None:
    view = directory.view(key)
    if view.ledger.release(runner, epoch):
        view.put_lease()
        view.keep_index()
