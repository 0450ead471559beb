"""Workflows that a model writes for itself: checked as a whole, carried out by its specialists, and answered."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

import windlass
from tests.flows.support import listener, speaker
from tests.runtime.support import QUICK, events_of, only, sound, started
from windlass.events.errors import UsageError
from windlass.events.sessions import SessionStarted
from windlass.events.tools.calls import ToolDenied
from windlass.events.trees.children import ChildFinished, ChildStarted
from windlass.events.trees.flows import NodeFinished
from windlass.events.values.policy import Rule
from windlass.testing.scripted import ScriptedModel, call

LOOK = {"name": "look", "kind": "spawn", "agent": "looker", "task": "Look at {input}."}
CHECK = {"name": "check", "kind": "verify", "agent": "judge", "task": "Is {look} right?", "needs": ["look"]}


def boss(*nodes: dict[str, Any], **more: Any) -> windlass.Agent:
    """An agent whose model writes this workflow, and then says what it got."""
    script: list[Any] = [call("run_workflow", nodes=list(nodes), task="the plan"), "So be it."]
    agents = more.pop(
        "agents",
        [
            listener("looker", lambda task: f"seen: {task}"),
            listener("judge", lambda task: json.dumps({"pass": True, "reason": task[:30]})),
        ],
    )
    return windlass.Agent("boss", ScriptedModel(script), agents=agents, tools=["run_workflow"], settings=QUICK, **more)


async def ended(agent: windlass.Agent, **more: Any) -> tuple[Any, Any, list[Any]]:
    """What came of a prompt: the result, the end of the workflow, and the records of the workflow's own log."""
    async with windlass.open(*more.values(), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        result = await session.result(await session.prompt("go"))
        ends = only(await events_of(session), ChildFinished)
        await sound(session)
        below = []
        for begun in only(await events_of(session), ChildStarted):
            child = await runtime.get(begun.child_id)
            await sound(child)
            below = await events_of(child)
        return result, ends[0] if ends else None, below


async def test_a_model_has_its_own_workflow_carried_out_and_gets_what_came_of_it():
    result, end, below = await ended(boss(LOOK, CHECK))
    assert result.text == "So be it."
    assert end.status == "completed"
    assert end.body.output == {"pass": True, "reason": "Is seen: Look at the plan. rig"}
    (began,) = only(below, SessionStarted)
    assert [node.name for node in began.setup.flow.nodes] == ["look", "check"]
    assert [(event.node, event.status) for event in only(below, NodeFinished)] == [("look", "done"), ("check", "done")]


async def test_of_several_last_nodes_the_outputs_are_listed():
    other = {**LOOK, "name": "other", "task": "Look again at {input}."}
    _, end, _ = await ended(boss(LOOK, other))
    assert end.body.output == ["seen: Look at the plan.", "seen: Look again at the plan."]


async def test_a_graph_that_is_wrong_is_told_whole_and_nothing_starts():
    wrong = {"name": "check", "kind": "verify", "agent": "nobody", "task": "Is {lok} right?", "needs": ["lok"]}
    agent = boss(LOOK, wrong)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.result(await session.prompt("go"))
        (denied,) = only(await events_of(session), ToolDenied)
        assert "check: there is no agent 'nobody'" in denied.detail
        assert "check: it needs 'lok', which is no node: did you mean 'look'?" in denied.detail
        assert only(await events_of(session), ChildStarted) == []


async def test_a_workflow_has_no_more_nodes_than_the_settings_allow():
    import msgspec

    agent = boss(LOOK, CHECK)
    few = windlass.Agent(
        "boss",
        agent.model,
        agents=agent.agents,
        tools=["run_workflow"],
        settings=msgspec.structs.replace(QUICK, nodes_max=1),
    )
    async with windlass.open(agents=[few]) as runtime:
        session = await runtime.session(few, "s")
        await session.result(await session.prompt("go"))
        (denied,) = only(await events_of(session), ToolDenied)
        assert "2 nodes, and 1 are the most (nodes_max)" in denied.detail


async def test_a_session_in_quarantine_has_no_workflows_and_a_node_in_it_only_reads():
    agent = boss(LOOK, quarantine=True)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.result(await session.prompt("go"))
        assert [event.reason for event in only(await events_of(session), ToolDenied)] == ["quarantine"]
    _, _, below = await ended(boss({**LOOK, "quarantine": True}))
    (child,) = only(below, ChildStarted)
    assert child.quarantine


async def test_a_policy_says_whether_a_model_may_have_workflows_of_its_own():
    policy = windlass.Policy((Rule(action="deny", tool="run_workflow", reason="not here"),))
    agent = boss(LOOK, policy=policy)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.result(await session.prompt("go"))
        (denied,) = only(await events_of(session), ToolDenied)
        assert "not here" in denied.detail


async def test_the_whole_workflow_stays_in_the_budget_of_its_session():
    agent = boss(LOOK, CHECK, session_budget=windlass.Budget(children=2))
    _, end, _ = await ended(agent)
    assert end.status == "error"
    assert "no child sessions are left in the budget" in end.body.content[0].text


async def test_a_workflow_that_fails_says_which_node_and_why():
    agents = [speaker("looker"), listener("judge", lambda task: "I do not know")]
    _, end, _ = await ended(boss({**CHECK, "needs": [], "task": "Is {input} right?"}, agents=agents))
    assert (end.ok, end.status) == (False, "error")
    assert "check" in end.body.content[0].text


async def test_a_workflow_goes_on_after_a_restart_and_is_carried_out_once(tmp_path: pathlib.Path):
    gate = {"name": "agree", "kind": "gate", "question": "Go on?", "needs": ["look"]}
    end = {**CHECK, "needs": ["look", "agree"]}
    agent = boss(LOOK, gate, end)
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        result = await session.result(await session.prompt("go"))
        assert result.status == "asked"
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.get("s")
        (asked,) = (await session.result()).waiting_for
        await session.answer(asked, "yes")
        (finished,) = await started(session, ChildFinished, count=1)
        assert finished.status == "completed"
        below = await events_of(await runtime.get(finished.child_id))
        assert [event.node for event in only(below, NodeFinished)] == ["look", "agree", "check"]


def test_whoever_writes_workflows_needs_specialists():
    agent = windlass.Agent("alone", ScriptedModel(["x"]), tools=["run_workflow"])
    with pytest.raises(UsageError, match="run_workflow needs specialists"):
        _ = agent.toolset
