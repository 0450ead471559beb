"""Fetch as an agent has it: asked about with its address, large pages kept as blobs, errors told."""

from __future__ import annotations

from typing import Any

import windlass
from tests.security.loopback import Site, answer
from windlass.events.tools.permissions import UrlDetail
from windlass.events.values.blocks import plain_text
from windlass.events.values.items import ResultItem
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.web import fetch_tool


def results(model: ScriptedModel) -> list[str]:
    return [plain_text(item.content) for item in model.requests[-1].items if isinstance(item, ResultItem)]


async def played(site: Site, script: list[Any], *, agree: bool = True) -> tuple[ScriptedModel, list[Any]]:
    asked: list[Any] = []

    def approver(request: Any) -> bool:
        assert site.connections == 0, "nothing is asked for before somebody agrees"
        asked.append(request.detail)
        return agree

    model = ScriptedModel(script)
    tools = [fetch_tool(allow_private=(site.endpoint,)), "read_result"]
    await windlass.Agent("reader", model=model, tools=tools, approver=approver).run("go")
    return model, asked


async def test_a_page_is_asked_about_by_its_address_and_read() -> None:
    async with Site().serving() as site:
        site.pages["/a"] = answer(b"<h1>Hello</h1><p>there", "text/html; charset=utf-8")
        model, asked = await played(site, [[call("fetch", url=site.url("/a"))], "done"])
        assert asked == [UrlDetail(url=site.url("/a"), intention="read this page")]
        assert results(model) == [f"{site.url('/a')}\n200 text/html\n\n# Hello\n\nthere"]


async def test_nobody_is_reached_if_nobody_agrees() -> None:
    async with Site().serving() as site:
        _, asked = await played(site, [[call("fetch", url=site.url("/a"))], "done"], agree=False)
        assert (len(asked), site.connections) == (1, 0)


async def test_a_large_page_is_kept_whole_and_read_on() -> None:
    async with Site().serving() as site:
        site.pages["/a"] = answer(b"".join(b"line %d\n" % n for n in range(20_000)))
        model, _ = await played(site, [[call("fetch", url=site.url("/a"))], "done"])
        assert "read_result with call_id" in results(model)[0]


async def test_an_address_that_is_none_asks_nobody() -> None:
    async with Site().serving() as site:
        model, asked = await played(site, [[call("fetch", url="http://user@example.com/")], "done"])
        assert (asked, site.connections) == ([], 0)
        assert "user name" in results(model)[0]


async def test_an_error_of_the_server_is_told_with_its_words() -> None:
    async with Site().serving() as site:
        model, _ = await played(site, [[call("fetch", url=site.url("/gone"))], "done"])
        assert results(model) == [f"{site.url('/gone')} answered 404 Not Found\n\nno such page"]


def test_the_name_alone_gives_the_tool() -> None:
    agent = windlass.Agent("reader", model=ScriptedModel([]), tools=["fetch"])
    assert [spec.name for spec in agent.toolset.specs] == ["fetch"]
