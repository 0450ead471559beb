"""The normal form of what people write about MCP servers: the shapes of Zidane, of `.mcp.json` and of other clients'
files, as `McpServer`s. Pure: reads no file, no environment, no clock."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from windlass.events.errors import UsageError

from .server import CODE, McpServer, Transport, checked

SERVERS_MAX = 64
WRAPPERS = ("mcpServers", "mcp_servers", "servers", "mcp")
"""What files put around the servers."""
BESIDE = frozenset({"$schema", "inputs", "version"})
"""What may stand beside a wrapper and means nothing here."""
TRANSPORTS: dict[str, Transport] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "remote": "http",
    "sse": "sse",
}
URLS: dict[str, Transport | None] = {"url": None, "httpUrl": "http", "sseUrl": "sse"}
"""The names of an address, each with the transport that it implies."""
REACHES = ("command", *URLS)
ALIASES = {
    "environment": "env",
    "includeTools": "tools",
    "excludeTools": "exclude",
    "timeout": "call_timeout_ms",
    "startTimeout": "start_timeout_ms",
    "readOnly": "read_only",
}
"""Names of other clients for what there is here."""
MEANINGLESS = frozenset({"description", "title", "icon", "version", "gallery", "$comment", "note", "oauth"})
"""What is passed over. A login is a person's, who gives what belongs to it when they log in."""
NOT_GRANTED = frozenset({"alwaysAllow", "autoApprove", "autoApproveTools", "always_allow", "approvalMode"})
"""What would let calls pass unasked. That is said by a policy alone; nothing is granted for it here."""
KNOWN = frozenset(McpServer.__struct_fields__) - {"origin", "transport", "url"}


def normalized(given: Any, place: str = "mcp", *, origin: str = CODE) -> tuple[McpServer, ...]:
    """The servers that something means: nothing, one, a list, or a map by name. Raises `UsageError` that names the
    place and the fix."""
    servers = tuple(_servers(given, place, origin))
    if len(servers) > SERVERS_MAX:
        raise UsageError(f"{place}: {len(servers)} servers are more than the {SERVERS_MAX} allowed")
    seen: set[str] = set()
    for server in servers:
        if server.name.lower() in seen:
            raise UsageError(f"{place}: there are two servers {server.name!r}: give one of them another name")
        seen.add(server.name.lower())
    return servers


def _servers(given: Any, place: str, origin: str) -> Iterator[McpServer]:
    if given is None:
        return
    if isinstance(given, McpServer):
        at = f"{place} {given.name!r}"
        yield checked(msgspec.structs.replace(_typed(given, at), origin=given.origin or origin), at)
    elif isinstance(given, Mapping):
        yield from _of_mapping(given, place, origin)
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        for index, entry in enumerate(given):
            at = f"{place}[{index}]"
            if isinstance(entry, McpServer):
                yield from _servers(entry, at, origin)
            elif isinstance(entry, Mapping):
                yield _server(entry, None, at, origin)
            else:
                raise UsageError(f"{at}: a server is an object or an McpServer, not {type(entry).__name__}")
    else:
        raise UsageError(f"{place}: give a server, a list of them or an object by name, not {type(given).__name__}")


def _of_mapping(given: Mapping[Any, Any], place: str, origin: str) -> Iterator[McpServer]:
    wrapper = next((name for name in WRAPPERS if isinstance(given.get(name), Mapping | list)), None)
    if wrapper is not None and not any(isinstance(given.get(name), str) for name in REACHES):
        if strange := sorted(set(map(str, given)) - {wrapper} - BESIDE):
            raise UsageError(f"{place}: {strange[0]!r} beside {wrapper!r} means nothing: put servers inside of it")
        yield from _servers(given[wrapper], f"{place}: {wrapper}", origin)
    elif any(isinstance(given.get(name), str) for name in (*REACHES, "type", "transport")):
        yield _server(given, None, place, origin)
    else:
        for name, entry in given.items():
            at = f"{place}.{name}"
            if entry is None:
                continue
            if not isinstance(entry, Mapping):
                raise UsageError(f"{at}: a server is an object with 'command' or 'url', not {type(entry).__name__}")
            yield _server(entry, str(name), at, origin)


