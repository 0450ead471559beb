"""What the simulator has found in the runtime, each as the smallest scene that shows it."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import Any

from tests.simulator.scenes import KEY, Scene, first, prompt
from windlass.events.changes import ChangePins, ChangeReceived, ChangeSettings
from windlass.events.context import CompactReceived
from windlass.events.runs import InterruptReceived
from windlass.events.sessions import NoticeGiven
from windlass.events.tools.calls import ToolOutcomeUnknown, ToolSettled
from windlass.events.tools.jobs import JobStarted
from windlass.events.tools.permissions import PermissionApproved
from windlass.events.tools.toolset import MountReceived, ToolBody
from windlass.events.values.ids import job_id
from windlass.events.values.policy import Policy, Rule
from windlass.events.values.settings import Settings
from windlass.models.base import Request
from windlass.runtime.api.agent import Agent, Budget
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk
from windlass.runtime.bind.local_code import weighed
from windlass.runtime.hooks.hook import Changed, Hook, Moment
from windlass.runtime.hooks.observers import Observers
from windlass.runtime.host.slot import Driven
from windlass.runtime.streams.record import Record
from windlass.store.base import Key
from windlass.testing.scripted import call, fail, hang
from windlass.testing.simulator.hooks import guard
from windlass.testing.simulator.jobs import in_background
from windlass.testing.simulator.ports import BEGINNING_MS
from windlass.testing.simulator.runner import Runner
from windlass.testing.simulator.tools import SERVED, TOOLS, tab
from windlass.tools.context import ToolContext
from windlass.tools.tool import tool


def driven(runner: Runner) -> Driven:
    """What drives the scene's session in a process."""
    driven = runner.runtime.slots.driven_at(KEY)
    assert driven is not None
    return driven


def test_an_append_whose_acknowledgement_was_lost_counts_once():
    async def story(scene: Scene) -> None:
        runner = await scene.runner()
        await scene.begin(runner)
        scene.faults(lost_after=1.0)
        asyncio.get_running_loop().call_later(0.01, scene.faults)
        await scene.send(runner, prompt("p1"))
        await scene.until("run.completed")
        assert scene.names().count("prompt.received") == 1
        owner = driven(runner).owner
        scene.faults(lost_after=1.0)
        asyncio.get_running_loop().call_later(0.01, scene.faults)
        await runner.call(lambda: owner.take(NoticeGiven(code="note", message="beside")))
        assert scene.names().count("notice.given") == 1
        assert scene.world.places["lost_acknowledgement"] == 2

    Scene("done").play(story)


def test_an_append_that_failed_is_tried_again_and_no_session_is_parked():
    async def story(scene: Scene) -> None:
        runner = await scene.runner()
        await scene.begin(runner)
        scene.faults(lost_before=1.0)
        asyncio.get_running_loop().call_later(0.3, scene.faults)
        await scene.send(runner, prompt("p1"))
        await scene.until("run.completed")
        assert runner.runtime.parked == {}

    Scene("done").play(story)


def test_a_command_that_its_sender_gave_up_is_driven_when_it_lands_late():
    async def story(scene: Scene) -> None:
        runner = await scene.runner()
        await scene.begin(runner)
        await asyncio.sleep(0.1)
        scene.faults(late=1.0, latency=1.0)
        task = scene.world.loop.start(runner.runtime.send(KEY, prompt("p1")), runner.actor, "impatient")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        scene.faults()
        await scene.until("run.completed")
        assert scene.world.places["late_append"] == 1

    Scene("done").play(story)


def test_an_owner_who_was_replaced_performs_nothing_of_its_successor():
    async def story(scene: Scene) -> None:
        one, two = await scene.runner(), await scene.runner()
        await scene.begin(one)
        two.actor.clock_ms = 90_000  # it takes the one one's lease for run out
        scene.faults(tool_slow=1.0)
        await scene.send(two, prompt("p1"))
        await scene.until("tool.started")
        await scene.send(one, prompt("p2"))
        await scene.until("run.completed")
        assert scene.world.places["two_owners"] == 1
        assert scene.world.places["stale_append_refused"] == 1
        assert list(scene.world.watch.effects.done.values()) == [1]

    Scene([call("pay", n=1)], "paid", "and more").play(story)


