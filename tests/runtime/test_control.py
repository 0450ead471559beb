"""Commands to a session at work and at rest: queue, steer, stop, rewind, fork, timers, signals."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass
from windlass.events.changes import ChangeTask
from windlass.events.commands import CommandCompleted
from windlass.events.context import CompactionFinished
from windlass.events.runs import RunSlept, RunStarted, Terminal
from windlass.events.timers import TimerCancelled, TimerFired, TimerSet
from windlass.events.tools.calls import ToolStarted
from windlass.events.turns import ModelRequested
from windlass.events.values.blocks import Text
from windlass.events.values.items import UserItem
from windlass.events.values.settings import Settings
from windlass.events.values.setup import Task
from windlass.testing.scripted import ScriptedModel, call, hang

from .support import JumpPorts, agent_of, events_of, names_of, only, sound, started, until

HOUR_MS = 3_600_000


class Gate:
    """A tool that waits until the test lets it go."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()

        @windlass.tool(contract="pure", name="gate")
        async def gate() -> str:
            "Waits."
            self.entered.set()
            await self.open.wait()
            return "passed"

        self.tool = gate


def said(agent: windlass.Agent, number: int) -> list[str]:
    """What people said in a request, in order."""
    model = agent.model
    assert isinstance(model, ScriptedModel)
    texts = []
    for item in model.requests[number].items:
        if isinstance(item, UserItem):
            texts += [block.text for block in item.content if isinstance(block, Text)]
    return texts


# --- prompts while it works ---


async def test_prompts_are_queued_in_order_and_each_gets_its_own_run():
    gate = Gate()
    agent = agent_of(call("gate"), "one", "two", "three", tools=[gate.tool])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await gate.entered.wait()
        await session.prompt("b")
        await session.prompt("c")
        assert len((await session.state()).queue.waiting) == 2
        gate.open.set()
        await started(session, Terminal, count=3)
        assert [event.stop for event in only(await events_of(session), Terminal)] == ["completed"] * 3
        assert said(agent, 3) == ["a", "b", "c"]
        await sound(session)


async def test_a_steering_prompt_enters_at_the_next_boundary_of_the_same_run():
    gate = Gate()
    agent = agent_of(call("gate"), "both", tools=[gate.tool])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await gate.entered.wait()
        await session.prompt("hurry", behavior="steer")
        gate.open.set()
        assert (await session.result()).text == "both"
        assert said(agent, 1) == ["a", "hurry"]
        assert len(only(await events_of(session), RunStarted)) == 1
        await sound(session)


async def test_a_steering_prompt_keeps_the_run_from_ending():
    release = asyncio.Event()

    async def slow(request):
        await release.wait()
        return "first"

    agent = windlass.Agent("w", model=ScriptedModel([slow, "second"]))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await started(session, ModelRequested)
        await session.prompt("and b", behavior="steer")
        release.set()
        assert (await session.result()).text == "second"
        assert said(agent, 1) == ["a", "and b"]
        assert len(only(await events_of(session), RunStarted)) == 1


@pytest.mark.parametrize("on_busy", ["enqueue", "steer", "interrupt", "reject"])
async def test_what_a_busy_session_does_with_a_prompt_is_a_setting(on_busy):
    gate = Gate()
    agent = agent_of(call("gate"), "x", "y", "z", tools=[gate.tool], settings=Settings(on_busy=on_busy))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await gate.entered.wait()
        if on_busy == "reject":
            with pytest.raises(windlass.Refused, match="busy"):
                await session.prompt("b")
        else:
            await session.prompt("b")
        gate.open.set()
        await session.wait_idle()
        if on_busy == "enqueue":
            await started(session, Terminal, count=2)
        terminals = [type(event).__name__ for event in only(await events_of(session), Terminal)]
        assert (
            terminals
            == {
                "enqueue": ["RunCompleted", "RunCompleted"],
                "steer": ["RunCompleted"],
                "interrupt": ["RunInterrupted", "RunCompleted"],
                "reject": ["RunCompleted"],
            }[on_busy]
        )
        await sound(session)


async def test_the_queue_is_edited_and_what_is_dropped_gets_its_end():
    gate = Gate()
    agent = agent_of(call("gate"), "one", "two", tools=[gate.tool])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await gate.entered.wait()
        await session.prompt("b", command_id="b")
        await session.prompt("c", command_id="c")
        state = await session.state()
        from windlass.events.values.ids import prompt_id

        keep = prompt_id(state.queue.waiting[1])
        await session.edit_queue(keep)
        assert "b" in [event.command_id for event in only(await events_of(session), CommandCompleted)]
        gate.open.set()
        await started(session, Terminal, count=2)
        assert said(agent, 2) == ["a", "c"]
        await sound(session)


async def test_the_queue_has_a_bound():
    gate = Gate()
    agent = agent_of(call("gate"), "one", tools=[gate.tool], settings=Settings(queue_max=2))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await gate.entered.wait()
        await session.prompt("b")
        await session.prompt("c")
        with pytest.raises(windlass.Refused, match="wait already"):
            await session.prompt("d")
        await session.cancel()


# --- stopping ---


