"""Which session a whole history belongs to: the one whose log says the same, a fork of it if that has gone on
otherwise, or a new one.

Sessions have the digest of how their conversation begins in their ids, and commands the digest of the history that
brought them. So the same request is found again, in whichever process, and nothing is kept beside the logs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from windlass.events.base import Command
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.runs import RunCancelled, RunFailed, RunInterrupted, RunStarted, Terminal, WakeReceived
from windlass.events.tools.calls import ResultBody, ResultReceived
from windlass.events.values.blocks import InputBlock, Text
from windlass.events.values.items import UserItem
from windlass.events.values.setup import SessionOptions
from windlass.models.convert import import_history
from windlass.protocol.exchanges.answers import Ask, answered, ask_id
from windlass.protocol.exchanges.exchange import end_of, replayed
from windlass.protocol.wire_commands import WireError
from windlass.runtime.api.agent import Agent
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.api.session import Session
from windlass.runtime.streams.record import Record
from windlass.server.http_call import Call
from windlass.server.problems import Problem

from .answer_words import answer_in
from .chat_request import Json, Turn, plain, text_of
from .chat_view import ChatView
from .response_request import wrong
from .wire_ids import read_open_id

COMMAND = "openai:chat:"
FAMILY_MAX = 100
"""How many sessions that begin alike are looked at, those first that changed last."""
REPEAT_MS = 15 * 60 * 1000
"""So long the same history is the same request, made again since its answer was lost. Later it is asked anew."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request is carried out, and the commands that it becomes."""

    session: Session
    commands: tuple[str, ...]
    new: tuple[Command, ...] = ()
    """The commands; none if they were taken before."""


async def place_of(call: Call, agent: Agent, turn: Turn) -> Place:
    """The session of a request and what it is told. Raises `Problem` for what does not fit it."""
    runtime = await call.runtime()
    family = await _family(runtime, turn)
    known = await _taken(family, COMMAND + turn.digest)
    is_answer = any(message["role"] == "tool" for _, message in turn.new) or bool((turn.said or {}).get("tool_calls"))
    for session, seq in known:
        last = await _last_attempt(session, turn.digest, seq)
        if is_answer and last.has_failed:
            wake = WakeReceived(command_id=last.again, actor=call.token.name, auth="token")
            return Place(session=session, commands=(wake.command_id,), new=(wake,))
        if is_answer or last.is_fresh(session.runtime.ports.now_ms()):
            return Place(session=session, commands=last.commands)
    name = _session_id(turn, known[0][0].session_id if known else "")
    base = await _base(family, turn)
    if is_answer:
        if base is None:
            raise _unanswerable(family, turn)
        return await _answers(call, base[0], turn)
    if base is None:
        session = await _begun(runtime, agent, name, turn)
    else:
        session = await _continued(base[0], base[1], name)
    prompt = PromptReceived(
        command_id=COMMAND + turn.digest, actor=call.token.name, auth="token", body=PromptBody(content=_words(turn))
    )
    return Place(session=session, commands=(prompt.command_id,), new=(prompt,))


def _session_id(turn: Turn, before: str) -> str:
    """The id of a session that a turn begins: another one than that in which the same was asked before."""
    made = hashlib.sha256(f"{turn.digest} {before}".encode()).hexdigest()
    return f"chat-{turn.family}.{made[:16]}"


# --- what is there ---


async def _family(runtime: Runtime, turn: Turn) -> list[Session]:
    rows = await runtime.sessions(text=f"chat-{turn.family}.", limit=FAMILY_MAX)
    return [await runtime.get(row.session) for row in rows]


async def _taken(family: Sequence[Session], command_id: str) -> list[tuple[Session, int]]:
    places = [(one, await one.runtime.host.log.taken_at(one.key, command_id)) for one in family]
    return [(session, seq) for session, seq in places if seq is not None]


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The newest try of a turn: its commands, the records of the first and the last of them, and how it ended."""

    commands: tuple[str, ...]
    first: int
    last: int
    end: Record | None
    again: str
    """The command that would resume it, if it failed."""

    @property
    def has_failed(self) -> bool:
        return self.end is not None and isinstance(self.end.event, RunFailed | RunCancelled | RunInterrupted)

    def is_fresh(self, now_ms: int) -> bool:
        """Whether it is still at work, or was answered a short while ago."""
        return self.end is None or (not self.has_failed and now_ms - self.end.at_ms < REPEAT_MS)


async def _last_attempt(session: Session, digest: str, last: int) -> Attempt:
    """The newest try of a turn that was taken in this record. A turn of results that failed is resumed; its results
    cannot be given again."""
    log, own = session.runtime.host.log, COMMAND + digest
    names = await _names(session, digest)
    first = await log.taken_at(session.key, names[0]) or last
    while True:
        end = await end_of(session, names)
        run_id = end.event.run_id if end is not None and isinstance(end.event, Terminal) else ""
        attempt = Attempt(commands=names, first=first, last=last, end=end, again=f"{own}:{run_id}")
        woken = await log.taken_at(session.key, attempt.again) if attempt.has_failed else None
        if woken is None:
            return attempt
        names, first, last = (attempt.again,), woken, woken


async def _base(family: Sequence[Session], turn: Turn) -> tuple[Session, int] | None:
    """The session that holds the history up to the agent's last answer, and the record where that ends."""
    if turn.said is None:
        return None
    for session, seq in await _taken(family, COMMAND + turn.before):
        tried = await _last_attempt(session, turn.before, seq)
        if tried.end is None or tried.has_failed:
            continue
        view = ChatView(session.session_id, "")
        try:
            for step in await replayed(session, tried.first, tried.last):
                list(view.feed(step))
        except Problem:
            continue
        if plain(view.message) == plain(turn.said):
            return session, tried.end.seq
    return None