def test_a_session_of_a_dead_process_is_taken_up_by_an_idle_one():
    async def story(scene: Scene) -> None:
        one = await scene.runner()
        await scene.begin(one)
        await scene.runner()
        scene.faults(model_hangs=1.0)
        await scene.send(one, prompt("p1"))
        await asyncio.sleep(2.0)
        scene.crash(one)
        await scene.until("run.completed", seconds=40.0)

    Scene(answer=first([hang()], then="done")).play(story)


def test_a_timer_set_by_a_dead_process_is_fired_by_the_next():
    async def story(scene: Scene) -> None:
        one = await scene.runner()
        await scene.begin(one)
        await scene.send(one, prompt("p1"))
        await scene.until("run.slept")
        scene.crash(one)
        await scene.runner()
        await scene.until("timer.fired", seconds=60.0)
        await scene.until("run.completed")

    Scene([call("wait", for_ms=20_000)], "I wait", "woken").play(story)


def test_a_clock_that_is_set_back_makes_no_retry_wait_longer():
    async def story(scene: Scene) -> None:
        runner = await scene.runner()
        await scene.begin(runner)
        await scene.send(runner, prompt("p1"))
        await scene.until("retry.planned")
        runner.actor.clock_ms = -3_600_000
        await scene.until("run.completed", seconds=30.0)

    Scene(answer=first(fail("server_error"), fail("server_error"), then="done")).play(story)


def test_a_fork_whose_maker_died_begins_as_a_fork():
    async def story(scene: Scene) -> None:
        one = await scene.runner()
        await scene.begin(one)
        scene.faults(tool_hangs=1.0)
        await scene.send(one, prompt("p1"))
        await scene.until("tool.started")
        await asyncio.sleep(1.0)  # the tool has begun, and nothing else is under way
        scene.faults(crash_point=1.0)
        branch = Key("sim", "branch")
        await asyncio.wait([scene.world.loop.start(one.runtime.fork(KEY, "branch"), one.actor, "fork")], timeout=5.0)
        assert one.actor.dead
        assert scene.names(branch)[-1] == "tool.started"  # made, and nothing of its own in it
        scene.faults()
        two = await scene.runner()
        await scene.send(two, prompt("p2"), branch)
        await scene.until("run.completed", key=branch)
        assert "session.forked" in scene.names(branch)
        assert "session.resumed" not in scene.names(branch)

    Scene([call("pay", n=1)], "done", "more").play(story)


def test_a_reader_goes_on_when_another_process_takes_the_session():
    async def story(scene: Scene) -> None:
        one, two = await scene.runner(), await scene.runner()
        await scene.begin(one)
        scene.world.loop.start(one.read_along(KEY), one.actor, "reader")
        await asyncio.sleep(0.1)
        two.actor.clock_ms = 90_000
        await scene.send(two, prompt("p1"))
        await scene.until("run.completed")
        await asyncio.sleep(10.0)
        assert one.read_to[KEY] == len(scene.events())

    Scene("done").play(story)


def test_a_follower_sees_the_end_of_a_prompt_that_another_process_finished():
    async def story(scene: Scene) -> None:
        one, two = await scene.runner(), await scene.runner()
        await scene.begin(one)
        seen = []

        async def follow() -> None:
            async for told in one.runtime.follow(KEY, prompt("p1")):
                if isinstance(told, Record):
                    seen.append(told.seq)

        following = scene.world.loop.start(one.call(follow), scene.world.outside, "follower")
        await scene.until("model.requested")
        two.actor.clock_ms = 90_000
        await scene.send(two, InterruptReceived(command_id="stop"))
        await asyncio.wait_for(following, 30.0)
        assert seen == list(range(seen[0], seen[0] + len(seen)))

    Scene([hang()], "done").play(story)


def test_an_interrupt_lands_while_something_else_is_being_added():
    async def story(scene: Scene) -> None:
        scene.world.poll_ms = 3_600_000  # nobody looks again by himself
        runner = await scene.runner()
        await scene.begin(runner)
        await scene.send(runner, prompt("p1"))
        await scene.until("model.requested")
        await asyncio.sleep(1.0)
        scene.faults(latency=1.0)
        owner = driven(runner).owner
        note = NoticeGiven(code="note", message="beside")
        sends = [scene.send(runner, InterruptReceived(command_id="stop"))]
        sends += [runner.call(lambda: owner.take(note)) for _ in range(3)]
        await asyncio.gather(*sends)
        await asyncio.sleep(5.0)
        assert driven(runner).driver._inline is None, "the request is still waited for"
        scene.faults()
        await scene.send(runner, prompt("p2"))
        await scene.until("run.completed")

    Scene(answer=first([hang()], then="done")).play(story)


