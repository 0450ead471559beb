"""Tools through which an agent looks things up in its own session: large or elided results, what left the
conversation, and its tool catalogue.

They run in the host beside the session's owner, since a plain tool has no way to its log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.errors import NotFound, UsageError
from windlass.events.tools.calls import ResultBody, ResultReceived, ToolFinished, ToolSettled, ToolTimedOut
from windlass.events.values.blocks import JsonObject, Text
from windlass.kernel.render import outcome as told_of
from windlass.store.base import Key
from windlass.tools.planes.outcome import Outcome, failed
from windlass.tools.toolset import ToolSet

from .archive_page import RECALL
from .archive_pager import FOUND
from .archive_pager import FOUND_MAX as PAGES_MAX

if TYPE_CHECKING:
    from windlass.kernel.state import State
    from windlass.runtime.bind.bound_agent import Bound
    from windlass.runtime.owner.owner import Owner

    from .archive_pager import Pager

READ_BYTES = 16 * 1024
READ_BYTES_MAX = 64 * 1024
FOUND_MAX = 10

READ_RESULT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "call_id": {"type": "string", "description": "The call whose result to read."},
        "offset": {"type": "integer", "minimum": 0, "description": "Where to begin, in bytes."},
        "limit": {"type": "integer", "minimum": 1, "maximum": READ_BYTES_MAX, "description": "How many bytes."},
    },
    "required": ["call_id"],
    "additionalProperties": False,
}

RECALL_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Words that stand in what you look for."},
        "page_ids": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": PAGES_MAX,
            "description": "Pages to show, by the ids that recall gave before.",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": PAGES_MAX, "description": "How many pages at most."},
    },
    "additionalProperties": False,
}

SEARCH_TOOLS_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "Words that say what the tool should do."}},
    "required": ["query"],
    "additionalProperties": False,
}

RECALL_TOOLS: dict[str, tuple[str, JsonObject]] = {
    "read_result": (
        "Read a result of an earlier call of yours that was too large to be shown whole, or that is left out by now. "
        "Large ones are read page by page.",
        READ_RESULT_SCHEMA,
    ),
    RECALL: (
        "Look up parts of this conversation that were summarised or left out, by words or by page id.",
        RECALL_SCHEMA,
    ),
    "search_tools": (
        "Search the catalogue of tools that are not loaded. Load what you need with load_tools.",
        SEARCH_TOOLS_SCHEMA,
    ),
}


async def perform(name: str, args: JsonObject, owner: Owner, bound: Bound, paging: Pager) -> Outcome:
    """Carries out one of these tools."""
    if name == "read_result":
        return await read_result(owner, paging, **args)
    if name == RECALL:
        return await recall(paging, **args)
    return search_tools(bound, owner.state, str(args["query"]))


async def recall(paging: Pager, query: str = "", page_ids: Sequence[str] = (), limit: int = FOUND) -> Outcome:
    """What left the conversation, by words or by id. What was found carries the labels of where it came from."""
    try:
        pages = await paging.find(query, page_ids, limit)
    except UsageError as error:
        return failed("tool_arguments", str(error), "nothing to look for")
    if not pages:
        asked = [f"holds {query!r}"] if query else []
        asked += [f"has the id {', '.join(page_ids)}"] if page_ids else []
        return _said(f"nothing that left this conversation {' or '.join(asked)}")
    text, there = paging.shown(pages)
    labels = sorted({label for page in there for label in page.labels})
    return msgspec.structs.replace(_said(text), labels=tuple(labels))


async def read_result(owner: Owner, paging: Pager, call_id: str, offset: int = 0, limit: int = READ_BYTES) -> Outcome:
    """A page of an earlier result, with where the next one begins; also of one that left the conversation."""
    ref = next((r for r in reversed(owner.state.history.items) if r.kind == "result" and r.part == call_id), None)
    if ref is None:
        ref = await paging.result(call_id)
    if ref is None:
        told = f"there is no result of call {call_id!r} in this conversation"
        return failed("tool_arguments", told, "no such result")
    event = await owner.event(ref.seq)
    try:
        data = await _whole(owner, event)
    except NotFound:
        return failed("tool_unavailable", "the content was erased", "the content was erased")
    page = data[offset : offset + limit]
    text = page.decode("utf-8", "replace")
    end = offset + len(page)
    more = f"; the next page begins at {end}" if end < len(data) else "; this is the end"
    return _said(f"[bytes {offset} to {end} of {len(data)}{more}]\n{text}")


async def _whole(owner: Owner, event: Any) -> bytes:
    body: ResultBody | None = None
    if isinstance(event, ToolFinished | ResultReceived | ToolTimedOut | ToolSettled):
        body = event.body
        if body is None and event.erased is not None:
            raise NotFound("erased")
    if body is not None and body.whole is not None:
        key: Key = owner.key
        return await owner.store.blobs.get(key.tenant, body.whole.digest)
    content, _ = told_of(event)
    return "\n".join(getattr(block, "text", "") or "" for block in content).encode()


def search_tools(bound: Bound, state: State, query: str) -> Outcome:
    """The tools of the session's catalogue that fit some words."""
    known = [tool for name in state.toolset.tools if (tool := bound.tool(state, name)) is not None]
    tools = ToolSet(known).search(query, FOUND_MAX)
    if not tools:
        return _said("no tool of the catalogue fits")
    return _said("\n".join(f"{tool.name}: {tool.description.splitlines()[0][:200]}" for tool in tools))


def hint(size: int, call_id: str) -> Text:
    """How to read what a preview leaves out."""
    return Text(text=f"[{size} bytes in all: read_result with call_id {call_id!r} shows the rest]")


def pointed(outcome: Outcome, call_id: str) -> Outcome:
    """A result that is shown in part, with how to read the rest."""
    if outcome.body is None:
        return outcome
    body = msgspec.structs.replace(outcome.body, content=(*outcome.body.content, hint(outcome.spooled, call_id)))
    return msgspec.structs.replace(outcome, body=body)


def _said(text: str) -> Outcome:
    return Outcome(body=ResultBody(content=(Text(text=text),)), size=len(text))
