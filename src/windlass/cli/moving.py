"""`windlass fork`, `export`, `import` and `prune`: whole sessions, copied, moved and removed."""

from __future__ import annotations

import argparse
import asyncio
import os
import pathlib
import sys
from collections.abc import AsyncIterator
from typing import IO

from windlass.events.errors import Damaged, NotFound, UsageError
from windlass.store.base import IndexRow, Key, Query, Store
from windlass.store.transfer import export_session, import_session

from . import commands, stores, words
from .text import tell, tell_bytes, tell_json, visible

UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}

CHUNK_BYTES = 1 << 16


def run(args: argparse.Namespace) -> int:
    """Does it."""
    doing = {"fork": fork, "export": export, "import": bring, "prune": prune}
    return asyncio.run(doing[args.verb](args))


async def fork(args: argparse.Namespace) -> int:
    from windlass.runtime.runtime import Runtime

    async with stores.opened(args) as store:
        key = await stores.session_key(store, args)
        head = await store.head(key)
        if args.at is not None and head is not None and not 1 <= args.at <= head.seq:
            raise UsageError(f"--at {args.at}: session {key.session!r} has the records 1 to {head.seq}")
        if args.new is not None and await store.head(Key(args.tenant, args.new)) is not None:
            raise UsageError(f"session {args.new!r} is there already: give the fork another id with --as")
        async with Runtime(store, tenant=args.tenant) as runtime:
            made = await runtime.fork(key, args.new, at_seq=args.at)
        head = await store.head(made.key)
        origin = head.origin if head is not None else None
        agent = (await stores.row_of(store, key)).agent
    seq = origin.seq if origin is not None else 0
    if args.json:
        tell_json({"session": made.session_id, "origin": key.session, "at_seq": seq})
        return 0
    tell(f"{visible(made.session_id)} goes on from record {seq} of {visible(key.session)}")
    if args.at is not None and seq < args.at:
        tell(f"(record {args.at} lies within an append; the one before it ends at {seq})")
    print(f"  {commands.run_of(agent, made.session_id, args)} 'what to do now'")
    return 0


async def export(args: argparse.Namespace) -> int:
    async with stores.opened(args) as store:
        key = await stores.session_key(store, args)
        lines = export_session(store, key, whole=args.whole)
        if args.file == "-":
            async for line in lines:
                tell_bytes(line)
            return 0
        count = await written(pathlib.Path(args.file), lines)
    tell(f"exported {visible(key.session)}: {count:,} bytes in {visible(args.file)}")
    return 0


async def written(path: pathlib.Path, lines: AsyncIterator[bytes]) -> int:
    """Writes lines to a file that is there whole or not at all."""
    draft = path.with_name(path.name + ".part")
    count = 0
    try:
        with _open(draft, "wb") as file:
            async for line in lines:
                count += file.write(line)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    finally:
        _remove(draft)
    return count


def _open(path: pathlib.Path, mode: str) -> IO[bytes]:
    file: IO[bytes] = path.open(mode)
    return file


def _remove(path: pathlib.Path) -> None:
    path.unlink(missing_ok=True)


async def bring(args: argparse.Namespace) -> int:
    key = Key(args.tenant, args.new) if args.new else None
    if args.file == "-" and sys.stdin is None:
        raise UsageError("standard input is closed: name the file of an export")
    try:
        source = sys.stdin.buffer if args.file == "-" else _open(pathlib.Path(args.file), "rb")
    except OSError as error:
        raise UsageError(f"cannot read {args.file!r}: {error.strerror or error}") from error
    async with stores.opened(args, make=True) as store:
        try:
            found = await import_session(store, chunks(source), key=key)
        except NotFound as lacking:
            raise UsageError(
                f"{args.file!r} is an export of a fork without the history that it shares ({lacking}): import that "
                "session first, or export this one with --whole"
            ) from None
        except Damaged as damage:
            raise UsageError(
                f"{args.file!r} is no whole export of a session: {damage}. Nothing was imported."
            ) from None
        head = await store.head(found)
    tell(f"imported {visible(found.session)}: {words.plural(head.seq if head else 0, 'record')}, verified")
    return 0


async def chunks(source: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := source.read(CHUNK_BYTES):
        yield chunk


async def prune(args: argparse.Namespace) -> int:
    before = stores.now_ms() - age_ms(args.older_than)
    async with stores.opened(args) as store:
        query = Query(
            tenant=args.tenant, states=("idle",), agent=args.agent, updated_before_ms=before, limit=stores.FIND_MAX
        )
        found = await store.find(query)
        kept = await with_forks(store, args.tenant, found)
        going = [row for row in found if row.session not in kept]
        for row in going if args.yes else ():
            await store.delete(Key(args.tenant, row.session))
    if args.json:
        now = stores.now_ms()
        tell_json(
            [
                {
                    "session": row.session,
                    "agent": row.agent,
                    "age_ms": now - row.updated_ms,
                    "removed": args.yes and row.session not in kept,
                    "forks": kept.get(row.session, []),
                }
                for row in found
            ]
        )
        return 0
    verb = "removed" if args.yes else "would remove"
    rows = [
        ("kept", visible(row.session), f"its forks need it: {', '.join(map(visible, kept[row.session]))}")
        if row.session in kept
        else (verb, visible(row.session), f"{age_of(row)} old")
        for row in found
    ]
    for line in words.table(rows):
        print(line)
    if not found:
        tell(f"no session at rest is older than {args.older_than}: nothing to remove")
    elif args.yes:
        tell(f"removed {words.plural(len(going), 'session')}")
    else:
        tell(f"a dry run: nothing was changed; --yes removes {words.plural(len(going), 'session')}")
    return 0


async def with_forks(store: Store, tenant: str, rows: list[IndexRow]) -> dict[str, list[str]]:
    found = {row.session: await store.forks(Key(tenant, row.session)) for row in rows}
    return {session: forks for session, forks in found.items() if forks}


def age_of(row: IndexRow) -> str:
    return words.span(stores.now_ms() - row.updated_ms)


def age_ms(text: str) -> int:
    """An age such as `30d`, in milliseconds."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in UNITS_MS:
        raise UsageError(f"--older-than {text!r}: write a number and one of {', '.join(UNITS_MS)}, such as 30d")
    return int(number) * UNITS_MS[unit]
