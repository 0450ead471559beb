"""What came of a call on its way from a worker to the runtime: sent as blocks and bytes, and there rendered again, so
that bounds, secrets and digests are the runtime's own affair."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from windlass.events.stored.known_secrets import SECRETS
from windlass.events.tools.calls import CallBody, ResultBody
from windlass.events.values.blocks import BlobRef, ResultBlock, Text, refs_in
from windlass.events.values.failures import Failure
from windlass.tools.planes.large_output import WHOLE_BYTES_MAX, Blob, Spool
from windlass.tools.planes.outcome import PRIVATE_ERROR_CHARS_MAX, TOLD_CHARS_MAX, Outcome, failed
from windlass.tools.planes.results import Rendered, block_results, without_secrets
from windlass.tools.types.plain_values import NotPlain

from .messages import PIECE_BYTES, Broken, Ended, bytes_frame, frame

BLOBS_BYTES_MAX = 2 * WHOLE_BYTES_MAX
MEDIA_TYPES = ("text/plain; charset=utf-8", "application/json", "application/octet-stream")
STATUSES = ("finished", "suspended")


def sent(outcome: Outcome, *, stained: bool) -> Iterator[bytes]:
    """An outcome as frames. One that is too large to be sent is an error result."""
    body = outcome.body or ResultBody(content=())
    digests = [blob.ref.digest for blob in outcome.blobs]
    message = Ended(
        status=outcome.status,
        ok=outcome.ok,
        failure=outcome.failure,
        error_code=outcome.error_code,
        content=body.content,
        display=body.display,
        telemetry=body.telemetry,
        private_error=body.private_error,
        payload=outcome.payload.args if outcome.payload else None,
        note=outcome.note,
        labels=outcome.labels,
        changes=outcome.changes,
        whole=digests.index(body.whole.digest) if body.whole is not None else None,
        whole_size=outcome.spooled,
        blobs=tuple(blob.ref for blob in outcome.blobs),
        stained=stained,
    )
    try:
        yield frame(message)
    except Broken as error:
        told = "the tool's result is too large to be passed on"
        yield from sent(failed("tool_result_invalid", told, told, private=str(error)), stained=stained)
        return
    for blob in outcome.blobs:
        for piece in blob.chunks(PIECE_BYTES):
            yield bytes_frame(piece)
        blob.close()


class Received:
    """What a worker said came of a call, with the bytes that follow it."""

    def __init__(self, message: Ended) -> None:
        if message.status not in STATUSES or sum(ref.size for ref in message.blobs) > BLOBS_BYTES_MAX:
            raise Broken("no outcome is like this")
        if message.whole is not None and not 0 <= message.whole < len(message.blobs):
            raise Broken("its whole output is not among what it sends")
        self._message = message
        self._spools = [Spool() for _ in message.blobs]
        self._next = 0
        self._taken: set[str] = set()
        self._skip_full()

    @property
    def size(self) -> int:
        """How many bytes follow the message."""
        return sum(ref.size for ref in self._message.blobs)

    @property
    def complete(self) -> bool:
        """Whether all bytes are here."""
        return self._next >= len(self._spools)

    def add(self, data: bytes) -> None:
        """The next piece."""
        if self.complete or not data:
            raise Broken("there are more bytes than were announced")
        self._spools[self._next].write(data)
        self._skip_full()

    def _skip_full(self) -> None:
        while not self.complete:
            size, announced = self._spools[self._next].size, self._message.blobs[self._next].size
            if size > announced:
                raise Broken("there are more bytes than were announced")
            if size < announced:
                return
            self._next += 1

    def close(self) -> None:
        """Drops what came."""
        for spool in self._spools:
            spool.close()

    def outcome(self) -> Outcome:
        """The outcome as the log may have it. Reads and digests all bytes, so much of it belongs in a thread."""
        try:
            return self._suspended() if self._message.status == "suspended" else self._finished()
        except NotPlain as error:
            told = f"the tool's result cannot be passed on: {error.why}"
            return failed("tool_result_invalid", told, "the result has no form", private=str(error))

    def _suspended(self) -> Outcome:
        message = self._message
        return Outcome(
            status="suspended", payload=CallBody(args=message.payload or {}), note=SECRETS.hidden_text(message.note)
        )

    def _finished(self) -> Outcome:
        message = self._message
        rendering = self._rendered()
        display = self._blocks(message.display) if message.display is not None else None
        private = message.private_error
        return Outcome(
            ok=message.ok,
            failure=_bounded(message.failure),
            error_code=message.error_code[:TOLD_CHARS_MAX] if message.error_code else None,
            labels=message.labels,
            changes=message.changes,
            body=ResultBody(
                content=rendering.content,
                display=display.content if display is not None else None,
                whole=rendering.whole,
                telemetry=message.telemetry,
                private_error=SECRETS.hidden_text(private[:PRIVATE_ERROR_CHARS_MAX]) if private else None,
            ),
            size=rendering.size,
            spooled=rendering.whole_size,
            blobs=(*rendering.blobs, *(display.blobs if display is not None else ())),
        )

    def _rendered(self) -> Rendered:
        message = self._message
        if message.whole is None:
            return self._blocks(message.content)
        rest = self._blocks(message.content[1:], beside=message.whole)
        spool, view = without_secrets(self._spools[message.whole]), message.content[0] if message.content else None
        media_type = message.blobs[message.whole].media_type
        lost = max(0, message.whole_size - spool.kept)
        told = SECRETS.hidden_text(view.text if isinstance(view, Text) else "")
        shown = spool.preview() if spool.large and not lost else told
        blob = spool.blob(media_type if media_type in MEDIA_TYPES else MEDIA_TYPES[-1])
        return Rendered(
            content=(Text(text=shown), *rest.content),
            size=len(shown.encode("utf-8")) + rest.size,
            whole=blob.ref,
            whole_size=blob.ref.size + lost,
            blobs=(blob, *rest.blobs),
        )

    def _blocks(self, blocks: tuple[ResultBlock, ...], *, beside: int | None = None) -> Rendered:
        """Blocks as any tool may return them, which name no bytes but those that came with them."""
        kept = {spool.digest: index for index, spool in enumerate(self._spools) if index != beside}
        named = {ref.digest: ref for ref in refs_in(blocks)}
        if unknown := sorted(set(named) - set(kept)):
            raise NotPlain("", f"it names bytes that did not come with it ({unknown[0]})")
        blobs = tuple(self._blob(kept[digest], ref) for digest, ref in named.items() if digest not in self._taken)
        self._taken.update(named)
        rendering = block_results(blocks)
        return msgspec.structs.replace(rendering, blobs=(*rendering.blobs, *blobs))

    def _blob(self, index: int, ref: BlobRef) -> Blob:
        blob = self._spools[index].blob(ref.media_type)
        if blob.ref != ref:
            raise NotPlain("", "it names bytes that are not what it says")
        return blob


def _bounded(failure: Failure | None) -> Failure | None:
    if failure is None or len(failure.message) <= TOLD_CHARS_MAX:
        return failure
    return msgspec.structs.replace(failure, message=failure.message[:TOLD_CHARS_MAX])
