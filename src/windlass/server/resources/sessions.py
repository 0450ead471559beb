"""Sessions as resources: list, create, look at, remove; their records, their events, how their runs end."""

from __future__ import annotations

import asyncio

import msgspec

from windlass.events.errors import UsageError
from windlass.protocol.wire_events import record_bytes
from windlass.runtime.api.open_things import Waiting
from windlass.runtime.api.result import Result
from windlass.runtime.operate.session_removal import remove_session
from windlass.server.event_stream import EventStream
from windlass.server.http_answer import Answer, told
from windlass.server.http_call import Call, no_agent
from windlass.server.problems import Problem
from windlass.server.route import Parameter, Route
from windlass.server.sse_connection import MEDIA
from windlass.store.base import IndexRow, Key
from windlass.store.rules.ids import check_id

from .requests import open_requests
from .slash_commands import COMMANDS_MAX, brought

WHOLE = {"type": "integer", "minimum": 0}
AFTER = Parameter(name="after", words="A cursor; what comes behind it is given. The beginning, if there is none.")
LOOK_S = 5.0
"""How long it may take to find a result that is there."""
SESSION_STATES = ("new", "idle", "running", "asked", "sleeping", "left", "parked", "damaged")


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions, the last changed first."""

    sessions: list[IndexRow]


class NewSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session to begin, or to find if there is one of that id."""

    agent: str
    session_id: str | None = None
    title: str = ""
    metadata: dict[str, str] = {}
    labels: tuple[str, ...] = ()


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A session: its row of the index, the cursor behind its last record, and what it waits for."""

    session: IndexRow
    cursor: str
    waiting: tuple[Waiting, ...] = ()


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended; null while it goes on."""

    result: Result | None


async def list_sessions(call: Call) -> Answer:
    """The sessions of the caller's tenant."""
    state = call.query.get("state")
    if state is not None and state not in SESSION_STATES:
        raise Problem(400, "usage", f"state={state[:40]}: there are {', '.join(SESSION_STATES)}")
    rows = await (await call.runtime()).sessions(
        states=(state,) if state is not None else (),
        agent=call.query.get("agent"),
        text=call.query.get("text"),
        limit=call.number("limit", 100, least=1, most=call.limits.page),
        offset=call.number("offset", 0, most=10**9),
    )
    return told(SessionList(sessions=rows))


async def create_session(call: Call) -> Answer:
    """Begins a session, or finds it: safe to repeat if it names its id."""
    asked = await call.json(NewSession)
    runtime = await call.runtime()
    agent = call.server.tenants.agents.get(asked.agent)
    if agent is None:
        raise no_agent(call, asked.agent)
    before = None
    if asked.session_id is not None:
        before = await runtime.store.log.head(Key(call.token.tenant, check_id("session id", asked.session_id)))
    session = await runtime.session(
        agent, asked.session_id, title=asked.title, metadata=dict(asked.metadata), labels=asked.labels
    )
    return await _view(call, session.session_id, status=200 if before else 201)


async def get_session(call: Call) -> Answer:
    """One session."""
    session = await call.session()
    return await _view(call, session.session_id)


async def _view(call: Call, session_id: str, status: int = 200) -> Answer:
    runtime = await call.runtime()
    session = await runtime.get(session_id)
    row = await runtime.store.index.get(session.key) or IndexRow(session=session_id, state="new")
    view = SessionView(session=row, cursor=await session.cursor(), waiting=await session.waiting())
    return told(view, status)


async def delete_session(call: Call) -> Answer:
    """Removes a session for good, if nobody drives it and no fork needs it."""
    session = await call.session()
    runtime = session.runtime
    if (await session.state()).active:
        raise Problem(409, "active", "the session is at work: cancel it first")
    if runtime.slots.driven_at(session.key) is not None:
        await session.close("removed")
    if not await remove_session(runtime.store, call.server.tenants.place, session.key):
        raise Problem(409, "held", "another process has the session open: it is removed once that lets it go")
    return Answer(status=204)


async def list_records(call: Call) -> Answer:
    """A page of a session's log, as it is now: so many records, or fewer if they are large."""
    session = await call.session()
    limit = call.number("limit", 100, least=1, most=call.limits.page)
    records: list[bytes] = []
    cursor, more, size = call.query.get("after", ""), False, 0
    async for record in session.records(after=cursor or None):
        if len(records) == limit or size >= call.limits.page_bytes:
            more = True
            break
        records.append(record_bytes(record))
        size += len(records[-1])
        cursor = record.cursor
    page = b'{"records":[%s],"cursor":%s,"more":%s}'
    body = page % (b",".join(records), msgspec.json.encode(cursor), b"true" if more else b"false")
    return Answer(body=body)


