"""What is said to sessions: commands, and answers to what they ask of people. The first answer counts; whoever comes
second is told what came first."""

from __future__ import annotations

import contextlib
import re
from typing import Any, Literal

import msgspec

from windlass.events.base import Command, tag_of
from windlass.events.commands import PromptReceived
from windlass.events.questions import Answer as QuestionAnswer
from windlass.events.questions import AnswerBody, AnswerReceived
from windlass.events.signals import SignalReceived
from windlass.events.stored import codec
from windlass.events.tools.permissions import PermissionApproved, PermissionDenied, Scope
from windlass.events.tools.toolset import UnmountReceived
from windlass.events.values.policy import WorkMode
from windlass.events.values.traces import trace_context
from windlass.protocol.wire_commands import read_command
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk
from windlass.runtime.api.sent_command import Sent
from windlass.runtime.api.session import Session
from windlass.server.access.roles import Role, role_for, role_in
from windlass.server.http_answer import Answer, told
from windlass.server.http_call import Call
from windlass.server.kept_keys import KeyUse
from windlass.server.problems import Problem
from windlass.server.route import Parameter, Route
from windlass.store.base import INBOX_COMMANDS_MAX, Key

from .slash_commands import HandledCommand, run_by_client

KEY = re.compile(r"[A-Za-z0-9_.-]{1,100}\Z")
"""What an Idempotency-Key may be. Ids that the runtime makes for messages of its own have a colon."""
KEY_WORDS = "has up to 100 letters, digits, '_', '-' and '.'"
KEY_HEADER = Parameter(
    name="Idempotency-Key",
    words="The id of the command. The same sent again is acknowledged again, and nothing happens; a key of another "
    "kind of command, or of somebody else, is refused (409), or one that this server knows with other content (422).",
    schema={"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,100}$"},
    place="header",
)


TRACE_HEADER = Parameter(
    name="traceparent",
    words="The caller's trace context: the run that a prompt or a signal begins becomes a part of that trace.",
    place="header",
)


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A command that is kept, and will be carried out whatever happens to this server."""

    command_id: str
    session_id: str
    seq: int | None = None
    """The record that it was taken in; null if it waits in the inbox for the process that drives the session."""


class OpenRequests(msgspec.Struct, frozen=True, kw_only=True):
    """What a session asks of people now, the oldest first; what its children ask is among it."""

    permissions: tuple[PermissionAsk, ...]
    questions: tuple[QuestionAsk, ...]


class GivenAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to a request. An approval needs the `digest` of what was shown."""

    decision: Literal["approve", "deny", "answer", "decline"]
    digest: str | None = None
    scope: Scope = "once"
    pattern: str | None = None
    for_ms: int | None = None
    feedback: str = ""
    stop: bool = False
    text: str | None = None
    """The answer to a question, in words."""
    selected: tuple[str, ...] = ()
    """What was picked of a choice."""
    content: dict[str, Any] | None = None
    """The content of a form."""
    action: str | None = None
    mode: WorkMode | None = None


async def send_command(call: Call) -> Answer:
    """Has a command taken; acknowledged once it is kept."""
    session = await call.session()
    command = read_command(
        await call.json_bytes(), command_id=_command_id(call, session), actor=call.token.name, auth="token"
    )
    call.require(await role_needed(session, command))
    async with await _key_use(
        call, session, command.command_id, tag_of(type(command)), codec.encode_command(command)
    ) as use:
        command = _traced(command, call.headers.get(TRACE_HEADER.name, ""))
        going = await run_by_client(call, session, command)
        if isinstance(going, HandledCommand):
            return told(going)
        await Sent(session, going)
        answer = await accepted(session, command.command_id, type(command), command.actor)
        use.kept = True
        return answer


async def role_needed(session: Session, command: Command) -> Role:
    """The role that a command needs in a session as it is now."""
    role = role_for(command)
    if isinstance(command, UnmountReceived):
        role = role_in(command, (await session.state()).toolset.tools)
    return role


def _traced(command: Command, header: str) -> Command:
    """A command in the trace of the request that brought it. A header that is no trace context is passed over, as its
    standard says."""
    if not isinstance(command, PromptReceived | SignalReceived) or command.trace or trace_context(header) is None:
        return command
    return msgspec.structs.replace(command, trace=header)


async def list_requests(call: Call) -> Answer:
    """What a session asks of people."""
    return told(await open_requests(await call.session()))


async def open_requests(session: Session) -> OpenRequests:
    """What is open in a session and below it."""
    asked = await session.runtime.host.views.asked(session.key)
    return OpenRequests(
        permissions=tuple(ask for ask in asked if isinstance(ask, PermissionAsk)),
        questions=tuple(ask for ask in asked if isinstance(ask, QuestionAsk)),
    )


async def answer_request(call: Call) -> Answer:
    """Answers a request of a session, or of one below it."""
    session = await call.session()
    given = await call.json(GivenAnswer)
    name = call.names["request_id"]
    command_id, wish = _command_id(call, session), msgspec.json.encode((name, given))
    async with await _key_use(call, _asker(session, name), command_id, given.decision, wish) as use:
        answer = await _answered_request(session, name, given, command_id, call.token.name)
        use.kept = True
        return answer