def test_a_store_that_does_not_answer_ends_neither_the_watch_nor_the_leases():
    async def story(scene: Scene) -> None:
        runner = await scene.runner()
        await scene.begin(runner)
        scene.world.is_full = True
        scene.faults(read_error=1.0)
        await asyncio.sleep(60.0)
        scene.world.is_full = False
        scene.faults()
        await scene.world.people.deliver(KEY, prompt("p1"))
        await scene.until("run.completed")
        assert [task.get_name() for task in runner.runtime.host.loops if task.done()] == []

    Scene("done").play(story)


def test_two_processes_that_open_one_session_at_once_both_get_it():
    async def story(scene: Scene) -> None:
        one, two = await scene.runner(), await scene.runner()
        await asyncio.gather(scene.begin(one), scene.begin(two), scene.begin(one), scene.begin(two))
        assert scene.names().count("session.started") == 1
        await asyncio.gather(scene.send(one, prompt("p1")), scene.send(two, prompt("p2")))
        await asyncio.sleep(10.0)
        assert scene.names().count("run.completed") == 2
        assert scene.world.watch.unfinished() == []

    Scene("one", "two").play(story)


def test_a_rendering_waits_for_the_append_that_is_under_way():
    async def story(scene: Scene) -> None:
        runner = await scene.runner()
        await scene.begin(runner)
        await asyncio.sleep(1.0)
        owner = driven(runner).owner
        owner.memory.reset({})
        scene.faults(latency=1.0)
        sending = scene.world.loop.start(scene.send(runner, prompt("p1")), scene.world.outside, "person")
        while not owner.busy:
            await asyncio.sleep(0)
        items = await runner.call(owner.items)
        assert [item.key for item in items] == ["3"]
        await sending

    Scene("done", instructions="Be brief.").play(story)


def test_the_calls_of_a_reply_that_a_hook_looked_at_have_their_results():
    async def story(scene: Scene) -> None:
        runner = await scene.runner()
        await scene.begin(runner)
        await scene.send(runner, prompt("p1"))
        await scene.until("run.completed")
        scene.world.watch.verify()  # every provider would take the history

    Scene([call("look", n=1)], "done", hooks=[Hook(point="after_model", run=guard, kind="guard")]).play(story)


def test_a_log_adds_up_to_the_same_when_content_was_erased_from_it():
    async def story(scene: Scene) -> None:
        one = await scene.runner()
        await scene.begin(one)
        scene.crash(one)
        scene.world.agent = Agent("sim", model=scene.world.agent.model, tools=TOOLS[:3])
        two = await scene.runner()
        await asyncio.sleep(20.0)
        await scene.send(two, prompt("p1"))
        await scene.until("run.completed")
        scene.crash(two)
        await scene.world.disk.erase_at(KEY, scene.names().index("session.resumed") + 1)
        three = await scene.runner()
        await asyncio.sleep(20.0)
        await scene.send(three, prompt("p2"))  # what the owner has in memory is held against the log here
        scene.world.watch.verify()

    Scene("done", "more").play(story)


def test_a_reader_who_comes_after_the_end_of_a_runtime_is_not_kept_waiting():
    async def story(scene: Scene) -> None:
        runner = await scene.runner()
        await scene.begin(runner)
        await runner.call(runner.runtime.close)
        for slot in runner.runtime.slots.driven:
            runner.runtime.slots.unseat(slot)
            runner.runtime.slots.forget(slot)
        assert len(runner.runtime.slots) == 0

        async def read() -> int:
            return len([told async for told in runner.runtime.tail(KEY) if isinstance(told, Record)])

        assert await asyncio.wait_for(runner.call(read), 30.0) == len(scene.events())

    Scene("done").play(story)


