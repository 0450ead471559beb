"""A model that answers from a recording, and the recorder that makes one.

A recording is plain data, one JSON object per line: the request as far as it matters, its digest, and the reply or
failure that followed. Ids that differ from run to run are left out, so that a recording outlives the session it was
made in. It never holds a key, and replaying it never touches the network.
"""

from __future__ import annotations

import difflib
import hashlib
import pathlib
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any, Literal

import msgspec

from windlass.events.blocks import JsonObject, Value
from windlass.events.errors import CodecError, UsageError
from windlass.events.failures import Failure
from windlass.events.items import AssistantItem, AssistantPart, CallPart, HistoryItem, ResultItem
from windlass.models.base import Delta, Model, ModelInfo, Reply, Request
from windlass.models.constrained import opened

from .scripted import SCRIPTED_INFO, deltas_of

RECORDS_MAX = 100_000
DIFF_LINES_MAX = 60
"""How much of a difference an error shows."""
NOT_COMPARED = ("model", "session", "attempt", "stream", "blobs")
"""Parts of a request that may differ between a recording and its replay."""


class Record(Value, frozen=True, kw_only=True):
    """One request and what came of it. Exactly one of `reply` and `failure` is set. A record without a request answers
    whatever comes next."""

    digest: str = ""
    request: JsonObject | None = None
    reply: Reply | None = None
    failure: Failure | None = None

    def __post_init__(self) -> None:
        if (self.reply is None) == (self.failure is None):
            raise ValueError("a record holds either a reply or a failure")


def plain_request(request: Request) -> JsonObject:
    """A request as plain data, without what differs from run to run; calls are numbered as they appear."""
    numbers: dict[str, str] = {}
    fields: JsonObject = {
        name: getattr(request, name) for name in request.__struct_fields__ if name not in NOT_COMPARED
    }
    fields["items"] = [stable(item, numbers) for item in request.items]
    plain: JsonObject = msgspec.to_builtins(fields)
    return {name: value for name, value in plain.items() if value}


def stable(item: HistoryItem, numbers: dict[str, str]) -> HistoryItem:
    """An item without ids of its own run."""
    item = msgspec.structs.replace(item, key="")
    if isinstance(item, ResultItem):
        return msgspec.structs.replace(item, call_id=numbered(item.call_id, numbers), provider_call_id=None)
    if isinstance(item, AssistantItem):
        return msgspec.structs.replace(item, content=tuple(stable_part(part, numbers) for part in item.content))
    return item


def stable_part(part: AssistantPart, numbers: dict[str, str]) -> AssistantPart:
    if not isinstance(part, CallPart):
        return part
    call_id = numbered(part.call_id, numbers)
    return msgspec.structs.replace(part, call_id=call_id, provider_call_id=None, provider_data=None)


def numbered(call_id: str, numbers: dict[str, str]) -> str:
    return numbers.setdefault(call_id, f"call {len(numbers) + 1}")


def digest_of(plain: JsonObject) -> str:
    """The name of a request: the same for the same content, in any process."""
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()


def record_of(request: Request, end: Reply | Failure) -> Record:
    """What the recorder writes."""
    plain = plain_request(request)
    if isinstance(end, Reply):
        return Record(digest=digest_of(plain), request=plain, reply=end)
    return Record(digest=digest_of(plain), request=plain, failure=end)


def read_records(path: str | pathlib.Path) -> list[Record]:
    """A recording from its file; a line that is none is named."""
    found: list[Record] = []
    with pathlib.Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            if len(found) >= RECORDS_MAX:
                raise UsageError(f"{str(path)!r} holds more than {RECORDS_MAX} records: split it")
            try:
                found.append(msgspec.json.decode(line, type=Record))
            except msgspec.DecodeError as error:
                raise CodecError(f"{path}:{number}: not a record: {error}") from error
    return found


