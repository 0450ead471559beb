"""A fork that begins before its session was narrowed is narrowed all the same: it is no way around that."""

from __future__ import annotations

import pytest

import windlass
from windlass.events.sessions import SessionForked
from windlass.events.tools.calls import ToolDenied
from windlass.events.values.setup import SessionOptions
from windlass.testing.scripted import ScriptedModel, by_history, call

from .support import sound


@windlass.tool(traits=("write",))
def put(text: str) -> str:
    "Put a text somewhere."
    return "put"


def writer() -> windlass.Agent:
    model = ScriptedModel(by_history(["read it", call("put", text="x"), "done", "done"]))
    return windlass.Agent("writer", model=model, tools=[put], policy=windlass.Policy(default="allow"))


async def denied_in(fork: windlass.Session) -> list[str]:
    """Why calls of a fork were denied, after it was told to go on."""
    await fork.prompt("write")
    await fork.result()
    await sound(fork)
    return [record.event.reason async for record in fork.records() if isinstance(record.event, ToolDenied)]


async def narrowed_since(tmp_path, **given) -> tuple[list[str], SessionOptions | None]:
    """What a fork to before a narrowing is denied, and what its first record says that it is held to."""
    agent = writer()
    async with windlass.open(str(tmp_path / "store.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("read")
        await session.result()
        before = [record.seq async for record in session.records()][-1]
        if "mode" in given:
            await session.set_mode(given.pop("mode"))
    async with windlass.open(str(tmp_path / "store.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", options=SessionOptions(**given))
        await session.prompt("and again")  # what it is held to is on record once it is taken up
        await session.result()
        fork = await session.fork("f", at_seq=before)
        first = [record.event async for record in fork.records() if isinstance(record.event, SessionForked)][-1]
        return await denied_in(fork), first.held


async def narrowed_and_not_taken_up(tmp_path, agent: windlass.Agent | None = None, **given) -> list[str]:
    """What a fork is denied whose session was given options that nothing has put on record."""
    agent = agent or writer()
    async with windlass.open(str(tmp_path / "store.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("read")
        await session.result()
    async with windlass.open(str(tmp_path / "store.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", options=SessionOptions(**given))
        before = [record.seq async for record in session.records()][-1]
        fork = await session.fork("f", at_seq=before)
        assert before == [record.seq async for record in session.records()][-1]
        return await denied_in(fork)


async def test_nothing_is_held_against_a_fork_of_a_session_that_was_not_narrowed(tmp_path):
    assert await narrowed_since(tmp_path) == ([], None)


async def test_a_fork_to_before_plan_mode_is_in_plan_mode(tmp_path):
    reasons, held = await narrowed_since(tmp_path, mode="plan")
    assert (reasons, held is not None and held.mode) == (["mode"], "plan")


async def test_a_fork_to_before_a_quarantine_is_quarantined(tmp_path):
    reasons, held = await narrowed_since(tmp_path, quarantine=True)
    assert (reasons, held is not None and held.quarantine) == (["quarantine"], True)


async def test_a_fork_to_before_a_stricter_policy_is_under_it(tmp_path):
    strict = windlass.Policy([windlass.deny("put", reason="no more")], default="allow")
    reasons, held = await narrowed_since(tmp_path, policy=strict)
    assert (reasons, held is not None and held.policy is not None) == (["rules"], True)


async def test_a_fork_to_before_files_were_only_to_be_read_may_only_read_them(tmp_path):
    reasons, held = await narrowed_since(tmp_path, isolation="read_only")
    assert (reasons, held is not None and held.isolation) == (["isolation"], "read_only")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"quarantine": True}, "quarantine"),
        ({"mode": "plan"}, "mode"),
        ({"policy": windlass.Policy([windlass.deny("put", reason="no more")], default="allow")}, "rules"),
        ({"isolation": "read_only"}, "isolation"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else one,
)
async def test_a_fork_is_held_to_what_its_session_was_given_and_has_no_record_of(tmp_path, given, reason):
    assert await narrowed_and_not_taken_up(tmp_path, **given) == [reason]


async def test_a_fork_has_the_sandbox_that_its_session_was_given_and_has_no_record_of(tmp_path):
    agent = writer()
    async with windlass.open(str(tmp_path / "store.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("read")
        await session.result()
    async with windlass.open(str(tmp_path / "store.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", options=SessionOptions(sandbox="local"))
        fork = await session.fork("f")
        assert (await fork.state()).setup.options.sandbox == "local"