async def _answered_request(session: Session, name: str, given: GivenAnswer, command_id: str, actor: str) -> Answer:
    match given.decision:
        case "approve":
            if given.digest is None:
                raise Problem(422, "malformed", "$.digest: say what you approve: its digest", path="$.digest")
            kind: type[Command] = PermissionApproved
            await session.approve(
                name,
                scope=given.scope,
                pattern=given.pattern,
                for_ms=given.for_ms,
                digest=given.digest,
                command_id=command_id,
                actor=actor,
                auth="token",
            )
        case "deny":
            kind = PermissionDenied
            await session.deny(name, given.feedback, stop=given.stop, command_id=command_id, actor=actor, auth="token")
        case _:
            kind = AnswerReceived
            await session.answer(
                name,
                _answered(given),
                outcome="answered" if given.decision == "answer" else "declined",
                action=given.action,
                mode=given.mode,
                command_id=command_id,
                actor=actor,
                auth="token",
            )
    return await accepted(_asker(session, name), command_id, kind, actor)


def _asker(session: Session, name: str) -> Session:
    """The session that asked something: this one, or one below it, as its id says."""
    path, slash, _ = name.rpartition("/")
    return Session(session.runtime, Key(session.key.tenant, f"{session.session_id}~{path}")) if slash else session


def _answered(given: GivenAnswer) -> AnswerBody:
    if given.content is not None:
        return AnswerBody(content=given.content)
    if given.text is None and not given.selected:
        return AnswerBody()
    return AnswerBody(answers=(QuestionAnswer(index=0, text=given.text or "", selected=given.selected),))


async def _key_use(
    call: Call, session: Session, command_id: str, kind: str, wish: bytes
) -> contextlib.AbstractAsyncContextManager[KeyUse]:
    """The use of the key that a request has, for a command of this kind that says this."""
    if "idempotency-key" not in call.headers:
        return contextlib.nullcontext(KeyUse())  # the id is a fresh one
    host, key = session.runtime.host, session.key

    async def is_known() -> bool:
        if await host.log.taken_at(key, command_id) is not None:
            return True
        waiting = await session.runtime.store.inbox.waiting(key, limit=INBOX_COMMANDS_MAX)
        return any(one.command_id == command_id for one in waiting)

    born = await host.log.born(key)  # one of the same name may have been here before
    place = (key.tenant, key.session, born, kind, call.token.name, command_id)
    return call.server.kept_keys.use(place, wish, is_known)


def _command_id(call: Call, session: Session) -> str:
    given = call.headers.get("idempotency-key")
    if given is None:
        return session.runtime.ports.fresh_id()
    if not KEY.match(given):
        raise Problem(400, "usage", f"an Idempotency-Key {KEY_WORDS}")
    return given


async def accepted(session: Session, command_id: str, kind: type[Command], actor: str) -> Answer:
    """The acknowledgement of a command that is kept. Raises `Problem` if another one was kept under its id before."""
    seq = await taken_seq(session, command_id, kind, actor)
    accepted = Accepted(command_id=command_id, session_id=session.session_id, seq=seq)
    return told(accepted, 200 if seq is not None else 202)


async def taken_seq(session: Session, command_id: str, kind: type[Command], actor: str) -> int | None:
    """The record that a command was taken in; None if it waits in the inbox. Raises `Problem` if another one was kept
    under its id before."""
    log = session.runtime.host.log
    seq = await log.taken_at(session.key, command_id)
    if seq is not None:
        taken = await log.event_at(session.key, seq)
        if isinstance(taken, Command) and (type(taken) is not kind or taken.actor != actor):
            why = (
                f"the key {command_id!r} is that of another command, in record {seq}: nothing was done; use another key"
            )
            raise Problem(409, "key_reused", why)
    return seq


ROUTES = (
    Route(
        method="POST",
        path="/v1/sessions/{session_id}/commands",
        name="sendCommand",
        role="read",
        words="Sends a command: 200 once it is in the log, 202 once it is kept for the process that drives it. "
        "Most commands need the role `drive`, answers and what widens a session's rights `approve`. A prompt `/name …` "
        "that names a slash command of a client waits for what that client makes of it; if it handled it, nothing is "
        "sent, and the answer says who did.",
        handler=send_command,
        parameters=(KEY_HEADER, TRACE_HEADER),
        takes="Command",
        gives=Accepted | HandledCommand,
        also=(202,),
        fails=(409, 507),
        while_draining=False,
    ),
    Route(
        method="GET",
        path="/v1/sessions/{session_id}/requests",
        name="listRequests",
        role="read",
        words="What a session asks of people now.",
        handler=list_requests,
        gives=OpenRequests,
    ),
    Route(
        method="POST",
        path="/v1/sessions/{session_id}/requests/{request_id}",
        name="answerRequest",
        role="approve",
        words="Answers a request. The first answer counts; a later one is told what came first (409).",
        handler=answer_request,
        parameters=(KEY_HEADER,),
        takes=GivenAnswer,
        gives=Accepted,
        also=(202,),
        fails=(409, 507),
        while_draining=False,
    ),
)
