"""Prompts of servers: listed, filled in, and sent by code and in a chat."""

from __future__ import annotations

import pathlib

import pytest

import windlass
from tests.mcp_client.conftest import Strange, patient
from tests.mcp_client.test_sessions import agent, at_work, events, of
from windlass.events.commands import PromptReceived
from windlass.events.errors import UsageError
from windlass.events.values.blocks import Text
from windlass.mcp_servers import PromptArgument, ServerPrompt, prompts, send_prompt
from windlass.testing.scripted import ScriptedModel

GREET = ServerPrompt(
    server="strange",
    name="greet",
    description="Greets.",
    arguments=(PromptArgument(name="language", required=True), PromptArgument(name="tone")),
)


async def test_the_prompts_of_servers_are_listed(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    async with at_work(agent(strange, "done"), tmp_path) as session:
        assert await prompts(session) == [GREET, ServerPrompt(server="strange", name="plain")]


async def test_a_prompt_is_sent_as_the_words_of_a_stranger(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    async with at_work(agent(strange, "hello"), tmp_path) as session:
        await (await send_prompt(session, "strange:greet", {"language": "Dutch"}))
        await session.wait_idle()
        (prompt,) = of(PromptReceived, await events(session))
        state = await session.state()
    assert prompt.labels == ("untrusted:mcp",)
    assert prompt.body.content == (
        Text(text="(The prompt 'greet' of the MCP server 'strange', as the user asked for it.)"),
        Text(text='greet in {"language": "Dutch"}'),
    )
    assert "untrusted:mcp" in state.labels.held


@pytest.mark.parametrize(
    ("words", "filled"),
    [
        ("Dutch", {"language": "Dutch"}),
        ("Dutch warm and kind", {"language": "Dutch", "tone": "warm and kind"}),
        ("tone=cold 'Old Dutch'", {"tone": "cold", "language": "Old Dutch"}),
        ("language=a=b", {"language": "a=b"}),
    ],
)
def test_arguments_are_read_out_of_a_line(words: str, filled: dict[str, str]) -> None:
    assert GREET.filled(words) == filled


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "/strange:greet needs language: write /strange:greet language=…"),
        ("tone=x", "/strange:greet needs language"),
        ("language=a tone=b c", "'c' is too much"),
        ("'open", "No closing quotation"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(words: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        GREET.filled(words)


async def test_prompts_that_there_are_not_are_refused_in_words(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    async with at_work(agent(strange, "hello"), tmp_path) as session:
        with pytest.raises(UsageError, match="there are strange:greet, strange:plain"):
            await send_prompt(session, "strange:none")
        with pytest.raises(UsageError, match="the servers are strange"):
            await send_prompt(session, "other:none")
        with pytest.raises(UsageError, match="takes nothing, not 'a'"):
            await send_prompt(session, "strange:plain", {"a": "b"})


async def test_a_session_without_servers_has_no_prompts(tmp_path: pathlib.Path) -> None:
    plain = windlass.Agent("plain", ScriptedModel([]))
    async with windlass.open(str(tmp_path / "work.db"), agents=[plain]) as runtime:
        session = await runtime.session(plain, "one")
        with pytest.raises(UsageError, match="has no MCP servers here: its agent has none"):
            await prompts(session)


async def test_a_server_that_is_gone_is_said_in_words(strange: Strange, tmp_path: pathlib.Path) -> None:
    broken = windlass.Agent("helper", ScriptedModel([]), mcp=patient(strange.server()))
    strange.tell("broken")
    async with at_work(broken, tmp_path) as session:
        assert await prompts(session) == []
        with pytest.raises(UsageError, match="the prompt 'strange:greet' cannot be had"):
            await send_prompt(session, "strange:greet", "Dutch")
