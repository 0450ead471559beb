"""Tasks of sessions: found by their ids, begun and answered by messages, watched until only a client can go on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from windlass.events.base import Command
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.errors import NotFound
from windlass.events.runs import Terminal
from windlass.protocol.exchanges.answers import Ask, answered, as_own, ask_id
from windlass.protocol.exchanges.exchange_feed import heard
from windlass.protocol.wire_commands import WireError
from windlass.runtime.api.sent_command import Sent
from windlass.runtime.api.session import Session
from windlass.runtime.streams.record import Record
from windlass.server.http_call import Call
from windlass.store.rules.ids import check_id

from .agent_card import agent_of
from .messages import Json, Said, answers_of, asking_parts, blocks_of
from .rpc import NO_TASK, UNSUPPORTED, RpcFailed
from .task_fold import INPUT, OVER, TaskFold
from .wire_ids import ANSWERED, BEGAN, SAID, context_id, read_task_id


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was told something: what must be in its log before its state is an answer to that."""

    session: Session
    seq: int
    commands: tuple[str, ...] = ()
    below: bool = False
    """Whether a child was answered: the task goes on when that child has ended."""


# --- found ---


async def found(call: Call, name: str) -> Begun:
    """A task by its id. Raises `RpcFailed` if there is none."""
    ids = read_task_id(name)
    gone = RpcFailed(NO_TASK, f"there is no task {name[:80]!r}")
    if ids is None:
        raise gone
    try:
        session = await (await call.runtime()).get(check_id("session id", ids[0]))
    except NotFound:
        raise gone from None
    event = await session.runtime.host.log.event_at(session.key, ids[1])
    if not isinstance(event, PromptReceived) or not event.command_id.startswith(BEGAN):
        raise gone
    if (await session.state()).setup.agent.name != agent_of(call).name:
        raise gone
    return Begun(session=session, seq=ids[1])


async def folded(task: Begun) -> TaskFold:
    """A task as it is now."""
    fold = TaskFold(task.session.session_id, task.seq)
    async for record in task.session.runtime.host.log.records(task.session.key, after=task.seq - 1):
        fold.feed(record)
        if fold.ended:
            break
    return fold


async def asks_of(session: Session) -> dict[str, Ask]:
    """What is open in a session and below it."""
    return {ask_id(ask): ask for ask in await session.runtime.host.views.asked(session.key)}


async def told_now(task: Begun, fold: TaskFold, most: int | None = None) -> Json:
    """A task as clients get it."""
    return fold.task(await _asking(task.session, fold), most)


async def _asking(session: Session, fold: TaskFold) -> list[Json] | None:
    asks = await asks_of(session) if fold.state == INPUT and not fold.ended else {}
    return asking_parts(list(asks.values())) if asks else None


# --- told something ---


async def said_to_task(call: Call, said: Said) -> Begun:
    """Has a message taken: as the beginning of a task, as an answer to what a task asks, or as more words to it."""
    if said.task_id:
        return await _continued(call, said)
    session = await _context(call, said)
    name = BEGAN + said.message_id
    seq = await session.runtime.host.log.taken_at(session.key, name)
    if seq is None:
        asks = await asks_of(session)
        if asks:
            waits = ", ".join(asks)
            raise RpcFailed(UNSUPPORTED, f"a task of this context waits for an answer to {waits}: name it as taskId")
        head = (await session.state()).seq
        body = PromptBody(content=blocks_of(said))
        await Sent(session, PromptReceived(command_id=name, actor=call.token.name, auth="token", body=body))
        seq = await _place(session, name, after=head)
    return Begun(session=session, seq=seq, commands=(name,))


async def _context(call: Call, said: Said) -> Session:
    """The session of a message, which begins with its first."""
    agent, runtime = agent_of(call), await call.runtime()
    made = context_id(agent.name, call.token.name, msgspec.json.encode(said))
    name = check_id("session id", said.context_id or made)
    try:
        session = await runtime.get(name)
    except NotFound:
        return await runtime.session(agent, name)
    if (await session.state()).setup.agent.name != agent.name:
        raise WireError("$.message.contextId", "that context is of another agent")
    return session


async def _place(session: Session, command_id: str, after: int) -> int:
    """The record in which a command was taken. It may wait for the process that drives the session."""
    async for one in heard(session, session.tail(after=after)):
        if isinstance(one, Record) and getattr(one.event, "command_id", "") == command_id:
            return one.seq
    raise RpcFailed(UNSUPPORTED, "the message was kept, and the server is being stopped: ask for the task later")


