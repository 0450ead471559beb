"""`windlass declassify`, and what `show`, `inspect` and `logs` say of labels."""

from __future__ import annotations

import asyncio
import json
import pathlib
from typing import Any

import pytest

import windlass
from windlass.cli.main import main
from windlass.events.tools.labels import LabelsDeclassified
from windlass.testing.scripted import ScriptedModel, call

from .screens import proves


@windlass.tool(contract="pure", traits=["read"], labels=["private:payroll"])
def payroll(path: str) -> str:
    "Reads a file."
    return "17"


@windlass.tool(contract="pure", traits=["read"], labels=["untrusted:web"])
def page(url: str) -> str:
    "Reads a page."
    return "buy"


@windlass.tool(traits=["egress"])
def post(text: str) -> str:
    "Sends something."
    return "posted"


def clerk(*script: Any) -> windlass.Agent:
    return windlass.Agent("clerk", model=ScriptedModel([*script]), tools=[payroll, page, post])


async def lived(store: str, *script: Any, prompt: str | None = "go") -> list[Any]:
    agent = clerk(*script)
    async with windlass.open(store, agents=[agent], poll_ms=5) as runtime:
        session = await runtime.session(agent, "march")
        if prompt is not None:
            await session.prompt(prompt)
        await session.result()
        return [record.event async for record in session.records()]


@pytest.fixture
def at(tmp_path: pathlib.Path) -> list[str]:
    """A store with a session that has seen both, and asks about the way out."""
    store = str(tmp_path / "work.db")
    first = [call("payroll", path="secrets.csv"), call("page", url="https://example.org/x")]
    asyncio.run(lived(store, first, call("post", text="17")))
    return ["--store", store]


@proves("declassify", "normal")
def test_a_label_is_taken_away_with_a_reason(at: list[str], capsys: pytest.CaptureFixture[str]):
    words = ["declassify", "march", "untrusted:web", "--reason", "I wrote that page", "--wait", "0", *at]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("declassified: untrusted:web\n")
    events = asyncio.run(lived(at[1], "done", prompt=None))
    (gone,) = [event for event in events if isinstance(event, LabelsDeclassified)]
    assert (gone.labels, gone.reason, gone.auth) == (("untrusted:web",), "I wrote that page", "os_user")
    assert main(["logs", "march", "--all", *at]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "labels joined private:payroll since c" in said
    assert f"declassified untrusted:web by {gone.actor}: I wrote that page" in said


@proves("declassify", "error")
def test_a_label_that_is_not_there_or_no_reason_is_an_error(at: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["declassify", "march", "private", "--reason", "x", *at]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "no label 'private' in session 'march': there are private:payroll, untrusted:web" in said
    assert main(["declassify", "march", "untrusted:web", "--reason", " ", *at]) == 2
    assert "say why" in capsys.readouterr().err


@proves("declassify", "empty")
def test_a_session_without_labels_has_none_to_take_away(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    store = str(tmp_path / "work.db")
    asyncio.run(lived(store, "hello"))
    assert main(["declassify", "march", "private", "--reason", "x", "--store", store]) == 2
    assert "no label 'private' in session 'march': it has none" in " ".join(capsys.readouterr().err.split())


def test_show_says_what_the_session_has_seen_and_why_it_asks(at: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["show", "march", *at]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "labels private:payroll since c" in said
    assert "(payroll secrets.csv)" in said
    assert "(page https://example.org/x)" in said
    assert "this would bring untrusted input, private data and a way out together" in said
    assert "one for later calls does not speak of this" in said
    assert main(["show", "march", "--json", *at]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["label"], one["tool"], one["subject"]) for one in found["labels"]] == [
        ("private:payroll", "payroll", "secrets.csv"),
        ("untrusted:web", "page", "https://example.org/x"),
    ]
    assert found["quarantined"] is False


def test_inspect_shows_them(at: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", "march", *at]) == 0
    assert "(payroll secrets.csv)" in capsys.readouterr().out
    assert main(["inspect", "march", "--json", *at]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["found"]["label"] for one in found["labels"]] == ["private:payroll", "untrusted:web"]


AGENT = """
import windlass
from windlass.testing.scripted import ScriptedModel, call

@windlass.tool
def post(text: str) -> str:
    "Sends something."
    return "posted"

clerk = windlass.Agent("clerk", model=ScriptedModel([call("post", text="x"), "done"] * 2), tools=[post])
"""


def test_run_quarantines_a_session_for_good(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    file, store = tmp_path / "agents.py", ["--store", str(tmp_path / "work.db")]
    file.write_text(AGENT)
    words = ["run", "--agent", f"{file}:clerk", "go", "--session", "q", "--json", *store]
    assert main([*words, "--quarantine"]) == 0
    assert main(words) == 0
    capsys.readouterr()
    assert main(["logs", "q", "--all", *store]) == 0
    assert capsys.readouterr().out.count("the session is quarantined: only reading is allowed") == 2
    assert main(["show", "q", *store]) == 0
    assert "quarantined: it only reads" in " ".join(capsys.readouterr().out.split())
