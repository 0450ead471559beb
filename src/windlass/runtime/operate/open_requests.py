"""What a session waits for from people: the requests that are open, the calls whose outcome somebody must tell, and the
answers that are on their way to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from windlass.events.base import Event
from windlass.events.errors import CodecError, KernelError, StoreError
from windlass.events.questions import QuestionRequested
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.values.policy import Grant
from windlass.kernel import log
from windlass.kernel.owed import opens
from windlass.kernel.parts.tools import verdicts
from windlass.kernel.parts.tools.calls import Call
from windlass.kernel.parts.trees import listening_grants
from windlass.kernel.phases import Left
from windlass.kernel.state import State
from windlass.runtime.commands.pending_commands import ahead, given, pending
from windlass.runtime.drive.tool_calls import arguments_in
from windlass.runtime.trees.tree_rows import key_at, root_of, rows_below, scope_of
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
    scope: str = ""
    """The place of the session that asks, below the one that is looked at; empty if that one asks itself."""

    @property
    def name(self) -> str:
        """The id that the session that is looked at knows it by, such as `c6.0/p8`."""
        return named(self.scope, self.request_id)

    @property
    def shown(self) -> Event:
        """What it says, under that id."""
        if isinstance(self.event, PermissionRequested):
            return msgspec.structs.replace(self.event, request_id=self.name)
        if isinstance(self.event, QuestionRequested):
            return msgspec.structs.replace(self.event, question_id=self.name)
        return self.event


class UnsettledCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was cut off while it ran, so that nobody knows what became of it."""

    call_id: str
    tool: str
    args: Any
    """What it was given: an object, or a text; None if that was erased."""
    scope: str = ""
    """The place of the session whose call it is, below the one that is looked at."""

    @property
    def name(self) -> str:
        """The id that the session that is looked at knows it by."""
        return named(self.scope, self.call_id)


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """A session that may wait for people, and its place below the one that is looked at."""

    point: Point
    scope: str = ""


def named(scope: str, own: str) -> str:
    """An id of a session as one above it knows it."""
    return f"{scope}/{own}" if scope else own


async def askers(store: Store, point: Point) -> list[Asker]:
    """A session, and behind it those below it that wait for people themselves, at any depth. One that cannot be read
    does not hide the others."""
    all_askers = [Asker(point=point)]
    if isinstance(point.state.phase, Left):  # what it asked is asked where it goes on
        return all_askers
    for row in await rows_below(store, point.key):
        if all("/" in name for name in row.waiting_for):
            continue
        try:
            below = await read_point(store, Key(row.tenant, row.session))
        except (KernelError, StoreError, CodecError):
            continue
        all_askers.append(Asker(point=below, scope=scope_of(point.key.session, row.session)))
    return all_askers


def asked_in_tree(askers: Sequence[Asker], kind: RequestKind | None = None) -> list[OpenRequest]:
    """The requests that are open in some sessions, or those of one kind; those of each, the oldest first."""
    return [
        msgspec.structs.replace(request, scope=asker.scope)
        for asker in askers
        for request in open_requests(asker.point, kind)
    ]


def unsettled_in_tree(askers: Sequence[Asker]) -> list[UnsettledCall]:
    """The calls of some sessions whose outcome is unknown."""
    return [
        msgspec.structs.replace(call, scope=asker.scope) for asker in askers for call in unsettled_calls(asker.point)
    ]


def open_requests(point: Point, kind: RequestKind | None = None) -> list[OpenRequest]:
    """The requests that are open, or those of one kind, the oldest first."""
    return [
        OpenRequest(request_id=ask.ask_id, kind=ask.kind, tool=ask.tool, digest=ask.digest, event=point.event(ask.seq))
        for ask in point.state.asked
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
    return list(verdicts.standing(state))


def to_hear(session: str, by: str, expires_ms: int | None = None) -> Grant:
    """The grant by which a session of another tree may tell something."""
    return Grant(grant_id=f"hears:{session}", tool=listening_grants.TELL, session=session, by=by, expires_ms=expires_ms)


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


async def answers_in_tree(store: Store, askers: Sequence[Asker]) -> dict[str, str]:
    """The same for some sessions of a tree, by the ids that the one that is looked at knows their requests by."""
    return {
        named(asker.scope, own): answer
        for asker in askers
        for own, answer in (await answers_under_way(store, asker.point)).items()
    }


async def roots_of(store: Store, rows: list[IndexRow]) -> list[IndexRow]:
    """The roots of some rows that wait for people, in their order, each once: a root waits for what is asked below it,
    whether or not it has heard of it. Below one that was handed over nothing is answered."""
    roots: dict[str, IndexRow] = {}
    for row in rows:
        name = root_of(row.session)
        root = roots.get(name) or await store.index.get(Key(row.tenant, name))
        if root is not None and root.state != "left":
            roots[name] = root if name == row.session else _waits_too(root, row)
    return list(roots.values())


def _waits_too(root: IndexRow, row: IndexRow) -> IndexRow:
    """A root that waits for what one below it asks of people."""
    words = dict(zip(root.waiting_for, root.waiting_words or root.waiting_for, strict=False))
    scope = scope_of(root.session, row.session)
    for own, said in zip(row.waiting_for, row.waiting_words or row.waiting_for, strict=False):
        if "/" not in own:
            words[named(scope, own)] = said.replace(own, named(scope, own), 1)
    return msgspec.structs.replace(root, waiting_for=tuple(words), waiting_words=tuple(words.values()))


async def answers_of_rows(store: Store, rows: list[IndexRow]) -> dict[str, dict[str, str]]:
    """The same for the sessions of many rows that wait for somebody, by their ids; those without one are not in it."""
    answers = {}
    for row in rows:
        if not row.waiting_for:
            continue
        scopes = dict.fromkeys(name.rpartition("/")[0] for name in row.waiting_for)
        under_way: dict[str, str] = {}
        for scope in scopes:
            sent = await _sent(store, key_at(Key(row.tenant, row.session), scope))
            under_way |= {named(scope, own): answer for own, answer in sent.items()}
        if under_way:
            answers[row.session] = under_way
    return answers


async def _sent(store: Store, key: Key) -> dict[str, str]:
    """The answers that wait in the inbox of a session; none if it cannot be read, so that it does not hide others."""
    try:
        if not await store.inbox.waiting(key, limit=1):
            return {}
        return await answers_under_way(store, await read_point(store, key))
    except (KernelError, StoreError, CodecError):
        return {}
