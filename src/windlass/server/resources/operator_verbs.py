"""What an operator does with a session: verify it, look at it at any point, fork, compare, replay, erase."""

from __future__ import annotations

import asyncio

import msgspec

from windlass.runtime.operate.comparison import compare_sessions
from windlass.runtime.operate.inspection import Inspection, inspect
from windlass.runtime.operate.log_point import read_point
from windlass.runtime.operate.replay import ReplayPlan, replay
from windlass.runtime.operate.verification import Verdict, verify_session
from windlass.server.http_answer import Answer, told
from windlass.server.http_call import Call, no_agent
from windlass.server.problems import Problem
from windlass.server.route import Parameter, Route
from windlass.store.rules.ids import check_id


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """The session that was made."""

    session_id: str


class ForkPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to branch off: behind a record, or where a request was asked; the end, if neither is said."""

    session_id: str | None = None
    at_seq: int | None = None
    reopen: str | None = None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What was said in two sessions, compared: the lines of a unified diff."""

    same: bool
    difference: list[str]


class ReplayWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to run a session again: with which agent, from where, and whether tools really run."""

    agent: str
    at_seq: int = 0
    session_id: str | None = None
    live: bool = False


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was run again, and in what it differs."""

    replayed: str
    session_id: str
    strayed: bool
    same: bool
    difference: list[str]


class ErasureWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which record's content to erase, and why; the reason stays on record."""

    seq: int
    why: str


async def verify(call: Call) -> Answer:
    """Whether a session's log is what was written."""
    session = await call.session()
    return told(await verify_session(session.runtime.store, session.key))


async def inspect_session(call: Call) -> Answer:
    """What a request to the model would carry at a point of a session."""
    session = await call.session()
    at = call.number("at", 0, most=10**12) or None
    point = await read_point(session.runtime.store, session.key, until=at)
    return told(inspect(point))


async def fork(call: Call) -> Answer:
    """A new session that continues this one."""
    session, plan = await call.session(), await call.json(ForkPlan)
    made = await session.fork(plan.session_id, at_seq=plan.at_seq, reopen=plan.reopen)
    return told(Forked(session_id=made.session_id), 201)


async def compare(call: Call) -> Answer:
    """What was said in two sessions, compared."""
    session = await call.session()
    other = call.key("other_id")
    await session.runtime.get(other.session)
    comparison = await compare_sessions(session.runtime.store, session.key, other)
    lines = await asyncio.to_thread(comparison.difference, session.session_id, other.session)
    return told(Difference(same=comparison.same, difference=lines))


async def replay_session(call: Call) -> Answer:
    """Runs a session again and compares. Tools and people are answered from the log unless it is to be `live`."""
    session, wish = await call.session(), await call.json(ReplayWish)
    agent = call.server.tenants.agents.get(wish.agent)
    if agent is None:
        raise no_agent(call, wish.agent)
    if wish.session_id is not None:
        check_id("session id", wish.session_id)
    store = session.runtime.store
    plan = ReplayPlan(at_seq=max(0, wish.at_seq), session_id=wish.session_id, live=wish.live)
    try:
        async with asyncio.timeout(call.limits.replay_s):
            done = await replay(store, await read_point(store, session.key), agent, plan)
    except TimeoutError:
        raise Problem(409, "slow", f"the replay took longer than {call.limits.replay_s:g} s and was left") from None
    lines = await asyncio.to_thread(done.comparison.difference, done.replayed, done.session)
    return told(
        Replayed(
            replayed=done.replayed,
            session_id=done.session,
            strayed=done.strayed,
            same=done.comparison.same,
            difference=lines,
        )
    )


async def erase(call: Call) -> Answer:
    """Erases the content of one record for good."""
    session, wish = await call.session(), await call.json(ErasureWish)
    if not wish.why.strip():
        raise Problem(422, "malformed", "$.why: say why: it stays on record", path="$.why")
    await session.erase(wish.seq, wish.why, actor=call.token.name)
    return Answer(status=204)


ROUTES = (
    Route(
        method="GET",
        path="/v1/sessions/{session_id}/verify",
        name="verifySession",
        role="read",
        words="Whether the log is what was written.",
        handler=verify,
        gives=Verdict,
    ),
    Route(
        method="GET",
        path="/v1/sessions/{session_id}/inspect",
        name="inspectSession",
        role="read",
        words="What a request to the model would carry, at the end or at a record.",
        handler=inspect_session,
        parameters=(Parameter(name="at", words="The record.", schema={"type": "integer", "minimum": 1}),),
        gives=Inspection,
    ),
    Route(
        method="POST",
        path="/v1/sessions/{session_id}/fork",
        name="forkSession",
        role="drive",
        words="A new session that continues this one.",
        handler=fork,
        takes=ForkPlan,
        gives=Forked,
        status=201,
        fails=(409,),
        while_draining=False,
    ),
    Route(
        method="GET",
        path="/v1/sessions/{session_id}/compare/{other_id}",
        name="compareSessions",
        role="read",
        words="What was said in two sessions, compared.",
        handler=compare,
        gives=Difference,
    ),
    Route(
        method="POST",
        path="/v1/sessions/{session_id}/replay",
        name="replaySession",
        role="admin",
        words="Runs a session again with an agent that is served here, and compares.",
        handler=replay_session,
        takes=ReplayWish,
        gives=Replayed,
        fails=(409,),
        while_draining=False,
    ),
    Route(
        method="POST",
        path="/v1/sessions/{session_id}/erase",
        name="eraseContent",
        role="admin",
        words="Erases the content of one record for good; the log still verifies.",
        handler=erase,
        takes=ErasureWish,
        status=204,
        fails=(409,),
    ),
)
