"""Calls of tools as events: asked for, begun, done; skills, specialists and hooks beside them."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.events.base import Event
from windlass.events.hooks import HookRuled
from windlass.events.skills import SkillActivated, SkillReceived
from windlass.events.tools.calls import (
    ResultBody,
    ResultReceived,
    ToolDelegated,
    ToolFinished,
    ToolPrepared,
    ToolRequested,
    ToolStarted,
)
from windlass.events.tools.jobs import JobStarted
from windlass.events.tools.toolset import MountReceived, ToolsetChanged
from windlass.events.trees.children import ChildFinished, ChildStarted
from windlass.events.values.blocks import JsonObject, plain_text
from windlass.protocol.call_ends import ENDS, AnyEnd, call_end
from windlass.runtime.streams.record import Record

from .content_forms import content_forms
from .fold import Called, Fold, Form, Opened, Said, without_none

MCP = "mcp:"
"""How the source of a tool begins that an MCP server offers."""
BRIDGE = "copilot"
"""The name of the hooks that ask clients."""
HOOK_TYPES = {
    "prompt": "userPromptSubmitted",
    "before_tool": "preToolUse",
    "after_tool": "postToolUse",
    "permission": "permissionRequest",
}
"""How points are called there; the others keep their names."""


def mounted(fold: Fold, record: Record, event: MountReceived) -> Iterator[Said]:
    for text in event.body.tools if event.body is not None else ():
        fold.descriptions[text.name] = text.description
    yield from ()


def toolset_changed(fold: Fold, record: Record, event: ToolsetChanged) -> Iterator[Said]:
    for spec in event.tools:
        if spec.source.startswith(MCP):
            fold.servers[spec.name] = (spec.source.removeprefix(MCP), spec.name.rpartition("__")[2])
    yield from ()


def requested(fold: Fold, record: Record, event: ToolRequested) -> Iterator[Said]:
    args = event.body.args if event.body is not None else None
    fold.calls[event.call_id] = Called(event.tool, args, by_person=event.by_person)
    if event.by_person:
        yield Said("tool.user_requested", named(event.call_id, event.tool, args))


def prepared(fold: Fold, record: Record, event: ToolPrepared) -> Iterator[Said]:
    call = fold.calls.get(event.call_id)
    if call is not None and event.changed and event.body is not None:
        call.args = event.body.args
    yield from ()


def named(call_id: str, tool: str, args: JsonObject | None) -> JsonObject:
    """Which call it is."""
    return without_none(toolCallId=call_id, toolName=tool, arguments=args)


def begun(fold: Fold, call_id: str) -> Iterator[Said]:
    """The beginning of a call, told once."""
    call = fold.calls.get(call_id)
    if call is None or call.started:
        return
    call.started = True
    server, tool = fold.servers.get(call.tool, (None, None))
    data = named(call_id, call.tool, call.args)
    yield Said("tool.execution_start", data | without_none(mcpServerName=server, mcpToolName=tool))


def started(fold: Fold, record: Record, event: ToolStarted | JobStarted) -> Iterator[Said]:
    yield from begun(fold, event.call_id)


def delegated(fold: Fold, record: Record, event: ToolDelegated) -> Iterator[Said]:
    yield from begun(fold, event.call_id)
    call = fold.calls.get(event.call_id)
    if call is not None:
        data = named(event.call_id, call.tool, call.args)
        said = Said("external_tool.requested", {"requestId": event.call_id, "sessionId": fold.session_id, **data})
        fold.open[event.call_id] = Opened(said, record.seq)
        yield said


# --- results ------------------------------------------------------------------------------------------------------


def complete(
    fold: Fold, call_id: str, ok: bool, text: str, body: ResultBody | None = None, code: str | None = None
) -> Iterator[Said]:
    """The one end of a call; its beginning first, if it never began."""
    yield from begun(fold, call_id)
    call = fold.calls.pop(call_id, None)
    if call is None:
        return
    if fold.open.pop(call_id, None) is not None:
        yield Said("external_tool.completed", {"requestId": call_id})
    result = without_none(
        content=text,
        detailedContent=plain_text(body.display) if body is not None and body.display else None,
        contents=(content_forms(body.content) or None) if body is not None else None,
    )
    data = without_none(
        toolCallId=call_id,
        success=ok,
        result=result if ok else None,
        error=None if ok else without_none(message=text, code=code),
        interactionId=fold.run_id or None,
        turnId=fold.turn_id or None,
        isUserRequested=call.by_person or None,
        toolTelemetry=body.telemetry if body is not None else None,
    )
    yield Said("tool.execution_complete", data)


def ended_otherwise(fold: Fold, record: Record, event: AnyEnd) -> Iterator[Said]:
    end = call_end(event)
    if end is not None:
        yield from complete(fold, end.call_id, end.ok, end.text, end.body, end.code)


def finished(fold: Fold, record: Record, event: ToolFinished | ResultReceived) -> Iterator[Said]:
    body = event.body
    text = plain_text(body.content) if body is not None else ""
    yield from complete(fold, event.call_id, event.ok, text, body, event.error_code)


# --- specialists, skills, hooks -----------------------------------------------------------------------------------


def child_started(fold: Fold, record: Record, event: ChildStarted) -> Iterator[Said]:
    yield from begun(fold, event.call_id)
    fold.specialists[event.call_id] = event.agent
    data = {"toolCallId": event.call_id, "agentName": event.agent, "agentDisplayName": event.agent}
    yield Said("subagent.started", {**data, "agentDescription": fold.descriptions.get(event.agent, "")})


def child_finished(fold: Fold, record: Record, event: ChildFinished) -> Iterator[Said]:
    agent = fold.specialists.pop(event.call_id, "")
    text = plain_text(event.body.content) if event.body is not None else event.status
    data = {"toolCallId": event.call_id, "agentName": agent, "agentDisplayName": agent}
    if event.ok:
        yield Said("subagent.completed", data)
    else:
        yield Said("subagent.failed", {**data, "error": text})
    yield from complete(fold, event.call_id, event.ok, text, event.body)


def skill_received(fold: Fold, record: Record, event: SkillReceived) -> Iterator[Said]:
    if event.body is not None:
        fold.skills[record.seq] = event.body.text
    yield from ()


def skill_activated(fold: Fold, record: Record, event: SkillActivated) -> Iterator[Said]:
    skill = event.skill
    data = without_none(
        name=skill.key.skill_name,
        path=skill.path,
        content=fold.skills.pop(event.text_seq, ""),
        allowedTools=list(skill.allowed_tools) if skill.allowed_tools is not None else None,
        pluginName=skill.package or None,
        pluginVersion=skill.version or None,
    )
    yield Said("skill.invoked", data)


def hook_ruled(fold: Fold, record: Record, event: HookRuled) -> Iterator[Said]:
    ruling = event.ruling
    if ruling.hook_id.endswith(f":{BRIDGE}") and ruling.outcome == "allowed" and not ruling.message:
        return  # no client was asked
    failed = ruling.outcome in ("failed", "timed_out")
    data = {"hookInvocationId": f"h{record.seq}", "hookType": HOOK_TYPES.get(ruling.point, ruling.point)}
    yield Said("hook.start", data)
    output = without_none(outcome=ruling.outcome, message=ruling.message or None)
    error = {"message": ruling.message} if failed else None
    yield Said("hook.end", data | without_none(success=not failed, output=output, error=error))
    if ruling.point == "prompt" and ruling.denies:
        yield from blocked(fold, record, ruling.message)


def blocked(fold: Fold, record: Record, why: str) -> Iterator[Said]:
    """A prompt that a hook keeps from the model."""
    prompt = fold.prompts.pop(record.first, None)
    if prompt is not None:
        said = {"warningType": "policy_blocked", "message": why, "originatingMessageId": prompt.command_id}
        yield Said("session.warning", said)
        yield Said("session.idle", {})


FORMS: dict[type[Event], Form] = {
    MountReceived: mounted,
    ToolsetChanged: toolset_changed,
    ToolRequested: requested,
    ToolPrepared: prepared,
    ToolStarted: started,
    ToolDelegated: delegated,
    **dict.fromkeys(ENDS, ended_otherwise),
    ToolFinished: finished,
    ResultReceived: finished,
    ChildStarted: child_started,
    ChildFinished: child_finished,
    SkillReceived: skill_received,
    SkillActivated: skill_activated,
    HookRuled: hook_ruled,
}