class RecordingModel:
    """Passes requests on to another model and adds each answer to a file."""

    def __init__(self, inner: Model, path: str | pathlib.Path) -> None:
        self.inner = inner
        self.path = pathlib.Path(path)

    @property
    def info(self) -> ModelInfo:
        return self.inner.info

    async def stream(self, request: Request) -> AsyncIterator[Delta | list[Delta] | Reply | Failure]:
        plain_items = msgspec.structs.replace(request, items=list(request.items))
        async with aclosing(opened(self.inner, request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Reply | Failure):
                    self._write(record_of(plain_items, piece))
                yield piece

    def _write(self, record: Record) -> None:
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(record) + b"\n")

    async def close(self) -> None:
        await self.inner.close()


class RecordedModel:
    """Answers from a recording.

    `strict`: only a request that was recorded is answered; records of the same request answer in their order, the
    last one for ever after. `best`: the unused record that is most alike answers. Records without a request answer
    in their order. A request that finds nothing raises `UsageError` with the difference to the nearest record."""

    def __init__(
        self,
        records: Iterable[Record] | str | pathlib.Path,
        *,
        match: Literal["strict", "best"] = "strict",
        info: ModelInfo | None = None,
    ) -> None:
        self._records = read_records(records) if isinstance(records, str | pathlib.Path) else list(records)
        self._match = match
        self._info = info or SCRIPTED_INFO
        self._by_digest: dict[str, deque[Record]] = defaultdict(deque)
        self._in_order = deque(record for record in self._records if record.request is None)
        for record in self._records:
            if record.request is not None:
                self._by_digest[record.digest].append(record)
        self.requests: list[Request] = []

    @classmethod
    def of_replies(cls, replies: Iterable[Reply | Failure], **more: Any) -> RecordedModel:
        """Answers with these, in their order, whatever is asked: for replaying what a log holds."""
        made = (Record(reply=end) if isinstance(end, Reply) else Record(failure=end) for end in replies)
        return cls(list(made), **more)

    @property
    def info(self) -> ModelInfo:
        return self._info

    async def stream(self, request: Request) -> AsyncIterator[Delta | list[Delta] | Reply | Failure]:
        self.requests.append(msgspec.structs.replace(request, items=list(request.items)))
        record = self._find(request)
        if record.reply is not None:
            if request.stream:
                for delta in deltas_of(record.reply):
                    yield delta
            yield record.reply
        elif record.failure is not None:
            yield record.failure

    async def close(self) -> None:
        return None

    def _find(self, request: Request) -> Record:
        plain = plain_request(request)
        exact = self._by_digest.get(digest_of(plain))
        if exact:
            return exact.popleft() if len(exact) > 1 or self._match == "best" else exact[0]
        if self._in_order:
            return self._in_order.popleft()
        left = [record for records in self._by_digest.values() for record in records]
        near = max(left, key=lambda record: likeness(record.request or {}, plain), default=None)
        if near is None or self._match == "strict":
            raise self._missed(plain, near)
        self._by_digest[near.digest].remove(near)
        return near

    def _missed(self, plain: JsonObject, near: Record | None) -> UsageError:
        number = len(self.requests)
        if near is None or near.request is None:
            return UsageError(f"request {number} finds no record: the recording is empty or used up; record it again")
        shown = difflib.unified_diff(lines(near.request), lines(plain), "recorded", "asked", n=1, lineterm="")
        text = "\n".join(line for line, _ in zip(shown, range(DIFF_LINES_MAX), strict=False))
        return UsageError(f"request {number} was not recorded; the nearest record differs:\n{text}\nrecord it again")


def lines(plain: JsonObject) -> list[str]:
    """A request as lines that people can compare."""
    return msgspec.json.format(msgspec.json.encode(plain, order="sorted"), indent=2).decode().splitlines()


def likeness(one: JsonObject, other: JsonObject) -> float:
    """How much two requests have in common, from 0 to 1, by their lines."""
    first, second = set(lines(one)), set(lines(other))
    return len(first & second) / max(1, len(first | second))
