"""Answers of clients to what a session asks: permissions, calls of their tools, forms, questions, plans. The first one
counts; whoever comes second is told so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.adapters.copilot import open_questions
from windlass.adapters.copilot.open_questions import ACTOR
from windlass.adapters.copilot.view.content_forms import result_blocks
from windlass.events.errors import Refused
from windlass.events.tools.calls import ResultBody, ResultReceived
from windlass.events.tools.permissions import Scope
from windlass.events.values.blocks import JsonObject, Text
from windlass.protocol.question_forms import answer_form
from windlass.runtime.api.sent_command import Sent

if TYPE_CHECKING:
    from windlass.adapters.copilot.copilot_host import CopilotHost
    from windlass.protocol.json_rpc.rpc_peer import RpcPeer

SCOPES: dict[str, Scope] = {
    "approve-once": "once",
    "approved": "once",
    "approve-for-session": "session",
    "approve-for-location": "session",
    "approve-permanently": "session",
    "approve-read-only-for-session": "session",
    "approved-for-session": "session",
    "approved-for-location": "session",
}
"""How far an approval reaches. None reaches beyond its session: a log holds no authority over others."""
NOBODY = "nobody is there to approve this"
HIDDEN = "the tool failed; its client says no more"
"""What the model reads of an exception in a client's tool: its text is for people."""


async def permission(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Allows a call, as it was shown, or refuses it."""
    session = await host.session(str(params["sessionId"]))
    name, result = str(params["requestId"]), params["result"]
    kind = str(result["kind"])
    ask = next((ask for ask in await session.requests() if ask.request_id == name), None)
    if ask is None:
        return {"success": False}
    try:
        if kind in SCOPES:
            scope = SCOPES[kind] if ask.session_offered else "once"
            await session.approve(ask, scope=scope, actor=ACTOR)
        else:
            said = str(result.get("feedback") or (NOBODY if kind == "user-not-available" else ""))
            await session.deny(ask, said, actor=ACTOR)
    except Refused as refusal:
        if refusal.code == "not_open":
            return {"success": False}
        raise
    return {"success": True}


async def tool_result(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Completes a call that a client ran."""
    session = await host.session(str(params["sessionId"]))
    name, given, error = str(params["requestId"]), params.get("result"), params.get("error")
    result = given if isinstance(given, dict) else {}
    ok = error is None and result.get("resultType", "success") == "success"
    blocks = (Text(text=HIDDEN),) if error is not None else result_blocks(given if given is not None else "")
    if error is None:
        blocks, ok = await _hooked(host, session.session_id, name, blocks, ok)
    body = ResultBody(
        content=blocks,
        telemetry=result.get("toolTelemetry") or None,
        private_error=str(error or result.get("error") or "") or None,
    )
    command_id = host.runtime.ports.fresh_id()
    code = None if ok else str(result.get("resultType") or "failure")
    try:
        await Sent(
            session,
            ResultReceived(command_id=command_id, actor=ACTOR, call_id=name, ok=ok, error_code=code, body=body),
        )
    except Refused as refusal:
        if refusal.code == "not_open":
            return {"success": False}
        raise
    return {"success": True}


async def _hooked(host: CopilotHost, session_id: str, call_id: str, blocks: Any, ok: bool) -> tuple[Any, bool]:
    """A result as the hooks of clients leave it. The runtime asks none about what clients give."""
    feed = host.feeds.get(session_id)
    seats = [seat for seat in feed.all_seats if seat.hooks] if feed is not None else []
    call = feed.view.fold.calls.get(call_id) if feed is not None else None
    if not seats or call is None:
        return blocks, ok
    value = {"ok": ok, "text": blocks[0].text}
    made = await host.client_hooks.on_result(seats, call.tool, call.args, value)
    return ((Text(text=made["text"]), *blocks[1:]), made["ok"]) if made != value else (blocks, ok)


async def form(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Answers a form: one of a session's, or one that a client put before the others."""
    name, result = str(params["requestId"]), params["result"]
    waiting = host.forms.get(name)
    if waiting is not None:
        counts = not waiting.done()
        if counts:
            waiting.set_result(result)
        return {"success": counts}
    session = await host.session(str(params["sessionId"]))
    ask = next((ask for ask in await session.questions() if ask.question_id == name), None)
    if ask is None:
        return {"success": False}
    fields = len(ask.body.questions) if ask.body.form is None else 0
    return {"success": await answer_form(session, name, result, fields, ACTOR)}


async def user_input(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Answers a question, for clients that are not asked by a request of their own."""
    session = await host.session(str(params["sessionId"]))
    given = params.get("response") or params
    return {"success": await open_questions.answer_input(session, str(params["requestId"]), given)}


async def plan(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """The same for a plan."""
    session = await host.session(str(params["sessionId"]))
    given = params.get("response") or params
    return {"success": await open_questions.answer_plan(session, str(params["requestId"]), given)}


async def elicit(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Puts a form of a client's own before whoever sits at the session and answers forms, and gives the answer."""
    feed = host.feeds[str(params["sessionId"])]
    if not any(seat.answers_forms for seat in feed.all_seats):
        return {"action": "cancel"}
    name = f"form-{host.runtime.ports.fresh_id()}"
    answered = host.put_form(name)
    try:
        asked = {"requestId": name, "message": str(params.get("message") or ""), "mode": "form"}
        feed.tell("elicitation.requested", {**asked, "requestedSchema": params.get("requestedSchema") or {}})
        result: JsonObject = await answered
        feed.tell("elicitation.completed", {"requestId": name, **result})
        return result
    finally:
        host.forms.pop(name, None)


METHODS = {
    "session.permissions.handlePendingPermissionRequest": permission,
    "session.tools.handlePendingToolCall": tool_result,
    "session.ui.handlePendingElicitation": form,
    "session.ui.handlePendingUserInput": user_input,
    "session.ui.handlePendingExitPlanMode": plan,
    "session.ui.elicitation": elicit,
}
