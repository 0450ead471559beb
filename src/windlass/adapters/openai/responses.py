"""Responses: a request becomes commands to a session, and what follows is its response, streamed or whole."""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator

import msgspec

from windlass.events.base import Command
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.errors import WindlassError
from windlass.events.questions import Answer as QuestionAnswer
from windlass.events.questions import AnswerBody, AnswerReceived
from windlass.events.runs import RunStarted
from windlass.events.tools.calls import ResultBody, ResultReceived
from windlass.events.tools.permissions import FeedbackBody, PermissionApproved, PermissionDenied
from windlass.events.values.blocks import Text, plain_text
from windlass.events.values.setup import SessionOptions
from windlass.events.workspace import InstructionsRendered
from windlass.protocol.exchanges.answers import Ask, answered, ask_id
from windlass.protocol.exchanges.client_tools import offer
from windlass.protocol.exchanges.exchange import exchanged, replayed
from windlass.protocol.exchanges.steps import Ended, Step
from windlass.protocol.wire_commands import WireError
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk
from windlass.runtime.api.session import Session
from windlass.server.http_answer import Answer, told
from windlass.server.http_call import Call, no_agent
from windlass.server.problems import Problem, problem_of
from windlass.store.rules.ids import check_id

from .answer_words import answer_in
from .chats import begun
from .response_request import Answered, ResponseRequest, Turn, check_taken, tools_of, turn_of, wrong
from .response_view import ResponseView
from .wire_ids import read_open_id, read_response_id

logger = logging.getLogger("windlass.openai")
COMMAND = "openai:"
"""How the ids of answers begin: they are made from what is answered and how. So an answer sent twice is taken once, and
a no is not taken for the yes before it. No `Idempotency-Key` has a colon: nobody can use up the id of somebody's
answer."""


async def create_response(call: Call) -> Answer | ResponseStream:
    """Says something to an agent, or answers what it asked, and gives what follows."""
    request = await call.json(ResponseRequest)
    check_taken(request)
    turn = turn_of(request)
    before = request.previous_response_id
    alone = call.server.turnstiles.of(call.token.tenant, before) if before else contextlib.nullcontext()
    async with alone:  # others who continue the same response see then that it has gone on
        session = await _session(call, request, turn)
        commands = await _commands(call, session, turn, await _beside(session, turn))
        await offer(session, tools_of(request), call.token.name)
        steps = exchanged(session, commands)
        first = await call.unless_left(begun(steps))
    view = ResponseView(session.session_id, request.model, before)
    if request.stream:
        return ResponseStream(view, first, steps)
    await call.unless_left(_whole(view, first, steps))
    return told(view.response)


async def _whole(view: ResponseView, first: Step, steps: AsyncIterator[Step]) -> None:
    view.feed(first)
    async for step in steps:
        view.feed(step)


class ResponseStream:
    """One response as it comes to be."""

    def __init__(self, view: ResponseView, first: Step, steps: AsyncIterator[Step]) -> None:
        self._view = view
        self._first = first
        self._steps = steps

    def hello(self) -> bytes:
        """Nothing but that it is a stream."""
        return b": hello\n\n"

    async def frames(self) -> AsyncIterator[bytes]:
        """Its events."""
        try:
            for event in self._view.feed(self._first):
                yield _frame(event)
            async for step in self._steps:
                for event in self._view.feed(step):
                    yield _frame(event)
        except WindlassError as error:
            logger.warning("a response came to no end: %s", error)
            yield _frame(self._view.broken(problem_of(error)[0]))


