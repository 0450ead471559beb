"""A model that answers from a recording, and the recorder that makes one.

A recording is plain data, one JSON object per line: the request as far as it matters, its digest, and the reply or
failure that followed. Ids that differ from run to run are left out, so that a recording outlives the session it was
made in. It never holds a key, and replaying it never touches the network. The log of a session is a recording too.
"""

from __future__ import annotations

import difflib
import hashlib
import pathlib
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from typing import Any, Literal

import msgspec

from windlass.events.base import Decision, Event
from windlass.events.errors import CodecError, NotLegal, UsageError
from windlass.events.stored import codec
from windlass.events.turns import ModelReplied, ModelRequested
from windlass.events.values.blocks import JsonObject, Value
from windlass.events.values.failures import Failure
from windlass.events.values.items import AssistantItem, AssistantPart, CallPart, HistoryItem, ResultItem
from windlass.kernel.fold import evolve_all
from windlass.kernel.render import Names, item
from windlass.kernel.state import State
from windlass.models.base import Delta, Model, ModelInfo, Reply, Request
from windlass.models.embedded.constrained import opened
from windlass.runtime.operate.recorded_model import reply_of

from .scripted import SCRIPTED_INFO, deltas_of

RECORDS_MAX = 100_000
DIFF_LINES_MAX = 60
"""How much of a difference an error shows."""
NOT_COMPARED = ("model", "session", "attempt", "stream", "blobs")
"""Parts of a request that may differ between a recording and its replay."""
ITEMS_ONLY = frozenset({"items"})
"""What a log says of a request: the history that it carried. Instructions and tools are the agent's own affair."""

Match = Literal["strict", "best"]
LogEntry = bytes | Event | codec.Unknown
"""A stored line (one append), or one of the events in it."""


class Record(Value, frozen=True, kw_only=True):
    """One request and what came of it. Exactly one of `reply` and `failure` is set. A record without a request answers
    whatever comes next, in its lane if it names one."""

    digest: str = ""
    lane: str = ""
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
    records: list[Record] = []
    with pathlib.Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            if len(records) >= RECORDS_MAX:
                raise UsageError(f"{str(path)!r} holds more than {RECORDS_MAX} records: split it")
            try:
                records.append(msgspec.json.decode(line, type=Record))
            except msgspec.DecodeError as error:
                raise CodecError(f"{path}:{number}: not a record: {error}") from error
    return records


def log_events(log: Iterable[LogEntry]) -> Iterator[Event | codec.Unknown]:
    """The events of a log, from its stored lines or as they are."""
    for entry in log:
        if not isinstance(entry, bytes):
            yield entry
        elif entry.strip():
            yield from codec.decode(entry).events


class LogReader:
    """Finds the replies of a log that became part of its history. With `compared` those of the main lane also say
    which history they answered, for which the log must be there from its first event."""

    def __init__(self, *, compared: bool) -> None:
        self._compared = compared
        self._state = State()
        self._events: dict[int, Event] = {}
        self._names: Names = {}
        self._lanes: dict[str, str] = {}
        self._waiting: list[str] = []
        self._asked: dict[str, JsonObject] = {}
        self.records: list[Record] = []

    def feed(self, event: Event | codec.Unknown) -> None:
        """Takes the next event."""
        if self._compared:
            self._fold(event)
        if isinstance(event, ModelRequested):
            self._lanes[event.request_id] = event.lane
            self._waiting += [event.request_id] if event.lane == "main" else []
        elif isinstance(event, ModelReplied) and not event.empty:
            self._keep(event)

    def _fold(self, event: Event | codec.Unknown) -> None:
        if self._waiting and not isinstance(event, Decision):
            # A request carries what the append in which it was decided left to be seen, to its last event.
            items = [item(ref, self._events.__getitem__, self._names) for ref in self._state.history.items]
            plain = plain_request(Request(model="", items=items))
            self._asked.update((request_id, {"items": plain.get("items", [])}) for request_id in self._waiting)
            self._waiting = []
        evolve_all(self._state, (event,))
        if isinstance(event, Event):
            self._events[self._state.seq] = event

    def _keep(self, event: ModelReplied) -> None:
        if len(self.records) >= RECORDS_MAX:
            raise UsageError(f"the log holds more than {RECORDS_MAX} replies: replay a part of it")
        request = self._asked.pop(event.request_id, None)
        digest = digest_of(request) if request is not None else ""
        lane = self._lanes.pop(event.request_id, "main")
        self.records.append(Record(digest=digest, lane=lane, request=request, reply=reply_of(event)))


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
    in their order. A request that finds nothing raises `UsageError` with the difference to the nearest record.
    `compared` names the parts of a request that matter; all do, unless given."""

    def __init__(
        self,
        records: Iterable[Record] | str | pathlib.Path,
        *,
        match: Match = "strict",
        info: ModelInfo | None = None,
        compared: frozenset[str] | None = None,
    ) -> None:
        self._records = read_records(records) if isinstance(records, str | pathlib.Path) else list(records)
        self._match = match
        self._info = info or SCRIPTED_INFO
        self._compared = compared
        self._by_digest: dict[str, deque[Record]] = defaultdict(deque)
        self._in_order: dict[str, deque[Record]] = defaultdict(deque)
        for record in self._records:
            if record.request is not None:
                self._by_digest[record.digest].append(record)
            else:
                self._in_order[record.lane].append(record)
        self.requests: list[Request] = []

    @classmethod
    def of_replies(cls, replies: Iterable[Reply | Failure], **more: Any) -> RecordedModel:
        """Answers with these, in their order, whatever is asked."""
        made = (Record(reply=end) if isinstance(end, Reply) else Record(failure=end) for end in replies)
        return cls(list(made), **more)

    @classmethod
    def of_log(
        cls, log: Iterable[LogEntry], *, match: Match | Literal["order"] = "order", info: ModelInfo | None = None
    ) -> RecordedModel:
        """Answers with the replies of a session's log, given by its stored lines or by its events: with those that
        became part of the history, each to a request of its own lane. Failed attempts are left out.

        `order`: one after the other, whatever is asked. `strict` and `best`: as in a recording, by the history that a
        request carries; the log must then be whole. Raises `UsageError` if it is not, or a reply was erased."""
        reader = LogReader(compared=match != "order")
        try:
            for event in log_events(log):
                reader.feed(event)
        except NotLegal as error:
            raise UsageError(f"only a whole log can be compared: {error}; begin with its first event") from error
        return cls(reader.records, match="strict" if match == "order" else match, info=info, compared=ITEMS_ONLY)

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
        if self._compared is not None:
            plain = {name: value for name, value in plain.items() if name in self._compared}
        exact = self._by_digest.get(digest_of(plain))
        if exact:
            return exact.popleft() if len(exact) > 1 or self._match == "best" else exact[0]
        waiting = self._in_order.get(request.lane) or self._in_order.get("")
        if waiting:
            return waiting.popleft()
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
