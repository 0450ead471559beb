"""The requests to a person that are open in a session: which one is meant, and putting them before the person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from windlass.cli.terminal.visible_text import spelt, visible
from windlass.events.errors import Refused, UsageError
from windlass.events.tools.permissions import PermissionRequested
from windlass.runtime.operate.open_requests import Asker, OpenRequest, RequestKind, asked_in_tree, named

from . import identity

if TYPE_CHECKING:
    from windlass.cli.terminal.interview import Interviewer
    from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk
    from windlass.runtime.api.session import Session

LOOK_S = 0.5
"""How often the log is looked at for an answer from elsewhere, if another process drives the session."""


def wanted_requests(askers: Sequence[Asker], request_id: str | None, *, together: bool) -> list[OpenRequest]:
    """The open request for permission that is meant; with `together`, those too that were asked with it, and no name is
    needed if that is all there is. Raises `UsageError` with those that are open."""
    requests = asked_in_tree(askers, "permission")
    if together and request_id is None and requests and alike(requests, requests[0]) == requests:
        return requests
    wanted = wanted_request(askers, request_id, "permission")
    return [wanted, *(one for one in alike(requests, wanted) if one != wanted)] if together else [wanted]


def wanted_request(askers: Sequence[Asker], request_id: str | None, kind: RequestKind) -> OpenRequest:
    """The open request that is meant, or the only one: of the session that is named, or of one below it. Raises
    `UsageError` with those that are open."""
    requests = {request.name: request for request in asked_in_tree(askers, kind)}
    session = askers[0].point.key.session
    if not requests:
        raise UsageError(
            f"session {session!r} is not waiting for a {kind}: 'windlass show {session}' says what it does"
        )
    listed = ", ".join(f"{spelt(name)}{f' ({spelt(one.tool)})' if one.tool else ''}" for name, one in requests.items())
    if request_id is None:
        if len(requests) > 1:
            raise UsageError(f"several are open, say which: {listed}")
        return next(iter(requests.values()))
    if request_id not in requests:
        raise UsageError(f"session {session!r} has no open {kind} {request_id!r}; open: {listed}")
    return requests[request_id]


def alike(requests: list[OpenRequest], to: OpenRequest) -> list[OpenRequest]:
    """Those of some requests that were asked together with one of them."""
    return [one for one in requests if _group(one) == _group(to)]


def _group(request: OpenRequest) -> str:
    event = request.event
    own = (event.group if isinstance(event, PermissionRequested) else "") or request.request_id
    return named(request.scope, own)


async def answer_open(session: Session, interviewer: Interviewer, note: Callable[[str], None]) -> bool:
    """Puts what is open before the person, one after the other; what another terminal answers meanwhile is not asked
    any more. False if the person leaves something open."""
    from windlass.runtime.api.approvals import together

    for request in together(await session.runtime.host.views.asked(session.key)):
        if not await _ask(session, interviewer, request, note):
            return False
    return True


async def _ask(
    session: Session, interviewer: Interviewer, request: PermissionAsk | QuestionAsk, note: Callable[[str], None]
) -> bool:
    from windlass.runtime.api.approvals import QuestionAsk, command_for

    name = request.question_id if isinstance(request, QuestionAsk) else request.request_id
    asking = asyncio.ensure_future(interviewer(request))
    elsewhere = asyncio.ensure_future(_closed(session, name))
    try:
        await asyncio.wait((asking, elsewhere), return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            note(f"({spelt(name)} was answered elsewhere)")
            return True
        command = command_for(
            own(request), asking.result(), command_id=identity.fresh_command_id(), actor=identity.actor()
        )
        if command is None:
            return False
        await session.runtime.send(session.asker(name)[0].key, command)
    except Refused as error:
        note(f"({visible(str(error))})")
    finally:
        for task in (asking, elsewhere):
            task.cancel()
        await asyncio.gather(asking, elsewhere, return_exceptions=True)
    return True


def own(request: PermissionAsk | QuestionAsk) -> PermissionAsk | QuestionAsk:
    """A request under the ids that the session knows it by that asks."""
    from windlass.runtime.api.approvals import QuestionAsk

    if isinstance(request, QuestionAsk):
        return msgspec.structs.replace(request, question_id=request.question_id.rpartition("/")[2])
    name, also = request.request_id.rpartition("/")[2], tuple(own(one) for one in request.also)
    return msgspec.structs.replace(request, request_id=name, also=also)


async def _closed(session: Session, name: str) -> None:
    """Waits until a request is not open any more, whoever saw to that."""
    session, request_id = session.asker(name)
    slots = session.runtime.slots
    listener = slots.subscribe(session.key, live=False)
    try:
        while request_id in (await session.state()).asks.open:
            if await listener.next_or_look(LOOK_S) is None and not listener.lagging:
                return
    finally:
        slots.leave(session.key, listener)
