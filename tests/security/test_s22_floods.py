"""S22: what costs without end is an attack too. Bombs and floods end in bounded time, and the session lives on."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

import windlass
from windlass.cli.terminal.markdown import MarkdownFlow
from windlass.events.errors import CodecError
from windlass.events.stored import codec
from windlass.events.tools.calls import RepeatWarned, ToolDenied
from windlass.events.values.blocks import plain_text
from windlass.events.values.items import ResultItem
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.context import NOTES_MAX, PROGRESS_REPORTS_MAX, ToolContext
from windlass.tools.files import file_tools
from windlass.tools.planes.large_output import LARGE_BYTES
from windlass.tools.web.html_text import html_text

SECONDS = 20.0
"""Of this process's own time: what grows without bound needs minutes or hours for these."""


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    begun = time.process_time()
    yield
    assert time.process_time() - begun < SECONDS


def results(model: ScriptedModel) -> list[str]:
    return [plain_text(item.content) for item in model.requests[-1].items if isinstance(item, ResultItem)]


async def played(script: list[Any], tools: Any, **options: Any) -> ScriptedModel:
    model = ScriptedModel(script)
    await windlass.Agent("a", model=model, tools=tools, **options).run("go")
    return model


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(.*)*x", "(a{1,50}){1,50}b", "^(([a-z])+.)+[A-Z]([a-z])+$"])
async def test_a_pattern_that_explodes_elsewhere_is_searched_for_or_refused(
    pattern: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "a.txt").write_text("a" * 50_000 + "!\n")
    model = await played([[call("grep", pattern=pattern)], "done"], file_tools(tmp_path))
    assert len(results(model)) == 1


async def test_a_thousand_calls_in_one_reply_are_bounded_by_the_budget() -> None:
    ran: list[int] = []

    @windlass.tool(contract="pure")
    def step(n: int) -> str:
        "One step."
        ran.append(n)
        return "ok"

    model = ScriptedModel([[call("step", n=n) for n in range(1_000)], "done"])
    agent = windlass.Agent("a", model=model, tools=[step], budget=windlass.Budget(calls=50))
    with contextlib.suppress(windlass.WindlassError):
        await agent.run("go")
    assert 0 < len(ran) <= 50


async def test_a_model_that_never_ends_its_turns_is_ended_by_the_budget() -> None:
    @windlass.tool(contract="pure")
    def again(n: int) -> str:
        "Again."
        return "again"

    model = ScriptedModel([[call("again", n=n)] for n in range(200)])
    agent = windlass.Agent("a", model=model, tools=[again], budget=windlass.Budget(turns=20))
    with pytest.raises(windlass.WindlassError):
        await agent.run("go")
    assert len(model.requests) <= 21


async def test_a_model_that_makes_the_same_call_for_ever_is_warned_denied_and_stopped() -> None:
    ran: list[int] = []

    @windlass.tool(contract="pure")
    def again(n: int) -> str:
        "Again."
        ran.append(n)
        return "again"

    model = ScriptedModel([[call("again", n=1)] for _ in range(200)])
    settings = windlass.Settings(repeat_warn=2, repeat_deny=4, repeat_stop=6)
    agent = windlass.Agent("a", model=model, tools=[again], settings=settings)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        events = [event async for event in session.prompt("go")]
    assert [event.count for event in events if isinstance(event, RepeatWarned)] == [2, 3]
    denied = [(event.reason, event.stop) for event in events if isinstance(event, ToolDenied)]
    assert denied == [("repeated", False)] * 2 + [("repeated", True)]
    assert (ran, len(model.requests)) == ([1] * 3, 6)


@pytest.mark.parametrize("bomb", ['{"a":' * 100_000, "[" * 1_000_000, '{"type":"' + "a" * 1_000_000, "9" * 2_000_000])
def test_a_command_that_is_a_bomb_is_refused(bomb: str) -> None:
    with pytest.raises(CodecError):
        codec.decode_command(bomb.encode())


async def test_reports_and_notes_are_bounded() -> None:
    @windlass.tool(contract="pure")
    async def flood(ctx: ToolContext) -> str:
        "Never stops talking."
        for n in range(PROGRESS_REPORTS_MAX * 3):
            ctx.progress(f"{n}" * 100)
        for n in range(NOTES_MAX * 3):
            ctx.note(f"{n}")
        return "unreachable"

    model = ScriptedModel([[call("flood")], "done"])
    agent = windlass.Agent("a", model=model, tools=[flood])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        seen = [event async for event in session.prompt("go")]
        kept = [record async for record in session.records()]
    assert len(seen) < PROGRESS_REPORTS_MAX + NOTES_MAX + 200
    assert len(kept) < NOTES_MAX + 100


async def test_a_result_without_end_leaves_a_preview() -> None:
    @windlass.tool(contract="pure")
    def pour() -> Iterator[str]:
        "Pours."
        for _ in range(2_000):
            yield "x" * 16_384

    model = await played([[call("pour")], "done"], [pour])
    assert len(results(model)[0]) < LARGE_BYTES


class Paper:
    """Takes what is shown."""

    def __init__(self) -> None:
        self.size = 0

    def put(self, done: str, growing: str) -> None:
        self.size += len(done)


@pytest.mark.parametrize(
    "bomb", ["[" * 20_000, "> " * 5_000 + "x", "*a **b " * 5_000, "`" * 20_001, "|a" * 5_000 + "\n" + "|-" * 5_000]
)
def test_an_answer_that_takes_parsers_long_is_shown_in_time(bomb: str) -> None:
    paper: Any = Paper()
    flow = MarkdownFlow(paper, margin="  ", width=lambda: 80, colours=True)
    for start in range(0, len(bomb), 512):
        flow.write(bomb[start : start + 512])
    flow.end_line()
    assert not flow.open_line


async def test_a_page_that_is_a_bomb_is_read_in_time() -> None:
    for bomb in ("<" * 1_000_000, "<!--" * 250_000, "<a x='" * 150_000, "&#" * 500_000, "<div>" * 200_000):
        html_text(bomb)


async def test_a_reply_beyond_its_bound_ends_its_run_and_not_the_session() -> None:
    @windlass.tool(contract="pure")
    def echo(text: str) -> str:
        "Says it again."
        raise AssertionError("it ran")

    model = ScriptedModel([[call("echo", text="x" * 1_200_000)], "alive"])
    agent = windlass.Agent("a", model=model, tools=[echo])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        await session.prompt("go")
        assert (await session.result()).status == "failed"
        await session.prompt("are you there?")
        assert (await session.result()).text == "alive"


def test_deep_data_is_refused_by_its_depth() -> None:
    deep = b"[" * 5_000 + b"]" * 5_000
    head = b'{"type":"signal.received","command_id":"a","kind":"k","body":{"payload":{"d":'
    with pytest.raises(CodecError):
        codec.decode_command(head + deep + b"}}}")
