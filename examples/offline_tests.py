"""Tests of an agent that need no model, no network and no luck. `pytest offline_tests.py` runs them too."""

from __future__ import annotations

from dataclasses import replace

import windlass
from windlass.testing import ScriptedModel, call, fail


@windlass.tool(contract="pure")
def word_count(text: str) -> int:
    "Count the words of a text."
    return len(text.split())


agent = windlass.Agent("editor", model="sonnet", instructions="Count with the tool.", tools=[word_count])


def test_the_tool_counts() -> None:
    """A tool is a function, and is tested as one."""
    assert word_count("one two three") == 3


def test_the_agent_uses_its_tool() -> None:
    """What the model would say is written down; everything else is the real thing."""
    model = ScriptedModel([call("word_count", text="one two three"), "Three words."])
    result = replace(agent, model=model).run_sync("How many words: one two three?")
    assert (result.text, result.turns) == ("Three words.", 2)
    assert "Count with the tool." in model.requests[0].instructions


def test_the_agent_waits_for_a_busy_provider() -> None:
    """Failures are part of a script."""
    model = ScriptedModel([fail("overloaded", retry_after_ms=1), "Here."])
    assert replace(agent, model=model).run_sync("Are you there?").text == "Here."


def test_the_agent_stays_within_its_policy() -> None:
    """A denial is a result that the model reads."""
    model = ScriptedModel([call("word_count", text="one"), "I may not."])
    replace(agent, model=model, policy=windlass.Policy(default="deny")).run_sync("Count.")
    assert "the policy does not allow this" in str(model.requests[1].items[-1])


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"{name}: passed")