async def follow_events(call: Call) -> EventStream:
    """A session's log behind a cursor, then what happens, as server-sent events. The stream begins with what is open,
    so that whoever comes late can answer it. Slash commands that the client brings are there as long as the stream."""
    session = await call.session()
    client = brought(call)
    after = call.headers.get("last-event-id") or call.query.get("after") or None
    seq = await session.runtime.host.cursors.seq_of(session.key, after)
    asked = await open_requests(session)
    is_open = bool(asked.permissions or asked.questions)
    return EventStream(
        session,
        seq,
        live=call.flag("live", True),
        asked=told(asked).body if is_open else b"",
        slash=None if client is None else (call.server.slash_desk, client),
    )


async def get_result(call: Call) -> Answer:
    """How the run of a command ended, or that of a session at rest; waits for it for a while, if asked to."""
    session = await call.session()
    seconds = call.number("wait_s", 0, most=int(call.limits.wait_s))
    command_id = call.query.get("command_id")
    if not seconds and command_id is None and (await session.state()).active:
        return told(RunEnd(result=None))
    try:
        async with asyncio.timeout(seconds or LOOK_S):
            return told(RunEnd(result=await session.result(command_id)))
    except TimeoutError:
        return told(RunEnd(result=None))
    except UsageError as error:
        raise Problem(409, "no_run", str(error)) from None


ROUTES = (
    Route(
        method="GET",
        path="/v1/sessions",
        name="listSessions",
        role="read",
        words="Sessions, the last changed first.",
        handler=list_sessions,
        parameters=(
            Parameter(name="state", words="Only those in this state.", schema={"enum": list(SESSION_STATES)}),
            Parameter(name="agent", words="Only those of this agent."),
            Parameter(name="text", words="Only those whose id, title or agent has this in it."),
            Parameter(name="limit", words="How many.", schema={"type": "integer", "minimum": 1, "maximum": 1000}),
            Parameter(name="offset", words="How many to pass over.", schema=WHOLE | {"maximum": 10**9}),
        ),
        gives=SessionList,
    ),
    Route(
        method="POST",
        path="/v1/sessions",
        name="createSession",
        role="drive",
        words="Begins a session of an agent, or finds the one of that id.",
        handler=create_session,
        takes=NewSession,
        gives=SessionView,
        status=201,
        also=(200,),
        fails=(404, 409),
        while_draining=False,
    ),
    Route(
        method="GET",
        path="/v1/sessions/{session_id}",
        name="getSession",
        role="read",
        words="One session: its state, what it waits for, and the cursor behind its last record.",
        handler=get_session,
        gives=SessionView,
    ),
    Route(
        method="DELETE",
        path="/v1/sessions/{session_id}",
        name="deleteSession",
        role="admin",
        words="Removes a session for good.",
        handler=delete_session,
        status=204,
        fails=(409,),
    ),
    Route(
        method="GET",
        path="/v1/sessions/{session_id}/records",
        name="listRecords",
        role="read",
        words="A page of the log behind a cursor.",
        handler=list_records,
        parameters=(
            AFTER,
            Parameter(name="limit", words="How many.", schema={"type": "integer", "minimum": 1, "maximum": 1000}),
        ),
        gives="RecordPage",
        fails=(409,),
    ),
    Route(
        method="GET",
        path="/v1/sessions/{session_id}/events",
        name="followEvents",
        role="read",
        words="The log behind a cursor, then what happens, live. `record` events have a cursor as their id; `live` and "
        "`requests` events have none, nor have `slash` events: slash commands of this client that somebody named, and "
        "how they ended.",
        handler=follow_events,
        parameters=(
            AFTER,
            Parameter(name="live", words="Whether live events are wanted.", schema={"type": "boolean"}),
            Parameter(
                name="commands",
                words='Slash commands that this client runs while it follows, as JSON: `[{"name": "deploy", '
                f'"description": "Ships it"}}]`, up to {COMMANDS_MAX}. Needs the role `drive`.',
            ),
            Parameter(name="Last-Event-ID", words="The cursor to resume behind, before `after`.", place="header"),
        ),
        gives="EventStream",
        media=MEDIA,
        fails=(409,),
    ),
    Route(
        method="GET",
        path="/v1/sessions/{session_id}/result",
        name="getResult",
        role="read",
        words="How a run ended.",
        handler=get_result,
        parameters=(
            Parameter(name="command_id", words="The command whose run is meant; else the current or the last one."),
            Parameter(name="wait_s", words="How long to wait.", schema=WHOLE | {"maximum": 60}),
        ),
        gives=RunEnd,
        fails=(409,),
    ),
)
