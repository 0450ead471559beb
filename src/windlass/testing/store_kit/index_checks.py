"""Promises about the index: a query finds the sessions that it asks for, and no others."""

from __future__ import annotations

from typing import Any

from windlass.events.errors import NotFound, UsageError
from windlass.store.base import (
    IndexRow,
    Key,
    Query,
    Store,
)

from .case import NOW_MS, TTL_MS, StoreCase, Writer, command, raises


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
            await store.log.create(Key("default", row.session))
            await store.index.put(row)
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
            rows_found = await store.index.find(query)
            assert "".join(row.session for row in rows_found) == wanted, (query, rows_found)
            assert all(row == rows["abcd".index(row.session)] for row in rows_found)
        await raises(UsageError, store.index.find(Query(limit=0)))
        await raises(NotFound, store.index.put(IndexRow(session="nobody")))
        assert await store.index.get(Key("default", "b")) == rows[1]


async def sessions_with_unread_commands_are_found(case: StoreCase) -> None:
    async with case.open() as store:
        for name in ("a", "b", "c"):
            writer = await Writer(store, name).claim()
            await writer.append(index=writer.row(agent="w" if name != "c" else "other"))
            await store.inbox.send(writer.key, command(f"to-{name}"))
            if name == "a":
                await writer.append(takes=["to-a"])
        await store.log.create(Key("default", "bare"))  # it has no row yet, so no query finds it
        await store.inbox.send(Key("default", "bare"), command("to-bare"))
        foreign = await Writer(store, Key("elsewhere", "b")).claim()
        await foreign.append(index=foreign.row(agent="w"))
        assert await ids_of(store, unread=True) == {"b", "c"}
        assert await ids_of(store, unread=True, agent="w") == {"b"}
        assert await ids_of(store, unread=False) == {"a"}
        assert await ids_of(store) == {"a", "b", "c"}
        assert await ids_of(store, unread=True, tenant="elsewhere") == set()


async def sessions_that_nobody_holds_are_found(case: StoreCase) -> None:
    async with case.open() as store:
        for name in ("held", "given-back", "run-out"):
            writer = await Writer(store, name).claim(now_ms=NOW_MS - (TTL_MS if name == "run-out" else 0))
            await writer.append(index=writer.row(owed=True))
            if name == "given-back":
                await store.leases.release(writer.key, runner=writer.runner, epoch=writer.epoch)
        assert await ids_of(store, free_at_ms=NOW_MS) == {"given-back", "run-out"}
        assert await ids_of(store, free_at_ms=NOW_MS, owed=True, unread=True) == set()
        assert await ids_of(store, free_at_ms=NOW_MS + TTL_MS - 1, owed=True) == {"given-back", "run-out"}
        assert await ids_of(store, free_at_ms=NOW_MS + TTL_MS) == {"held", "given-back", "run-out"}


async def ids_of(store: Store, **which: Any) -> set[str]:
    """The ids of the sessions that a query finds."""
    return {row.session for row in await store.index.find(Query(**which))}


CHECKS = (
    searches_find_what_they_ask_for,
    sessions_with_unread_commands_are_found,
    sessions_that_nobody_holds_are_found,
)
