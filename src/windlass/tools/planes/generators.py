"""What a generator tool yields: progress to show, and pieces of its result, gathered within bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from typing import Any

from windlass.events.stored.known_secrets import SECRETS, HiddenStream
from windlass.events.values.blocks import Block, Text
from windlass.tools.context import PROGRESS_CHARS_MAX, Progress, Suspend, ToolContext
from windlass.tools.types.plain_values import NotPlain, scalar_text

from .large_output import Spool
from .results import BLOCKS_MAX, Rendered, ToolResult, block_results, spool_result

PIECES_PER_PASS = 64
"""After so many pieces of an async generator the event loop gets its turn, whether the tool awaits anything or not."""


class Pieces:
    """Texts are joined as they come; other values stand after them; a `ToolResult` stands for everything."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._spool: Spool | None = None
        self._others: list[Any] = []
        self._final: ToolResult | None = None
        self._shown = HiddenStream(SECRETS)

    def add(self, piece: Any) -> None:
        """Shows a piece live and keeps it, unless it is only progress."""
        if isinstance(piece, Progress):
            self._context.progress(piece.message, fraction=piece.fraction, content=piece.content)
        elif isinstance(piece, Suspend):
            raise piece
        elif isinstance(piece, ToolResult):
            self._final = piece
        elif isinstance(piece, str | bytes):
            self._write(piece)
        elif piece is not None:
            self._keep(piece)

    def _write(self, piece: str | bytes) -> None:
        self._spool = self._spool or Spool()
        if isinstance(piece, str):
            self._spool.write_text(piece)
            shown = piece[:PROGRESS_CHARS_MAX]
        else:
            self._spool.write(piece)
            shown = piece[:PROGRESS_CHARS_MAX].decode("utf-8", "replace")
        # A secret may be cut in two by the pieces, and each is shown at once.
        self._context.progress(content=(Text(text=self._shown.feed(scalar_text(shown))),))

    def _keep(self, piece: Any) -> None:
        if len(self._others) >= BLOCKS_MAX:
            raise NotPlain("", f"more than {BLOCKS_MAX} pieces that are not text")
        self._others.append(piece)
        if isinstance(piece, Block):
            self._context.progress(content=(piece,))  # type: ignore[arg-type]  # a wrong kind is refused at the end

    def value(self, last: Any = None) -> Any:
        """The result: what the generator returned, else the pieces."""
        if last is not None or self._final is not None:
            self.close()
            return last if last is not None else self._final
        if self._spool is None:
            return self._others or None
        return self if self._others else self._spool

    def rendered(self) -> Rendered:
        """Text and other pieces together."""
        assert self._spool is not None, "only for a mix"
        text, rest = spool_result(self._spool), block_results(self._others)
        return Rendered(
            content=(*text.content, *rest.content),
            size=text.size + rest.size,
            whole=text.whole or rest.whole,
            whole_size=text.whole_size or rest.whole_size,
            blobs=(*text.blobs, *rest.blobs),
        )

    def close(self) -> None:
        """Drops what was gathered."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None


def drained(generator: Generator[Any, Any, Any], context: ToolContext) -> Any:
    """All of a sync generator. One that was given up is closed at its next piece."""
    pieces = Pieces(context)
    try:
        while not context.cancelled:
            try:
                piece = next(generator)
            except StopIteration as stop:
                return pieces.value(stop.value)
            pieces.add(piece)
        generator.close()
        return pieces.value()
    except BaseException:
        pieces.close()
        raise


async def drained_async(generator: AsyncIterator[Any], context: ToolContext) -> Any:
    """All of an async generator."""
    import asyncio

    pieces = Pieces(context)
    count = 0
    try:
        async for piece in generator:
            pieces.add(piece)
            count += 1
            if count % PIECES_PER_PASS == 0:
                await asyncio.sleep(0)
        return pieces.value()
    except BaseException:
        pieces.close()
        close = getattr(generator, "aclose", None)
        if close is not None:
            await close()
        raise
