"""Hooks that clients bring along: they stand at the agent's points and ask whoever sits at the session.

If nobody there has hooks, they let everything pass. A client that leaves while it is asked has said nothing: a guard
that says nothing denies.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from windlass.events.hooks import HookPoint
from windlass.events.values.blocks import JsonObject
from windlass.runtime.hooks.hook import Allowed, Asked, Changed, Denied, Hook, Moment, Said

from .client_session import Seat
from .session_feed import SessionFeed
from .view.tool_forms import BRIDGE

TIMEOUT_MS = 120_000
ALLOWED_MAX = 1_000
"""Calls that a client's hook has allowed and that have not been judged yet."""

Feeds = Callable[[str], SessionFeed | None]


class ClientHooks:
    """The hooks of all clients, as hooks of an agent."""

    def __init__(self, feeds: Feeds) -> None:
        self._feeds = feeds
        self._allowed: dict[tuple[str, str], None] = {}

    def hooks(self) -> tuple[Hook, ...]:
        """What is given to the agent."""
        return (
            self._hook("prompt", self._on_prompt, "transform"),
            self._hook("before_tool", self._before_tool, "transform"),
            self._hook("permission", self._on_permission, "guard"),
            self._hook("after_tool", self._after_tool, "transform"),
            self._hook("error", self._on_error, "observe"),
        )

    def _hook(self, point: HookPoint, run: Any, kind: Any) -> Hook:
        return Hook(point=point, run=run, kind=kind, name=BRIDGE, timeout_ms=TIMEOUT_MS)

    def _seats(self, session_id: str) -> list[Seat]:
        feed = self._feeds(session_id)
        return [seat for seat in feed.all_seats if seat.hooks] if feed is not None else []

    async def _on_prompt(self, moment: Moment) -> Said:
        seats, prompt = self._seats(moment.session), str(moment.value)
        for seat in seats:
            output = await self.invoke(seat, "userPromptSubmitted", {"prompt": prompt})
            if output.get("decision") == "block":
                return Denied(message=str(output.get("reason") or "blocked by a hook"))
            prompt = str(output.get("modifiedPrompt") or prompt)
            prompt = _with_context(prompt, output)
        if prompt != moment.value:
            return Changed(value=prompt)
        return Allowed(message="asked") if seats else None

    async def _before_tool(self, moment: Moment) -> Said:
        seats, args = self._seats(moment.session), moment.value
        for seat in seats:
            output = await self.invoke(seat, "preToolUse", {"toolName": moment.tool, "toolArgs": args})
            reason = str(output.get("permissionDecisionReason") or "")
            match output.get("permissionDecision"):
                case "deny":
                    return Denied(message=reason or "denied by a hook")
                case "ask":
                    return Asked(message=reason)
                case "allow" if moment.call_id is not None:
                    self._allow(moment.session, moment.call_id)
            if isinstance(output.get("modifiedArgs"), dict):
                args = output["modifiedArgs"]
        if args != moment.value:
            return Changed(value=args)
        return Allowed(message="asked") if seats else None

    def _allow(self, session_id: str, call_id: str) -> None:
        self._allowed[(session_id, call_id)] = None
        while len(self._allowed) > ALLOWED_MAX:
            del self._allowed[next(iter(self._allowed))]

    async def _on_permission(self, moment: Moment) -> Said:
        """A call that a hook allowed needs no other word. Forgotten with this process: then somebody is asked."""
        known = (moment.session, moment.call_id or "")
        return Allowed(message="allowed by a hook") if self._allowed.pop(known, known) is None else None

    async def _after_tool(self, moment: Moment) -> Said:
        seats, value = self._seats(moment.session), dict(moment.value)
        feed = self._feeds(moment.session)
        call = feed.view.fold.calls.get(moment.call_id or "") if feed is not None else None
        made = await self.on_result(seats, moment.tool or "", call.args if call is not None else None, value)
        if made != moment.value:
            return Changed(value=made)
        return Allowed(message="asked") if seats else None

    async def on_result(self, seats: list[Seat], tool: str, args: Any, value: JsonObject) -> JsonObject:
        """What clients make of a result: its `text`, and whether it is `ok`."""
        value = dict(value)
        for seat in seats:
            about = {"toolName": tool, "toolArgs": args}
            if value["ok"]:
                result = {"textResultForLlm": value["text"], "resultType": "success"}
                output = await self.invoke(seat, "postToolUse", {**about, "toolResult": result})
            else:
                output = await self.invoke(seat, "postToolUseFailure", {**about, "error": value["text"]})
            changed = output.get("modifiedResult")
            if isinstance(changed, str):
                value["text"] = changed
            elif isinstance(changed, dict):
                value["text"] = str(changed.get("textResultForLlm", value["text"]))
                value["ok"] = changed.get("resultType", "success") == "success"
            value["text"] = _with_context(value["text"], output)
        return value

    async def _on_error(self, moment: Moment) -> Said:
        failure = moment.value.get("failure") or {} if isinstance(moment.value, dict) else {}
        error = {"message": str(failure.get("message", "")), "name": str(failure.get("kind", ""))}
        told = {"error": error, "errorContext": "model_call", "recoverable": bool(failure.get("retryable"))}
        for seat in self._seats(moment.session):
            await self.invoke(seat, "errorOccurred", told)
        return None

    async def invoke(self, seat: Seat, hook: str, given: JsonObject) -> dict[str, Any]:
        """Asks one client; what it says nothing to is let pass."""
        feed = self._feeds(seat.session_id)
        place = feed.view.fold.workspace if feed is not None else None
        told = {"timestamp": time.time_ns() // 1_000_000, "cwd": place.cwd if place is not None else ""}
        params = {
            "sessionId": seat.session_id,
            "hookType": hook,
            "input": {"sessionId": seat.session_id, **told, **given},
        }
        answer = await seat.peer.ask("hooks.invoke", params)
        output = answer.get("output") if isinstance(answer, dict) else None
        return output if isinstance(output, dict) else {}


def _with_context(text: str, output: dict[str, Any]) -> str:
    more = output.get("additionalContext")
    return f"{text}\n\n{more}" if more else text
