"""What people write about MCP servers, and what it means; what means nothing is refused with the place and the fix."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.events.errors import UsageError
from windlass.mcp.normal_form import normalized
from windlass.mcp.server import McpServer

TIME = McpServer(name="time", command="mcp-server-time", args=("--local-timezone", "UTC"))
PLAIN = {"command": "mcp-server-time", "args": ["--local-timezone", "UTC"]}
DOCS = McpServer(name="docs", transport="http", url="https://docs.invalid/mcp")


@pytest.mark.parametrize(
    ("given", "means"),
    [
        (None, ()),
        ([], ()),
        ({}, ()),
        ({"mcpServers": {}}, ()),
        # one, a list, a map by name, a value of ours
        ({"name": "time", **PLAIN}, (TIME,)),
        ([{"name": "time", **PLAIN}], (TIME,)),
        ({"time": PLAIN}, (TIME,)),
        ({"time": {**PLAIN, "name": "time"}}, (TIME,)),
        (TIME, (TIME,)),
        ([TIME, {"name": "docs", "url": "https://docs.invalid/mcp"}], (TIME, DOCS)),
        ({"time": PLAIN, "docs": None}, (TIME,)),
        # files of clients
        ({"mcpServers": {"time": PLAIN}}, (TIME,)),
        ({"servers": {"time": {**PLAIN, "type": "stdio"}}, "inputs": []}, (TIME,)),
        ({"mcp_servers": {"time": PLAIN}}, (TIME,)),
        ({"mcp": {"time": {"type": "local", "command": ["mcp-server-time", "--local-timezone", "UTC"]}}}, (TIME,)),
        ({"mcpServers": [{"name": "time", **PLAIN}]}, (TIME,)),
        # the transport, said or implied
        ({"docs": {"url": "https://docs.invalid/mcp"}}, (DOCS,)),
        ({"docs": {"httpUrl": "https://docs.invalid/mcp"}}, (DOCS,)),
        ({"docs": {"type": "http", "url": "https://docs.invalid/mcp"}}, (DOCS,)),
        ({"docs": {"transport": "streamable-http", "url": "https://docs.invalid/mcp"}}, (DOCS,)),
        ({"docs": {"transport": "streamableHttp", "url": "https://docs.invalid/mcp"}}, (DOCS,)),
        (
            {"docs": {"sseUrl": "https://docs.invalid/mcp"}},
            (McpServer(name="docs", transport="sse", url="https://docs.invalid/mcp"),),
        ),
        (
            {"docs": {"url": "https://docs.invalid/sse"}},
            (McpServer(name="docs", transport="sse", url="https://docs.invalid/sse"),),
        ),
        (
            {"docs": {"type": "sse", "url": "https://docs.invalid/mcp"}},
            (McpServer(name="docs", transport="sse", url="https://docs.invalid/mcp"),),
        ),
        # the names of others for what there is here; what they grant is not granted
        (
            {
                "time": {
                    **PLAIN,
                    "environment": {"TZ": "UTC"},
                    "timeout": 5000,
                    "includeTools": ["get_*"],
                    "excludeTools": ["convert_time"],
                    "disabled": True,
                    "autoApprove": ["get_current_time"],
                    "alwaysAllow": ["*"],
                    "description": "the time",
                    "oauth": {"clientId": "theirs"},
                }
            },
            (
                McpServer(
                    name="time",
                    command="mcp-server-time",
                    args=("--local-timezone", "UTC"),
                    env={"TZ": "UTC"},
                    call_timeout_ms=5000,
                    tools=("get_*",),
                    exclude=("convert_time",),
                    enabled=False,
                ),
            ),
        ),
        # secrets by name
        (
            {"docs": {"url": "https://docs.invalid/mcp", "headers": {"Authorization": "Bearer ${docs_token}"}}},
            (
                McpServer(
                    name="docs",
                    transport="http",
                    url="https://docs.invalid/mcp",
                    headers={"Authorization": "Bearer ${docs_token}"},
                ),
            ),
        ),
        (
            {"time": {**PLAIN, "env": {"TZ": "${zone:-UTC}"}}},
            (
                McpServer(
                    name="time",
                    command="mcp-server-time",
                    args=("--local-timezone", "UTC"),
                    env={"TZ": "${zone:-UTC}"},
                ),
            ),
        ),
    ],
)
def test_a_shape_means_these_servers(given: Any, means: tuple[McpServer, ...]) -> None:
    assert normalized(given) == means


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (7, "mcp: give a server, a list of them or an object by name, not int"),
        ("time", "mcp: give a server, a list of them or an object by name, not str"),
        ([PLAIN], "mcp[0]: it has no name: add 'name', or write the servers as an object by name"),
        ([7], "mcp[0]: a server is an object or an McpServer, not int"),
        ({"time": 7}, "mcp.time: a server is an object with 'command' or 'url', not int"),
        ({"time": {"name": "clock", **PLAIN}}, "mcp.time: it is called 'time' outside and 'clock' inside"),
        ({"time": {}}, "mcp.time: cannot tell how to reach it: give 'command' for a program, or 'url' for an address"),
        ({"mcpServers": {"time": {}}}, "mcp: mcpServers.time: cannot tell how to reach it"),
        ({"mcpServers": {}, "hooks": {}}, "mcp: 'hooks' beside 'mcpServers' means nothing: put servers inside of it"),
        ({"time": {"type": "pipe", **PLAIN}}, "mcp.time: there is no transport 'pipe': use stdio, http or sse"),
        ({"time": {"type": 7, **PLAIN}}, "mcp.time: there is no transport 7"),
        (
            {"a": {"command": "x", "url": "https://a.invalid"}},
            "mcp.a: it has a 'command' and a 'url': leave one of them",
        ),
        (
            {"a": {"url": "https://a.invalid", "sseUrl": "https://a.invalid"}},
            "mcp.a: it has 'url' and 'sseUrl': leave one",
        ),
        ({"a": {"type": "http", "sseUrl": "https://a.invalid"}}, "mcp.a: it says http and sse at once: leave one"),
        (
            {"a": {"type": "http", "transport": "sse", "url": "https://a.invalid"}},
            "mcp.a: it says http and sse at once",
        ),
        ({"a": {"url": ["https://a.invalid"]}}, "mcp.a.url: an address is a text, not list"),
        ({"a": {"type": "http", "command": "x"}}, "mcp.a: a server with a 'url' has no 'command', 'args' or 'env'"),
        ({"a": {"type": "http"}}, "mcp.a: transport 'http' needs a 'url'"),
        ({"a": {"command": []}}, "mcp.a.command: it is empty: give a program"),
        ({"a": {"command": ""}}, "mcp.a: cannot tell how to reach it"),
        ({"a": {**PLAIN, "arguments": []}}, "mcp.a: 'arguments' means nothing: did you mean"),
        ({"a": {**PLAIN, "zzz": 1}}, "mcp.a: 'zzz' means nothing: known are args, call_timeout_ms, command"),
        ({"a": {**PLAIN, "args": "--utc"}}, "mcp.a: args: Expected `array`, got `str`"),
        ({"a": {**PLAIN, "args": [1]}}, "mcp.a: args[0]: Expected `str`, got `int`"),
        ({"a": {**PLAIN, "env": {"A=B": "x"}}}, "mcp.a: env: 'A=B' is no name"),
        ({"a": {**PLAIN, "env": {"A": "x\ny"}}}, "mcp.a: env.A: a value is one line"),
        ({"a": {**PLAIN, "env": {"A": "${not a name}"}}}, "mcp.a: env.A: write a secret as ${name}"),
        ({"a": {"command": "x", "args": ["--key", "${key}"]}}, "mcp.a: secrets are not put into a command"),
        ({"a": {"url": "https://a.invalid/${key}"}}, "mcp.a: secrets are not put into an address"),
        (
            {"a": {"url": "https://me:pass@a.invalid"}},
            "give an address such as https://example.com/mcp, without a name",
        ),
        ({"a": {"url": "file:///etc/passwd"}}, "give an address such as https://example.com/mcp"),
        ({"a": {"url": "http://a.invalid", "headers": {"X-Key": "${key}"}}}, "headers would be readable on the way"),
        ({"a": {**PLAIN, "headers": {"X": "y"}}}, "mcp.a: a server with a 'command' has no 'url' and no 'headers'"),
        ({"a__b": PLAIN}, "mcp.a__b: 'a__b' is no name of a server"),
        ({"a_": PLAIN}, "mcp.a_: 'a_' is no name of a server"),
        ({"9a": PLAIN}, "mcp.9a: '9a' is no name of a server"),
        ({"a b": PLAIN}, "mcp.a b: 'a b' is no name of a server"),
        ({"a" * 32: PLAIN}, "is no name of a server"),
        ([{"name": "a", **PLAIN}, {"name": "A", **PLAIN}], "mcp: there are two servers 'A': give one of them another"),
        ({"a": {**PLAIN, "timeout": 0}}, "mcp.a: the timeouts are milliseconds, greater than 0"),
        ({"a": {**PLAIN, "contracts": {"*": "twice"}}}, "mcp.a: contracts[...]: Invalid enum value 'twice'"),
        ({f"s{n}": PLAIN for n in range(65)}, "mcp: 65 servers are more than the 64 allowed"),
    ],
)
def test_what_means_nothing_is_refused_with_the_place_and_the_fix(given: Any, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        normalized(given)
    assert told in str(refused.value)


def test_a_servers_digest_covers_all_that_runs_and_no_value_of_a_secret() -> None:
    base = McpServer(name="a", command="x", args=("1",), env={"API_KEY": "written out", "TZ": "UTC"})
    others = [
        McpServer(name="a", command="y", args=("1",), env=base.env),
        McpServer(name="a", command="x", args=("2",), env=base.env),
        McpServer(name="a", command="x", args=("1",), env=base.env, cwd="/tmp"),
        McpServer(name="a", command="x", args=("1",), env={**base.env, "TZ": "CET"}),
        McpServer(name="a", command="x", args=("1",), env={**base.env, "API_KEY": "another"}),
        McpServer(name="a", transport="http", url="https://a.invalid"),
    ]
    assert len({server.launch_digest for server in (base, *others)}) == len(others) + 1
    assert "written out" not in str(base.launch)
    assert (
        McpServer(name="a", command="x", args=("1",), env=base.env, exclude=("b",)).launch_digest == base.launch_digest
    )


def test_what_a_server_says_of_itself_is_not_what_is_believed() -> None:
    server = McpServer(name="a", command="x", read_only=("get_*",), contracts={"set_*": "idempotent"})
    assert (server.contract("get_time"), server.traits("get_time")) == ("pure", ("read",))
    assert (server.contract("set_time"), server.traits("set_time")[1]) == ("idempotent", "write")
    assert (server.contract("run"), server.traits("run")) == ("at_most_once", ("read", "write", "execute", "egress"))
    away = McpServer(name="a", transport="http", url="https://a.invalid", read_only=("*",))
    assert away.traits("get") == ("read", "egress")
