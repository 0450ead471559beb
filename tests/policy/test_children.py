"""What the policy of a child is made of: nothing that its parent minds is lost, and nothing that it allows is won."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import windlass
from windlass.events.values.policy import Policy
from windlass.runtime.trees.specialists import narrowed

STRICTNESS = ("allow", "ask", "deny")
DEFAULTS = ("allow", "standard", "ask", "deny")


@pytest.mark.parametrize(("own", "parent"), [*itertools.product(STRICTNESS, STRICTNESS)])
def test_a_child_minds_the_three_legs_as_much_as_whichever_minds_more(own: Any, parent: Any) -> None:
    made = narrowed(Policy(trifecta=own), Policy(trifecta=parent))
    assert made.trifecta == max(own, parent, key=STRICTNESS.index)


@pytest.mark.parametrize(("own", "parent"), [*itertools.product(DEFAULTS, DEFAULTS)])
def test_where_no_rule_speaks_a_child_is_held_to_whichever_is_stricter(own: Any, parent: Any) -> None:
    made = narrowed(Policy(default=own), Policy(default=parent))
    assert made.default == max(own, parent, key=DEFAULTS.index)


def test_denials_questions_and_what_no_model_may_see_are_those_of_both_and_permissions_its_own() -> None:
    parent = windlass.Policy(
        [windlass.deny("shell"), windlass.ask("write"), windlass.allow("fetch")],
        exclude=["*.pem"],
        exclude_patterns=["sk-.{20}"],
    )
    own = windlass.Policy(
        [windlass.allow("shell"), windlass.allow("write"), windlass.allow("read")], default="deny", exclude=["keys/"]
    )
    made = narrowed(own, parent)
    assert made.exclude == ("keys/", "*.pem")
    assert made.exclude_patterns == ("sk-.{20}",)
    calls = {"shell": {"command": "ls"}, "write": {"path": "a", "content": ""}, "fetch": {"url": "https://a.example"}}
    told = {tool: windlass.explain(made, tool, args, workspace=".").splitlines()[0] for tool, args in calls.items()}
    assert [line.rpartition("}: ")[2].split()[0] for line in told.values()] == ["denied", "asked", "denied"]
    assert windlass.explain(made, "read", {"path": "a"}, workspace=".").startswith('read {"path": "a"}: allowed')
