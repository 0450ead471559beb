"""`windlass import`: take a session from a file, verified on the way in."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import IO

    from windlass.runtime.operate.session_import import Imported
    from windlass.store.base import Store

EXAMPLES = """examples:
  windlass import march.jsonl        under its own id
  windlass import march.jsonl --as march-copy

Every line is verified on the way in, and an import that fails leaves nothing behind. What was open or allowed where
the file was made is neither here: requests are withdrawn, standing approvals and the inbox do not come along.
"""
CHUNK_BYTES = 1 << 16


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("file", metavar="FILE", help="an export, or - for standard input")
    options.add_store(parser)
    parser.add_argument("--as", dest="new", metavar="ID", help="another id than its own")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    return asyncio.run(take(args))


async def take(args: argparse.Namespace) -> int:
    """Reads the file into the store."""
    from windlass.cli import stores
    from windlass.cli.screen.number_words import plural
    from windlass.cli.terminal.text import tell
    from windlass.cli.terminal.visible_text import spelt

    source = source_of(args.file)
    try:
        async with stores.opened(args, make=True) as store:
            made = await imported(args, store, source)
    finally:
        if args.file != "-":
            source.close()
    tell(f"imported {spelt(made.key.session)}: {plural(made.records, 'record')}, verified")
    if made.closed:
        tell("what was open in it is closed: requests are withdrawn, and nothing runs until it is prompted here")
    if made.grants:
        tell(f"withdrawn, since they were given elsewhere: {plural(made.grants, 'standing approval')}")
    return 0


def source_of(file: str) -> IO[bytes]:
    """The file, or standard input. Raises `UsageError` if it cannot be read."""
    import pathlib
    import sys

    from windlass.events.errors import UsageError

    if file == "-":
        if sys.stdin is None:
            raise UsageError("standard input is closed: name the file of an export")
        return sys.stdin.buffer
    try:
        return pathlib.Path(file).open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {file!r}: {error.strerror or error}") from error


async def imported(args: argparse.Namespace, store: Store, source: IO[bytes]) -> Imported:
    """Imports it. Raises `UsageError` if the file is no whole export, or the session exists."""
    from windlass.cli.identity import actor
    from windlass.events.errors import Damaged, NotFound, UsageError
    from windlass.runtime.operate.session_import import import_session

    try:
        return await import_session(store, chunks(source), tenant=args.tenant, session=args.new, by=actor())
    except NotFound as lacking:
        raise UsageError(
            f"{args.file!r} is an export of a fork without the history that it shares ({lacking}): import that "
            "session first, or export this one with --whole"
        ) from None
    except Damaged as damage:
        raise UsageError(f"{args.file!r} is no whole export of a session: {damage}. Nothing was imported.") from None


async def chunks(source: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := source.read(CHUNK_BYTES):
        yield chunk
