"""Each way in which a run does not complete is an exception of its own, raised from `run` and `run_sync` alike."""

from __future__ import annotations

import asyncio

import pytest

import windlass
from tests.runtime.support import agent_of
from windlass.runtime.api.oneshot import explained
from windlass.runtime.api.result import error_of
from windlass.runtime.hooks.hook import Denied
from windlass.testing.scripted import call, fail


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    return f"paid {cents}"


async def no(asked):
    return windlass.Deny(feedback="never", stop=True)


async def no_but_go_on(asked):
    return windlass.Deny(feedback="never")


ASK = windlass.Policy(rules=(windlass.ask("pay"),))


def hook(point, *, fatal):
    def rule(moment):
        return Denied(message="not today", fatal=fatal)

    return windlass.Hook(point=point, run=rule, kind="guard")


def paying(*turns, **more):
    return lambda: agent_of(call("pay", cents=5), *turns, tools=[pay], **more)


ENDS = {
    "a quota that is used up": (
        lambda: agent_of(fail("quota_exhausted", "used up")),
        windlass.ProviderError,
        "failed",
        "used up",
    ),
    "retries that did not help": (
        lambda: agent_of(*[fail("overloaded", "busy")] * 9),
        windlass.ProviderError,
        "failed",
        "busy",
    ),
    "credentials that are missing": (
        lambda: agent_of(fail("no_credentials", "no key for it")),
        windlass.ProviderError,
        "asked",
        "no key for it",
    ),
    "a filtered answer": (
        lambda: agent_of(fail("content_filtered", "filtered")),
        windlass.ProviderError,
        "failed",
        "filtered",
    ),
    "a window that is too small": (
        lambda: agent_of(fail("context_exceeded", "too long"), fail("context_exceeded", "too long")),
        windlass.ContextExceeded,
        "failed",
        "too long",
    ),
    "a person who denies and stops": (
        paying("never", policy=ASK, approver=no),
        windlass.ToolNotAllowed,
        "interrupted",
        "'pay'",
    ),
    "a guard that denies a call for good": (
        paying("never", hooks=[hook("before_tool", fatal=True)]),
        windlass.ToolNotAllowed,
        "failed",
        "'pay' was not allowed: not today",
    ),
    "a guard that denies a result for good": (
        paying("never", hooks=[hook("after_tool", fatal=True)]),
        windlass.ToolNotAllowed,
        "failed",
        "the result of 'pay' was not allowed: not today",
    ),
    "a guard that denies a reply": (
        lambda: agent_of("hello", hooks=[hook("after_model", fatal=False)]),
        windlass.RunError,
        "failed",
        "a hook",
    ),
    "nobody to ask": (paying("never", policy=ASK), windlass.NeedsAnswer, "asked", "approver"),
}


@pytest.mark.parametrize("name", ENDS)
async def test_a_run_that_does_not_complete_raises_what_it_was(name):
    make, kind, status, words = ENDS[name]
    with pytest.raises(windlass.RunError) as caught:
        await make().run("go")
    assert (type(caught.value), caught.value.result.status) == (kind, status)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ENDS)
def test_run_sync_raises_the_same(name):
    make, kind, status, _ = ENDS[name]
    with pytest.raises(windlass.RunError) as caught:
        make().run_sync("go")
    assert (type(caught.value), caught.value.result.status) == (kind, status)


async def test_a_failure_travels_with_the_exception():
    with pytest.raises(windlass.ProviderError) as caught:
        await agent_of(fail("quota_exhausted", "used up")).run("go")
    failure = caught.value.result.failure
    assert failure is not None
    assert (failure.kind, failure.message) == ("quota_exhausted", "used up")


async def test_an_interrupted_run_raises_aborted():
    started: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @windlass.tool
    async def wait() -> str:
        "Wait."
        started.set_result(None)
        await asyncio.get_running_loop().create_future()
        return ""

    agent = agent_of(call("wait"), "never", tools=[wait])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await started
        await session.interrupt("enough")
        error = error_of(await session.result())
        assert error is not None
        assert type(await explained(session, error)) is windlass.Aborted


async def test_a_denial_that_the_model_is_only_told_of_ends_nothing():
    agent = agent_of(call("pay", cents=5), "fine", tools=[pay], policy=ASK, approver=no_but_go_on)
    assert (await agent.run("go")).text == "fine"
    guarded = agent_of(call("pay", cents=5), "fine", tools=[pay], hooks=[hook("before_tool", fatal=False)])
    assert (await guarded.run("go")).text == "fine"