def _frame(event: dict[str, object]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (str(event["type"]).encode(), msgspec.json.encode(event))


async def get_response(call: Call) -> Answer:
    """A response as it is now, told from the log."""
    session, first, last = await _named(call, call.names["response_id"])
    try:
        steps = await replayed(session, first, last)
    except LookupError:
        raise _no_response(call.names["response_id"]) from None
    view = ResponseView(session.session_id, (await session.state()).setup.agent.name)
    for step in steps:
        view.feed(step)
    return told(view.response)


def _no_response(name: str) -> Problem:
    return Problem(404, "not_found", f"there is no response {name[:80]!r}")


async def _named(call: Call, name: str) -> tuple[Session, int, int]:
    span = read_response_id(name)
    if span is None:
        raise _no_response(name)
    session_id, first, last = span
    return await (await call.runtime()).get(check_id("session id", session_id)), first, last


# --- which session ---


async def _session(call: Call, request: ResponseRequest, turn: Turn) -> Session:
    """The session that a request is for: that of what it answers, that of the response before, or a new one."""
    agent = call.server.tenants.agents.get(request.model)
    if agent is None:
        raise no_agent(call, request.model)
    runtime = await call.runtime()
    if turn.answers:
        names = {open_id[0] for one in turn.answers if (open_id := read_open_id(one.name)) is not None}
        if len(names) != 1 or any(read_open_id(one.name) is None for one in turn.answers):
            raise wrong("input", "answers name what one response asked, by the ids that it gave")
        session = await runtime.get(check_id("session id", names.pop()))
    elif request.previous_response_id is not None:
        session = await _continued(call, request.previous_response_id)
    else:
        given = "\n\n".join(filter(None, (agent.instructions, turn.instructions)))
        options = SessionOptions(instructions=given if turn.instructions else None)
        return await runtime.session(agent, None, options=options)
    if (await session.state()).setup.agent.name != request.model:
        raise wrong("model", "the session that this continues is of another agent")
    return session


async def _continued(call: Call, name: str) -> Session:
    """The session behind a response; a fork of it if that has gone on since."""
    session, first, last = await _named(call, name)
    try:
        steps = await replayed(session, first, last)
    except LookupError:
        raise _no_response(name) from None
    end = steps[-1] if steps else None
    if not isinstance(end, Ended):
        raise Problem(409, "in_progress", f"the response {name[:80]!r} is not complete yet: wait for it")
    if await session.requests() or await session.questions():
        raise wrong("input", "the response before asks something: answer that first")
    async for record in session.records(after=end.seq):
        if isinstance(record.event, RunStarted | PromptReceived):
            return await session.fork(at_seq=end.seq)
    return session


# --- what it is told ---


async def _beside(session: Session, turn: Turn) -> tuple[Text, ...]:
    """The instructions of a request that the session does not have: they are told to the model with the words."""
    if turn.instructions is None:
        return ()
    async for record in session.records():
        if isinstance(record.event, InstructionsRendered):
            known = record.event.body.text if record.event.body is not None else ""
            if known.endswith(turn.instructions):
                return ()
            break
    return (Text(text=f"Instructions for this answer:\n{turn.instructions}"),)


async def _commands(call: Call, session: Session, turn: Turn, beside: tuple[Text, ...]) -> list[Command]:
    asks = {ask_id(ask): ask for ask in await session.runtime.host.views.asked(session.key)}
    commands = [_answer(call, one, asks) for one in turn.answers]
    if turn.prompt:
        shown = plain_text(turn.prompt) if beside else None
        prompt = PromptBody(content=(*beside, *turn.prompt), displayed=shown)
        name = session.runtime.ports.fresh_id()
        commands.append(PromptReceived(command_id=name, actor=call.token.name, auth="token", body=prompt))
    if not commands:
        raise wrong("input", "say something, or answer what was asked")
    return commands


def _answer(call: Call, given: Answered, asks: dict[str, Ask]) -> Command:
    """The command of one answer. What people are asked needs a token that may approve."""
    open_id = read_open_id(given.name)
    assert open_id is not None, "checked when the session was found"
    name, actor = open_id[1], call.token.name
    command_id = f"{COMMAND}{name}:{_digest(given)}"
    if given.approve is None and name.startswith("c"):
        result = ResultBody(content=(Text(text=given.output),))
        return ResultReceived(command_id=command_id, actor=actor, auth="token", call_id=name, body=result)
    call.require("approve")
    ask = asks.get(name)
    if given.approve is None:
        if isinstance(ask, QuestionAsk):
            try:
                return answered(ask, answer_in(ask, given.output), command_id=command_id, actor=actor)
            except WireError as error:
                raise wrong("input", error.advice) from None
        body = AnswerBody(answers=(QuestionAnswer(index=0, text=given.output),))
        return AnswerReceived(command_id=command_id, actor=actor, auth="token", question_id=name, body=body)
    if given.approve:
        digest = ask.digest if isinstance(ask, PermissionAsk) else None
        return PermissionApproved(command_id=command_id, actor=actor, auth="token", request_id=name, digest=digest)
    feedback = FeedbackBody(feedback=given.output) if given.output else None
    return PermissionDenied(command_id=command_id, actor=actor, auth="token", request_id=name, body=feedback)


def _digest(given: Answered) -> str:
    return hashlib.sha256(msgspec.json.encode((given.approve, given.output))).hexdigest()[:16]
