"""Code of a user's own at every point: what it allowed, changed, denied, and how it failed."""

from __future__ import annotations

import asyncio
from typing import Any

import windlass
from windlass.runtime.hooks.hook import Allowed, Asked, Changed, Denied, Hook, Moment
from windlass.runtime.hooks.judge import judge_guard
from windlass.testing.scripted import ScriptedModel, call

from .stage import QUICK, Stage, scripted


@windlass.tool(contract="pure")
def look(name: str) -> str:
    "Look at something."
    return f"saw {name}"


def let(moment: Moment) -> Any:
    return Allowed(message="as always")


def other_args(moment: Moment) -> Any:
    return Changed(value={"name": "b"}) if moment.value == {"name": "a"} else None


def louder(moment: Moment) -> Any:
    return Changed(value=f"{moment.value}!") if isinstance(moment.value, str) else None


def shorter(moment: Moment) -> Any:
    return Changed(value={"text": "seen", "ok": True})


def cooler(moment: Moment) -> Any:
    return Changed(value={**moment.value, "settings": {**moment.value["settings"], "temperature": 0.1}})


async def rulings(stage: Stage) -> None:
    """Guards and transforms at every point where a word counts."""
    from windlass.testing.model_server import call as call_of

    hooks = [
        Hook(point="prompt", run=louder, kind="transform"),
        Hook(point="before_model", run=cooler, kind="transform"),
        Hook(point="before_tool", run=other_args, kind="transform"),
        Hook(point="after_tool", run=shorter, kind="transform"),
        Hook(point="after_model", run=let, kind="guard"),
        Hook(point="credential", run=let, kind="guard"),
        Hook(point="permission", run=let, kind="guard"),
    ]
    async with stage.serving(call_of("look", {"name": "a"}), "done") as server:
        policy = windlass.Policy(rules=[windlass.ask("look")])
        agent = windlass.Agent(
            "watched", model=stage.model(server), tools=[look], hooks=hooks, policy=policy, settings=QUICK
        )
        async with stage.open(agent) as rt:
            await stage.said(await stage.session(rt, agent, "hooks"), "look at a")


def broken(moment: Moment) -> Any:
    raise RuntimeError("the guard is ill")


async def slow(moment: Moment) -> Any:
    await asyncio.sleep(5)


def denying(reason: Any, **more: Any) -> Any:
    def guard(moment: Moment) -> Any:
        return Denied(message=f"not by {reason}", reason=reason, **more)

    return guard


async def denied(stage: Stage) -> None:
    """Guards that deny for every reason, that break, and that take too long."""
    guards: dict[str, Hook] = {
        "policy": Hook(point="before_tool", run=denying("policy"), kind="guard"),
        "safety": Hook(point="before_tool", run=denying("safety"), kind="guard"),
        "schema": Hook(point="after_tool", run=denying("schema"), kind="guard"),
        "fatal": Hook(point="before_tool", run=denying("policy", fatal=True), kind="guard"),
        "broken": Hook(point="before_tool", run=broken, kind="guard"),
        "slow": Hook(point="before_tool", run=slow, kind="guard", timeout_ms=20),
        "prompt": Hook(point="prompt", run=denying("policy"), kind="guard"),
        "model": Hook(point="before_model", run=denying("policy"), kind="guard"),
        "reply": Hook(point="after_model", run=denying("safety"), kind="guard"),
        "permission": Hook(point="permission", run=denying("policy"), kind="guard"),
    }
    for name, hook in guards.items():
        policy = windlass.Policy(rules=[windlass.ask("look")]) if name == "permission" else windlass.Policy()
        agent = windlass.Agent(
            name,
            model=scripted(call("look", name="a"), "done"),
            tools=[look],
            hooks=[hook],
            policy=policy,
            settings=QUICK,
        )
        async with stage.open(agent, store=name) as rt:
            session = await stage.session(rt, agent, f"hook_{name}")
            await session.prompt("look at a")
            await session.wait_idle()


def asking(moment: Moment) -> Any:
    return Asked(message="a person should see this")


async def asked(stage: Stage) -> None:
    """A guard that wants a person asked about what the policy allows."""
    hooks = [Hook(point="before_tool", run=asking, kind="guard")]
    agent = windlass.Agent(
        "careful", model=scripted(call("look", name="a"), "done"), tools=[look], hooks=hooks, settings=QUICK
    )
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "hook_asked")
        await session.prompt("look at a")
        await session.wait_idle()
        (request,) = await session.requests()
        await session.approve(request.request_id, digest=request.digest, actor="ada")
        await session.wait_idle()


async def judged(stage: Stage) -> None:
    """A judge that asks a model, and a tool that asks one: answered, failed, tried again."""
    from windlass.testing.scripted import fail

    @windlass.tool(contract="pure")
    async def translate(ctx: windlass.ToolContext, text: str) -> str:
        "Translate a text."
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        answer = await ctx.model(text, instructions="translate", output_schema=schema, max_output_tokens=99)
        return str(answer.output["text"])

    script: dict[str, list[Any]] = {
        "main": [[call("translate", text="a")], "done"],
        "judge": ["allow: harmless"],
        "tool": [fail("overloaded", "busy"), '{"text": "b"}'],
    }
    agent = windlass.Agent(
        "judged",
        model=ScriptedModel(lambda request: script[request.lane].pop(0)),
        tools=[translate],
        hooks=[judge_guard("be kind")],
        settings=QUICK,
    )
    async with stage.open(agent) as rt:
        await stage.said(await stage.session(rt, agent, "asides"), "translate a")


SCENARIOS = {"hooks": rulings, "hooks_denied": denied, "hooks_asked": asked, "asides": judged}