def test_tools_that_were_mounted_in_a_run_that_was_stopped_are_there_when_it_rests():
    async def story(scene: Scene) -> None:
        runner = await scene.runner()
        await scene.begin(runner)
        await scene.send(runner, prompt("p1"))
        await scene.until("model.requested")
        await scene.send(
            runner, MountReceived(command_id="m1", tools=(weighed(tab),), body=ToolBody(tools=(tab.text,)))
        )
        await scene.send(runner, InterruptReceived(command_id="stop"))
        state = scene.world.watch.logs[KEY].state
        assert (state.toolset.staged, "tab" in state.toolset.tools) == ([], True)

    Scene([hang()], "done").play(story)


def test_calls_that_ran_together_go_on_one_by_one_under_code_that_says_so():
    async def story(scene: Scene) -> None:
        one = await scene.runner()
        await scene.begin(one)
        scene.faults(tool_hangs=1.0)
        await scene.send(one, prompt("p1"))
        await scene.until("tool.started")
        assert scene.names().count("tool.started") == 2
        scene.crash(one)
        scene.faults()
        scene.world.agent = Agent(
            "sim", model=scene.world.agent.model, tools=TOOLS, settings=Settings(tool_order="sequential")
        )
        await scene.runner()
        await scene.until("run.completed", seconds=60.0)
        again = scene.names()[scene.names().index("session.resumed") :]
        tools = [name for name in again if name.startswith("tool.")]
        assert tools == ["tool.started", "tool.finished", "tool.started", "tool.finished"]

    Scene([call("look", n=1), call("put", n=2)], "done").play(story)


def test_a_request_that_is_made_again_in_the_last_turn_stays_in_budget():
    async def story(scene: Scene) -> None:
        one = await scene.runner()
        await scene.begin(one)
        await scene.send(one, prompt("p1"))
        await scene.until("model.requested")
        scene.crash(one)
        await scene.runner()
        await scene.until("run.completed", seconds=40.0)  # what the lost request may have cost is all that there was
        assert scene.names().count("model.requested") == 1
        assert "budget.stopped" in scene.names()

    Scene([hang()], budget=Budget(turns=1, tokens=2_000)).play(story)


def test_a_client_whose_store_is_lost_ends_with_its_runtime():
    async def story(scene: Scene) -> None:
        one, two = await scene.runner(), await scene.runner()
        await scene.begin(one)
        serving = (await two.call(lambda: two.runtime.get(KEY.session))).serve(*SERVED)
        await two.call(serving.__aenter__)
        await scene.send(one, prompt("p1"))
        await scene.until("tool.delegated")
        two.store.way.poisoned = True
        await asyncio.sleep(5.0)
        await two.call(two.runtime.close)
        await asyncio.sleep(5.0)
        assert [task.get_name() for task in scene.world.loop.tasks_of(two.actor)] == []

    Scene([call("ui", n=1)], "done").play(story)


def test_an_observer_that_is_given_up_before_it_begins_leaves_nothing_behind():
    async def story(scene: Scene) -> None:
        runner = await scene.runner()
        observing = Observers(runner.runtime.ports, runner.runtime.host.hook_threads)
        told = []

        async def observe() -> None:
            told.append("heard")

        observing.start(Hook(point="run_end", run=guard), observe)
        for task in list(observing._tasks):
            task.cancel()
        await asyncio.sleep(0.1)
        assert told == []

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        Scene("done").play(story)
        gc.collect()
    assert [str(each.message) for each in found] == []


def test_a_call_whose_arguments_were_erased_runs_with_no_others():
    done = []

    @tool
    async def wipe(path: str = "everything") -> str:
        "Wipes a folder."
        done.append(path)
        return "gone"

    async def story(scene: Scene) -> None:
        one = await scene.runner()
        await scene.begin(one)
        await scene.send(one, prompt("p1"))
        await scene.until("run.asked")
        scene.crash(one)
        await scene.world.disk.erase_at(KEY, scene.names().index("model.replied") + 1)
        two = await scene.runner()
        await asyncio.sleep(20.0)
        ask = next(iter(scene.world.watch.logs[KEY].state.asks.open.values()))
        await scene.send(two, PermissionApproved(command_id="yes", request_id=ask.ask_id, digest=ask.digest))
        await scene.until("run.completed")
        assert done == []

    Scene([call("wipe", path="tmp")], "done", tools=[wipe], policy=Policy([Rule(action="ask")])).play(story)


