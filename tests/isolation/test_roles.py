"""What a role gives to a specialist that says no more of itself."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import windlass
from windlass.flows import load_flow
from windlass.runtime.trees.specialists import isolation_of
from windlass.testing import ScriptedModel

LOOKING = ["read", "list", "glob", "grep"]


@pytest.mark.parametrize(
    ("role", "tools", "isolation"),
    [
        ("explore", LOOKING, "read_only"),
        ("plan", LOOKING, "read_only"),
        ("verify", LOOKING, "read_only"),
        ("orchestrate", LOOKING, None),
        ("implement", [*LOOKING, "write", "edit", "shell"], None),  # a worktree only if there is a repository
        ("custom", [], None),
    ],
)
def test_a_role_brings_its_tools_and_its_isolation(role: str, tools: list[str], isolation: str | None):
    agent = windlass.Agent("a", role=role)  # type: ignore[arg-type]
    assert [tool.name for tool in agent.toolset] == tools
    assert isolation_of(agent, None) == isolation


def test_what_an_author_says_comes_before_the_role():
    agent = windlass.Agent("a", role="verify", tools=["read"], isolation="shared")
    assert ([tool.name for tool in agent.toolset], isolation_of(agent, None)) == (["read"], "shared")


@pytest.mark.parametrize(
    ("role", "told"),
    [
        ("explor", "there is no role 'explor' (did you mean 'explore'?)"),
        ("Verify", "there is no role 'Verify' (did you mean 'verify'?)"),
        ("boss", "there is no role 'boss' (explore, plan, implement, verify, orchestrate, custom)"),
        (None, "there is no role None (explore, plan, implement, verify, orchestrate, custom)"),
    ],
)
def test_a_role_that_there_is_not_is_refused_with_the_one_that_was_meant(role: Any, told: str):
    with pytest.raises(windlass.UsageError) as refused:
        windlass.Agent("scout", ScriptedModel(["done"]), role=role)
    assert str(refused.value) == f"agent 'scout': {told}"


def test_a_specialist_that_is_no_agent_is_refused_with_what_to_give():
    scout = windlass.Agent("scout", ScriptedModel(["done"]))
    wrong: list[tuple[Any, str]] = [
        (["scout"], "'scout' in agents is no Agent: give the agent itself"),
        (scout, "agents is a list"),
    ]
    for agents, told in wrong:
        with pytest.raises(windlass.UsageError, match=told):
            windlass.Agent("lead", ScriptedModel(["done"]), agents=agents)


def test_a_role_that_there_is_not_is_refused_in_a_file(tmp_path: pathlib.Path):
    file = tmp_path / "review.yaml"
    file.write_text(
        "agents:\n  scout: {model: fake, role: explor}\n"
        "nodes:\n  - {name: look, kind: spawn, agent: scout, task: look}\n"
    )
    with pytest.raises(windlass.UsageError) as refused:
        load_flow(file)
    assert "there is no role 'explor' (did you mean 'explore'?)" in str(refused.value)
