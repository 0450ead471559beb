"""A thread is a session of the same id. What a run says to it is what the log does not hold yet: its history counts."""

from __future__ import annotations

import msgspec

from windlass.events.base import Command
from windlass.events.commands import PromptReceived
from windlass.events.errors import NotFound
from windlass.events.tools.calls import ResultBody, ResultReceived
from windlass.events.values.blocks import Text
from windlass.protocol.exchanges.answers import Ask, answered, as_own, ask_id
from windlass.protocol.wire_commands import WireError
from windlass.runtime.api.session import Session
from windlass.server.http_call import Call, no_agent
from windlass.server.problems import Problem
from windlass.store.rules.ids import check_id

from .run_input import Json, RunInput
from .user_message import prompt_of, text_of
from .wire_ids import MESSAGE_ID_MAX, OURS, answer_id, said_id

PASSED_OVER = ("system", "developer", "reasoning", "activity")
"""Messages that are not part of what is said: the agent has its own instructions."""


class News(msgspec.Struct, frozen=True, kw_only=True):
    """What a run says that the log does not hold."""

    commands: tuple[Command, ...] = ()
    below: tuple[tuple[Session, Command], ...] = ()
    """Answers to what children of the session ask."""


async def thread_of(call: Call, given: RunInput) -> Session:
    """The session of a thread, which begins with its first run."""
    name, agent = check_id("session id", given.thread_id), call.server.tenants.agents.get(call.names["agent_name"])
    if agent is None:
        raise no_agent(call, call.names["agent_name"])
    runtime = await call.runtime()
    try:
        session = await runtime.get(name)
    except NotFound:
        return await runtime.session(agent, name)
    if (await session.state()).setup.agent.name != agent.name:
        raise Problem(409, "other_agent", f"the thread {name!r} is of another agent", path="$.threadId")
    return session


async def news_of(call: Call, session: Session, given: RunInput) -> News:
    """What is new in a run. Raises `Problem` while something is asked that it does not answer."""
    asks = {ask_id(ask): ask for ask in await session.runtime.host.views.asked(session.key)}
    own, below = await _answers(call, session, given, asks)
    commands = [*own, *await _said(call, session, given)]
    left = asks.keys() - {entry.interrupt_id for entry in given.resume or ()}
    if commands and left:
        waits = ", ".join(sorted(left))
        raise Problem(409, "asked", f"the thread waits for an answer to {waits}: send it as `resume`", path="$.resume")
    return News(commands=tuple(commands), below=tuple(below))


async def _answers(
    call: Call, session: Session, given: RunInput, asks: dict[str, Ask]
) -> tuple[list[Command], list[tuple[Session, Command]]]:
    """Answers to what is open. One that was taken before, or that comes too late, is passed over: the client is told
    how things stand now."""
    own: list[Command] = []
    below: list[tuple[Session, Command]] = []
    for at, entry in enumerate(given.resume or ()):
        ask = asks.get(entry.interrupt_id)
        if ask is None:
            continue
        call.require("approve")
        asker, name = session.asker(entry.interrupt_id)
        said = entry.payload if entry.status == "resolved" else None
        if said is None and entry.status == "resolved":
            raise WireError(f"$.resume[{at}].payload", "an answer has a payload that fits the `responseSchema`")
        try:
            command = answered(as_own(ask, name), said, command_id=answer_id(name), actor=call.token.name)
        except WireError as error:
            raise WireError(f"$.resume[{at}].payload{error.path.removeprefix('$')}", error.advice) from None
        if asker is session:
            own.append(command)
        else:
            below.append((asker, command))
    return own, below


async def _said(call: Call, session: Session, given: RunInput) -> list[Command]:
    """The messages behind the agent's last that the log does not hold: results of calls, then what a person says."""
    log, key = session.runtime.host.log, session.key
    results: list[Command] = []
    said: list[tuple[int, Json]] = []
    for at, message in _tail(given):
        name = _message_id(message, at)
        if message["role"] == "tool":
            call_id = str(message.get("toolCallId"))
            if not name.startswith(OURS) and await log.taken_at(key, answer_id(call_id)) is None:
                results.append(_result(call, message, at, call_id))
        elif await log.taken_at(key, said_id(name)) is None:
            said.append((at, message))
        else:
            said = []  # what stands before a message that was taken was seen with it
    if not said:
        return results
    body, name = prompt_of(given, said), str(said[-1][1]["id"])
    prompt = PromptReceived(command_id=said_id(name), actor=call.token.name, auth="token", body=body)
    return [*results, prompt]


def _tail(given: RunInput) -> list[tuple[int, Json]]:
    """The messages behind the last one of the agent's, each with its place."""
    tail: list[tuple[int, Json]] = []
    for at in range(len(given.messages) - 1, -1, -1):
        message = given.messages[at]
        role = message.get("role")
        if role == "assistant":
            break
        if role in ("user", "tool"):
            tail.append((at, message))
        elif role not in PASSED_OVER:
            raise WireError(f"$.messages[{at}].role", f"there is no role {str(role)[:40]!r}")
    return tail[::-1]


def _message_id(message: Json, at: int) -> str:
    name = message.get("id")
    if not isinstance(name, str) or not 0 < len(name) <= MESSAGE_ID_MAX or not name.isprintable():
        raise WireError(f"$.messages[{at}].id", f"a message has an id of 1 to {MESSAGE_ID_MAX} printable characters")
    return name


def _result(call: Call, message: Json, at: int, call_id: str) -> Command:
    failed = message.get("error")
    text = str(failed) if failed else text_of(message.get("content"), f"$.messages[{at}].content")
    body, name = ResultBody(content=(Text(text=text),)), answer_id(call_id)
    return ResultReceived(
        command_id=name, actor=call.token.name, auth="token", call_id=call_id, ok=not failed, body=body
    )
