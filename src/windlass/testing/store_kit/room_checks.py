"""Promises about what stands beside the log: tenants and ids, index and search, snapshots, blobs, forks, deletion."""

from __future__ import annotations

from windlass.events.errors import NotFound, StaleEpoch, UsageError
from windlass.store.base import (
    ID_CHARS_MAX,
    SNAPSHOTS_KEPT,
    BlobInfo,
    Head,
    InboxCommand,
    IndexRow,
    Key,
    Origin,
    Query,
    Snapshot,
    Store,
    blob_digest,
)
from windlass.store.chain import history, verify_chain

from .case import NOW_MS, StoreCase, Writer, lines_of, numbered, raises, seal_after

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
                await raises(UsageError, store.create(key))
                await raises(UsageError, store.head(key))
            await raises(UsageError, store.put_blob(bad, b"x"))
            await raises(UsageError, store.find(Query(tenant=bad)))
        writer = await Writer(store).claim()
        for bad in BAD_IDS:
            await raises(UsageError, store.send(writer.key, InboxCommand(command_id=bad, at_ms=0, data=b"")))
        for bad in ("sha256:../../x", "sha256:" + "A" * 64, "md5:" + "0" * 32, "", "sha256:" + "0" * 64 + "\n"):
            await raises(UsageError, store.get_blob("default", bad))


async def odd_ids_are_kept_apart(case: StoreCase) -> None:
    async with case.open() as store:
        distinct = sorted(set(HARD_IDS))
        for i, name in enumerate(distinct):
            writer = await Writer(store, Key(name, name)).claim()
            await writer.append(b'"%d"' % i, index=writer.row(title=str(i)))
        for i, name in enumerate(distinct):
            (line,) = await lines_of(store, Key(name, name))
            assert b'"%d"' % i in line.data, name
            assert [row.title for row in await store.find(Query(tenant=name))] == [str(i)]


async def tenants_do_not_see_each_other(case: StoreCase) -> None:
    async with case.open() as store:
        ours, theirs = Key("ours", "same"), Key("theirs", "same")
        mine = await Writer(store, ours).claim()
        await mine.append(takes=["c"], index=mine.row(title="ours"))
        blob = await store.put_blob("ours", b"private")
        await store.send(ours, InboxCommand(command_id="w", at_ms=0, data=b"{}"))
        await store.put_snapshot(ours, Snapshot(seq=1, hash=mine.hash, state_version=1, data=b"x"))
        assert await store.head(theirs) is None
        assert await store.get_index(theirs) is None
        assert await store.find(Query(tenant="theirs")) == []
        assert await store.blob_info("theirs", blob) is None
        assert await store.erase_blob("theirs", blob) is False
        await raises(NotFound, store.get_blob("theirs", blob))
        for call in (store.inbox(theirs), store.delete(theirs), store.forks(theirs), lines_of(store, theirs)):
            await raises(NotFound, call)
        await raises(UsageError, _fork(store, Key("theirs", "fork"), Origin(session="same", seq=1, hash=mine.hash)))
        other = await Writer(store, theirs).claim()
        await other.append(takes=["c", "w"], index=other.row(title="theirs"))
        await store.delete(theirs)
        assert await lines_of(store, ours) == mine.lines
        assert [row.title for row in await store.find(Query(tenant="ours"))] == ["ours"]
        assert [c.command_id for c in await store.inbox(ours)] == ["w"]
        assert await store.get_blob("ours", blob) == b"private"


async def _fork(store: Store, key: Key, origin: Origin) -> bool:
    try:
        return await store.create(key, origin=origin)
    except NotFound as error:  # a store may say either
        raise UsageError(str(error)) from error