def test_a_call_that_a_hook_changed_runs_as_it_was_changed_or_not_at_all():
    async def story(scene: Scene) -> None:
        one = await scene.runner()
        await scene.begin(one)
        await scene.send(one, prompt("p1"))
        await scene.until("run.asked")
        scene.crash(one)
        await scene.world.disk.erase_at(KEY, scene.names().index("tool.prepared") + 1)
        two = await scene.runner()
        await asyncio.sleep(20.0)
        ask = next(iter(scene.world.watch.logs[KEY].state.asks.open.values()))
        await scene.send(two, PermissionApproved(command_id="yes", request_id=ask.ask_id, digest=ask.digest))
        await scene.until("run.completed")
        assert sum(scene.world.watch.effects.done.values()) == 0

    async def change(moment: Moment) -> Changed:
        return Changed(value={"n": moment.value["n"] + 1})

    hook = Hook(point="before_tool", run=change, kind="transform")
    Scene([call("pay", n=1)], "done", hooks=[hook], policy=Policy([Rule(action="ask")])).play(story)


def test_a_person_is_not_waited_for_by_a_process_that_lost_the_session():
    async def never(asked: PermissionAsk | QuestionAsk) -> None:
        await asyncio.get_running_loop().create_future()

    async def story(scene: Scene) -> None:
        one = await scene.runner()
        await scene.begin(one)
        await scene.send(one, prompt("p1"))
        await scene.until("permission.requested")
        far = BEGINNING_MS + 90_000
        await scene.world.disk.kept.leases.claim(
            KEY, runner="other", ttl_ms=60_000, now_ms=far
        )  # and writes nothing yet
        driving = scene.world.loop.start(
            one.call(lambda: one.runtime.drive(KEY.session)), scene.world.outside, "drives"
        )
        await asyncio.sleep(0.1)
        await scene.send(one, prompt("p2"))
        assert (await driving).status == "lost_epoch"
        await one.call(one.runtime.close)
        await asyncio.sleep(5.0)
        assert [task.get_name() for task in scene.world.loop.tasks_of(one.actor)] == []

    Scene([call("pay", n=1)], "done", approver=never, policy=Policy([Rule(action="ask")])).play(story)


def test_what_is_pinned_while_a_summary_is_written_stays_whatever_the_settings_say_by_then():
    busy = [fail("server_error")]

    def answer(request: Request) -> Any:
        return busy.pop() if request.lane == "compact" and busy else "done"

    async def story(scene: Scene) -> None:
        runner = await scene.runner()
        await scene.begin(runner)
        for name in ("p1", "p2", "p3", "p4"):
            await scene.send(runner, prompt(name))
            await asyncio.sleep(1.0)
        await scene.send(runner, CompactReceived(command_id="c1"))
        await scene.until("retry.planned")
        third = [seq for seq, name in enumerate(scene.names(), 1) if name == "prompt.received"][2]
        await scene.send(runner, ChangeReceived(command_id="c2", change=ChangeSettings(settings=Settings())))
        await scene.send(runner, ChangeReceived(command_id="c3", change=ChangePins(pin=(third,))))
        assert "compaction.finished" not in scene.names()
        await scene.until("compaction.finished")
        assert third in [ref.seq for ref in scene.world.watch.logs[KEY].state.history.items]

    Scene(answer=answer, settings=Settings(keep_exchanges=1)).play(story)


def test_a_call_that_a_person_has_run_again_starts_a_job_of_its_own():
    @tool(settle=True)
    async def deploy(ctx: ToolContext) -> Any:
        "Deploys in the background; its process dies when the job has been started the first time."
        job = await in_background(ctx)
        if ctx.attempt == 1:
            await asyncio.get_running_loop().create_future()
        return job

    async def story(scene: Scene) -> None:
        one = await scene.runner()
        await scene.begin(one)
        await scene.send(one, prompt("p1"))
        while not scene.world.machine.jobs:
            await asyncio.sleep(0.1)
        scene.crash(one)
        two = await scene.runner()
        await scene.until("tool.outcome_unknown")
        call_id = next(event.call_id for event in scene.events() if isinstance(event, ToolOutcomeUnknown))
        await scene.send(two, ToolSettled(command_id="again", call_id=call_id, outcome="run_again"))
        await scene.until("job.finished")
        await scene.until("run.completed")
        started = [event.job_id for event in scene.events() if isinstance(event, JobStarted)]
        assert started == [job_id(call_id, 2)] != [job_id(call_id)]

    Scene([call("deploy")], "done", tools=[deploy]).play(story)
