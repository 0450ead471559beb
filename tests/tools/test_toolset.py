"""Sets of tools: collisions, both kinds of names, restriction, the deferred catalogue."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.events.errors import UsageError
from windlass.tools.tool import AnyTool, external_tool, tool
from windlass.tools.toolset import ToolSet, words


def named(name: str, doc: str = "", **options: Any) -> AnyTool:
    def f(x: int = 0) -> int:
        return x

    f.__doc__ = doc
    made: AnyTool = tool(name=name, **options)(f)
    return made


READ, WRITE, SEND = named("read_file"), named("write_file", alias="save"), named("send")


def test_tools_are_found_by_either_name_on_its_own_side():
    tools = ToolSet([READ, WRITE])
    assert (tools.names, len(tools), "write_file" in tools) == (("read_file", "write_file"), 2, True)
    assert tools.get("write_file") is WRITE
    assert tools.get("save") is None
    assert tools.called("save") is WRITE
    assert tools.called("write_file") is None
    assert [schema.name for schema in tools.schemas()] == ["read_file", "save"]
    assert [text.name for text in tools.texts] == ["read_file", "write_file"]
    assert [spec.alias for spec in tools.specs] == [None, "save"]
    assert tools.near("red_file") == ("read_file",)


@pytest.mark.parametrize(
    "tools",
    [
        [named("a"), named("a")],
        [named("a"), named("b", alias="a")],
        [named("b", alias="a"), named("a")],
        [named("a", alias="c"), named("b", alias="c")],
        [named("a"), external_tool("a", "", {"type": "object"})],
    ],
)
def test_collision_on_either_side_is_refused(tools):
    with pytest.raises(UsageError, match=r"two tools are called '[ac]'"):
        ToolSet(tools)


def test_plain_functions_become_tools():
    def plain(x: int) -> int:
        return x

    assert ToolSet([plain]).names == ("plain",)


def test_restricted_sets_follow_canonical_names_and_globs():
    tools = ToolSet([READ, WRITE, SEND])
    assert tools.only(["*_file"]).names == ("read_file", "write_file")
    assert tools.only(["send", "read_*"]).names == ("read_file", "send")
    assert tools.only([]).names == ()
    with pytest.raises(UsageError, match="no tool 'save': there are read_file, write_file, send"):
        tools.only(["save"])


def test_sets_change_by_making_new_ones():
    tools = ToolSet([READ, WRITE])
    newer = named("read_file", "Newer.")
    assert [one.description for one in tools.joined([newer, SEND])] == ["Newer.", "", ""]
    assert tools.without(["read_file", "other"]).names == ("write_file",)
    assert tools.names == ("read_file", "write_file")
    with pytest.raises(UsageError, match="two tools are called 'save'"):
        tools.joined([named("save")])


CATALOGUE = ToolSet(
    [
        named("shown", "Always there."),
        named("github_create_issue", "Open a new ticket in a repository.", deferred=True),
        named("github_list_issues", "List tickets.", deferred=True),
        named("sendMail", "Send a letter to somebody about an issue.", deferred=True),
        named("weather", "Forecast for a city.", deferred=True),
    ]
)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("create issue", ["github_create_issue", "github_list_issues", "sendMail"]),
        ("ISSUES", ["github_list_issues", "github_create_issue", "sendMail"]),
        ("mail", ["sendMail"]),
        ("forecast", ["weather"]),
        ("nothing of this", []),
        ("", ["github_create_issue", "github_list_issues", "sendMail", "weather"]),
    ],
)
def test_search_finds_deferred_tools_by_words(query, found):
    assert [text.name for text in CATALOGUE.search(query)] == found


def test_deferred_tools_are_shown_once_they_are_loaded():
    assert [schema.name for schema in CATALOGUE.schemas()] == ["shown"]
    assert [schema.name for schema in CATALOGUE.schemas(["weather"])] == ["shown", "weather"]
    assert CATALOGUE.deferred == ("github_create_issue", "github_list_issues", "sendMail", "weather")
    assert len(CATALOGUE.search("", limit=2)) == 2


def test_names_fall_into_words():
    assert words("getHTTPResponse_code-2 x") == ["get", "httpresponse", "code", "2", "x"]