async def _continued(call: Call, said: Said) -> Begun:
    task = await found(call, said.task_id)
    session = task.session
    if said.context_id and said.context_id != session.session_id:
        raise WireError("$.message.contextId", "that task is of another context")
    before = await asks_of(session)
    fold, asks = await folded(task), await asks_of(session)
    if any(name == SAID + said.message_id or _is_answer(name, said) for name in fold.seen):
        return task
    if fold.state in OVER or fold.ended:
        raise RpcFailed(UNSUPPORTED, f"the task {fold.name!r} is over: say more without a taskId, in its context")
    if fold.state == INPUT and asks:
        return await _answered(call, task, said, asks)
    if fold.state == INPUT and before:  # the words were an answer, and must not begin a run of their own
        raise RpcFailed(UNSUPPORTED, f"what the task {fold.name!r} asked was answered meanwhile: get it, then say more")
    name, body = SAID + said.message_id, PromptBody(content=blocks_of(said))
    await Sent(session, PromptReceived(command_id=name, actor=call.token.name, auth="token", body=body))
    return msgspec.structs.replace(task, commands=(name,))


async def _answered(call: Call, task: Begun, said: Said, asks: dict[str, Ask]) -> Begun:
    """Answers what is open; all of it, before the task goes on."""
    commands: list[str] = []
    answers = answers_of(said, asks)
    call.require("approve")
    for name, answer in answers.items():
        asker, own = task.session.asker(name)
        ask = as_own(asks[name], own)
        command = answered(ask, answer, command_id=f"{ANSWERED}{own}@{said.message_id}", actor=call.token.name)
        await Sent(asker, command)
        if asker is task.session:
            commands.append(command.command_id)
    return msgspec.structs.replace(task, commands=tuple(commands), below=len(commands) < len(answers))


def _is_answer(command_id: str, said: Said) -> bool:
    return command_id.startswith(ANSWERED) and command_id.endswith(f"@{said.message_id}")


# --- watched ---


async def watched(task: Begun) -> AsyncIterator[Json]:
    """What a client is told of a task: the task as it was when the client said something, or as it is now; then what
    changes, until it is over or asks something."""
    session, fold, log = task.session, TaskFold(task.session.session_id, task.seq), task.session.runtime.host.log
    if task.below:
        await session.result()
    from_said = None if task.below or not task.commands else await log.taken_at(session.key, task.commands[0])
    last = task.seq
    async for record in log.records(session.key, after=task.seq - 1):
        if from_said is not None and record.seq > from_said:
            break
        fold.feed(record)
        last = record.seq
    yield {"task": await told_now(task, fold) if from_said is None else fold.task()}
    if from_said is None and _rests(fold, task.commands):
        return
    async for one in heard(session, session.tail(after=last)):
        if not isinstance(one, Record):
            continue
        for update in fold.feed(one):
            yield await _with_asks(session, fold, update)
        if _rests(fold, task.commands) and await _has_come_to(session, one):
            return


async def _has_come_to(session: Session, record: Record) -> bool:
    """Whether a record is the end of a run, or of the log: what a command says stands before what follows from it."""
    head = await session.runtime.host.log.head(session.key)
    return isinstance(record.event, Terminal) or head is None or head.seq <= record.seq


async def _with_asks(session: Session, fold: TaskFold, update: Json) -> Json:
    status = update.get("statusUpdate")
    if status is None or status["status"]["state"] != INPUT:
        return update
    return {"statusUpdate": {**status, "status": fold.status(await _asking(session, fold))}}


def _rests(fold: TaskFold, commands: Sequence[str]) -> bool:
    return fold.ended or (fold.state in (*OVER, INPUT) and fold.seen.issuperset(commands))


async def rested(task: Begun, most: int | None) -> Json:
    """A task once it is over or asks something. One that goes on at that very moment, since somebody else has answered
    it, is waited for further. Raises `RpcFailed` if it cannot be, since the server is being stopped."""
    while True:
        async for _ in watched(task):
            continue
        fold = await folded(task)
        if _rests(fold, task.commands):
            return await told_now(task, fold, most)
        if task.session.runtime.closed:
            raise RpcFailed(
                UNSUPPORTED, f"the task {fold.name!r} goes on, and the server is being stopped: get it later"
            )
        task = msgspec.structs.replace(task, commands=(), below=False)


def command_of(call: Call, kind: type[Command], name: str) -> Command:
    """A command of the caller's without more to say."""
    return kind(command_id=name, actor=call.token.name, auth="token")
