"""`windlass export`: write a session to a file that is there whole or not at all."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    import pathlib
    from collections.abc import AsyncIterator
    from typing import IO

    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass export march march.jsonl  the whole session: its log and blobs; ends in its own checksum
  windlass export march | ssh host windlass import -
  windlass export march --otel spans.jsonl            its GenAI spans and metrics, with those of its children
  windlass export march --otel http://127.0.0.1:4318  the same, sent to a collector
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_session(parser)
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="where to (else standard output)")
    parser.add_argument("--whole", action="store_true", help="of a fork: with the history that it shares")
    parser.add_argument(
        "--otel", metavar="TO", help="OpenTelemetry instead: to a file (- for standard output) or a URL"
    )
    parser.add_argument("--content", action="store_true", help="of --otel: with what was said, which is left out else")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, export)


async def export(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Writes it."""
    import pathlib

    from windlass.cli.screen.number_words import plural
    from windlass.cli.terminal.text import tell, tell_bytes
    from windlass.cli.terminal.visible_text import spelt
    from windlass.store.transfer import export_session

    if args.otel is not None:
        return await export_spans(args, store, key)
    lines = export_session(store, key, whole=args.whole)
    if args.file == "-":
        async for line in lines:
            tell_bytes(line)
        return 0
    count = await write(pathlib.Path(args.file), lines)
    tell(f"exported {spelt(key.session)}: {count:,} bytes in {spelt(args.file)}")
    waiting = len(await store.inbox.waiting(key))
    if waiting:
        tell(f"{plural(waiting, 'command')} in its inbox: the file tells of what waits, and no import takes it")
    return 0


async def export_spans(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Writes or sends what a session did as OpenTelemetry's spans and metrics."""
    import pathlib

    from windlass.cli.screen.number_words import plural
    from windlass.cli.terminal.text import tell, tell_bytes
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.errors import UsageError
    from windlass.protocol.telemetry.tree_export import check_collector, otlp_documents, send

    if args.file != "-" or args.whole:
        raise UsageError("--otel says where its spans go: give neither FILE nor --whole")
    is_address = "://" in args.otel
    if is_address:
        check_collector(args.otel)
    documents = await otlp_documents(store, key, content=args.content)
    if is_address:
        await send(args.otel, documents)
        tell(f"sent {spelt(key.session)} to {spelt(args.otel)}: {plural(len(documents), 'document')}")
        return 0
    if args.otel == "-":
        for _, document in documents:
            tell_bytes(document + b"\n")
        return 0

    async def lines() -> AsyncIterator[bytes]:
        for _, document in documents:
            yield document + b"\n"

    count = await write(pathlib.Path(args.otel), lines())
    tell(f"exported {spelt(key.session)}: {count:,} bytes of OTLP/JSON in {spelt(args.otel)}")
    return 0


async def write(path: pathlib.Path, lines: AsyncIterator[bytes]) -> int:
    """Writes lines to a file that is there whole or not at all, and says how many bytes that were."""
    import os

    from windlass.events.errors import UsageError

    draft = path.with_name(path.name + ".part")
    count = 0
    try:
        with _opened(draft) as file:
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


def _opened(path: pathlib.Path) -> IO[bytes]:
    """A new file for its owner alone, in the place of whatever had this name; a link is removed, not followed."""
    import os

    _remove(path)
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb")


def _remove(path: pathlib.Path) -> None:
    path.unlink(missing_ok=True)
