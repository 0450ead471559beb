"""Sessions: begun, resumed, talked to, stopped, left, removed."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import TYPE_CHECKING, Any

from windlass.adapters.copilot.client_session import Seat, seat_of
from windlass.adapters.copilot.open_questions import ACTOR
from windlass.adapters.copilot.session_setup import agent_for, mount, options_of
from windlass.adapters.copilot.view.attachment_forms import attachment_of
from windlass.adapters.copilot.view.event_view import CopilotView
from windlass.adapters.copilot.view.session_forms import RESUMED
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.errors import NotFound, Refused, UsageError
from windlass.events.sessions import NoticeGiven
from windlass.events.values.blocks import JsonObject, Text
from windlass.events.values.setup import RunOptions
from windlass.protocol.json_rpc.frames import NO_METHOD
from windlass.protocol.json_rpc.rpc_peer import AT_ONCE_MAX, PeerGone, RpcError
from windlass.runtime.api.sent_command import Sent
from windlass.runtime.api.session import Session
from windlass.runtime.operate.session_removal import remove_session

from .commands import execute

if TYPE_CHECKING:
    from windlass.adapters.copilot.copilot_host import CopilotHost
    from windlass.protocol.json_rpc.rpc_peer import RpcPeer

HOOK_S = 10.0
"""How long a client's hook at the beginning or the end of a session is waited for."""
WAITS_MAX = AT_ONCE_MAX // 2
"""How many messages clients may wait for here: each holds a place among the requests that are heard at once."""
STOP_S = 10.0
"""How long a session that is to be removed may take to stop."""


