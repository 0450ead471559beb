"""The tools that clients see: one for each agent, and those that tell, await, read and stop sessions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.errors import UsageError
from windlass.events.runs import CancelReceived, InterruptReceived
from windlass.events.values.blocks import Text
from windlass.runtime.api.agent import Agent
from windlass.runtime.api.sent_command import Sent
from windlass.runtime.api.session import Session
from windlass.server.access.roles import Role
from windlass.server.problems import Problem
from windlass.store.rules.ids import check_id

from . import arguments
from .answers import give_answer
from .caller import Caller
from .desk import Desk, command_id_of
from .outcome import FAILED, Outcome, in_words
from .session_pages import find, look, read_log
from .wait import RoundTrip, Wait

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolResult, InputRequiredResult

PREFIX = "agent_"
NAME_CHARS_MAX = 64
ABOUT_CHARS_MAX = 600


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool."""

    desk: Desk
    caller: Caller
    ctx: Any
    args: Any
    trip: RoundTrip | None = None
    said: dict[str, Any] = {}
    """What a person said to what the call asked before, if it is made again with that."""


Made = Outcome | Mapping[str, Any]
Handler = Callable[[ToolCall], Awaitable["Made | InputRequiredResult"]]


class ServedTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool."""

    name: str
    words: str
    role: Role
    takes: type[msgspec.Struct]
    handler: Handler
    reads: bool = False
    """Whether it changes nothing."""


async def _wait(
    call: ToolCall, session: Session, command_id: str = "", after: str | None = None
) -> Outcome | InputRequiredResult:
    waiting = Wait(call.desk, call.caller, call.ctx, session, after)
    if call.trip is not None:
        await waiting.answered(call.trip, call.said)
    try:
        return await waiting.run(call.args.wait_s, command_id)
    except UsageError as error:
        raise Problem(409, "no_run", str(error)) from None


async def _again(call: ToolCall) -> Outcome | InputRequiredResult:
    """The rest of a call that was cut in two by a question to a person."""
    assert call.trip is not None
    session = await call.desk.session(call.caller, call.trip.session_id)
    return await _wait(call, session, call.trip.command_id, await session.cursor())


async def _sent(call: ToolCall, session: Session, text: str, key: str | None, behavior: Any = None) -> str:
    """Has a prompt taken; once it has begun it is carried to its end, whatever becomes of the call. Raises `Problem` if
    something else was said under its key."""
    command_id = command_id_of(session, key)
    with anyio.CancelScope(shield=True):
        body = PromptBody(content=(Text(text=text),))
        said = PromptReceived(**_who(call, command_id), behavior=behavior, labels=call.desk.labels, body=body)
        await Sent(session, said)
        await _check_same(session, command_id, text, call.caller)
    return command_id


def _who(call: ToolCall, command_id: str) -> dict[str, Any]:
    """What every command says that comes as a call: its id, and that the caller's model gave it."""
    return {"command_id": command_id, "actor": call.caller.model, "auth": call.caller.auth}


async def _check_same(session: Session, command_id: str, text: str, caller: Caller) -> None:
    log = session.runtime.host.log
    seq = await log.taken_at(session.key, command_id)
    taken = await log.event_at(session.key, seq) if seq is not None else None
    if not isinstance(taken, PromptReceived):
        same = taken is None
    else:
        blocks = taken.body.content if taken.body is not None else ()
        same = taken.actor == caller.model and "".join(getattr(block, "text", "") for block in blocks) == text
    if not same:
        why = f"the key {command_id!r} is that of another message, in record {seq}: nothing was done; use another key"
        raise Problem(409, "key_reused", why)


def _agent_handler(agent: Agent) -> Handler:
    async def run_agent(call: ToolCall) -> Outcome | InputRequiredResult:
        if call.trip is not None:
            return await _again(call)
        asked: arguments.RunAgent = call.args
        if asked.session_id is not None:
            check_id("session id", asked.session_id)
        runtime = await call.desk.runtime(call.caller)
        with anyio.CancelScope(shield=True):
            session = await runtime.session(agent, asked.session_id)
            before = await session.cursor()
            command_id = await _sent(call, session, asked.prompt, asked.key)
        return await _wait(call, session, command_id, before)

    return run_agent


async def say(call: ToolCall) -> Outcome | InputRequiredResult:
    """Says something to a session, and waits."""
    if call.trip is not None:
        return await _again(call)
    asked: arguments.Say = call.args
    session = await call.desk.session(call.caller, asked.session_id)
    before = await session.cursor()
    command_id = await _sent(call, session, asked.text, asked.key, asked.behavior)
    return await _wait(call, session, command_id, before)


async def wait(call: ToolCall) -> Outcome | InputRequiredResult:
    """Waits for a session."""
    if call.trip is not None:
        return await _again(call)
    return await _wait(call, await call.desk.session(call.caller, call.args.session_id))


async def interrupt(call: ToolCall) -> Made:
    """Stops what runs."""
    session = await call.desk.session(call.caller, call.args.session_id)
    with anyio.CancelScope(shield=True):
        await Sent(session, InterruptReceived(**_who(call, command_id_of(session, None)), reason=call.args.reason))
    return {"session_id": session.session_id, "status": "interrupted"}


async def cancel(call: ToolCall) -> Made:
    """Stops what runs, for good."""
    session = await call.desk.session(call.caller, call.args.session_id)
    with anyio.CancelScope(shield=True):
        await Sent(session, CancelReceived(**_who(call, command_id_of(session, None)), reason=call.args.reason))
    return {"session_id": session.session_id, "status": "cancelled"}


