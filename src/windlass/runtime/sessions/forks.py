"""Forks: a new session that continues another one from the end of an append. O(1), the history is shared."""

from __future__ import annotations

from windlass.events.errors import UsageError
from windlass.events.questions import QuestionRequested
from windlass.events.stored import codec
from windlass.events.stored.record import Sealed
from windlass.events.tools.permissions import PermissionRequested
from windlass.runtime.api.open_things import seq_in
from windlass.runtime.host.opener import Opener
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key, Origin, Store
from windlass.store.driven_elsewhere import elsewhere_of


class Forks:
    """Makes forks."""

    def __init__(self, store: Store, log: LogReader, opener: Opener) -> None:
        self._elsewhere = elsewhere_of(store)
        self._store = store
        self._log = log
        self._opener = opener

    async def fork(self, key: Key, branch: Key, *, at_seq: int | None = None, reopen: str | None = None) -> None:
        """Makes a branch that continues a session after the record `at_seq`, after its end, or from where people were
        asked what is to be open again. Raises `UsageError` if there is no such place, or the branch is a session
        already."""
        if reopen is not None and at_seq is not None:
            raise UsageError("a fork begins at a record or reopens a request: leave at_seq or reopen out")
        if self._elsewhere is not None:
            await self._elsewhere.fork(key, branch, at_seq=at_seq, reopen=reopen)
            return
        boundary = await (self._log.boundary(key, at_seq) if reopen is None else self._asked(key, reopen))
        head = await self._store.log.head(key)
        if at_seq is not None and head is not None and at_seq > head.seq:
            raise UsageError(f"session {key.session!r} has no record {at_seq}: its last one is {head.seq}")
        if boundary is None:
            raise UsageError(f"session {key.session!r} has no record at or before {at_seq}")
        origin = Origin(session=key.session, seq=boundary.last_seq, hash=boundary.hash)
        if not await self._store.log.create(branch, origin=origin) and await self._has_begun(branch, origin):
            raise UsageError(f"session {branch.session!r} exists already: give the fork another id")
        await self._opener.begin_fork(key, branch, origin, keeps_open=reopen is not None)

    async def _asked(self, key: Key, request_id: str) -> Sealed:
        """The append that asked people something. Raises `UsageError` if there is none, or if the answer would be for a
        tool that is running, which no fork carries over."""
        seq = seq_in(request_id)
        sealed = await self._log.append_with(key, seq) if seq is not None else None
        for event in codec.decode(sealed.data, bodies=False).events if sealed is not None else ():
            match event:
                case PermissionRequested(request_id=asked_id) | QuestionRequested(question_id=asked_id, inside=False):
                    if asked_id == request_id and sealed is not None:
                        return sealed
                case QuestionRequested(question_id=asked_id) if asked_id == request_id:
                    raise UsageError(
                        f"{request_id} was asked by a tool while it ran: a fork cannot answer it otherwise"
                    )
        raise UsageError(f"session {key.session!r} never asked {request_id!r}: 'windlass logs' names what it asked")

    async def _has_begun(self, branch: Key, origin: Origin) -> bool:
        head = await self._store.log.head(branch)
        return head is not None and head.seq > origin.seq