def _server(entry: Mapping[Any, Any], key: str | None, place: str, origin: str) -> McpServer:
    fields = {ALIASES.get(str(name), str(name)): value for name, value in entry.items() if value is not None}
    name = fields.pop("name", key)
    if name is None:
        raise UsageError(f"{place}: it has no name: add 'name', or write the servers as an object by name")
    if key is not None and name != key:
        raise UsageError(f"{place}: it is called {key!r} outside and {name!r} inside: leave out 'name'")
    kind, url = _reach(fields, place)
    for meaningless in (*MEANINGLESS, *NOT_GRANTED):
        fields.pop(meaningless, None)
    if "disabled" in fields:
        fields["enabled"] = not fields.pop("disabled")
    command = fields.get("command")
    if isinstance(command, Sequence) and not isinstance(command, str):
        if not command:
            raise UsageError(f"{place}.command: it is empty: give a program")
        fields["command"], fields["args"] = command[0], [*command[1:], *fields.get("args", ())]
    _refuse_strange(fields, place)
    plain = {**fields, "name": name, "transport": kind, "url": url}
    return checked(msgspec.structs.replace(_converted(plain, place), origin=origin), place)


def _typed(server: McpServer, place: str) -> McpServer:
    """A server that was made in Python, whose fields nobody has looked at, if each is of its kind."""
    return _converted({name: getattr(server, name) for name in McpServer.__struct_fields__}, place)


def _converted(plain: dict[str, Any], place: str) -> McpServer:
    try:
        return msgspec.convert(plain, McpServer)
    except msgspec.ValidationError as error:
        raise UsageError(f"{place}: {_readable(str(error))}") from None


def _reach(fields: dict[str, Any], place: str) -> tuple[Transport, str]:
    """How it is reached: as it says, else as what it gives implies. Takes those fields away."""
    said = [fields.pop(name) for name in ("type", "transport") if name in fields]
    urls = {name: fields.pop(name) for name in URLS if name in fields}
    if len(urls) > 1:
        raise UsageError(f"{place}: it has {' and '.join(map(repr, urls))}: leave one of them")
    name, url = next(iter(urls.items()), ("", ""))
    if not isinstance(url, str):
        raise UsageError(f"{place}.{name}: an address is a text, not {type(url).__name__}")
    for kind in said:
        if not isinstance(kind, str) or kind.lower() not in TRANSPORTS:
            raise UsageError(f"{place}: there is no transport {kind!r}: use stdio, http or sse")
    kinds = {TRANSPORTS[kind.lower()] for kind in said}
    implied = URLS.get(name)
    if implied is not None:
        kinds.add(implied)
    if len(kinds) > 1:
        raise UsageError(f"{place}: it says {' and '.join(sorted(kinds))} at once: leave one of them")
    if kinds:
        return kinds.pop(), url
    if url and "command" in fields:
        raise UsageError(f"{place}: it has a 'command' and a {name!r}: leave one of them, or say 'type'")
    if url:
        return ("sse" if url.split("?")[0].rstrip("/").endswith("/sse") else "http"), url
    if "command" in fields:
        return "stdio", ""
    raise UsageError(f"{place}: cannot tell how to reach it: give 'command' for a program, or 'url' for an address")


def _refuse_strange(fields: dict[str, Any], place: str) -> None:
    for name in fields:
        if name not in KNOWN:
            close = difflib.get_close_matches(name, sorted(KNOWN | set(ALIASES) | set(URLS)), n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(KNOWN))}"
            raise UsageError(f"{place}: {name!r} means nothing: {hint}")


def _readable(told: str) -> str:
    """What msgspec says, with the place in front of it."""
    what, _, at = told.partition(" - at `$")
    path = at.rstrip("`").lstrip(".")
    return f"{path}: {what}" if path else what
