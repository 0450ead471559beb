"""`windlass anchor`: note where logs end, to be kept away from the store."""

from __future__ import annotations

import argparse

from windlass.cli import options

EXAMPLES = """examples:
  windlass anchor >> /mnt/elsewhere/anchors.jsonl
  windlass verify --anchor /mnt/elsewhere/anchors.jsonl
  windlass anchor march --key ~/audit.key

A hash chain shows whoever changes a record, unless they write the whole log anew. Then its hashes are others than those
that were noted. Keep the notes where whoever can write the store cannot; or sign them with a key that they do not have,
and keep them anywhere.
exit codes: 0 noted, 1 a log is damaged, and was not noted
"""
KEY_VARIABLE = "WINDLASS_ANCHOR_KEY"


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("session", metavar="SESSION", nargs="?", help="one session (else every one)")
    options.add_store(parser)
    add_key(parser)


def add_key(parser: argparse.ArgumentParser) -> None:
    """The key that anchors are signed with."""
    parser.add_argument("--key", metavar="FILE", help=f"a file with a secret key (else ${KEY_VARIABLE}, else none)")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    return asyncio.run(note(args))


async def note(args: argparse.Namespace) -> int:
    """Prints an anchor for each session."""
    from windlass.cli import stores
    from windlass.cli.terminal.text import tell, tell_bytes
    from windlass.events.errors import Damaged
    from windlass.runtime.operate.anchors import anchor_of, written
    from windlass.store.base import Key, Query

    secret = secret_of(args)
    failed = 0
    async with stores.opened(args) as store:
        if args.session:
            keys = [await stores.session_key(store, args)]
        else:
            rows = await store.index.find(Query(tenant=args.tenant, limit=stores.FIND_MAX))
            keys = [Key(args.tenant, row.session) for row in rows]
        for key in keys:
            try:
                anchor = await anchor_of(store, key, now_ms=stores.now_ms(), secret=secret)
            except Damaged as damage:
                tell(f"not noted: {damage}")
                failed += 1
            else:
                tell_bytes(written(anchor) + b"\n")
    if not keys:
        tell(f"no session in {options.told_place(args)} yet: there is nothing to note")
    return 1 if failed else 0


def secret_of(args: argparse.Namespace) -> bytes:
    """The key, if there is one. Raises `UsageError` for a file that is none."""
    import os
    import pathlib

    from windlass.events.errors import UsageError
    from windlass.runtime.operate.anchors import check_secret

    if args.key:
        try:
            return check_secret(pathlib.Path(args.key).read_bytes().strip())
        except OSError as error:
            raise UsageError(f"cannot read the key {args.key!r}: {error.strerror or error}") from error
    given = os.environ.get(KEY_VARIABLE, "")
    return check_secret(given.encode()) if given else b""