async def test_an_interrupted_run_goes_on_with_a_wake_and_the_partial_text_is_kept():
    agent = agent_of(["half of ", hang()], "the rest")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        listener = rt.slots.subscribe(session.key)
        await session.prompt("go")
        async for told in listener:
            if isinstance(told, windlass.TextDelta):
                break
        listener.close()
        await session.interrupt("enough")
        result = await session.result()
        assert (result.status, result.stop) == ("interrupted", "user_abort")
        await session.wake()
        assert (await session.result()).text == "the rest"
        model = agent.model
        assert isinstance(model, ScriptedModel)
        assert "half of" in str(model.requests[1].items)
        assert model.cancelled == 1
        await sound(session)


async def test_interrupting_holds_the_queue_until_the_next_command():
    gate = Gate()
    agent = agent_of(call("gate"), "now a", "now b", tools=[gate.tool])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await gate.entered.wait()
        await session.prompt("b")
        await session.interrupt()
        await session.wait_idle()
        await asyncio.sleep(0.02)
        assert len(only(await events_of(session), RunStarted)) == 1
        await session.wake()
        await started(session, Terminal, count=3)
        await sound(session)


async def test_stopping_a_session_at_rest_does_nothing_and_says_so():
    agent = agent_of("x")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.interrupt()
        await session.cancel()
        await session.wake()
        notes = [event.note for event in only(await events_of(session), CommandCompleted)]
        assert notes == ["nothing to interrupt", "nothing to cancel", "nothing to wake"]


async def test_a_cancelled_run_is_closed_and_a_wake_does_not_bring_it_back():
    agent = agent_of([hang()], "next")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        model = agent.model
        assert isinstance(model, ScriptedModel)
        await until(lambda: model.turns_taken == 1)
        await session.cancel()
        assert (await session.result()).status == "cancelled"
        await session.wake()
        assert only(await events_of(session), CommandCompleted)[-1].note == "nothing to wake"
        await session.prompt("next")
        assert (await session.result()).text == "next"
        await sound(session)


# --- the past ---


async def test_clear_gives_a_fresh_context_and_keeps_the_log():
    agent = agent_of("one", "two")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await session.result()
        before = len(await events_of(session))
        await session.clear()
        await session.prompt("b")
        assert (await session.result()).text == "two"
        assert said(agent, 1) == ["b"]
        assert len(await events_of(session)) > before
        assert (await session.state()).budget.spent.usage.total_tokens == 40
        await sound(session)


async def test_rewind_restores_what_was_visible_then():
    agent = agent_of("one", "two", "three")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await session.result()
        seq = (await session.state()).seq
        await session.prompt("b")
        await session.result()
        await session.rewind(seq)
        await session.prompt("c")
        await session.result()
        assert said(agent, 2) == ["a", "c"]
        await sound(session)


async def test_a_fork_shares_the_past_and_parts_company():
    agent = agent_of("one", "in the fork", "in the origin", "fork of the fork")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await session.result()
        fork = await session.fork("f")
        await fork.prompt("b")
        assert (await fork.result()).text == "in the fork"
        await session.prompt("c")
        assert (await session.result()).text == "in the origin"
        assert said(agent, 1) == ["a", "b"]
        assert said(agent, 2) == ["a", "c"]
        again = await fork.fork("g")
        await again.prompt("d")
        await again.result()
        assert said(agent, 3) == ["a", "b", "d"]
        with pytest.raises(windlass.UsageError, match="exists"):
            await session.fork("f")


async def test_a_fork_inherits_no_open_approval():
    paid = []

    @windlass.tool
    def pay() -> str:
        paid.append(1)
        return "paid"

    agent = agent_of(call("pay"), "later", tools=[pay], policy=windlass.Policy(rules=(windlass.ask("pay"),)))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (request,) = await session.requests()
        fork = await session.fork("f")
        with pytest.raises(windlass.Refused):
            await fork.approve(request)
        await fork.prompt("go on")
        assert (await fork.result()).text == "later"
        assert paid == []
        assert (await session.result()).status == "asked"


async def test_compaction_by_hand_and_its_undo():
    agent = agent_of(*[f"answer {n}" for n in range(8)], "a summary", "after", "after undo")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        for number in range(8):
            await session.prompt(f"question {number}")
            await session.result()
        await session.compact()
        await session.wait_idle()
        assert len(only(await events_of(session), CompactionFinished)) == 1
        await session.prompt("next")
        await session.result()
        assert "question 0" not in str(said(agent, 9))
        await session.undo_compact()
        await session.prompt("all of it")
        await session.result()
        assert said(agent, 10)[:2] == ["question 0", "question 1"]
        await sound(session)


async def test_the_task_state_is_shown_after_the_history_and_never_kept_in_it():
    agent = agent_of(call("todo", todos=[{"todo_id": "1", "content": "look"}]), "ok", "more", tools=["todo"])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.change(ChangeTask(task=Task(goal="find it")))
        await session.prompt("go")
        await session.result()
        model = agent.model
        assert isinstance(model, ScriptedModel)
        assert "goal: find it" in model.requests[0].task_state
        assert "[ ] look" in model.requests[1].task_state
        assert "find it" not in str(model.requests[1].items)


