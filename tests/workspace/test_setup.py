"""The setup summary: whole values, for each thing that it tells."""

from __future__ import annotations

import windlass
from tests.runtime.support import agent_of
from windlass.events.values.setup import Limits, Workspace
from windlass.events.values.tools import ToolSpec
from windlass.models.tokens import estimate_text
from windlass.runtime.api.setup_summary import (
    Collision,
    Knowledge,
    SetupSummary,
    ToolSetup,
    file_collisions,
    recorded_files,
    tool_collisions,
)
from windlass.runtime.workspace.instruction_files import UNTRUSTED, InstructionFile

from .fixtures import by_hand
from .test_instructions import digest


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    return "paid"


@windlass.tool(contract="pure", traits=("read",), kind="read")
def look(path: str) -> str:
    "Look."
    return path


async def test_a_setup_tells_all_of_it(tmp_path):
    root = by_hand(tmp_path / "work")
    (root / "sub").mkdir()
    (root / "AGENTS.md").write_text("Top.")
    (root / "sub" / "AGENTS.md").write_text("Near.")
    agent = agent_of(
        "done",
        tools=[pay, look, "todo"],
        knowledge=["\nPrices\n1 is 2", "More"],
        policy=windlass.Policy((windlass.ask("pay", when="args.cents > 100"), windlass.deny("look", reason="closed"))),
        budget=windlass.Budget(usd=0.5, turns=3),
        session_budget=windlass.Budget(calls=7),
    )
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s", workspace=root / "sub", trusted=True)
        found = await session.setup()
        assert found == SetupSummary(
            session="s",
            agent="worker",
            model="scripted",
            mode="interactive",
            tools=(
                ToolSetup(
                    name="pay",
                    kind="tool",
                    source="author",
                    contract="at_most_once",
                    verdict="allowed",
                    why="standard",
                    conditions=("ask pay when args.cents > 100",),
                ),
                ToolSetup(
                    name="look", kind="read", source="author", contract="pure", verdict="denied", why="deny look"
                ),
                ToolSetup(name="todo", kind="read", source="builtin", contract="pure", verdict="allowed", why="kernel"),
            ),
            instructions=(
                InstructionFile(path="AGENTS.md", bytes=4, digest=digest(b"Top."), used=True),
                InstructionFile(path="sub/AGENTS.md", bytes=5, digest=digest(b"Near."), used=True),
            ),
            knowledge=(
                Knowledge(title="Prices", tokens=estimate_text("\nPrices\n1 is 2")),
                Knowledge(title="More", tokens=estimate_text("More")),
            ),
            collisions=(
                Collision(
                    kind="instructions",
                    name="AGENTS.md",
                    between=("AGENTS.md", "sub/AGENTS.md"),
                    note="the nearest comes last",
                ),
            ),
            workspace=Workspace(cwd=str(root / "sub"), git_root=str(root), branch="main"),
            trusted=True,
            budget=Limits(cost_nanos=500_000_000, turns=3),
            session_budget=Limits(calls=7),
        )


async def test_an_untrusted_workspace_lists_its_files_unread(tmp_path):
    (tmp_path / "AGENTS.md").write_text("Evil.")
    agent = agent_of("done")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s", workspace=tmp_path)
        found = await session.setup()
        assert (found.trusted, found.instructions) == (
            False,
            (InstructionFile(path="AGENTS.md", bytes=5, note=UNTRUSTED),),
        )


async def test_recorded_files_are_told_where_nobody_named_the_folder(tmp_path):
    store = str(tmp_path / "work.db")
    root = tmp_path / "work"
    root.mkdir()
    (root / "AGENTS.md").write_text("Do.")
    async with windlass.open(store, agents=[agent := agent_of("done")]) as rt:
        await rt.session(agent, "s", workspace=root, trusted=True)
    async with windlass.open(store, agents=[agent_of("done")]) as rt:
        found = await (await rt.get("s")).setup()
        recorded = InstructionFile(path="AGENTS.md", digest=digest(b"Do."), used=True, note="as recorded")
        assert (found.trusted, found.instructions) == (None, (recorded,))


async def test_what_a_mode_forbids_is_told_as_denied():
    for mode, policy, expected in (
        ("plan", windlass.Policy(), ("denied", "plan mode")),
        ("autopilot", windlass.Policy((windlass.ask("pay"),)), ("denied", "nobody is asked in autopilot")),
        ("interactive", windlass.Policy((windlass.ask("pay"),)), ("asked", "ask pay")),
        ("interactive", windlass.READ_ONLY, ("denied", "default deny")),
    ):
        agent = agent_of("done", tools=[pay], mode=mode, policy=policy)
        async with windlass.open(agents=[agent]) as rt:
            (tool,) = (await (await rt.session(agent, "s")).setup()).tools
            assert (tool.verdict, tool.why) == expected


def test_names_that_shadow_each_other_are_told():
    specs = [
        ToolSpec(name="read"),
        ToolSpec(name="grep", source="builtin"),
        ToolSpec(name="one", alias="x"),
        ToolSpec(name="two", alias="x"),
    ]
    assert tool_collisions(specs) == [
        Collision(
            kind="tool",
            name="read",
            between=("author", "builtin"),
            note="this is the author's tool, not the built-in one of that name",
        ),
        Collision(
            kind="model_name",
            name="x",
            between=("one", "two"),
            note="the model cannot tell them apart: two is called",
        ),
    ]
    assert file_collisions([InstructionFile(path="A.md"), InstructionFile(path="B.md")]) == []


def test_sources_are_read_back_whatever_their_path_holds():
    assert recorded_files(("a@b/A.md@0f",)) == (
        InstructionFile(path="a@b/A.md", digest="0f", used=True, note="as recorded"),
    )