async def create(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Begins a session; its client hears everything from its first event on."""
    session_id = str(params.get("sessionId") or uuid.uuid4())
    async with host.opening(session_id):
        if session_id in host.feeds or await _is_there(host, session_id):
            raise UsageError(f"session {session_id!r} exists: resume it")
        agent = agent_for(host.agents, params)
        session = await host.runtime.session(
            agent,
            session_id,
            title=str(params.get("name") or ""),
            workspace=params.get("workingDirectory") or ".",
            options=options_of(agent, params),
        )
        seat = seat_of(peer, session_id, params)
        await mount(session, seat, params.get("tools") or [])
        host.feed(session, 0).sit_down(seat)
    host.tell_all("created", session_id)
    await began(host, seat, "startup")
    return answer(session, seat)


async def _is_there(host: CopilotHost, session_id: str) -> bool:
    with contextlib.suppress(NotFound):
        await host.runtime.get(session_id)
        return True
    return False


async def resume(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Takes a seat at a session that exists: what is open is asked again, and what is owed goes on."""
    session_id = str(params["sessionId"])
    async with host.opening(session_id):
        feed = host.feeds.get(session_id)
        if feed is None:
            session = await host.runtime.get(session_id)
            state = await session.state()
            known, name = state.seq, state.setup.agent.name
            agent = agent_for(host.agents, {"agent": name})
            session = await host.runtime.session(agent, session_id, options=options_of(agent, params))
            feed = host.feed(session, known)
        before = host.seat(peer, session_id)
        if before is not None:
            feed.stand_up(before)
        seat = seat_of(peer, session_id, params)
        feed.sit_down(seat)
        await mount(feed.session, seat, params.get("tools") or [])
        await host.notice(feed.session, NoticeGiven(code=RESUMED, message="a client has resumed the session"))
    await began(host, seat, "resume")
    return answer(feed.session, seat)


def answer(session: Session, seat: Seat) -> JsonObject:
    """What a client learns of its seat."""
    return {"sessionId": session.session_id, "capabilities": {"ui": {"elicitation": seat.answers_forms}}}


async def began(host: CopilotHost, seat: Seat, source: str) -> None:
    await hooked(host, seat, "sessionStart", {"source": source})


async def hooked(host: CopilotHost, seat: Seat, hook: str, given: JsonObject) -> None:
    """Tells a client's hook of the beginning or the end of a session; what it says changes nothing."""
    if seat.hooks:
        with contextlib.suppress(RpcError, PeerGone, TimeoutError):
            async with asyncio.timeout(HOOK_S):
                await host.client_hooks.invoke(seat, hook, given)


async def send(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Says something to the agent; acknowledged once it is kept."""
    message_id = str(uuid.uuid4())
    await _say(host, peer, params, message_id)
    return {"messageId": message_id}


async def send_and_wait(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """The same, and waits for the end of the run: its last answer. A client for which there is no place to wait is told
    that there is no such method, and then waits by itself for the session to be idle."""
    session = await _own_session(host, peer, params)
    feed = host.feeds.get(session.session_id)
    if feed is None or sum(len(one.completions) for one in host.feeds.values()) >= WAITS_MAX:
        raise RpcError(NO_METHOD, f"more than {WAITS_MAX} messages are waited for: wait for session.idle")
    message_id = str(uuid.uuid4())
    with feed.awaited(message_id) as completion:
        if not await _say(host, peer, params, message_id):
            return {"response": None, "aborted": False}
        return await completion.ended


async def _say(host: CopilotHost, peer: RpcPeer, params: dict[str, Any], message_id: str) -> bool:
    """Whether it was for the agent: a slash command of a client is that client's."""
    session = await _own_session(host, peer, params)
    text = str(params.get("prompt") or "")
    feed = host.feeds.get(session.session_id)
    if feed is not None and (run := execute(host, feed, text)) is not None:
        host.spawn(run)
        return False
    state = await session.state()
    mode = params.get("agentMode")
    if mode in ("interactive", "plan", "autopilot") and mode != state.setup.mode:
        await session.set_mode(mode)
    seat = host.seat(peer, session.session_id)
    offered = seat.offered(state) if seat is not None else None
    folder = state.workspace.folder.cwd if state.workspace.folder is not None else "."
    prompt = PromptReceived(
        command_id=message_id,
        actor=ACTOR,
        behavior="steer" if params.get("mode") == "immediate" and state.active else None,
        options=RunOptions(tools=offered) if offered is not None else None,
        body=PromptBody(
            content=(Text(text=text),) if text else (),
            displayed=params.get("displayPrompt"),
            attachments=tuple(attachment_of(given, folder) for given in params.get("attachments") or ()),
        ),
    )
    await Sent(session, prompt)
    return True


async def _own_session(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> Session:
    """The session that a client sits at. Raises `UsageError` for one that it has left."""
    session_id = str(params["sessionId"])
    if host.seat(peer, session_id) is None:
        raise UsageError(f"this client has left session {session_id!r}, or was never there: resume it")
    return await host.session(session_id)


async def abort(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Stops what is running; the session stays."""
    session = await host.session(str(params["sessionId"]))
    try:
        await session.interrupt("aborted by a client", actor=ACTOR)
    except Refused:
        return {"success": True}  # nothing was running
    return {"success": True}


async def get_messages(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """The history: the events that are kept, from the log alone."""
    session = await _own_session(host, peer, params)
    view = CopilotView(session.session_id)
    events = [event async for record in session.records() for event in view.feed(record)]
    return {"events": [event for event in events if "ephemeral" not in event]}


async def detach(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Leaves a session. The last client that leaves has its sums put on record; it can be resumed."""
    session_id = str(params["sessionId"])
    seat = host.seat(peer, session_id)
    if seat is not None:
        await hooked(host, seat, "sessionEnd", {"reason": "user_exit"})
    await host.leave(peer, session_id)
    return {"success": True}


async def delete(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Removes a session for good; whatever it does is stopped first."""
    session_id = str(params["sessionId"])
    async with host.opening(session_id):
        session = await host.session(session_id)
        if (await session.state()).active:
            await session.cancel("removed by a client", actor=ACTOR)
            await session.wait_idle(timeout_ms=int(STOP_S * 1000))
        feed = host.feeds.pop(session_id, None)
        if feed is not None:
            await feed.stop()
        if host.runtime.slots.driven_at(session.key) is not None:
            await session.close("removed")
        if not await remove_session(host.runtime.store, host.place, session.key):
            return {"success": False, "error": "another process has the session open"}
    host.tell_all("deleted", session_id)
    return {"success": True}


METHODS = {
    "session.create": create,
    "session.resume": resume,
    "session.send": send,
    "session.sendAndWait": send_and_wait,
    "session.abort": abort,
    "session.getMessages": get_messages,
    "session.detach": detach,
    "session.destroy": detach,
    "session.suspend": detach,
    "session.delete": delete,
}
