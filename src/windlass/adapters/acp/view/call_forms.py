"""Calls of tools as an editor shows them: asked for, at work, done, with what came of them."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.events.base import Event
from windlass.events.live import ToolProgressed
from windlass.events.tools.calls import (
    ResultBody,
    ResultReceived,
    ToolDelegated,
    ToolFinished,
    ToolPrepared,
    ToolRequested,
    ToolStarted,
)
from windlass.events.tools.toolset import ToolsetChanged
from windlass.events.trees.children import ChildFinished, ChildStarted
from windlass.events.values.blocks import JsonObject, plain_text
from windlass.events.workspace import FilesChanged, FilesKept
from windlass.protocol.call_ends import ENDS, AnyEnd, call_end
from windlass.runtime.streams.record import Record

from .call_kinds import call_kind, locations_of, place, title_of
from .content_forms import content_forms, text_form
from .fold import Called, Closed, Fold, Form, Said, Update, update

OUTPUT_CHARS_MAX = 100_000
"""How much of what a running call shows is kept; the result has the rest."""


def toolset_changed(fold: Fold, record: Record, event: ToolsetChanged) -> Iterator[Said]:
    fold.tools |= {spec.name: spec for spec in event.tools}
    yield from ()


def about(fold: Fold, call_id: str) -> JsonObject:
    """What a call is, as far as it is known: for its beginning, and for whoever is asked about it."""
    call = fold.calls.get(call_id)
    if call is None:
        return {"toolCallId": call_id}
    spec = fold.tools.get(call.tool)
    made: JsonObject = {
        "toolCallId": call_id,
        "title": title_of(call.tool, call.args),
        "kind": call_kind(call.tool, spec),
        "rawInput": call.args,
    }
    where = locations_of(spec, call.args, fold.cwd)
    return {**made, "locations": where} if where else made


def changed(call_id: str, **data: object) -> Update:
    """What is other now of a call."""
    return Update(body=update("tool_call_update", toolCallId=call_id, **data))


def requested(fold: Fold, record: Record, event: ToolRequested) -> Iterator[Said]:
    body = event.body
    args = body.args if body is not None and body.args is not None else {}
    if body is not None and body.text is not None:
        args = {"text": body.text}
    fold.calls[event.call_id] = Called(event.tool, args)
    yield Update(body=update("tool_call", status="pending", **about(fold, event.call_id)))


def prepared(fold: Fold, record: Record, event: ToolPrepared) -> Iterator[Said]:
    call = fold.calls.get(event.call_id)
    if call is not None and event.changed and event.body is not None and event.body.args is not None:
        call.args = event.body.args
        told = about(fold, event.call_id)
        yield Update(body=update("tool_call_update", **told))


def begun(fold: Fold, record: Record, event: ToolStarted | ToolDelegated | ChildStarted) -> Iterator[Said]:
    if event.call_id in fold.calls:
        yield changed(event.call_id, status="in_progress")


def progressed(fold: Fold, live: ToolProgressed) -> Iterator[Said]:
    """What a running call shows."""
    call = fold.calls.get(live.call_id)
    shown = plain_text(live.content) or live.message
    if call is None or not shown:
        return
    call.output = f"{call.output}{shown}"[-OUTPUT_CHARS_MAX:]
    content = [{"type": "content", "content": text_form(call.output)}]
    body = update("tool_call_update", toolCallId=live.call_id, status="in_progress", content=content)
    yield Update(body=body, live=True)


def files_kept(fold: Fold, record: Record, event: FilesKept) -> Iterator[Said]:
    """A call is about to change files: what they held, and what they are to hold."""
    files = tuple(file for file in event.body.files if not file.left_out) if event.body is not None else ()
    if files and event.call_id in fold.calls:
        where = [place(file.path, fold.cwd) for file in files]
        body = update("tool_call_update", toolCallId=event.call_id, locations=where)
        yield Update(body=body, files=files)


def files_changed(fold: Fold, record: Record, event: FilesChanged) -> Iterator[Said]:
    where = [place(change.path, fold.cwd) for change in event.changes if change.operation != "delete"]
    if where:
        yield changed(event.call_id, locations=where)


# --- results ------------------------------------------------------------------------------------------------------


def complete(fold: Fold, call_id: str, ok: bool, text: str, body: ResultBody | None = None) -> Iterator[Said]:
    """The one end of a call. Differences that are shown stay: a result of a few words does not take their place."""
    call = fold.calls.pop(call_id, None)
    if call is None:
        return
    status = "completed" if ok else "failed"
    spec = fold.tools.get(call.tool)
    if ok and spec is not None and spec.kind == "write" and spec.source == "builtin":
        yield changed(call_id, status=status, rawOutput=text or None)
        return
    blocks = (body.display or body.content) if body is not None else ()
    content = content_forms(blocks) or ([{"type": "content", "content": text_form(text)}] if text else [])
    yield changed(call_id, status=status, content=content or None, rawOutput=text or None)


def ended_otherwise(fold: Fold, record: Record, event: AnyEnd) -> Iterator[Said]:
    end = call_end(event)
    if end is not None:
        yield from complete(fold, end.call_id, end.ok, end.text, end.body)


def finished(fold: Fold, record: Record, event: ToolFinished | ResultReceived | ChildFinished) -> Iterator[Said]:
    for name in fold.below.pop(event.call_id, ()):
        yield Closed(ask_id=name)
    body = event.body
    yield from complete(fold, event.call_id, event.ok, plain_text(body.content) if body is not None else "", body)


FORMS: dict[type[Event], Form] = {
    ToolsetChanged: toolset_changed,
    ToolRequested: requested,
    ToolPrepared: prepared,
    ToolStarted: begun,
    ToolDelegated: begun,
    ChildStarted: begun,
    FilesKept: files_kept,
    FilesChanged: files_changed,
    **dict.fromkeys(ENDS, ended_otherwise),
    ToolFinished: finished,
    ResultReceived: finished,
    ChildFinished: finished,
}
