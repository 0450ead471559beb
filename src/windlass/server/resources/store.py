"""The store itself: what a client reads to show a session as if it were its own, and what a runtime on another machine
needs to drive some. Reading takes the role `read`, sending what the command takes, all other writing `admin`.

A line that is to be kept is checked against its own hash first: a client may be wrong about a log, and not damage it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec

from windlass.events.errors import Damaged
from windlass.events.stored.record import Sealed, resealed
from windlass.protocol.wire_commands import WireError, read_delivered, read_object
from windlass.runtime.api.sent_command import Sent as SentCommand
from windlass.server.access.roles import Role, allows
from windlass.server.http_answer import Answer, told
from windlass.server.http_call import Call
from windlass.server.problems import Problem
from windlass.server.route import Route
from windlass.store.base import Key, Sent, Store, blob_digest
from windlass.store.remote import questions
from windlass.store.remote.questions import AnyQuestion, Line, LinePage, Question, StoreAbout
from windlass.store.rules.ids import check_digest, check_key

from .requests import KEY, KEY_WORDS, role_needed, taken_seq

PAGE_BYTES = 2 * 1024 * 1024
"""From how many bytes on a page of lines is whole."""

READS = (
    questions.About,
    questions.Changes,
    questions.GetHead,
    questions.Read,
    questions.Forks,
    questions.GetSnapshot,
    questions.GetWaiting,
    questions.GetTaken,
    questions.GetHolder,
    questions.GetRow,
    questions.FindRows,
    questions.GetBlob,
    questions.GetBlobInfo,
    questions.Deliver,
)
"""What anybody may ask who may read. A command that is delivered has a role of its own, looked at when it is known."""


def role_of(question: Question) -> Role:
    """The role that a question needs at the least."""
    if isinstance(question, READS):
        return "read"
    return "drive" if isinstance(question, questions.PutBlob) else "admin"


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What a store says."""

    value: Any


async def ask_store(call: Call) -> Answer:
    """One method of the store."""
    question = await _question(call)
    call.require(role_of(question))
    if call.server.draining and (isinstance(question, questions.Deliver) or not isinstance(question, READS)):
        raise Problem(503, "draining", "the server is being stopped: ask another one, or this one once it is back")
    try:
        return told(Answered(value=await _answer(call, question)))
    except (OverflowError, UnicodeError) as error:
        raise WireError("$", f"it holds what no store can keep: {error}") from error


async def _question(call: Call) -> AnyQuestion:
    most = call.limits.blob_bytes if allows(call.token.roles, "admin") else call.limits.body_bytes
    plain = read_object(await call.json_bytes(most))
    try:
        question: AnyQuestion = msgspec.convert(plain, AnyQuestion)
        return question
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        raise WireError(path.strip("`") or "$", message) from None


async def _answer(call: Call, question: AnyQuestion) -> Any:
    match question:
        case questions.Deliver():
            return await _deliver(call, question)
        case questions.Changes():
            return await call.server.door.changes()
    store = await call.server.door.store()
    tenant = call.token.tenant
    for part in (_of_log, _of_log_kept, _of_others):
        answer = part(store, tenant, question)
        if answer is not None:
            return await answer
    raise AssertionError(f"nobody answers {type(question).__name__}")


Asked = Awaitable[Any] | None


def _of_log(store: Store, tenant: str, question: AnyQuestion) -> Asked:
    match question:
        case questions.Append(session=session):
            return _append(store, Key(tenant, session), question)
        case questions.Adopt(session=session):
            return _adopt(store, Key(tenant, session), question)
        case questions.Create(session=session, origin=origin):
            return store.log.create(Key(tenant, session), origin=origin)
        case questions.GetHead(session=session):
            return store.log.head(Key(tenant, session))
        case questions.Read(session=session, after=after, until=until):
            return _page(store, Key(tenant, session), after, until)
        case questions.Erase(session=session, seq=seq, by=by, why=why, at_ms=at_ms):
            return store.log.erase(Key(tenant, session), seq, by=by, why=why, at_ms=at_ms)
        case _:
            return None


def _of_log_kept(store: Store, tenant: str, question: AnyQuestion) -> Asked:
    match question:
        case questions.Forks(session=session):
            return store.log.forks(Key(tenant, session))
        case questions.Detach(session=session):
            return store.log.detach(Key(tenant, session))
        case questions.Delete(session=session):
            return store.log.delete(Key(tenant, session))
        case questions.PutSnapshot(session=session, snapshot=snapshot):
            return store.log.put_snapshot(Key(tenant, session), snapshot)
        case questions.GetSnapshot(session=session, at_most=at_most):
            return store.log.get_snapshot(Key(tenant, session), at_most=at_most)
        case questions.DropSnapshots(session=session):
            return store.log.drop_snapshots(Key(tenant, session))
        case _:
            return None


