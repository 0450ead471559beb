"""The list of a server's tools as it is asked for, page by page and within bounds."""

from __future__ import annotations

from typing import Any

import msgspec

from .tool_list import TOOLS_MAX, Listing, listed

PAGES_MAX = 100
LIST_BYTES_MAX = 16 * 1024 * 1024
"""How much a server may list in all: two of such lists fit a record of trust."""


async def asked_listing(server: str, client: Any) -> Listing:
    """What a server lists now."""
    able = client.server_capabilities
    tools, cut = ([], "") if able.tools is None else await _pages(client)
    info = client.server_info
    about = f"{info.name} {info.version}"[:200] if info is not None else ""
    listing = listed(server, tools, about=about, protocol=str(client.protocol_version), cut=cut)
    return msgspec.structs.replace(listing, resources=able.resources is not None, prompts=able.prompts is not None)


async def _pages(client: Any) -> tuple[list[Any], str]:
    """The tools that a server lists, page by page, and why there may be more that were not asked for."""
    tools: list[Any] = []
    cursor, seen, size = None, set[str](), 0
    for _ in range(PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        size += len(page.model_dump_json().encode())
        if size > LIST_BYTES_MAX:
            return tools, f"the list is longer than {LIST_BYTES_MAX} bytes"
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or len(tools) > TOOLS_MAX:  # one too many: so it is said that there are
            return tools, ""
        if cursor in seen:
            return tools, "the list leads back to a page that it had already"
        seen.add(cursor)
    return tools, f"the list has more than {PAGES_MAX} pages"
