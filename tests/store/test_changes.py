"""Only the SQLite store promises this: what it wrote itself is no news to it."""

from __future__ import annotations

from windlass.store.base import InboxCommand
from windlass.store.sqlite.store import SqliteStore
from windlass.testing.store_kit.case import Writer


async def test_sqlite_tells_the_commits_of_others_from_its_own(tmp_path):
    for durability in ("full", "normal"):
        path = tmp_path / f"{durability}.db"
        one, two = await SqliteStore.open(path, durability=durability), await SqliteStore.open(path)
        writer = await Writer(one, "mine").claim()
        theirs = await Writer(two, "theirs").claim()
        await one.changed()
        for _ in range(3):
            await writer.append()
        assert await one.changed() is False
        await theirs.append()
        await writer.append()  # a commit of our own in between does not hide theirs
        assert await one.changed() is True
        assert await one.changed() is False
        await two.inbox.send(writer.key, InboxCommand(command_id="c", at_ms=0, data=b"{}"))
        assert await one.changed() is True
        await one.close()
        await two.close()
