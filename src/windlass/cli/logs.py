"""`windlass logs`: a session's log as a timeline, as JSON or as stored; with `-f` as it grows."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator

from windlass.events import codec
from windlass.events.base import Event
from windlass.events.record import Sealed
from windlass.store.base import Key, Store
from windlass.store.chain import history

from . import stores
from .render import Timeline
from .text import Paint, screen_width, tell_bytes

FOLLOW_S = 0.1


def run(args: argparse.Namespace) -> int:
    """Does it."""
    return asyncio.run(show(args))


async def show(args: argparse.Namespace) -> int:
    async with stores.opened(args) as store:
        key = await stores.session_key(store, args)
        view = Timeline(width=screen_width(), paint=Paint(), full=args.full, all_records=args.all)
        shown = 0
        async for sealed in appends(store, key, follow=args.follow):
            shown += print_append(sealed, args, view)
        if not shown and not (args.json or args.raw):
            print(f"session {key.session} has no record" + (f" behind {args.after}" if args.after else " yet"))
    return 0


async def appends(store: Store, key: Key, *, follow: bool) -> AsyncIterator[Sealed]:
    """The appends of a log, then those that come."""
    after = 0
    while True:
        async for sealed in history(store, key, after=after):
            yield sealed
            after = sealed.last_seq
        if not follow:
            return
        sys.stdout.flush()
        while not await store.changed():
            await asyncio.sleep(FOLLOW_S)


def print_append(sealed: Sealed, args: argparse.Namespace, view: Timeline) -> int:
    """Prints what is wanted of one append, and says how many records that was."""
    if sealed.last_seq <= args.after:
        return 0
    if args.raw:
        tell_bytes(sealed.data + b"\n")
        return 1
    append = codec.decode(sealed.data)
    count = 0
    for offset, event in enumerate(append.events):
        seq = append.first_seq + offset
        if args.json:
            if seq > args.after:
                print(as_json(seq, append, event))
                count += 1
            continue
        if seq <= args.after:
            view.learn(event)
            continue
        for line in view.lines(seq, append.at_ms, event):
            print(line)
            count += 1
    return count


def as_json(seq: int, append: codec.Appended, event: Event | codec.Unknown) -> str:
    """A record for programs. JSON escapes what a terminal would obey, but for letters beyond ASCII."""
    body = codec.encode_view(event) if isinstance(event, Event) else event.skeleton
    return ascii_json(b'{"seq":%d,"at_ms":%d,"cause":%d,"event":%s}' % (seq, append.at_ms, append.first_seq, body))


def ascii_json(data: bytes) -> str:
    """JSON in which every character beyond ASCII is written by its number."""
    import json

    return json.dumps(json.loads(data), ensure_ascii=True)
