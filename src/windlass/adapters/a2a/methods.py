"""The methods that clients call, by name: a closed list; whatever is not in it is refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from windlass.events.commands import PromptReceived
from windlass.events.errors import WindlassError
from windlass.events.runs import CancelReceived
from windlass.runtime.api.sent_command import Sent
from windlass.server.http_answer import Answer, told
from windlass.server.http_call import Call
from windlass.server.problems import Problem
from windlass.store.rules.ids import check_id

from .agent_card import PROTOCOL, agent_of
from .messages import Json, read_message
from .rpc import (
    METHOD,
    NO_CARD,
    NO_PUSH,
    NOT_CANCELABLE,
    PARAMS,
    UNSUPPORTED,
    VERSION,
    RpcFailed,
    RpcRequest,
    error,
    read_request,
    result,
)
from .rpc import answered as failed
from .task_fold import OVER
from .tasks import Begun, command_of, folded, found, rested, said_to_task, told_now, watched
from .wire_ids import BEGAN, CANCELLED

logger = logging.getLogger("windlass.a2a")
TASKS_MAX = 100


async def ask_agent(call: Call) -> Answer | TaskStream:
    """Carries out one request."""
    agent_of(call)
    name: str | int | None = None
    try:
        request = await read_request(call)
        name = request.id
        _check_version(call)
        if request.method in STREAMS:
            task = await STREAMS[request.method](call, request.params)
            return TaskStream(name, watched(task))
        if request.method not in METHODS:
            raise _no_method(request)
        return told(result(name, await METHODS[request.method](call, request.params)))
    except (Problem, WindlassError) as problem:
        return failed(name, problem)


class TaskStream:
    """One task as it goes on."""

    def __init__(self, name: str | int | None, updates: AsyncIterator[Json]) -> None:
        self._name = name
        self._updates = updates

    def hello(self) -> bytes:
        """Nothing but that it is a stream."""
        return b": hello\n\n"

    async def frames(self) -> AsyncIterator[bytes]:
        """What is told of it."""
        try:
            async for update in self._updates:
                yield b"data: %s\n\n" % msgspec.json.encode(result(self._name, update))
        except WindlassError as problem:
            logger.warning("a task can be told no further: %s", problem)
            why = RpcFailed(UNSUPPORTED, str(problem))
            yield b"event: error\ndata: %s\n\n" % msgspec.json.encode(error(self._name, why))


def _check_version(call: Call) -> None:
    wanted = call.headers.get("a2a-version", PROTOCOL)
    if wanted.partition(".")[0] != PROTOCOL.partition(".")[0]:
        raise RpcFailed(VERSION, f"this speaks A2A {PROTOCOL}, not {wanted[:20]!r}")


def _no_method(request: RpcRequest) -> RpcFailed:
    if "PushNotification" in request.method:
        return RpcFailed(NO_PUSH, "there are no push notifications: stream the task, or ask for it")
    if request.method == "GetExtendedAgentCard":
        return RpcFailed(NO_CARD, "the card says all there is to say")
    there = ", ".join(sorted({*METHODS, *STREAMS}))
    return RpcFailed(METHOD, f"there is no method {request.method[:80]!r}: there are {there}")


# --- what they do ---


async def send(call: Call, params: Json) -> Json:
    """Says something, and gives the task once it is over or asks something; at once if that is wished."""
    wishes = params.get("configuration") or {}
    task = await said_to_task(call, read_message(params))
    if isinstance(wishes, dict) and wishes.get("returnImmediately") is True:
        return {"task": await told_now(task, await folded(task), _length(wishes))}
    return {"task": await call.unless_left(rested(task, _length(wishes if isinstance(wishes, dict) else {})))}


async def stream(call: Call, params: Json) -> Begun:
    """Says something, and watches the task."""
    return await said_to_task(call, read_message(params))


async def get(call: Call, params: Json) -> Json:
    """A task as it is now."""
    task = await found(call, _id(params))
    return await told_now(task, await folded(task), _length(params))


async def tasks_of(call: Call, params: Json) -> Json:
    """The tasks of a context, the newest first."""
    name = params.get("contextId")
    if not isinstance(name, str) or not name:
        raise RpcFailed(UNSUPPORTED, "tasks are listed by context: name one as contextId")
    session = await (await call.runtime()).get(check_id("session id", name))
    begun = [
        Begun(session=session, seq=record.seq)
        async for record in session.records()
        if isinstance(record.event, PromptReceived) and record.event.command_id.startswith(BEGAN)
    ]
    if (await session.state()).setup.agent.name != agent_of(call).name:
        begun = []
    newest = begun[::-1][:TASKS_MAX]
    shown = [await told_now(task, await folded(task), _length(params)) for task in newest]
    return {"tasks": shown, "nextPageToken": "", "pageSize": len(shown), "totalSize": len(begun)}


async def cancel(call: Call, params: Json) -> Json:
    """Stops a task for good."""
    task = await found(call, _id(params))
    fold = await folded(task)
    if fold.state in OVER or fold.ended:
        raise RpcFailed(NOT_CANCELABLE, f"the task {fold.name!r} is over already")
    await Sent(task.session, command_of(call, CancelReceived, CANCELLED + fold.name))
    async with asyncio.timeout(call.limits.wait_s):
        return await rested(task, _length(params))


async def subscribe(call: Call, params: Json) -> Begun:
    """Watches a task that is there."""
    task = await found(call, _id(params))
    fold = await folded(task)
    if fold.state in OVER or fold.ended:
        raise RpcFailed(UNSUPPORTED, f"the task {fold.name!r} is over: get it instead")
    return task


def _id(params: Json) -> str:
    name = params.get("id")
    if not isinstance(name, str) or not name:
        raise RpcFailed(PARAMS, "$.id: name a task")
    return name


def _length(params: Json) -> int | None:
    given = params.get("historyLength")
    return given if isinstance(given, int) and given >= 0 else None


METHODS: dict[str, Callable[[Call, Json], Awaitable[Json]]] = {
    "SendMessage": send,
    "GetTask": get,
    "ListTasks": tasks_of,
    "CancelTask": cancel,
}
STREAMS: dict[str, Callable[[Call, Json], Awaitable[Begun]]] = {
    "SendStreamingMessage": stream,
    "SubscribeToTask": subscribe,
}
