"""Chat completions: a whole history finds its session, and what follows is one message, streamed or whole."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from windlass.events.errors import WindlassError
from windlass.protocol.exchanges.client_tools import offer
from windlass.protocol.exchanges.exchange import exchanged, followed
from windlass.protocol.exchanges.steps import Step
from windlass.server.http_answer import Answer, told
from windlass.server.http_call import Call, no_agent
from windlass.server.problems import Problem, problem_of

from .chat_request import functions_of, read_chat, turn_of
from .chat_thread import place_of
from .chat_view import ChatView
from .problem_form import error_form

logger = logging.getLogger("windlass.openai")
DONE = b"data: [DONE]\n\n"


async def create_chat(call: Call) -> Answer | ChatStream:
    """Says what is new in a history to the session that holds the rest, and gives what follows."""
    request = await read_chat(call)
    agent = call.server.tenants.agents.get(request.model)
    if agent is None:
        raise no_agent(call, request.model)
    tools = functions_of(request)
    turn = turn_of(request, call.token.name)
    async with call.server.turnstiles.of(call.token.tenant, turn.family):  # others see then that it has gone on
        place = await place_of(call, agent, turn)
        session, view = place.session, ChatView(place.session.session_id, request.model)
        if place.new:
            await offer(session, tools, call.token.name)
        steps = exchanged(session, place.new) if place.new else followed(session, place.commands)
        first = await call.unless_left(begun(steps))
    if request.stream:
        wanted = request.stream_options or {}
        return ChatStream(view, first, steps, usage=wanted.get("include_usage") is True)
    await call.unless_left(_whole(view, first, steps))
    return told(view.completion)


async def begun(steps: AsyncIterator[Step]) -> Step:
    """The first step: the commands are taken then, or refused as an answer to the request itself."""
    return await anext(steps)


async def _whole(view: ChatView, first: Step, steps: AsyncIterator[Step]) -> None:
    list(view.feed(first))
    async for step in steps:
        list(view.feed(step))


class ChatStream:
    """One completion as it comes to be."""

    def __init__(self, view: ChatView, first: Step, steps: AsyncIterator[Step], *, usage: bool) -> None:
        self._view = view
        self._first = first
        self._steps = steps
        self._usage = usage

    def hello(self) -> bytes:
        """Nothing but that it is a stream."""
        return b": hello\n\n"

    async def frames(self) -> AsyncIterator[bytes]:
        """Its pieces."""
        try:
            for delta in self._view.feed(self._first):
                yield self._piece(delta)
            async for step in self._steps:
                for delta in self._view.feed(step):
                    yield self._piece(delta)
            self._view.check_told()
        except (Problem, WindlassError) as error:
            logger.warning("a completion came to no end: %s", error)
            yield b"data: %s\n\n" % error_form(problem_of(error)[0])
            return
        yield self._piece({}, self._view.finish)
        if self._usage:
            yield b"data: %s\n\n" % msgspec.json.encode({**self._view.head, "choices": [], "usage": self._view.usage})
        yield DONE

    def _piece(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return b"data: %s\n\n" % msgspec.json.encode({**self._view.head, "choices": [choice]})
