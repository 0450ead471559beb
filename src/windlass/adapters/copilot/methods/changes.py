"""What changes a session itself: model, mode, name, plan, history, tools, and notes in its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from windlass.adapters.copilot.open_questions import ACTOR
from windlass.adapters.copilot.session_setup import mount
from windlass.adapters.copilot.view.event_ids import event_id
from windlass.adapters.copilot.view.session_forms import LOGGED
from windlass.events.changes import ChangeGrants, ChangeModel, ChangeTask, ChangeTitle
from windlass.events.context import CompactionFailed, CompactionFinished
from windlass.events.errors import UsageError
from windlass.events.sessions import NoticeGiven
from windlass.events.values.blocks import JsonObject
from windlass.events.values.models import ModelRef
from windlass.runtime.streams.record import Record

if TYPE_CHECKING:
    from windlass.adapters.copilot.copilot_host import CopilotHost
    from windlass.protocol.json_rpc.rpc_peer import RpcPeer

Level = Literal["info", "warning", "error"]


async def switch_model(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    session = await host.session(str(params["sessionId"]))
    await session.change(ChangeModel(model=ModelRef(name=str(params["modelId"]))), actor=ACTOR)
    return {"modelId": params["modelId"]}


async def current_model(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    session = await host.session(str(params["sessionId"]))
    return {"modelId": (await session.state()).setup.model.name}


async def set_mode(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    session = await host.session(str(params["sessionId"]))
    if params["mode"] not in ("interactive", "plan", "autopilot"):
        raise UsageError(f"there is no mode {params['mode']!r}: there are interactive, plan and autopilot")
    await session.set_mode(params["mode"])
    return {"modelChanged": False, "status": "applied", "modeApplied": True}


async def get_mode(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> str:
    session = await host.session(str(params["sessionId"]))
    return (await session.state()).setup.mode


async def set_name(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    session = await host.session(str(params["sessionId"]))
    await session.change(ChangeTitle(title=str(params["name"])), actor=ACTOR)
    return {}


async def get_name(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    session = await host.session(str(params["sessionId"]))
    row = await host.runtime.store.index.get(session.key)
    return {"name": (row.title or None) if row is not None else None}


# --- the plan -----------------------------------------------------------------------------------------------------


async def read_plan(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    session = await host.session(str(params["sessionId"]))
    plan = (await session.state()).task.current.plan
    return {"exists": bool(plan), "content": plan or None, "path": None}


async def update_plan(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    session = await host.session(str(params["sessionId"]))
    task = (await session.state()).task.current
    changed = msgspec.structs.replace(task, plan=str(params.get("content") or ""))
    await session.change(ChangeTask(task=changed), actor=ACTOR)
    return {}


# --- the history --------------------------------------------------------------------------------------------------


async def compact(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Summarises older exchanges now, and says what came of it."""
    session = await host.session(str(params["sessionId"]))
    after = (await session.state()).seq
    await session.compact(str(params.get("customInstructions") or ""), actor=ACTOR)
    await session.wait_idle()
    removed = {"success": False, "messagesRemoved": 0, "tokensRemoved": 0}
    async for record in session.records(after=after):
        match record.event:
            case CompactionFinished() as event:
                items, tokens = event.items_before - event.items_after, event.tokens_before - event.tokens_after
                removed = {"success": True, "messagesRemoved": max(0, items), "tokensRemoved": max(0, tokens)}
            case CompactionFailed():
                removed["success"] = False
    return removed


async def truncate(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Makes the history what it was before an event."""
    feed = host.feeds[str(params["sessionId"])]
    kept = feed.view.fold.kept
    at = next((index for index, (_, name) in enumerate(kept) if name == params["eventId"]), None)
    if at is None:
        raise UsageError(f"there is no event {params['eventId']!r} in this session's history")
    await feed.session.rewind(kept[at][0] - 1, actor=ACTOR)
    return {"eventsRemoved": len(kept) - at}


async def log(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """A client's own entry in the log; an ephemeral one is only told."""
    session = await host.session(str(params["sessionId"]))
    level, message = level_of(params.get("level")), str(params["message"])
    feed = host.feeds.get(session.session_id)
    if params.get("ephemeral") and feed is not None:
        word = {"info": "infoType", "warning": "warningType", "error": "errorType"}[level]
        feed.tell(f"session.{level}", {word: "notification", "message": message})
        return {"eventId": event_id(session.session_id, "log", message)}
    await host.notice(session, NoticeGiven(level=level, code=LOGGED, message=message))
    return {"eventId": event_id(session.session_id, await _last_notice(session), 0)}


def level_of(given: object) -> Level:
    """How loud an entry is. Raises `UsageError` for a word that is none."""
    match given:
        case None | "info":
            return "info"
        case "warning":
            return "warning"
        case "error":
            return "error"
    raise UsageError(f"there is no level {given!r}: there are info, warning and error")


async def _last_notice(session: Any) -> int:
    last_seq = 0
    record: Record
    async for record in session.records():
        if isinstance(record.event, NoticeGiven) and record.event.code == LOGGED:
            last_seq = record.seq
    return last_seq


# --- tools and approvals ------------------------------------------------------------------------------------------


async def set_tools(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Replaces the tools that this client runs."""
    session_id = str(params["sessionId"])
    seat, feed = host.seat(peer, session_id), host.feeds.get(session_id)
    if seat is None or feed is None:
        raise UsageError("resume the session first")
    before, seat.tools = seat.tools, set()
    await mount(feed.session, seat, params.get("tools") or [])
    await host.unmount(feed, before - seat.tools)
    return {}


async def reset_approvals(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    session = await host.session(str(params["sessionId"]))
    standing = tuple(grant.grant_id for grant in await session.grants())
    if standing:
        await session.change(ChangeGrants(revoke=standing), actor=ACTOR)
    return {"success": True}


async def nothing(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """What needs no doing here: options of services that are not ours."""
    return {"success": True}


async def interest(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Every client is told everything; the handle holds nothing."""
    return {"handle": host.runtime.ports.fresh_id()}


METHODS = {
    "session.model.switchTo": switch_model,
    "session.model.getCurrent": current_model,
    "session.mode.set": set_mode,
    "session.mode.get": get_mode,
    "session.name.set": set_name,
    "session.name.get": get_name,
    "session.plan.read": read_plan,
    "session.plan.update": update_plan,
    "session.plan.delete": update_plan,
    "session.history.compact": compact,
    "session.history.truncate": truncate,
    "session.log": log,
    "session.tools.set": set_tools,
    "session.permissions.resetSessionApprovals": reset_approvals,
    "session.options.update": nothing,
    "session.eventLog.registerInterest": interest,
}