async def _names(session: Session, digest: str) -> tuple[str, ...]:
    """The commands of a turn that was taken before."""
    log, names, at = session.runtime.host.log, [], 0
    while await log.taken_at(session.key, name := f"{COMMAND}{digest}:{at}") is not None:
        names.append(name)
        at += 1
    return (*names, COMMAND + digest)


def _unanswerable(family: Sequence[Session], turn: Turn) -> Problem:
    """Why what a history answers is not asked by any log."""
    called = {read_open_id(str(message.get("tool_call_id"))) for _, message in turn.new if message["role"] == "tool"}
    if {name[0] for name in called if name is not None} & {session.session_id for session in family}:
        advice = (
            "what this answers is not asked any more: send the history before it again, and answer what it asks now"
        )
        return Problem(409, "not_open", f"messages: {advice}", path="$.messages")
    return wrong("messages", "a history from elsewhere must end with words of the user's")


# --- begun, continued ---


async def _begun(runtime: Runtime, agent: Agent, name: str, turn: Turn) -> Session:
    """A session for a history that nothing here holds: it begins with that history."""
    told = [message for _, message in turn.new if message["role"] in ("system", "developer")]
    imported = import_history([*turn.history, *told], "openai_chat")
    given = "\n\n".join(filter(None, (agent.instructions, *imported.instructions)))
    options = SessionOptions(instructions=given if imported.instructions else None)
    return await runtime.session(agent, name, history=imported.items, options=options)


async def _continued(session: Session, seq: int, name: str) -> Session:
    """The session itself, or a fork of it if it has gone on since or asks something."""
    gone_on = bool(await session.runtime.host.views.asked(session.key))
    async for record in session.records(after=seq):
        gone_on = gone_on or isinstance(record.event, RunStarted | PromptReceived)
    if not gone_on:
        return session
    forked = await session.runtime.sessions(text=name, limit=1)
    return await session.runtime.get(name) if forked else await session.fork(name, at_seq=seq)


def _words(turn: Turn) -> tuple[InputBlock, ...]:
    said = [message for _, message in turn.new if message["role"] == "user"]
    items = import_history(said, "openai_chat").items
    words = tuple(block for item in items if isinstance(item, UserItem) for block in item.content)
    if not words:
        raise wrong("messages", "the user says nothing: end with words")
    return words


# --- answers to calls ---


async def _answers(call: Call, session: Session, turn: Turn) -> Place:
    """The results of all calls of the last answer, and answers to what it asked."""
    assert turn.said is not None
    results = {str(m.get("tool_call_id")): (at, m) for at, m in turn.new if m["role"] == "tool"}
    wanted = [str(one.get("id")) for one in turn.said.get("tool_calls") or ()]
    if sorted(wanted) != sorted(results) or len(results) != sum(m["role"] == "tool" for _, m in turn.new):
        raise wrong(
            "messages", f"give each call of the last answer its one result: {', '.join(wanted) or 'it has none'}"
        )
    if any(message["role"] == "user" for _, message in turn.new):
        raise wrong("messages", "answer the calls alone; say more when the agent has gone on")
    asks = {ask_id(ask): ask for ask in await session.runtime.host.views.asked(session.key)}
    names = [f"{COMMAND}{turn.digest}:{at}" for at in range(len(wanted) - 1)] + [COMMAND + turn.digest]
    commands = [_answer(call, session, asks, name, *results[one]) for name, one in zip(names, wanted, strict=True)]
    return Place(session=session, commands=tuple(names), new=tuple(commands))


def _answer(call: Call, session: Session, asks: dict[str, Ask], name: str, at: int, message: Json) -> Command:
    open_id = read_open_id(str(message.get("tool_call_id")))
    own = open_id[1] if open_id is not None and open_id[0] == session.session_id else ""
    text = text_of(message.get("content"))
    if own.startswith("c"):
        body = ResultBody(content=(Text(text=text),))
        return ResultReceived(command_id=name, actor=call.token.name, auth="token", call_id=own, body=body)
    ask = asks.get(own)
    if ask is None:
        raise Problem(409, "not_open", f"messages[{at}]: that is not open any more", path=f"$.messages[{at}]")
    call.require("approve")
    try:
        return answered(ask, answer_in(ask, text), command_id=name, actor=call.token.name)
    except WireError as error:
        raise wrong(f"messages[{at}].content", error.advice) from None
