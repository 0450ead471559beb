"""What a role gives to a specialist that says no more of itself."""

from __future__ import annotations

import pytest

import windlass
from windlass.runtime.trees.specialists import isolation_of

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
