"""Responses: a request becomes commands to a session, and what follows is its response, streamed or whole."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from windlass.events.base import Command
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.questions import Answer as QuestionAnswer
from windlass.events.questions import AnswerBody, AnswerReceived
from windlass.events.runs import RunStarted
from windlass.events.tools.calls import ResultBody, ResultReceived
from windlass.events.tools.permissions import FeedbackBody, PermissionApproved, PermissionDenied
from windlass.events.tools.toolset import MountReceived, ToolBody
from windlass.events.values.blocks import Text
from windlass.events.values.specs import SessionOptions
from windlass.protocol.exchanges.exchange import exchanged, replayed
from windlass.protocol.exchanges.steps import Ended, Step
from windlass.runtime.api.approvals import PermissionAsk
from windlass.runtime.api.session import Sent, Session
from windlass.runtime.bind.local_code import weighed
from windlass.server.answer import Answer, told
from windlass.server.call import Call, no_agent
from windlass.server.problems import Problem
from windlass.store.rules.ids import check_id

from .response_request import Answered, ResponseRequest, Turn, tools_of, turn_of, wrong
from .response_view import ResponseView
from .wire_ids import read_open_id, read_response_id

COMMAND = "openai."
"""How the ids of answers begin: they are made from what is answered, so that an answer sent twice is taken once."""


async def create_response(call: Call) -> Answer | ResponseStream:
    """Says something to an agent, or answers what it asked, and gives what follows."""
    request = await call.json(ResponseRequest)
    if request.store is False:
        raise wrong("store", "sessions are always kept here: leave it out")
    turn = turn_of(request)
    session = await _session(call, request, turn)
    commands = await _commands(call, session, turn)
    await _mount(call, session, request)
    steps = exchanged(session, commands)
    first = await anext(steps)  # the commands are taken, or refused as an answer to this request
    view = ResponseView(session.session_id, request.model, request.previous_response_id)
    if request.stream:
        return ResponseStream(view, first, steps)
    view.feed(first)
    async for step in steps:
        view.feed(step)
    return told(view.response)


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
        for event in self._view.feed(self._first):
            yield _frame(event)
        async for step in self._steps:
            for event in self._view.feed(step):
                yield _frame(event)


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
    found = read_response_id(name)
    if found is None:
        raise _no_response(name)
    session_id, first, last = found
    return await (await call.runtime()).get(check_id("session id", session_id)), first, last


# --- which session ---


async def _session(call: Call, request: ResponseRequest, turn: Turn) -> Session:
    """The session that a request is for: that of what it answers, that of the response before, or a new one."""
    agent = call.server.tenants.agents.get(request.model)
    if agent is None:
        raise no_agent(call, request.model)
    runtime = await call.runtime()
    if turn.answers:
        names = {found[0] for one in turn.answers if (found := read_open_id(one.name)) is not None}
        if len(names) != 1 or any(read_open_id(one.name) is None for one in turn.answers):
            raise wrong("input", "answers name what one response asked, by the ids that it gave")
        session = await runtime.get(check_id("session id", names.pop()))
    elif request.previous_response_id is not None:
        session = await _continued(call, request.previous_response_id)
    else:
        given = "\n\n".join(filter(None, (agent.instructions, request.instructions)))
        options = SessionOptions(instructions=given if request.instructions else None)
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
        if isinstance(record.event, RunStarted):
            return await session.fork(at_seq=end.seq)
    return session


# --- what it is told ---


async def _mount(call: Call, session: Session, request: ResponseRequest) -> None:
    """Offers the functions of the client to the session; the policy judges their calls as it does all others."""
    known = (await session.state()).toolset.tools
    new = [
        tool for tool in tools_of(request) if tool.name not in known or known[tool.name].digest != weighed(tool).digest
    ]
    if new:
        body = ToolBody(tools=tuple(tool.text for tool in new))
        command = MountReceived(
            command_id=session.runtime.ports.fresh_id(),
            actor=call.token.name,
            auth="token",
            tools=tuple(weighed(tool) for tool in new),
            body=body,
        )
        await Sent(session, command)


async def _commands(call: Call, session: Session, turn: Turn) -> list[Command]:
    asks = await session.runtime.host.views.asked(session.key)
    digests = {ask.request_id: ask.digest for ask in asks if isinstance(ask, PermissionAsk)}
    commands = [_answer(call, one, digests) for one in turn.answers]
    if turn.prompt:
        prompt = PromptBody(content=turn.prompt)
        name = session.runtime.ports.fresh_id()
        commands.append(PromptReceived(command_id=name, actor=call.token.name, auth="token", body=prompt))
    if not commands:
        raise wrong("input", "say something, or answer what was asked")
    return commands


def _answer(call: Call, given: Answered, digests: dict[str, str]) -> Command:
    """The command of one answer. What people are asked needs a token that may approve."""
    found = read_open_id(given.name)
    assert found is not None, "checked when the session was found"
    name, actor = found[1], call.token.name
    command_id = f"{COMMAND}{name}"
    if given.approve is None and name.startswith("c"):
        result = ResultBody(content=(Text(text=given.output),))
        return ResultReceived(command_id=command_id, actor=actor, auth="token", call_id=name, body=result)
    call.require("approve")
    if given.approve is None:
        body = AnswerBody(answers=(QuestionAnswer(index=0, text=given.output),))
        return AnswerReceived(command_id=command_id, actor=actor, auth="token", question_id=name, body=body)
    if given.approve:
        digest = digests.get(name)
        return PermissionApproved(command_id=command_id, actor=actor, auth="token", request_id=name, digest=digest)
    feedback = FeedbackBody(feedback=given.output) if given.output else None
    return PermissionDenied(command_id=command_id, actor=actor, auth="token", request_id=name, body=feedback)
