"""Sessions and logs as MCP resources: `windlass://sessions`, and for each session itself and its log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from windlass.server.problems import Problem

from .arguments import RECORDS_MAX, Find
from .caller import Caller
from .desk import Desk
from .session_pages import find, look, read_log

if TYPE_CHECKING:
    from mcp_types import ListResourcesResult, ListResourceTemplatesResult, ReadResourceResult

SCHEME = "windlass"
ALL = f"{SCHEME}://sessions"
JSON = "application/json"
PAGE = 50
URI_CHARS_MAX = 2_000
OFFSET_DIGITS_MAX = 9


async def list_resources(desk: Desk, caller: Caller, cursor: str | None) -> ListResourcesResult:
    """The list of sessions, then each of them with its log, the last changed first."""
    from mcp_types import ListResourcesResult, Resource

    offset = _offset(cursor)
    rows = await (await desk.runtime(caller)).sessions(limit=PAGE, offset=offset)
    resources = [] if offset else [Resource(uri=ALL, name="sessions", description="All sessions.", mime_type=JSON)]
    for row in rows:
        uri = f"{ALL}/{quote(row.session, safe='')}"
        about = f"{row.agent or 'no agent'}, {row.state}"
        resources.append(Resource(uri=uri, name=row.session, description=about, mime_type=JSON))
        log = f"{row.session} (log)"
        resources.append(Resource(uri=f"{uri}/log", name=log, description=f"Its log: {about}.", mime_type=JSON))
    return ListResourcesResult(resources=resources, next_cursor=str(offset + PAGE) if len(rows) == PAGE else None)


async def list_templates() -> ListResourceTemplatesResult:
    """How the address of any session is written."""
    from mcp_types import ListResourceTemplatesResult, ResourceTemplate

    one = f"{ALL}/{{session_id}}"
    return ListResourceTemplatesResult(
        resource_templates=[
            ResourceTemplate(uri_template=one, name="session", description="How a session stands.", mime_type=JSON),
            ResourceTemplate(
                uri_template=f"{one}/log{{?after,limit}}",
                name="log",
                description="A page of a session's log, behind a cursor.",
                mime_type=JSON,
            ),
        ]
    )


async def read_resource(desk: Desk, caller: Caller, uri: str) -> ReadResourceResult:
    """What is at an address. Raises `Problem` if that is nothing."""
    from mcp_types import ReadResourceResult, TextResourceContents

    content = await _at(desk, caller, uri)
    text = json.dumps(content, ensure_ascii=False, default=str)
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=JSON, text=text)])


async def _at(desk: Desk, caller: Caller, uri: str) -> dict[str, Any]:
    try:
        split = urlsplit(uri[: URI_CHARS_MAX + 1])
        parts = [unquote(part, errors="strict") for part in split.path.split("/")[1:]]
        query = dict(parse_qsl(split.query, strict_parsing=bool(split.query)))
    except ValueError:
        raise _nothing(uri) from None
    if split.scheme != SCHEME or split.netloc != "sessions" or len(uri) > URI_CHARS_MAX:
        raise _nothing(uri)
    match parts:
        case [] | [""]:
            return await find(await desk.runtime(caller), Find(limit=200))
        case [session_id] if not query:
            return await look(await desk.session(caller, session_id), desk.words)
        case [session_id, "log"] if query.keys() <= {"after", "limit"}:
            session = await desk.session(caller, session_id)
            return await read_log(session, query.get("after"), _limit(query.get("limit")))
        case _:
            raise _nothing(uri)


def _nothing(uri: str) -> Problem:
    return Problem(404, "not_found", f"there is no resource {uri[:200]!r}: resources/list lists them")


def _limit(given: str | None) -> int:
    if given is None:
        return RECORDS_MAX
    if not given.isascii() or not given.isdecimal() or len(given) > 4 or not 1 <= int(given) <= RECORDS_MAX:
        raise Problem(400, "usage", f"limit={given[:40]}: give a whole number from 1 to {RECORDS_MAX}")
    return int(given)


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdecimal() or len(cursor) > OFFSET_DIGITS_MAX:
        raise Problem(400, "usage", "that cursor is none of this list's: begin without one")
    return int(cursor)
