"""`windlass policy`: check, explain and test."""

from __future__ import annotations

import asyncio
import json
import pathlib

import pytest

import windlass
from windlass.cli.main import main
from windlass.testing.scripted import ScriptedModel, call

from .screens import proves

RULES = """
default = "allow"

[[rules]]
action = "deny"
tool = "pay"
when = "args.cents > 100"
reason = "too much"

[[rules]]
action = "ask"
tool = "write"
writes = ["docs/**"]
"""


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    return "paid"


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.toml").write_text(RULES)
    return tmp_path


async def recorded(store: str) -> None:
    agent = windlass.Agent(
        "clerk", model=ScriptedModel([[call("pay", cents=5), call("pay", cents=500)], "x"]), tools=[pay]
    )
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "march")
        await session.prompt("go")
        await session.result()


@proves("policy", "normal")
def test_a_sound_policy_is_said_in_words(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    assert main(["policy", "check", "rules.toml"]) == 0
    assert capsys.readouterr().out == (
        "rules.toml: 2 rules, sound\n"
        "  deny pay when args.cents > 100 (too much)\n"
        "  ask write writing docs/**\n"
        "  otherwise: allowed\n"
    )
    assert main(["policy", "check", "read-only", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["default"] == "deny"


@proves("policy", "error")
def test_what_is_wrong_is_said_with_its_line(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    (folder / "wrong.yaml").write_text("default: ask\nrules:\n  - action: dney\n  - action: deny\n    hosts: ['a b']\n")
    assert main(["policy", "check", "wrong.yaml"]) == 2
    said = capsys.readouterr().err
    assert "wrong.yaml:3: action: 'dney' is none of allow, ask, deny" in said
    assert "wrong.yaml:5: hosts: 'a b' is no host" in said
    assert main(["policy", "check", "nowhere.toml"]) == 2
    assert main(["policy", "explain", "rules.toml", "write", "{"]) == 2
    assert main(["policy", "explain", "rules.toml"]) == 2


def test_a_call_is_explained_with_the_rule_that_decides(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    given = json.dumps({"path": "docs/a.md", "content": "x"})
    assert main(["policy", "explain", "rules.toml", "write", given]) == 0
    said = capsys.readouterr().out
    assert said.startswith('write {"path": "docs/a.md", "content": "x"}: asked (ask write)')
    assert "ask write writing docs/**: holds" in said
    (folder / "tools.py").write_text('def pay(cents: int) -> str:\n    "Pay."\n    return "paid"\n')
    assert main(["policy", "explain", "rules.toml", "tools.py:pay", '{"cents": 500}']) == 0
    assert capsys.readouterr().out.startswith('pay {"cents": 500}: denied (deny pay)')


@proves("policy", "empty")
def test_recorded_calls_are_judged_again(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    store = str(folder / "work.db")
    asyncio.run(recorded(store))
    assert main(["policy", "test", "rules.toml", "--store", store]) == 0
    table, total = capsys.readouterr().out.strip().rsplit("\n", 1)
    assert total == "2 calls in 1 session: 1 would be allowed, 0 asked about, 1 denied; 1 otherwise than they were"
    assert table.splitlines()[1].split() == [
        "march",
        "c6.1",
        "allowed",
        "denied",
        "deny",
        "pay",
        "pay",
        '{"cents":',
        "500}",
    ]
    assert main(["policy", "test", "rules.toml", "march", "--json", "--store", store]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["would"], second["would"], second["was"], second["args"]) == (
        "allowed",
        "denied",
        "allowed",
        {"cents": 500},
    )
    assert main(["policy", "test", "allow-all", "--store", store]) == 0
    assert capsys.readouterr().out.startswith("2 calls in 1 session: 2 would be allowed")