def _of_others(store: Store, tenant: str, question: AnyQuestion) -> Asked:
    match question:
        case questions.About():
            return _about(store)
        case questions.Post(session=session, command=command):
            return store.inbox.send(Key(tenant, session), command)
        case questions.GetWaiting(session=session, limit=limit):
            return store.inbox.waiting(Key(tenant, session), limit=limit)
        case questions.GetTaken(session=session, after=after, limit=limit):
            return store.inbox.taken(Key(tenant, session), after=after, limit=limit)
        case questions.PutRow(row=row):
            return store.index.put(msgspec.structs.replace(row, tenant=tenant))
        case questions.GetRow(session=session):
            return store.index.get(Key(tenant, session))
        case questions.FindRows(query=query):
            return store.index.find(msgspec.structs.replace(query, tenant=tenant))
        case _:
            return _of_leases(store, tenant, question) or _of_blobs(store, tenant, question)


def _of_leases(store: Store, tenant: str, question: AnyQuestion) -> Asked:
    match question:
        case questions.TakeLease(session=session, runner=runner, ttl_ms=ttl_ms, now_ms=now_ms, renew=renew):
            return store.leases.claim(Key(tenant, session), runner=runner, ttl_ms=ttl_ms, now_ms=now_ms, renew=renew)
        case questions.KeepLease(session=session, runner=runner, epoch=epoch, ttl_ms=ttl_ms, now_ms=now_ms):
            return store.leases.keep(Key(tenant, session), runner=runner, epoch=epoch, ttl_ms=ttl_ms, now_ms=now_ms)
        case questions.ReleaseLease(session=session, runner=runner, epoch=epoch):
            return store.leases.release(Key(tenant, session), runner=runner, epoch=epoch)
        case questions.GetHolder(session=session, now_ms=now_ms):
            return store.leases.holder(Key(tenant, session), now_ms=now_ms)
        case _:
            return None


def _of_blobs(store: Store, tenant: str, question: AnyQuestion) -> Asked:
    match question:
        case questions.PutBlob(data=data, media_type=media_type):
            return store.blobs.put(tenant, data, media_type=media_type)
        case questions.GetBlob(digest=digest, start=start, length=length):
            return store.blobs.get(tenant, digest, start=start, length=length)
        case questions.GetBlobInfo(digest=digest):
            return store.blobs.info(tenant, digest)
        case questions.EraseBlob(digest=digest):
            return store.blobs.erase(tenant, digest)
        case _:
            return None


async def _about(store: Store) -> StoreAbout:
    return StoreAbout(capabilities=store.capabilities, durability=store.durability)


async def _append(store: Store, key: Key, question: questions.Append) -> None:
    for digest, data in question.blobs.items():
        if blob_digest(data) != check_digest(digest):
            raise WireError("$.blobs", f"the digest of these bytes is not {digest}")
    row = question.index
    await store.log.append(
        check_key(key),
        _sealed(question.line),
        takes=question.takes,
        index=msgspec.structs.replace(row, tenant=key.tenant) if row is not None else None,
        blobs=question.blobs,
        barrier=question.barrier,
        sends=question.sends,
    )


async def _adopt(store: Store, key: Key, question: questions.Adopt) -> None:
    row = question.index
    lines = await asyncio.to_thread(lambda: [_sealed(line) for line in question.lines])
    await store.log.adopt(
        check_key(key),
        lines,
        origin=question.origin,
        takes=question.takes,
        index=msgspec.structs.replace(row, tenant=key.tenant) if row is not None else None,
    )


def _sealed(line: Line) -> Sealed:
    """A line as stores keep it. Raises `WireError` for one that is not what its hash says."""
    try:
        return resealed(line.data, prev_hash=line.prev_hash)
    except Damaged as error:
        raise WireError("$.line", str(error)) from None


async def _page(store: Store, key: Key, after: int, until: int | None) -> LinePage:
    lines: list[Sealed] = []
    size = 0
    try:
        async for sealed in store.log.read(key, after=after, until=until):
            if size >= PAGE_BYTES:
                return LinePage(lines=lines, more=True)
            lines.append(sealed)
            size += len(sealed.data)
    except Damaged as error:
        return LinePage(lines=lines, damage=str(error), damaged_seq=error.seq)
    return LinePage(lines=lines)


async def _deliver(call: Call, question: questions.Deliver) -> Sent:
    """Has a command taken, as `POST …/commands` does."""
    if not KEY.match(question.command_id):
        raise Problem(400, "usage", f"the id of a command {KEY_WORDS}", path="$.command_id")
    key = check_key(Key(call.token.tenant, question.session))
    command = read_delivered(question.data, command_id=question.command_id, actor=call.token.name, auth="token")
    session = await (await call.runtime()).get(key.session)
    call.require(await role_needed(session, command))
    before = await session.runtime.host.log.taken_at(key, question.command_id)
    await SentCommand(session, command)
    seq = await taken_seq(session, question.command_id, type(command), command.actor)
    return Sent(new=before is None, taken=seq is not None)


ROUTES = (
    Route(
        method="POST",
        path="/v1/store",
        name="askStore",
        role="read",
        words="One method of the store, for clients that show sessions as their own and for runtimes that drive some. "
        "Reading needs the role `read`, a command what it needs elsewhere, all other writing `admin`.",
        handler=ask_store,
        takes="StoreQuestion",
        gives=Answered,
        fails=(404, 409, 507),
    ),
)
