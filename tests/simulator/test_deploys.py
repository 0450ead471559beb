"""Code and rules replaced between two owners, told step by step: the rig finds what must not start, and what twice."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from windlass.events.tools.permissions import PermissionApproved
from windlass.events.values.policy import Policy, Rule
from windlass.events.values.settings import Settings
from windlass.kernel.parts.tools import dispatch, verdicts
from windlass.testing.scripted import call
from windlass.testing.simulator import SimFailure
from windlass.testing.simulator.tools import TOOLS, pay_retold, pay_safely

from .scenes import KEY, Scene, prompt

ASK_PAY = Policy((Rule(action="ask", tool="pay"),))
DENY_PAY = Policy((Rule(action="deny", tool="pay", reason="nothing is paid any more"),))
SAFELY = tuple(pay_safely if tool.name == "pay" else tool for tool in TOOLS)
RETOLD = tuple(pay_retold if tool.name == "pay" else tool for tool in TOOLS)


def deploy(scene: Scene, **changes: Any) -> None:
    """Processes that are started from now on have other code."""
    scene.world.agent = dataclasses.replace(scene.world.agent, **changes)


def effects(scene: Scene, tool: str = "pay") -> int:
    calls = {event.call_id for event in scene.events() if getattr(event, "tool", "") == tool}  # type: ignore[attr-defined]
    return sum(count for (_, name), count in scene.world.watch.effects.done.items() if name in calls)


def killed_inside_a_payment(**changes: Any) -> Scene:
    """A payment has had its effect when its process dies, and the next one has other code."""

    async def story(scene: Scene) -> None:
        one = await scene.runner()
        scene.faults(tool_hangs=1.0)
        await scene.begin(one)
        await scene.send(one, prompt("p1"))
        await scene.until("tool.started")
        await asyncio.sleep(5.0)
        assert effects(scene) == 1
        scene.crash(one)
        scene.faults()
        deploy(scene, **changes)
        await scene.runner()
        await scene.until("run.completed")
        assert effects(scene) == 1

    scene = Scene([call("pay", n=1)], "done")
    scene.play(story)
    return scene


def approved_and_waiting(**changes: Any) -> Scene:
    """A payment was approved and waits behind another call when its process dies, and the next one has other code."""

    async def story(scene: Scene) -> None:
        one = await scene.runner()
        scene.faults(tool_hangs=1.0)
        await scene.begin(one)
        await scene.send(one, prompt("p1"))
        await scene.until("permission.requested")
        (ask,) = scene.world.watch.logs[KEY].state.asks.open.values()
        await scene.send(one, PermissionApproved(command_id="yes", request_id=ask.ask_id, digest=ask.digest))
        await asyncio.sleep(5.0)
        scene.crash(one)
        scene.faults()
        deploy(scene, **changes)
        await scene.runner()
        await asyncio.sleep(60.0)

    scene = Scene(
        [call("look", n=1), call("pay", n=2)], "done", policy=ASK_PAY, settings=Settings(tool_order="sequential")
    )
    scene.play(story)
    return scene


def test_what_began_as_at_most_once_has_one_effect_whatever_later_code_says():
    scene = killed_inside_a_payment(tools=SAFELY)
    assert "tool.outcome_unknown" in scene.names()


def test_what_was_approved_does_not_start_as_something_else():
    scene = approved_and_waiting(tools=SAFELY)
    assert scene.names().count("permission.requested") == 2
    assert effects(scene) == 0


def test_what_was_approved_starts_if_it_is_only_told_in_other_words():
    assert effects(approved_and_waiting(tools=RETOLD)) == 1


def test_what_was_approved_does_not_start_where_the_rules_in_force_deny_it():
    scene = approved_and_waiting(policy=DENY_PAY)
    assert "tool.denied" in scene.names()
    assert effects(scene) == 0


def new_contract_rules_what_has_begun(patch: pytest.MonkeyPatch) -> None:
    def terms(begun: Any, spec: Any) -> Any:
        return (spec.contract, spec.settle) if spec is not None else ("at_most_once", False)

    patch.setattr(dispatch, "terms", terms)


def gate_is_asked_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verdicts, "outdated", lambda state, call: ())


@pytest.mark.parametrize(
    ("plant", "tell", "changes", "rule"),
    [
        (new_contract_rules_what_has_begun, killed_inside_a_payment, {"tools": SAFELY}, "at most once"),
        (gate_is_asked_once, approved_and_waiting, {"tools": SAFELY}, "what starts is what was approved"),
        (
            gate_is_asked_once,
            approved_and_waiting,
            {"policy": DENY_PAY},
            "what the policy in force denies does not start",
        ),
        (gate_is_asked_once, approved_and_waiting, {"mode": "plan"}, "what the mode in force forbids does not start"),
    ],
    ids=lambda given: given.__name__ if callable(given) else "",
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    tell: Callable[..., Scene],
    changes: dict[str, Any],
    rule: str,
    monkeypatch: pytest.MonkeyPatch,
):
    plant(monkeypatch)
    with pytest.raises(SimFailure, match=rule):
        tell(**changes)
