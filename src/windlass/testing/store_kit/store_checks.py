"""Promises that hold over all parts: which ids are allowed, tenants apart from each other, news."""

from __future__ import annotations

from windlass.events.errors import NotFound, UsageError
from windlass.store.base import (
    ID_CHARS_MAX,
    InboxCommand,
    Key,
    Origin,
    Query,
    Snapshot,
)

from .case import StoreCase, Writer, lines_of, make_fork, raises

BAD_IDS = (
    "", ".", "..", "../up", "a/b", "/etc/passwd", "a\\b", "..\\up", "nul\x00", "tab\t", "line\nbreak", "\x7f", "\u2028",
    "\ud800", " led", "trailed ", "x" * (ID_CHARS_MAX + 1),
)  # fmt: skip
HARD_IDS = (
    "a", "A", "a.", ".a", "...", "con", "nul.txt", "a b", "a:b", "a%2fb", "=41", "ä", "a\u0308", "\u00e4", "ß", "SS",
    "İ", "~", "%", "*?<>|\"'", "x" * ID_CHARS_MAX, "x" * (ID_CHARS_MAX - 1), "\U0001f40b" * ID_CHARS_MAX,
)  # fmt: skip


async def ids_that_leave_the_room_are_refused(case: StoreCase) -> None:
    async with case.open() as store:
        for bad in BAD_IDS:
            for key in (Key("default", bad), Key(bad, "s1")):
                await raises(UsageError, store.log.create(key))
                await raises(UsageError, store.log.head(key))
            await raises(UsageError, store.blobs.put(bad, b"x"))
            await raises(UsageError, store.index.find(Query(tenant=bad)))
        writer = await Writer(store).claim()
        for bad in BAD_IDS:
            await raises(UsageError, store.inbox.send(writer.key, InboxCommand(command_id=bad, at_ms=0, data=b"")))
        for bad in ("sha256:../../x", "sha256:" + "A" * 64, "md5:" + "0" * 32, "", "sha256:" + "0" * 64 + "\n"):
            await raises(UsageError, store.blobs.get("default", bad))


async def odd_ids_are_kept_apart(case: StoreCase) -> None:
    async with case.open() as store:
        distinct = sorted(set(HARD_IDS))
        for i, name in enumerate(distinct):
            writer = await Writer(store, Key(name, name)).claim()
            await writer.append(b'"%d"' % i, index=writer.row(title=str(i)))
        for i, name in enumerate(distinct):
            (line,) = await lines_of(store, Key(name, name))
            assert b'"%d"' % i in line.data, name
            assert [row.title for row in await store.index.find(Query(tenant=name))] == [str(i)]


async def tenants_do_not_see_each_other(case: StoreCase) -> None:
    async with case.open() as store:
        ours, theirs = Key("ours", "same"), Key("theirs", "same")
        mine = await Writer(store, ours).claim()
        await mine.append(takes=["c"], index=mine.row(title="ours"))
        blob = await store.blobs.put("ours", b"private")
        await store.inbox.send(ours, InboxCommand(command_id="w", at_ms=0, data=b"{}"))
        await store.log.put_snapshot(ours, Snapshot(seq=1, hash=mine.hash, state_version=1, data=b"x"))
        assert await store.log.head(theirs) is None
        assert await store.index.get(theirs) is None
        assert await store.index.find(Query(tenant="theirs")) == []
        assert await store.blobs.info("theirs", blob) is None
        assert await store.blobs.erase("theirs", blob) is False
        await raises(NotFound, store.blobs.get("theirs", blob))
        for call in (
            store.inbox.waiting(theirs),
            store.log.delete(theirs),
            store.log.forks(theirs),
            lines_of(store, theirs),
        ):
            await raises(NotFound, call)
        await raises(UsageError, make_fork(store, Key("theirs", "fork"), Origin(session="same", seq=1, hash=mine.hash)))
        other = await Writer(store, theirs).claim()
        await other.append(takes=["c", "w"], index=other.row(title="theirs"))
        await store.log.delete(theirs)
        assert await lines_of(store, ours) == mine.lines
        assert [row.title for row in await store.index.find(Query(tenant="ours"))] == ["ours"]
        assert [c.command_id for c in await store.inbox.waiting(ours)] == ["w"]
        assert await store.blobs.get("ours", blob) == b"private"


async def changes_are_noticed(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        await store.changed()
        assert await store.changed() is False
        await store.inbox.send(writer.key, InboxCommand(command_id="c", at_ms=0, data=b"{}"))
        assert await store.changed() is True
        assert await store.changed() is False
        await writer.append()
        await store.changed()  # a store may tell its own writes from those of others, or not
        assert await store.changed() is False


CHECKS = (
    ids_that_leave_the_room_are_refused,
    odd_ids_are_kept_apart,
    tenants_do_not_see_each_other,
    changes_are_noticed,
)
