"""Sessions: begun, resumed, talked to, stopped, left, removed."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import TYPE_CHECKING, Any

from windlass.adapters.copilot.open_questions import ACTOR
from windlass.adapters.copilot.rpc_peer import PeerGone, RpcError
from windlass.adapters.copilot.seat import Seat, seat_of
from windlass.adapters.copilot.session_setup import agent_for, mount, options_of
from windlass.adapters.copilot.view.attachment_forms import attachment_of
from windlass.adapters.copilot.view.event_view import CopilotView
from windlass.adapters.copilot.view.session_forms import RESUMED
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.errors import NotFound, Refused, UsageError
from windlass.events.sessions import NoticeGiven
from windlass.events.values.blocks import JsonObject, Text
from windlass.events.values.specs import RunOptions
from windlass.runtime.api.session import Sent, Session
from windlass.runtime.operate.session_removal import remove_session

from .commands import execute

if TYPE_CHECKING:
    from windlass.adapters.copilot.copilot_host import CopilotHost
    from windlass.adapters.copilot.rpc_peer import RpcPeer

HOOK_S = 10.0
"""How long a client's hook at the beginning or the end of a session is waited for."""
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
    """Says something to the agent; acknowledged once it is kept. A slash command of a client is that client's."""
    session = await host.session(str(params["sessionId"]))
    text, message_id = str(params.get("prompt") or ""), str(uuid.uuid4())
    feed = host.feeds.get(session.session_id)
    if feed is not None and (run := execute(host, feed, text)) is not None:
        host.spawn(run)
        return {"messageId": message_id}
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
    return {"messageId": message_id}


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
    session = await host.session(str(params["sessionId"]))
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
    "session.abort": abort,
    "session.getMessages": get_messages,
    "session.detach": detach,
    "session.destroy": detach,
    "session.suspend": detach,
    "session.delete": delete,
}
