"""The resources of a server, which a model reaches by two tools of ours: one lists them, one reads one by its address.
What comes back is the server's word, and bounded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from windlass.events.values.blocks import Data, JsonObject
from windlass.tools.context import ToolError
from windlass.tools.planes.results import ToolResult

from .foreign_words import visible
from .results import block_of

if TYPE_CHECKING:
    from .connection import Connection
    from .tool_list import Listing

LIST, READ = "list_resources", "read_resource"
PAGES_MAX = 20
ENTRIES_MAX = 2_000
"""How many resources of a server are looked at in all."""
SHOWN_MAX = 100
"""How many of them one answer has."""
WORDS_CHARS_MAX = 300
URI_CHARS_MAX = 4_096
CONTENTS_MAX = 64
TEXTS: dict[str, tuple[str, JsonObject]] = {
    LIST: (
        "Lists resources and templates of resources. Read one by its uri; a template's uri has {names} to fill in.",
        {
            "type": "object",
            "properties": {
                "matching": {
                    "type": "string",
                    "description": "only those whose uri, name or description has this text",
                },
                "offset": {"type": "integer", "minimum": 0, "description": "how many to pass over"},
            },
            "additionalProperties": False,
        },
    ),
    READ: (
        "Reads a resource by its uri.",
        {
            "type": "object",
            "properties": {"uri": {"type": "string", "maxLength": URI_CHARS_MAX}},
            "required": ["uri"],
            "additionalProperties": False,
        },
    ),
}
"""What a model is told of the two tools."""
METHODS = {LIST: "resources/list", READ: "resources/read"}
"""What people are shown in the place of a tool's name."""


def names(listing: Listing) -> dict[str, str]:
    """The tools that reach the resources of a server, by the names that models know them by. A server that has a tool
    of such a name keeps its own."""
    if not listing.resources:
        return {}
    ours = {f"{listing.server}__{name}": name for name in TEXTS}
    return {name: short for name, short in ours.items() if name not in listing.by_name}


async def result(connection: Connection, name: str, args: dict[str, Any]) -> ToolResult:
    """What comes of one of the two tools. Raises as `Connection.asked` does."""
    if name == LIST:
        entries = await connection.asked(_listed)
        return ToolResult(
            value=[Data(value=_shown(entries, str(args.get("matching") or ""), int(args.get("offset") or 0)))]
        )
    uri = str(args["uri"])
    answer = await connection.asked(lambda client: client.read_resource(uri))
    told = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    contents = told.get("contents") or []
    if len(contents) > CONTENTS_MAX:
        raise ToolError(
            f"{uri!r} has {len(contents)} parts, more than the {CONTENTS_MAX} that are read", code="too_large"
        )
    return ToolResult(value=[block_of({"type": "resource", "resource": each}) for each in contents] or None)


async def _listed(client: Any) -> list[dict[str, str]]:
    """Resources, then templates, each with what is shown of it."""
    entries = [_entry(each, each.uri) async for each in _all(client.list_resources, "resources")]
    entries += [
        _entry(each, each.uri_template) async for each in _all(client.list_resource_templates, "resource_templates")
    ]
    return entries


async def _all(listing: Any, field: str) -> Any:
    """What a server lists, page by page, within bounds. One that has no such list has none."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import METHOD_NOT_FOUND

    cursor, seen, count = None, set[str](), 0
    for _ in range(PAGES_MAX):
        try:
            page = await listing(cursor=cursor)
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND:
                return
            raise
        for each in getattr(page, field):
            count += 1
            if count > ENTRIES_MAX:
                return
            yield each
        cursor = page.next_cursor
        if not cursor or cursor in seen:
            return
        seen.add(cursor)
        await asyncio.sleep(0)


def _entry(told: Any, uri: str) -> dict[str, str]:
    words = {"name": told.name, "title": told.title, "description": told.description, "mime_type": told.mime_type}
    kept = {name: visible(text)[:WORDS_CHARS_MAX] for name, text in words.items() if text}
    return {"uri": visible(str(uri))[:URI_CHARS_MAX], **kept}


def _shown(entries: list[dict[str, str]], matching: str, offset: int) -> JsonObject:
    wanted = [each for each in entries if matching.lower() in "\n".join(each.values()).lower()] if matching else entries
    shown = wanted[offset : offset + SHOWN_MAX]
    more = {"next_offset": offset + len(shown)} if offset + len(shown) < len(wanted) else {}
    return {"resources": shown, "total": len(wanted), **more}
