"""What a session waits for from people: the requests that are open, the calls whose outcome somebody must tell, and the
answers that are on their way to them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from windlass.events.base import Event
from windlass.events.errors import CodecError, KernelError, StoreError
from windlass.events.values.specs import Grant
from windlass.kernel import log
from windlass.kernel.owed import opens
from windlass.kernel.parts.tools import gate
from windlass.kernel.parts.tools.calls import Call
from windlass.kernel.state import State
from windlass.runtime.commands.pending_commands import ahead, given, pending
from windlass.runtime.drive.tool_calls import arguments_in
from windlass.store.base import IndexRow, Key, Store

from .log_point import Point, read_point

RequestKind = Literal["permission", "question"]


class OpenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a person: a permission or a question. `event` says all of it."""

    request_id: str
    kind: RequestKind
    tool: str
    digest: str
    """What an approval is bound to; empty for a question."""
    event: Event


class UnsettledCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was cut off while it ran, so that nobody knows what became of it."""

    call_id: str
    tool: str
    args: Any
    """What it was given: an object, or a text; None if that was erased."""


def open_requests(point: Point, kind: RequestKind | None = None) -> list[OpenRequest]:
    """The requests that are open, or those of one kind, the oldest first."""
    return [
        OpenRequest(request_id=ask.ask_id, kind=ask.kind, tool=ask.tool, digest=ask.digest, event=point.event(ask.seq))
        for ask in point.state.asks.open.values()
        if kind is None or ask.kind == kind
    ]


def unsettled_calls(point: Point) -> list[UnsettledCall]:
    """The calls whose outcome is unknown."""
    calls = point.state.calls.by_id.values()
    return [
        UnsettledCall(call_id=call.call_id, tool=call.tool, args=_given(point, call))
        for call in calls
        if call.status == "unknown"
    ]


def _given(point: Point, call: Call) -> Any:
    body = arguments_in(call, point.event(call.source_seq if call.changed_seq is None else call.changed_seq))
    return None if body is None else body.text if body.args is None else body.args


def standing_approvals(point: Point, at_ms: int) -> list[Grant]:
    """The standing approvals that hold at a time."""
    state = log.copy(point.state)
    state.now_ms = max(state.now_ms, at_ms)
    return list(gate.standing(state))


def something_open(state: State) -> bool:
    """Whether a session has anything open: what people, clients or times must bring, or what is under way."""
    return bool(opens(state))


async def answers_under_way(store: Store, point: Point) -> dict[str, str]:
    """What was answered and waits in the inbox, since nobody drives the session: by the id of the request or call."""
    commands = await pending(store, point.key)
    if not commands:
        return {}
    _, fitting = ahead(point.state, commands, point.state.now_ms)
    return given(fitting)


async def answers_of_rows(store: Store, rows: list[IndexRow]) -> dict[str, dict[str, str]]:
    """The same for the sessions of many rows that wait for somebody, by their ids; those without one are not in it."""
    answers = {}
    for row in rows:
        key = Key(row.tenant, row.session)
        if not row.waiting_for:
            continue
        try:
            sent = await store.inbox.waiting(key, limit=1)
            under_way = await answers_under_way(store, await read_point(store, key)) if sent else {}
        except (KernelError, StoreError, CodecError):  # one that cannot be read does not hide the others
            continue
        if under_way:
            answers[row.session] = under_way
    return answers
