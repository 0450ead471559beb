"""A request of a child session on the command line: listed at the root with its place, and answered there by id."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import pathlib
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

import windlass
from windlass.cli.agents import module_of
from windlass.cli.identity import actor
from windlass.cli.main import main

from .screens import copied
from .test_run import ran as in_a_process

AGENTS = """
import asyncio

import windlass
from windlass.testing.scripted import ScriptedModel, by_history, call


@windlass.tool(contract="idempotent")
def pay(invoice: str) -> str:
    "Pay an invoice."
    return f"paid {invoice}"


@windlass.tool(settle=True)
async def wire(account: str) -> str:
    "Send money."
    await asyncio.sleep(3600)
    return "sent"


def agent(name, *turns, **more):
    return windlass.Agent(name, ScriptedModel(by_history(list(turns))), description="helps", **more)


def spawn(name, mode="foreground"):
    return call("spawn", agent=name, task="do it", mode=mode)


QUESTION = call("ask_user", questions=[{"question": "Which one?", "options": [{"label": "red"}, {"label": "blue"}]}])
payer = agent("payer", call("pay", invoice="I-7"), "I-7 is paid.", tools=[pay],
              policy=windlass.Policy((windlass.ask("pay"),)))
poller = agent("poller", QUESTION, "It is blue.", tools=["ask_user"])
wirer = agent("wirer", call("wire", account="A-1"), "Noted.", tools=[wire])
middle = agent("middle", [spawn("payer"), spawn("poller")], "Both are done.", agents=[payer, poller])
lead = agent("lead", spawn("middle"), "All is done.", agents=[middle])
banker = agent("banker", spawn("wirer"), "Sent or not.", agents=[wirer])
patron = agent("patron", spawn("payer", "background"), "Going on.", "Told.", agents=[payer])
"""
FILLED_S = 120
PAYING, ASKING = "c6.0~c6.0/p8", "c6.0~c6.1/q9"


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a store: below `deep` two sessions wait for people, two deep; below `rich` one does in the
    background; below `cut` a call was cut off. Nobody drives them."""
    folder = tmp_path_factory.mktemp("grown")
    (folder / "agents.py").write_text(AGENTS, encoding="utf-8")
    asyncio.run(asyncio.wait_for(_fill(folder, module_of(str(folder / "agents.py"))), FILLED_S))
    return folder


async def _fill(folder: pathlib.Path, agents) -> None:
    place = str(folder / "windlass.db")
    async with windlass.open(place, agents=[agents.lead, agents.banker, agents.patron]) as runtime:
        for agent, name in ((agents.lead, "deep"), (agents.patron, "rich")):
            session = await runtime.session(agent, name)
            await session.prompt("go")
            await session.result()
        rich = await runtime.get("rich")
        while not await rich.requests():
            await asyncio.sleep(0.01)
        session = await runtime.session(agents.banker, "cut")
        await session.prompt("go")
        while not (below := await runtime.sessions(parent="cut")):
            await asyncio.sleep(0.01)
        child = await runtime.get(below[0].session)
        while not any(call.status == "started" for call in (await child.state()).calls.by_id.values()):
            await asyncio.sleep(0.01)
    async with windlass.open(place, agents=[agents.banker]) as runtime:
        await (await runtime.get("cut")).wait_idle()


