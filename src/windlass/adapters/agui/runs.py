"""Runs: what a client says becomes commands to its thread, and what follows the events of the run. A run that says
nothing new is told the newest one again: whoever lost its stream asks once more, and nothing happens twice."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from windlass.events.commands import PromptReceived
from windlass.events.errors import WindlassError
from windlass.events.tools.calls import ResultReceived
from windlass.events.values.setup import Task
from windlass.protocol.exchanges.client_tools import offer
from windlass.protocol.exchanges.exchange import exchanged, newest, rested
from windlass.protocol.exchanges.steps import Began, Ended, Step
from windlass.protocol.wire_commands import WireError
from windlass.runtime.api.sent_command import Sent
from windlass.runtime.api.session import Session
from windlass.server.http_call import Call

from .conversation import Conversation, conversation_of, lacks
from .run_input import Json, RunInput, read_input, tools_of
from .run_view import RunView, failed, snapshots
from .thread import news_of, thread_of

logger = logging.getLogger("windlass.agui")


async def run_agent(call: Call) -> RunStream:
    """Says to a thread what is new, and tells the run."""
    given = await read_input(call)
    tools = tools_of(given)
    session = await thread_of(call, given)
    news = await news_of(call, session, given)
    await offer(session, tools, call.token.name)
    steps = exchanged(session, news.commands) if news.commands else newest(session)
    if news.below:
        head = (await session.state()).seq
        for asker, command in news.below:
            await Sent(asker, command)
        steps = steps if news.commands else rested(session, after=head)
    held = await conversation_of(session, given.messages)
    try:
        first = await anext(steps)  # the commands are taken, or refused as an answer to this request
    except LookupError:
        raise WireError("$.messages", "there is nothing new here: end with a message of the user's") from None
    return RunStream(session, given, first, steps, whole=not news.commands or lacks(given.messages, held))


class RunStream:
    """One run as it comes to be."""

    def __init__(
        self, session: Session, given: RunInput, first: Step, steps: AsyncIterator[Step], *, whole: bool
    ) -> None:
        """`whole` is whether the client is given all messages first: it lacks some, or has parts of the run already."""
        self._session = session
        self._given = given
        self._first = first
        self._steps = steps
        self._whole = whole
        self._view = RunView(given)

    def hello(self) -> bytes:
        """Nothing but that it is a stream."""
        return b": hello\n\n"

    async def frames(self) -> AsyncIterator[bytes]:
        """Its events."""
        try:
            async for event in self._events():
                yield b"data: %s\n\n" % msgspec.json.encode(event)
        except WindlassError as error:
            logger.warning("a run of thread %r can be told no further: %s", self._session.session_id, error)
            yield b"data: %s\n\n" % msgspec.json.encode(failed(str(error), "interrupted"))

    async def _events(self) -> AsyncIterator[Json]:
        async for event in self._of(self._first):
            yield event
        async for step in self._steps:
            async for event in self._of(step):
                yield event

    async def _of(self, step: Step) -> AsyncIterator[Json]:
        if isinstance(step, Began):
            task, messages = await self._before(step)
            for event in self._view.started(task, messages if self._whole else None):
                yield event
        elif isinstance(step, Ended):
            if self._view.torn:
                held = await conversation_of(self._session, self._given.messages, until=step.seq)
                for event in snapshots((), held):
                    yield event
            asks = await self._session.runtime.host.views.asked(self._session.key)
            for event in self._view.ended(step, asks):
                yield event
        else:
            for event in self._view.feed(step):
                yield event

    async def _before(self, began: Began) -> tuple[Any, list[Json]]:
        """The task and the messages at the beginning of the run, with what was said to begin it."""
        fold = Conversation(self._session.session_id, self._given.messages)
        state = await self._session.runtime.host.log.state_at(self._session.key, began.first - 1)
        task = state.task.current
        async for record in self._session.records():
            if record.seq > began.last:
                break
            if record.seq < began.first or isinstance(record.event, PromptReceived | ResultReceived):
                fold.feed(record)
        return (msgspec.to_builtins(task) if task != Task() else None), fold.messages