async def append_without_a_row_keeps_the_one_there_is(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        row = writer.row(state="running", owed=True, title="Sums", updated_ms=7)
        await writer.append(index=row)
        await writer.append()
        assert await store.get_index(writer.key) == row
        assert await store.find(Query(owed=True)) == [row]
        newer = writer.row(state="idle", updated_ms=9)
        await writer.append(index=newer)
        await writer.append()
    if not case.capabilities.durable:
        return
    async with case.open() as store:
        assert await store.find(Query()) == [newer]
        assert await store.find(Query(owed=True)) == []


async def searches_find_what_they_ask_for(case: StoreCase) -> None:
    rows = [
        IndexRow(session="a", state="idle", agent="math", title="Sums", updated_ms=10, root="a"),
        IndexRow(session="b", state="asked", agent="math", title="prüfen", updated_ms=30, parent="a", root="a",
                 waiting_for=("p1",), metadata={"team": "x", "env": "prod"}),
        IndexRow(session="c", state="sleeping", agent="clerk", updated_ms=20, next_wake_ms=500, root="c",
                 metadata={"team": "x"}),
        IndexRow(session="d", state="running", owed=True, agent="clerk", title="100% _wild_", updated_ms=30, root="d"),
    ]  # fmt: skip
    async with case.open() as store:
        for row in rows:
            await store.create(Key("default", row.session))
            await store.put_index(row)
        for query, wanted in (
            (Query(), "bdca"),
            (Query(states=("idle", "asked")), "ba"),
            (Query(agent="clerk"), "dc"),
            (Query(parent="a"), "b"),
            (Query(root="a"), "ba"),
            (Query(owed=True), "d"),
            (Query(owed=False, agent="clerk"), "c"),
            (Query(wake_before_ms=500), "c"),
            (Query(wake_before_ms=499), ""),
            (Query(updated_after_ms=10, updated_before_ms=30), "c"),
            (Query(metadata={"team": "x"}), "bc"),
            (Query(metadata={"team": "x", "env": "prod"}), "b"),
            (Query(metadata={"team": "y"}), ""),
            (Query(text="PRÜF"), "b"),
            (Query(text="MATH"), "ba"),
            (Query(text="0% _w"), "d"),
            (Query(text="%"), "d"),
            (Query(limit=2), "bd"),
            (Query(limit=2, offset=1), "dc"),
            (Query(offset=9), ""),
        ):
            found = await store.find(query)
            assert "".join(row.session for row in found) == wanted, (query, found)
            assert all(row == rows["abcd".index(row.session)] for row in found)
        await raises(UsageError, store.find(Query(limit=0)))
        await raises(NotFound, store.put_index(IndexRow(session="nobody")))
        assert await store.get_index(Key("default", "b")) == rows[1]


async def snapshots_are_disposable(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        assert await store.get_snapshot(writer.key) is None
        for seq in range(1, SNAPSHOTS_KEPT + 3):
            await writer.append()
            snapshot = Snapshot(seq=seq, hash=writer.hash, state_version=3, data=bytes(range(256)) * seq)
            await store.put_snapshot(writer.key, snapshot)
            assert await store.get_snapshot(writer.key) == snapshot
        older = await store.get_snapshot(writer.key, at_most=writer.seq - 1)
        assert older is not None
        assert older.seq == writer.seq - 1
        assert await store.get_snapshot(writer.key, at_most=0) is None
        assert 1 <= await store.drop_snapshots(writer.key) <= SNAPSHOTS_KEPT
        assert await store.get_snapshot(writer.key) is None
        assert await lines_of(store, writer.key) == writer.lines


async def blobs_are_kept_by_digest(case: StoreCase) -> None:
    async with case.open() as store:
        data = bytes(range(256)) * 5_000
        digest = await store.put_blob("default", data, media_type="image/png")
        assert digest == blob_digest(data) == await store.put_blob("default", data)
        assert await store.blob_info("default", digest) == BlobInfo(size=len(data), media_type="image/png")
        assert await store.get_blob("default", digest) == data
        assert await store.get_blob("default", digest, start=1_000, length=10) == data[1_000:1_010]
        assert await store.get_blob("default", digest, start=len(data) - 1) == data[-1:]
        assert await store.get_blob("default", digest, start=len(data) + 5, length=3) == b""
        assert await store.get_blob("default", await store.put_blob("default", b"")) == b""
        assert await store.erase_blob("default", digest) is True
        assert await store.erase_blob("default", digest) is False
        assert await store.blob_info("default", digest) is None
        await raises(NotFound, store.get_blob("default", digest))
        writer = await Writer(store).claim()
        await writer.append(blobs={digest: data})
        assert await store.get_blob("default", digest) == data
        await raises(UsageError, store.append(writer.key, writer.seal(), blobs={digest: b"other bytes"}))
        assert await lines_of(store, writer.key) == writer.lines


async def forks_share_history(case: StoreCase) -> None:
    async with case.open() as store:
        root = await Writer(store, "root").claim()
        for _ in range(3):
            await root.append(events=2)
        origin = Origin(session="root", seq=4, hash=root.lines[1].hash)
        fork = Writer(store, "fork")
        assert await store.create(fork.key, origin=origin) is True
        assert await store.create(fork.key, origin=origin) is False
        await raises(UsageError, store.create(fork.key))
        # Epochs never fall along a history: the fork's go on from those that it shares.
        assert await store.head(fork.key) == Head(seq=4, hash=origin.hash, epoch=1, origin=origin)
        await raises(StaleEpoch, store.append(fork.key, seal_after(4, origin.hash, 1, numbered(4, 1))))
        await fork.claim(create=False)
        await fork.append(b'"mine"')
        assert await lines_of(store, fork.key) == fork.lines
        whole = [*root.lines[:2], *fork.lines]
        assert [line async for line in history(store, fork.key)] == whole
        assert [line async for line in history(store, fork.key, after=2, until=4)] == whole[1:2]
        assert (await verify_chain(store, fork.key)).seq == 5
        nested = Writer(store, "nested")  # leaves its origin before that one's own beginning
        await store.create(nested.key, origin=Origin(session="fork", seq=2, hash=root.lines[0].hash))
        await nested.claim(create=False)
        await nested.append()
        assert [line async for line in history(store, nested.key)] == [root.lines[0], *nested.lines]
        await verify_chain(store, nested.key)
        assert await store.forks(root.key) == ["fork"]
        assert await store.forks(fork.key) == ["nested"]
        for wrong in (
            Origin(session="root", seq=3, hash=root.lines[1].hash),
            Origin(session="root", seq=4, hash=root.lines[0].hash),
            Origin(session="root", seq=99, hash=root.hash),
            Origin(session="root", seq=0, hash=""),
            Origin(session="bad", seq=4, hash=origin.hash),
        ):
            await raises(UsageError, _fork(store, Key("default", "bad"), wrong))
        assert await store.head(Key("default", "bad")) is None


async def an_origin_outlives_its_forks(case: StoreCase) -> None:
    async with case.open() as store:
        root = await Writer(store, "root").claim()
        await root.append(events=3)
        await root.append()
        fork = Writer(store, "fork")
        await store.create(fork.key, origin=Origin(session="root", seq=3, hash=root.lines[0].hash))
        await fork.claim(create=False)
        await fork.append(takes=["c"])
        error = await raises(UsageError, store.delete(root.key))
        assert "fork" in str(error)
        await store.detach(fork.key)
        await store.detach(fork.key)  # a second time there is nothing to do
        head = await store.head(fork.key)
        assert head == Head(seq=4, hash=fork.hash, epoch=2), head
        assert await lines_of(store, fork.key) == [root.lines[0], *fork.lines]
        await store.delete(root.key)
        assert await store.head(root.key) is None
        await verify_chain(store, fork.key)
        await fork.append()
        assert await lines_of(store, fork.key) == [root.lines[0], *fork.lines]
        await raises(NotFound, store.delete(root.key))


async def deleting_leaves_nothing_of_the_session(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        await writer.append(takes=["c1"], index=writer.row(title="t"))
        await store.send(writer.key, InboxCommand(command_id="c2", at_ms=0, data=b"{}"))
        await store.put_snapshot(writer.key, Snapshot(seq=1, hash=writer.hash, state_version=1, data=b"x"))
        await store.delete(writer.key)
        assert await store.head(writer.key) is None
        assert await store.find(Query()) == []
        again = await Writer(store).claim()
        assert (again.epoch, again.seq) == (1, 0)
        assert await store.inbox(again.key) == []
        assert await store.taken(again.key) == []
        assert await store.get_snapshot(again.key) is None
        assert await lines_of(store, again.key) == []
        await again.append(takes=["c1"])


async def erasing_drops_snapshots_of_forks_too(case: StoreCase) -> None:
    async with case.open() as store:
        root = await Writer(store, "root").claim()
        await root.append(events=2)
        fork = Key("default", "fork")
        await store.create(fork, origin=Origin(session="root", seq=2, hash=root.hash))
        for key in (root.key, fork):
            await store.put_snapshot(key, Snapshot(seq=2, hash=root.hash, state_version=1, data=b"x"))
        await store.erase(root.key, 1, by="ana", why="asked", at_ms=NOW_MS)
        assert await store.get_snapshot(root.key) is None
        assert await store.get_snapshot(fork) is None
        await raises(NotFound, store.erase(fork, 1, by="ana", why="asked", at_ms=NOW_MS))


async def changes_are_noticed(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        await store.changed()
        assert await store.changed() is False
        await store.send(writer.key, InboxCommand(command_id="c", at_ms=0, data=b"{}"))
        assert await store.changed() is True
        assert await store.changed() is False
        await writer.append()
        await store.changed()  # a store may tell its own writes from those of others, or not
        assert await store.changed() is False


CHECKS = (
    ids_that_leave_the_room_are_refused,
    odd_ids_are_kept_apart,
    tenants_do_not_see_each_other,
    append_without_a_row_keeps_the_one_there_is,
    searches_find_what_they_ask_for,
    snapshots_are_disposable,
    blobs_are_kept_by_digest,
    forks_share_history,
    an_origin_outlives_its_forks,
    deleting_leaves_nothing_of_the_session,
    erasing_drops_snapshots_of_forks_too,
    changes_are_noticed,
)