# --- time ---


async def test_the_wait_tool_ends_the_run_sleeping_and_the_timer_goes_on():
    ports = JumpPorts()
    agent = agent_of(call("wait", for_ms=HOUR_MS, note="later"), "sleeping now", "awake", tools=["wait"])
    async with windlass.open(agents=[agent], ports=ports, poll_ms=5) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        result = await session.result()
        assert (result.status, result.stop) == ("sleeping", "awaiting_time")
        assert await rt.sessions(states=("sleeping",)) != []
        ports.ahead_ms += HOUR_MS + 1_000
        await started(session, TimerFired)
        assert (await session.result()).text == "awake"
        await sound(session)


async def test_a_timer_fires_once_in_the_next_process(tmp_path):
    store = str(tmp_path / "work.db")
    first = agent_of(call("wait", for_ms=HOUR_MS), "sleeping", tools=["wait"])
    async with windlass.open(store, agents=[first]) as rt:
        session = await rt.session(first, "s")
        await session.prompt("go")
        await session.result()
    ports = JumpPorts()
    ports.ahead_ms = 2 * HOUR_MS
    second = agent_of("awake", tools=["wait"])
    async with windlass.open(store, agents=[second], ports=ports, poll_ms=5) as rt:
        session = await rt.get("s")
        await started(session, TimerFired)
        assert (await session.result()).text == "awake"
        await asyncio.sleep(0.05)
        assert len(only(await events_of(session), TimerFired)) == 1
        await sound(session)


async def test_a_timer_far_away_does_not_fire_at_once():
    far = 40 * 24 * HOUR_MS
    agent = agent_of(call("wait", for_ms=far), "sleeping", tools=["wait"])
    async with windlass.open(agents=[agent], poll_ms=5) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        await asyncio.sleep(0.05)
        events = await events_of(session)
        assert only(events, TimerFired) == []
        assert only(events, TimerSet)[0].at_ms == only(events, RunSlept)[0].wake_at_ms


async def test_a_wake_does_the_scheduled_step_now():
    agent = agent_of(call("wait", for_ms=HOUR_MS), "sleeping", "woken", tools=["wait"])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        assert [type(e).__name__ async for e in session.wake()][-1] == "RunCompleted"
        events = await events_of(session)
        (cancelled,), (set_,) = only(events, TimerCancelled), only(events, TimerSet)
        assert (cancelled.timer_id, cancelled.reason) == (set_.timer_id, "woken")
        assert only(events, TimerFired) == []
        assert (await session.result()).text == "woken"
        assert not (await session.state()).timers.open
        await sound(session)


async def test_a_clock_that_goes_back_neither_fires_twice_nor_loses_a_timer():
    ports = JumpPorts()
    agent = agent_of(call("wait", for_ms=HOUR_MS), "sleeping", "awake", tools=["wait"])
    async with windlass.open(agents=[agent], ports=ports, poll_ms=5) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        ports.ahead_ms -= 3 * HOUR_MS
        await asyncio.sleep(0.03)
        assert only(await events_of(session), TimerFired) == []
        ports.ahead_ms += 5 * HOUR_MS
        await started(session, TimerFired)
        ports.ahead_ms -= 5 * HOUR_MS
        assert (await session.result()).text == "awake"
        await sound(session)


# --- signals ---


@pytest.mark.parametrize(("urgency", "runs"), [("critical", True), ("high", True), ("normal", False), ("low", False)])
async def test_a_signal_starts_a_run_or_waits_by_its_urgency(urgency, runs):
    agent = agent_of("noticed", "later")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.signal("disk", "90 % full", urgency=urgency, dedupe_key="disk")
        await session.signal("disk", "90 % full", urgency=urgency, dedupe_key="disk")
        await session.wait_idle()
        assert ("run.started" in await names_of(session)) is runs
        await session.prompt("go")
        await session.result()
        await sound(session)


async def test_an_urgent_signal_reaches_the_model_while_it_works():
    gate = Gate()
    agent = agent_of(call("gate"), "noted", tools=[gate.tool])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await gate.entered.wait()
        await session.signal("alarm", "fire", urgency="critical")
        gate.open.set()
        await session.result()
        model = agent.model
        assert isinstance(model, ScriptedModel)
        assert "fire" in str(model.requests[1].items)


async def test_every_command_has_exactly_one_end():
    gate = Gate()
    agent = agent_of(call("gate"), "a", "b", "c", tools=[gate.tool])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        ids: list[Any] = [await session.prompt("a")]
        await gate.entered.wait()
        ids += [await session.prompt("b"), await session.interrupt(), await session.set_title("t")]
        await session.wait_idle()
        ids += [await session.wake(), await session.prompt("c")]
        await session.wait_idle()
        await asyncio.sleep(0.05)
        await session.wait_idle()
        events = await events_of(session)
        ends: list[str] = [name for event in only(events, Terminal) for name in event.commands]
        ends += [event.command_id for event in only(events, CommandCompleted)]
        assert sorted(ends) == sorted(ids)
        assert len(only(events, ToolStarted)) == 1
        await sound(session)
