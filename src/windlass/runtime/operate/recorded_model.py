"""Replies out of a log: where a replay begins, and a model that says what was said then for as long as it fits."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from windlass.events.errors import UsageError
from windlass.events.stored import codec
from windlass.events.turns import ModelReplied
from windlass.events.values.failures import Failure
from windlass.events.values.items import HistoryItem
from windlass.events.values.usage import Usage
from windlass.models.base import Delta, Model, ModelInfo, Reply, Request
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key, Store

from .comparison import history_lines
from .log_point import Point

AT_REST = ("new", "idle")


class RecordedReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply of the log with what the model was asked before it."""

    asked: list[str]
    reply: Reply


class Start(msgspec.Struct, kw_only=True):
    """Where a replay from some record begins: at the last place before it at which nothing was under way, with what
    the model was asked and said between the two."""

    rest_seq: int = 0
    items: list[HistoryItem] = []
    replies: list[RecordedReply] = []


async def read_start(store: Store, key: Key, at_seq: int) -> Start:
    """The start of a replay from behind a record."""
    point, start = Point(key=key), Start()
    async for sealed in LogReader(store).appends(key):
        append = codec.decode(sealed.data)
        if append.first_seq > at_seq:
            break
        fact = append.events[0]
        if isinstance(fact, ModelReplied) and fact.lane == "main" and fact.body is not None:
            free = msgspec.structs.replace(reply_of(fact), usage=Usage(), duration_ms=0)
            start.replies.append(RecordedReply(asked=history_lines(point.items()), reply=free))
        point.take(append)
        if sealed.last_seq <= at_seq and point.overview.state in AT_REST:
            start = Start(rest_seq=sealed.last_seq, items=point.items())
    return start


def reply_of(event: ModelReplied) -> Reply:
    """The reply that a fact of the log was made from. Bytes of generated images are in the store, not in the log."""
    if event.body is None:
        raise UsageError(f"the reply to request {event.request_id!r} was erased: this log cannot be replayed")
    return Reply(
        blocks=event.body.blocks,
        calls=tuple(each.call for each in event.body.calls),
        finish=event.finish,
        usage=event.usage,
        model=event.model,
        provider=event.provider,
        request_id=event.provider_request_id,
        response_id=event.response_id,
        quotas=event.body.quotas,
        duration_ms=event.duration_ms,
        first_output_ms=event.first_output_ms,
        provider_data=event.body.provider_data,
    )


class RecordedModel:
    """A model that says what was said then for as long as it is asked the same, and after that is another one."""

    def __init__(self, inner: Model, replies: list[RecordedReply]) -> None:
        self._inner = inner
        self._left = list(replies)
        self.strayed = False
        """Whether it was asked something else before all was said again."""

    @property
    def info(self) -> ModelInfo:
        return self._inner.info

    async def stream(self, request: Request) -> AsyncIterator[Delta | list[Delta] | Reply | Failure]:
        """The reply of the log, or whatever the other model gives."""
        if request.lane == "main" and self._left:
            recorded = self._left.pop(0)
            if recorded.asked == history_lines(request.items):
                yield recorded.reply
                return
            self._left, self.strayed = [], True
        async for part in self._inner.stream(request):
            yield part

    async def close(self) -> None:
        await self._inner.close()