class Said(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def ran(folder: pathlib.Path, *words: str) -> Said:
    """What a command says on the store of a folder."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return Said(code, out.getvalue(), err.getvalue())


def open_in(folder: pathlib.Path, session: str) -> dict[str, str]:
    """What waits for a person below a session, and where."""
    shown = json.loads(ran(folder, "show", session, "--json").stdout)
    return {ask["ask_id"]: ask["scope"] for ask in shown["open"]}


def test_the_root_shows_what_is_asked_below_it_and_how_to_answer(grown: pathlib.Path):
    assert open_in(grown, "deep") == {PAYING: "c6.0~c6.0", ASKING: "c6.0~c6.1"}
    assert open_in(grown, "deep~c6.0") == {"c6.0/p8": "c6.0", "c6.1/q9": "c6.1"}
    shown = ran(grown, "show", "deep").stdout
    assert "below, in c6.0~c6.0 (payer):" in shown
    assert f"pay wants to run (request {PAYING})" in shown
    assert f"  windlass approve deep {PAYING}\n" in shown.replace("'", "")
    assert f"  windlass answer deep {ASKING} ...\n" in shown.replace("'", "")


def test_of_the_sessions_that_wait_for_people_the_roots_are_listed(grown: pathlib.Path):
    rows = {row["session"]: row for row in json.loads(ran(grown, "ps", "--waiting", "--json").stdout)}
    assert sorted(rows) == ["cut", "deep", "rich"]
    for options, found in (
        (("--agent", "lead"), ["deep"]),
        (("--agent", "payer"), []),
        (("--text", "rich"), ["rich"]),
        (("--limit", "1"), ["cut"]),
        (("--state", "idle"), ["cut", "deep", "rich"]),
    ):
        assert sorted(ran(grown, "ps", "--waiting", "--ids", *options).stdout.split()) == found
    assert set(rows["deep"]["waiting_for"]) == {PAYING, ASKING}
    assert [name.partition("/")[2][:1] for name in rows["rich"]["waiting_for"]] == ["p"]
    assert rows["rich"].get("state", "idle") == "idle"
    assert f"permission {PAYING} (pay)" in ran(grown, "ps", "--waiting").stdout


def test_a_tree_is_answered_at_its_root_and_goes_on_to_its_end(grown: pathlib.Path, tmp_path: pathlib.Path):
    folder = copied(grown, tmp_path / "answered")
    several = ran(folder, "approve", "deep", "p8")
    assert (several.returncode, several.stderr) == (
        2,
        f"windlass: session 'deep' has no open permission 'p8'; open: {PAYING} (pay)\n",
    )
    approved = ran(folder, "approve", "deep", PAYING, "--wait", "0")
    assert approved.returncode == 0, approved.stderr
    assert f"approved {PAYING}: pay may run" in approved.stdout
    assert "windlass run --agent FILE.py:lead --session deep" in approved.stdout
    assert f"{actor()} approved it" in ran(folder, "ps", "--waiting").stdout
    late = ran(folder, "deny", "deep", PAYING, "--wait", "0")
    assert late.returncode == 2
    assert "has an answer that waits in the inbox" in late.stderr
    answered = ran(folder, "answer", "deep", ASKING, "2", "--wait", "0")
    assert answered.returncode == 0, answered.stderr
    assert "  answered: " in ran(folder, "show", "deep").stdout
    assert "All is done." in in_a_process(folder, "run", "--agent", "agents.py:lead", "--session", "deep").stdout
    assert open_in(folder, "deep") == {}


def test_a_child_in_the_background_that_was_answered_goes_on_with_its_root(grown: pathlib.Path, tmp_path: pathlib.Path):
    folder = copied(grown, tmp_path / "background")
    resume = ("run", "--agent", "agents.py:patron", "--session", "rich")
    waiting = in_a_process(folder, *resume)
    assert "1 child session has not ended: windlass show rich" in waiting.stderr
    approved = ran(folder, "approve", "rich", "--wait", "0")
    assert "windlass run --agent FILE.py:patron --session rich" in approved.stdout
    went = in_a_process(folder, *resume)
    assert (went.returncode, "Told." in went.stdout, "child session" in went.stderr) == (0, True, False), went.stderr
    assert open_in(folder, "rich") == {}


def test_the_only_request_below_needs_no_name_and_may_be_denied(grown: pathlib.Path, tmp_path: pathlib.Path):
    folder = copied(grown, tmp_path / "denied")
    denied = ran(folder, "deny", "deep", "--feedback", "not today", "--wait", "0")
    assert denied.returncode == 0, denied.stderr
    assert f"denied {PAYING}: pay does not run" in denied.stdout


def test_a_call_of_a_child_is_settled_at_the_root(grown: pathlib.Path, tmp_path: pathlib.Path):
    folder = copied(grown, tmp_path / "settled")
    shown = ran(folder, "show", "cut").stdout
    (name,) = {line.split()[3] for line in shown.splitlines() if line.startswith("  windlass settle cut ")}
    settled = ran(folder, "settle", "cut", "-", "did_not_happen", "--wait", "0")
    assert settled.returncode == 0, settled.stderr
    assert f"settled {name}: did not happen" in settled.stdout
    assert "Sent or not." in in_a_process(folder, "run", "--agent", "agents.py:banker", "--session", "cut").stdout


def test_a_tree_is_drawn_with_what_each_session_waits_for(grown: pathlib.Path):
    drawn = [line.split() for line in ran(grown, "ps", "--tree", "--agent", "lead").stdout.splitlines()]
    assert [(name, state, agent, " ".join(waits)) for name, state, agent, _, *waits in drawn[1:]] == [
        ("deep", "blocked", "lead", "child c6.0"),
        ("c6.0", "blocked", "middle", "child c6.0, child c6.1"),
        ("c6.0", "blocked", "payer", "permission p8 (pay)"),
        ("c6.1", "blocked", "poller", "question q9 (ask_user)"),
    ]
    assert ran(grown, "ps", "--tree", "--mermaid").stdout.startswith("flowchart TD\n")
    assert ElementTree.fromstring(ran(grown, "ps", "--tree", "--svg").stdout).tag.endswith("svg")
    found = json.loads(ran(grown, "ps", "--tree", "--json").stdout)
    assert {process["session"]: process["state"] for process in found if process["depth"] == 0} == {
        "deep": "blocked",
        "rich": "blocked",
        "cut": "blocked",
    }


def test_the_log_of_a_tree_names_the_session_that_has_the_word(grown: pathlib.Path):
    shown = ran(grown, "logs", "deep", "--tree").stdout.splitlines()
    heads = [line for line in shown if line.startswith("── ")]
    assert heads[0] == "── deep"
    assert "── c6.0 (middle) ▸ c6.0 (payer)" in heads
    found = [json.loads(line) for line in ran(grown, "logs", "deep", "--tree", "--json").stdout.splitlines()]
    assert {one["scope"] for one in found} == {"", "c6.0", "c6.0~c6.0", "c6.0~c6.1"}
    some = [
        json.loads(line) for line in ran(grown, "logs", "deep", "--tree", "--json", "--depth", "1").stdout.splitlines()
    ]
    assert {one["scope"] for one in some} == {"", "c6.0"}
    scopes = {
        json.loads(line)["payload"]["scope_id"]
        for line in ran(grown, "logs", "deep", "--tree", "--view", "meerkat").stdout.splitlines()
    }
    assert scopes == {
        "primary",
        "primary/mob:middle:c6.0",
        "primary/mob:middle:c6.0/mob:payer:c6.0",
        "primary/mob:middle:c6.0/mob:poller:c6.1",
    }
    flat = ran(grown, "logs", "deep", "--tree", "--view", "copilot")
    assert flat.returncode == 2
    assert "it tells one session; name the child to see it. With --tree there are meerkat" in flat.stderr
    for wrong in (("--depth", "1"), ("--tree", "--raw"), ("--tree", "--after", "3"), ("--tree", "--depth", "-1")):
        assert ran(grown, "logs", "deep", *wrong).returncode == 2
