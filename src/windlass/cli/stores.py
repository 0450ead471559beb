"""The store that a verb works on: which one, and which session in it."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from windlass.events.errors import UsageError
from windlass.store import open_store
from windlass.store.base import IndexRow, Key, Query, Store

from .options import NEWEST, STORE_VARIABLE, is_there, named_place, place_of, place_to_write, told_place, url_of

PREFIX_MIN = 3
FIND_MAX = 10_000


@asynccontextmanager
async def opened(args: argparse.Namespace, *, make: bool = False) -> AsyncIterator[Store]:
    """The store, open, or that of a server. Raises `UsageError` if there is none and none is to be made."""
    if url := url_of(args):
        from windlass.store.remote.store import RemoteStore

        from .served import tell_of_pauses, token

        tell_of_pauses()
        # Whoever makes something writes logs, which takes a token for everything; others only ask.
        remote: Store = await (RemoteStore.open_whole if make else RemoteStore.connect)(url, token())
        try:
            yield remote
        finally:
            await remote.close()
        return
    if not make and not is_there(place_of(args)):
        named = named_place(args)
        what = (
            f"there is no store at {named!r}" if named else f"this workspace has no store yet (at {place_of(args)!r})"
        )
        raise UsageError(
            f"{what}: name one with --store or {STORE_VARIABLE}, or begin one with 'windlass run' or 'windlass demo'"
        )
    store = await open_store(place_to_write(args) if make else place_of(args), look=not make)
    try:
        yield store
    finally:
        await store.close()


Work = Callable[[argparse.Namespace, Store, Key], Awaitable[int]]


def on_session(args: argparse.Namespace, work: Work) -> int:
    """Opens the store, finds the session that is meant and does some work on it; gives its exit code."""

    async def done() -> int:
        async with opened(args) as store:
            return await work(args, store, await session_key(store, args))

    return asyncio.run(done())


async def session_key(store: Store, args: argparse.Namespace, name: str | None = None) -> Key:
    """The session of a name: its id, the only one that begins so, or the newest. Raises `UsageError` otherwise."""
    wanted = name if name is not None else args.session
    if wanted != NEWEST:
        exact = await _there(store, args.tenant, wanted)
        if exact is not None:
            return exact
    rows = await store.index.find(Query(tenant=args.tenant, limit=1 if wanted == NEWEST else FIND_MAX))
    fitting = [row.session for row in rows if wanted == NEWEST or row.session.startswith(wanted)]
    if len(fitting) == 1 and (wanted == NEWEST or len(wanted) >= PREFIX_MIN):
        return Key(args.tenant, fitting[0])
    if len(fitting) > 1:
        raise UsageError(f"{wanted!r} begins {len(fitting)} session ids ({', '.join(fitting[:3])} …): write more of it")
    if wanted == NEWEST:
        raise UsageError(f"there is no session in {_quoted(args)} yet: begin one with 'windlass run'")
    near = difflib.get_close_matches(wanted, [row.session for row in rows], n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    raise UsageError(f"no session {wanted!r} in {_quoted(args)}: {meant}'windlass ps' lists them")


def _quoted(args: argparse.Namespace) -> str:
    return repr(named_place(args)) if named_place(args) else told_place(args)


async def _there(store: Store, tenant: str, session: str) -> Key | None:
    key = Key(tenant, session)
    try:
        return key if await store.log.head(key) is not None else None
    except UsageError:  # no id of ours, so nobody has it
        return None


async def row_of(store: Store, key: Key) -> IndexRow:
    """What the index knows of a session."""
    return await store.index.get(key) or IndexRow(session=key.session, tenant=key.tenant, state="new")


async def flow_of(store: Store, key: Key) -> str:
    """The workflow that a session is, or belongs to; empty if it is none."""
    from windlass.runtime.api.flows import FLOW

    row = await root_row_of(store, key)
    return row.session if FLOW.items() <= row.metadata.items() else ""


async def root_row_of(store: Store, key: Key) -> IndexRow:
    """The root of the tree that a session stands in, as the index lists it."""
    from windlass.runtime.trees.tree_rows import root_of

    return await row_of(store, Key(key.tenant, root_of(key.session)))


def now_ms() -> int:
    return time.time_ns() // 1_000_000
