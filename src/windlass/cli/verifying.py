"""`windlass verify`: whether logs are what was written, on three levels: chain, legality, decisions."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from windlass.events.errors import Damaged, WindlassError
from windlass.kernel import log
from windlass.store.base import Key, Query, Store
from windlass.store.chain import history, verify_chain

from . import options, stores, words
from .text import Paint, cells, screen_width, tell, tell_json, visible

MARK_WIDTH = 9
"""The verdict and what parts it from the rest."""


def run(args: argparse.Namespace) -> int:
    """Does it."""
    return asyncio.run(verify(args))


async def verify(args: argparse.Namespace) -> int:
    async with stores.opened(args) as store:
        if args.session:
            keys = [await stores.session_key(store, args)]
        else:
            rows = await store.find(Query(tenant=args.tenant, limit=stores.FIND_MAX))
            keys = [Key(args.tenant, row.session) for row in rows]
        found = [await verdict(store, key) for key in keys]
    if args.json:
        tell_json(found)
    else:
        show(found, options.place_of(args))
    return 1 if any(not one["sound"] for one in found) else 0


async def verdict(store: Store, key: Key) -> dict[str, Any]:
    """What was found in one session."""
    found: dict[str, Any] = {"session": key.session, "records": 0, "sound": True, "problems": [], "hash": ""}
    try:
        chain = await verify_chain(store, key)
        found |= {"records": chain.seq, "hash": chain.hash}
        report = log.verify([sealed.data async for sealed in history(store, key)])
    except Damaged as damage:
        at = f" at record {damage.seq}" if damage.seq is not None else ""
        return found | {"sound": False, "problems": [f"chain{at}: {damage}"]}
    except WindlassError as error:
        return found | {"sound": False, "problems": [str(error)]}
    told = [f"{'drift' if one.drift else one.level} at record {one.seq}: {one.message}" for one in report.problems]
    return found | {"sound": report.sound, "problems": told}


def show(found: list[dict[str, Any]], place: str) -> None:
    paint = Paint()
    rows = [(visible(one["session"]), words.plural(one["records"], "record"), one["hash"][:16]) for one in found]
    lines = words.table(rows, right=(1,))
    narrow = max(map(cells, lines), default=0) > screen_width() - MARK_WIDTH
    for one, row, line in zip(found, rows, lines, strict=True):
        mark = paint("ok     ", "green") if one["sound"] else paint("DAMAGED", "red")
        print(f"{mark}  {row[0] if narrow else line}")
        if narrow:
            print(f"{'':{MARK_WIDTH}}{row[1]}, {row[2]}")
        for problem in one["problems"]:
            tell(f"         {visible(problem)}", indent=" " * 11)
    bad = sum(not one["sound"] for one in found)
    if not found:
        tell(f"no session in {visible(place)} yet: there is nothing to verify")
    elif bad:
        tell(
            f"{bad} of {words.plural(len(found), 'session')} damaged: 'windlass logs' shows what stands before the "
            "damage, and 'windlass fork SESSION --at SEQ' goes on from there"
        )
    else:
        tell(f"{words.plural(len(found), 'session')}, every record as it was written")
