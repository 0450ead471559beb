"""`windlass select` and `/agent` in a chat: who runs a session, and having another one run it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import pathlib
from typing import Any

import pytest

import windlass
from windlass.cli.chat import slash_commands
from windlass.cli.main import main
from windlass.cli.screen.narration import Narration, Note
from windlass.events.changes import AgentDeselected, AgentSelected
from windlass.events.errors import UsageError
from windlass.events.sessions import AgentChanged
from windlass.events.values.setup import AgentRef
from windlass.runtime.streams.record import Record
from windlass.testing.scripted import ScriptedModel

from .screens import proves


def author(*script: Any) -> windlass.Agent:
    critic = windlass.Agent("critic", model=ScriptedModel(["it is bad"]), description="finds what is wrong")
    return windlass.Agent("author", model=ScriptedModel([*script]), agents=[critic])


async def lived(store: str, prompt: str | None, *script: Any) -> str:
    """Opens the session of a store, and says something to it."""
    agent = author(*script)
    async with windlass.open(store, agents=[agent], poll_ms=5) as runtime:
        session = await runtime.session(agent, "march")
        if prompt is not None:
            await session.prompt(prompt)
        return (await session.result()).text if prompt is not None else ""


@pytest.fixture
def store(tmp_path: pathlib.Path) -> str:
    place = str(tmp_path / "work.db")
    asyncio.run(lived(place, "write", "written"))
    return place


@proves("select", "normal", "empty")
def test_a_specialist_runs_a_session_that_nobody_drives_from_its_next_life_on(store, capsys):
    at = ["--store", store]
    assert main(["select", "march", *at]) == 0
    assert capsys.readouterr().out == "session 'march' of agent 'author' is run by author itself\n"
    assert main(["select", "march", "critic", "--wait", "0", *at]) == 0
    assert capsys.readouterr().out.startswith("selected: critic\nkept in the inbox; nobody drives this session now.")
    assert asyncio.run(lived(store, "is it good?")) == "it is bad"
    assert main(["select", "march", *at]) == 0
    assert capsys.readouterr().out == "session 'march' of agent 'author' is run by its specialist critic\n"
    assert main(["select", "march", "critic", *at]) == 0
    assert capsys.readouterr().out == ("session 'march' is run by its specialist critic already. Nothing was sent.\n")
    assert main(["select", "march", "--own", "--wait", "0", *at]) == 0
    assert capsys.readouterr().out.startswith("selected: author\n")
    assert asyncio.run(lived(store, "mend it", "mended")) == "mended"


@proves("select", "error")
def test_what_makes_no_sense_is_refused(store, capsys):
    assert main(["select", "march", "critic", "--own", "--store", store]) == 2
    assert "not both" in capsys.readouterr().err
    assert main(["select", "april", "critic", "--store", store]) == 2
    assert "april" in capsys.readouterr().err


class Talk:
    """As much of a chat as a slash command needs."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.args = argparse.Namespace()
        self.noted: list[str] = []
        self.desk = contextlib.nullcontext()

    def note(self, text: str, colour: str = "dim") -> None:
        self.noted.append(text)


async def test_in_a_chat_agents_are_listed_and_selected(store):
    agent = author("mended")
    async with windlass.open(store, agents=[agent]) as runtime:
        chat: Any = Talk(await runtime.session(agent, "march"))
        await slash_commands.agent(chat, "")
        assert chat.noted == ["author (runs this session)", "critic"]
        await slash_commands.agent(chat, "critic")
        chat.noted.clear()
        await slash_commands.agent(chat, "")
        assert chat.noted == ["author", "critic (runs this session)"]
        await slash_commands.agent(chat, "author")
        assert await chat.session.selected() is None
        with pytest.raises(UsageError, match="no specialist 'nobody'"):
            await slash_commands.agent(chat, "nobody")


def test_other_code_is_told_unless_somebody_selected_it():
    view = Narration()
    ref = AgentRef(name="author", digest="d")
    changed = AgentChanged(previous=ref, agent=ref)

    def said(event: Any) -> list[str]:
        told = Record(seq=1, at_ms=0, event=event, first=1, hash="")
        return [spoken.text for spoken in view.feed(told) if isinstance(spoken, Note)]

    assert said(AgentSelected(agent="critic", display_name="The critic")) == [
        "(The critic runs this session from here on)"
    ]
    assert said(changed) == []
    assert said(AgentDeselected(agent="critic")) == ["(critic runs this session no more: its own agent does)"]
    assert said(changed) == []
    assert said(changed) == ["(the agent's code is not the recorded one; it is used from here on)"]