async def list_sessions(call: ToolCall) -> Made:
    """Sessions of the caller's tenant."""
    return await find(await call.desk.runtime(call.caller), call.args)


async def read_session(call: ToolCall) -> Made:
    """How a session stands."""
    return await look(await call.desk.session(call.caller, call.args.session_id), call.desk.words)


async def session_log(call: ToolCall) -> Made:
    """A page of a log."""
    session = await call.desk.session(call.caller, call.args.session_id)
    return await read_log(session, call.args.after, call.args.limit)


async def answer(call: ToolCall) -> Made:
    """Answers what a session asks."""
    session = await call.desk.session(call.caller, call.args.session_id)
    return await give_answer(session, call.args, call.caller)


SESSION_TOOLS = (
    ServedTool(
        name="send",
        words="Says something to a session that is there, and waits for what comes of it.",
        role="drive",
        takes=arguments.Say,
        handler=say,
    ),
    ServedTool(
        name="wait",
        words="Waits until the run of a session ends, and gives its answer. Safe to call again and again: runs go on "
        "whether anybody waits or not.",
        role="read",
        takes=arguments.Await,
        handler=wait,
        reads=True,
    ),
    ServedTool(
        name="list_sessions",
        words="Lists sessions, the last changed first.",
        role="read",
        takes=arguments.Find,
        handler=list_sessions,
        reads=True,
    ),
    ServedTool(
        name="read_session",
        words="Shows how a session stands: its state, its last answer, and what it asks of people.",
        role="read",
        takes=arguments.Look,
        handler=read_session,
        reads=True,
    ),
    ServedTool(
        name="read_log",
        words="Reads a page of a session's log: each record with its place and its event.",
        role="read",
        takes=arguments.ReadLog,
        handler=session_log,
        reads=True,
    ),
    ServedTool(
        name="answer",
        words="Answers a question of a session, or denies a call that it asks about. Only people approve.",
        role="approve",
        takes=arguments.GiveAnswer,
        handler=answer,
    ),
    ServedTool(
        name="interrupt",
        words="Stops what a session is doing; it may be told something else later.",
        role="drive",
        takes=arguments.Stop,
        handler=interrupt,
    ),
    ServedTool(
        name="cancel",
        words="Stops what a session is doing and closes that for good.",
        role="drive",
        takes=arguments.Stop,
        handler=cancel,
    ),
)


def tools_of(agents: Mapping[str, Agent]) -> dict[str, ServedTool]:
    """All tools by name: those of the agents first."""
    served_tools: dict[str, ServedTool] = {}
    for agent in agents.values():
        name = tool_name(agent.name)
        about = f" It is told: {agent.instructions[:ABOUT_CHARS_MAX]}" if agent.instructions else ""
        words = (
            f"Has the agent {agent.name!r} carry out a task in a session that outlives this call, and waits for its "
            f"answer.{about}"
        )
        served_tools[name] = ServedTool(
            name=name, words=words, role="drive", takes=arguments.RunAgent, handler=_agent_handler(agent)
        )
    return served_tools | {tool.name: tool for tool in SESSION_TOOLS}


def tool_name(agent: str) -> str:
    """The name of an agent's tool: as it is called, if clients take that; else marked with a digest, so that no two
    agents are taken for each other."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", agent)[: NAME_CHARS_MAX - len(PREFIX)]
    if plain == agent:
        return PREFIX + plain
    mark = hashlib.sha256(agent.encode()).hexdigest()[:8]
    return f"{PREFIX}{plain[: NAME_CHARS_MAX - len(PREFIX) - 9]}_{mark}"


def result_of(made: Made) -> CallToolResult:
    """What a tool gives, as clients get it: data, and the same in words."""
    from mcp_types import CallToolResult, TextContent

    if isinstance(made, Outcome):
        plain: dict[str, Any] = msgspec.to_builtins(made, enc_hook=str)
        text, failed = in_words(made), made.status in FAILED
    else:
        plain, failed = dict(made), False
        text = msgspec.json.format(msgspec.json.encode(plain, enc_hook=str)).decode()
    return CallToolResult(content=[TextContent(text=text)], structured_content=plain, is_error=failed)


def trip_of(state: str | None) -> RoundTrip | None:
    """What a client has brought back. Raises `Problem` for what is none of ours."""
    if state is None:
        return None
    try:
        return msgspec.json.decode(state.encode("utf-8", "replace"), type=RoundTrip)
    except msgspec.DecodeError:
        raise Problem(400, "usage", "the requestState is none of this server's: call again without it") from None


async def call_tool(
    tools: Mapping[str, ServedTool],
    desk: Desk,
    caller: Caller,
    ctx: ServerRequestContext[Any, Any],
    params: Any,
) -> CallToolResult | InputRequiredResult:
    """Carries out one call. Raises `Problem`, `WireError` and what the runtime refuses."""
    from mcp_types import InputRequiredResult

    tool = tools.get(params.name)
    if tool is None:
        raise Problem(404, "no_tool", f"there is no tool {params.name[:80]!r}: tools/list lists them")
    caller.require(tool.role)
    with desk.counted(caller):
        made = await tool.handler(
            ToolCall(
                desk=desk,
                caller=caller,
                ctx=ctx,
                args=arguments.read(params.arguments, tool.takes),
                trip=trip_of(params.request_state),
                said=dict(params.input_responses or {}),
            )
        )
    return made if isinstance(made, InputRequiredResult) else result_of(made)
