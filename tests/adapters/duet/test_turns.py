"""Turns in this process, on a clock that jumps: what takes hours over stdio, and what no caller of a process sees."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

import windlass
from tests.runtime.support import JumpPorts, until
from windlass.adapters.duet.turn_commands import Answer, BadCommand, Interrupt, Prompt, Start, TurnOptions, Wake
from windlass.adapters.duet.turn_runner import TurnRunner
from windlass.adapters.duet.view.event_view import TERMINALS
from windlass.events.errors import UsageError
from windlass.events.questions import QuestionBody
from windlass.events.runs import WakeReceived
from windlass.events.sessions import SessionResumed
from windlass.events.trees.machines import MachineSlept
from windlass.machines import Machine, completed, poll, timer
from windlass.runtime.api.runtime import Runtime
from windlass.testing.scripted import ScriptedModel, call, hang

WAIT_S = 120.0
DAY_MS = 86_400_000


class Told:
    """What a runner tells."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._more = asyncio.Event()
        self.at: Callable[[dict[str, Any]], Awaitable[None]] | None = None

    async def tell(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        self._more.set()
        if self.at is not None:
            await self.at(event)

    async def step(self, kind: str) -> None:
        """Waits for a step of a kind."""
        async with asyncio.timeout(WAIT_S):
            while not any(event["type"] == "step" and event["step"]["type"] == kind for event in self.events):
                self._more.clear()
                await self._more.wait()

    async def call(self, status: str) -> None:
        """Waits for a call that is so far."""
        async with asyncio.timeout(WAIT_S):
            while not any(event["type"] == "step" and event["step"].get("status") == status for event in self.events):
                self._more.clear()
                await self._more.wait()

    async def system(self, begins: str) -> str:
        """The rest of what a system event says that begins so."""
        async with asyncio.timeout(WAIT_S):
            while True:
                for event in self.events:
                    if event["type"] == "system" and event["message"].startswith(begins):
                        return str(event["message"]).removeprefix(begins)
                self._more.clear()
                await self._more.wait()

    async def terminal(self, count: int) -> dict[str, Any]:
        """The terminal of that number, once it is there."""
        async with asyncio.timeout(WAIT_S):
            while len(self.ends) < count:
                self._more.clear()
                await self._more.wait()
        return self.ends[count - 1]

    @property
    def ends(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] in TERMINALS]


class Place:
    """A store, an agent and a clock that outlive a runner."""

    def __init__(self, folder: pathlib.Path, machine: Any, *replies: Any) -> None:
        self.folder = folder
        self.ports = JumpPorts()
        policy = windlass.Policy(default="allow")
        self.agent = windlass.Agent("clerk", ScriptedModel(list(replies)), machine=machine, policy=policy)

    def opening(self, agents: Sequence[windlass.Agent]) -> Runtime:
        store = str(self.folder / "kept.db")
        return Runtime(store, agents=agents, ports=self.ports, take_up=False, poll_ms=5)

    @contextlib.asynccontextmanager
    async def runner(
        self, state: dict[str, Any] | None = None, options: TurnOptions | None = None
    ) -> AsyncIterator[tuple[TurnRunner, Told]]:
        told = Told()
        runner = TurnRunner([self.agent], self.opening, told.tell, folder=str(self.folder))
        await runner.take(Start(state=state, options=options or TurnOptions()))
        try:
            yield runner, told
        finally:
            await runner.close()

    async def count(self, state: dict[str, Any], kind: type[Any]) -> int:
        async with self.opening([]) as runtime:
            session = await runtime.get(state["agent"]["session"]["id"])
            return sum([isinstance(record.event, kind) async for record in session.records()])


def go(state: str) -> Any:
    return call("select_state", state=state)


NAP = Machine("nap", [timer("nap", after="40d", next="done"), completed("done")])


async def test_a_timer_of_more_than_25_days_is_waited_for_whole(tmp_path):
    place = Place(tmp_path, NAP, go("nap"), "Good morning.")
    async with place.runner() as (runner, told):
        await runner.take(Prompt(message="sleep", behavior="steer"))
        end = await told.terminal(1)
        assert end["type"] == "sleep"
        assert 39 * DAY_MS < end["wakeAt"] - place.ports.now_ms() <= 40 * DAY_MS
    place.ports.ahead_ms += 41 * DAY_MS
    async with place.runner(end["state"]) as (runner, told):
        assert told.events == [{"type": "turn_started", "state": end["state"]}], "start alone runs no work that is due"
        await runner.take(Wake())
        assert (await told.terminal(1))["result"] == "Good morning."


async def test_nothing_happens_between_turns_also_when_a_time_has_come(tmp_path):
    machine = Machine("look", [poll("look", ["test", "-e", "green"], every="1h", next="done"), completed("done")])
    place = Place(tmp_path, machine, go("look"), "Green.")
    async with place.runner() as (runner, told):
        await runner.take(Prompt(message="look", behavior="steer"))
        end = await told.terminal(1)
        place.ports.ahead_ms += DAY_MS
        with pytest.raises(BadCommand):
            await runner.take(Start())
        assert await place.count(end["state"], MachineSlept) == 1
        await runner.take(Wake())
        end = await told.terminal(2)
        assert end["type"] == "sleep"
        assert await place.count(end["state"], MachineSlept) == 2, "one wake that is due is one attempt"
        place.ports.ahead_ms += DAY_MS
        (tmp_path / "green").touch()
        await runner.take(Wake())
        assert (await told.terminal(3))["result"] == "Green."
        assert len(told.ends) == 3


async def test_a_wake_that_is_not_due_does_the_step_now(tmp_path):
    place = Place(tmp_path, NAP, go("nap"), "Up already.")
    async with place.runner() as (runner, told):
        await runner.take(Prompt(message="sleep", behavior="steer"))
        await told.terminal(1)
        await runner.take(Wake(request_id="w1"))
        assert (await told.terminal(2))["result"] == "Up already."
        await runner.take(Wake(request_id="w1"))
        end = await told.terminal(3)
        assert (end["type"], end["status"]) == ("complete", "completed")
        assert await place.count(end["state"], WakeReceived) == 1


async def test_a_session_that_another_process_drives_is_told_of_all_the_same(tmp_path):
    place = Place(tmp_path, None, "Hello.", "Hello again.")
    async with place.runner() as (runner, told):
        session_id = told.events[0]["state"]["agent"]["session"]["id"]
        runner_agent = runner._seat
        assert runner_agent is not None
        async with Runtime(
            str(tmp_path / "kept.db"), agents=[runner_agent.agent], ports=place.ports, poll_ms=5
        ) as other:
            session = await other.session(runner_agent.agent, session_id)
            await session.result(await session.prompt("from elsewhere"))
            await runner.take(Prompt(message="from here", behavior="steer"))
            end = await told.terminal(1)
        said = [message["text"] for message in end["state"]["agent"]["messages"]]
        assert said == ["from elsewhere", "Hello.", "from here", "Hello again."]


async def test_work_that_was_cut_off_is_taken_up_once_and_goes_on(tmp_path):
    place = Place(tmp_path, None, ["so far", hang()], "All of it.")
    async with place.runner() as (runner, told):
        state = told.events[0]["state"]
        await runner.take(Prompt(message="hi", behavior="steer", request_id="p1"))
        await told.step("text_delta")
    assert told.ends == [], "a turn that is left has not ended"
    before = await place.count(state, SessionResumed)
    async with place.runner(state) as (runner, told):
        await runner.take(Prompt(message="hi", behavior="steer", request_id="p1"))
        end = await told.terminal(1)
        assert end["result"] == "All of it."
        assert [message["role"] for message in end["state"]["agent"]["messages"]] == ["user", "assistant"]
        assert await place.count(state, SessionResumed) == before + 1
        assert len(told.ends) == 1


async def test_a_prompt_that_comes_as_the_run_ends_belongs_to_the_turn(tmp_path):
    place = Place(tmp_path, None, "One.", "Two.")
    sent: list[asyncio.Task[None]] = []

    async with place.runner() as (runner, told):

        async def at_the_end(event: dict[str, Any]) -> None:
            """The run is over in the log when its text is told; its terminal is not told yet."""
            if event["type"] == "step" and event["step"]["type"] == "text" and not sent:
                more = Prompt(message="and more", behavior="steer")
                sent.append(asyncio.create_task(runner.take(more)))
                await asyncio.sleep(0)

        told.at = at_the_end
        await runner.take(Prompt(message="hi", behavior="steer"))
        end = await told.terminal(1)
        await sent[0]
        assert end["result"] == "Two."
        assert [message["text"] for message in end["state"]["agent"]["messages"]] == ["hi", "One.", "and more", "Two."]
        assert end["usage"] == {"inputTokens": 20, "outputTokens": 20}
        await runner.finish()
        assert len(told.ends) == 1


async def test_options_stay_with_the_session_until_start_says_otherwise(tmp_path):
    place = Place(tmp_path, None, "One.", "Two.", "Three.")
    state: dict[str, Any] | None = None
    for level, stays in (("high", "high"), (None, "high"), ("low", "low")):
        async with place.runner(state, TurnOptions(thinking_level=level)) as (runner, told):
            await runner.take(Prompt(message="hi", behavior="steer"))
            state = (await told.terminal(1))["state"]
            assert state["options"]["thinkingLevel"] == stays
    with pytest.raises(UsageError, match="nobody"):
        async with place.runner(state, TurnOptions(model="nobody:nothing")):
            pass


async def test_a_background_job_goes_on_between_turns(tmp_path):
    command = "while [ ! -e go ]; do sleep 0.02; done; touch gone"
    place = Place(tmp_path, None, call("shell", command=command, background=True), "It runs.", "It has ended.", "Yes.")
    place.agent = dataclasses.replace(place.agent, tools=["shell"])
    async with place.runner() as (runner, told):
        await runner.take(Prompt(message="begin", behavior="steer"))
        assert (await told.terminal(1))["result"] == "It runs."
        await runner.finish()
        (tmp_path / "go").touch()
        await until((tmp_path / "gone").exists, "the job goes on")
        await runner.take(Prompt(message="and?", behavior="steer"))
        end = await told.terminal(2)
        assert (end["type"], end["status"]) == ("complete", "completed")


async def test_a_plan_is_a_question_with_its_actions(tmp_path):
    plan = call("plan", summary="Two steps.", content="1. look 2. write", actions=["autopilot"])
    place = Place(tmp_path, None, plan, plan, "Planned.")
    place.agent = dataclasses.replace(place.agent, tools=["plan"], mode="plan")
    async with place.runner() as (runner, told):
        await runner.take(Prompt(message="plan it", behavior="steer"))
        (question,) = (await told.terminal(1))["questions"]
        assert question["question"] == "Two steps.\n\n1. look 2. write"
        assert [option["label"] for option in question["options"]] == ["approve", "autopilot", "reject"]
        await runner.take(answer(question["question"], "rather three steps"))
        (question,) = (await told.terminal(2))["questions"]
        await runner.take(answer(question["question"], "approve"))
        end = await told.terminal(3)
        assert end["result"] == "Planned."
        results = [message["text"] for message in end["state"]["agent"]["messages"] if message["role"] == "tool"]
        assert "rather three steps" in results[0]
        assert "approve" in results[1]


async def test_a_tool_that_asks_in_the_middle_of_its_work_is_answered_in_the_turn(tmp_path):
    @windlass.tool(contract="at_most_once")
    async def book(ctx: windlass.ToolContext) -> str:
        "Books a table."
        schema = {"type": "object", "properties": {"guests": {"type": "integer"}}, "required": ["guests"]}
        told = await ctx.ask(QuestionBody(message="For how many?", form=schema))
        return f"booked: {told}"

    place = Place(tmp_path, None, call("book"), "Booked.")
    place.agent = dataclasses.replace(place.agent, tools=[book])
    async with place.runner() as (runner, told):
        await runner.take(Prompt(message="book", behavior="steer"))
        asked = await told.system("a tool asks, and waits for an answer to: ")
        assert asked.startswith("For how many?\n\nAnswer with a JSON object that fits {")
        with pytest.raises(UsageError, match="answer it with a JSON object"):
            await runner.take(answer(asked, "four"))
        with pytest.raises(BadCommand, match="does not fit its form"):
            await runner.take(answer(asked, "{}"))
        await runner.take(answer(asked, '{"guests": 4}'))
        assert (await told.terminal(1))["result"] == "Booked."
        assert len(told.ends) == 1


def answer(question: str, said: str) -> Answer:
    return Answer(questions=(), answers={question: said}, behavior="steer")


async def test_what_no_answer_of_the_protocol_gives_is_named(tmp_path):
    @windlass.tool(settle=True)
    async def wire(account: str) -> str:
        "Sends money."
        await asyncio.Event().wait()
        return "never"

    place = Place(tmp_path, None, call("wire", account="A-1"), "Noted.")
    place.agent = dataclasses.replace(place.agent, tools=[wire])
    async with place.runner() as (runner, told):
        await runner.take(Prompt(message="pay", behavior="steer"))
        await told.call("running")
        await runner.take(Interrupt())
        end = await told.terminal(1)
        assert (end["type"], end["questions"]) == ("ask", [])
        assert "(wire)" in await told.system("waited for: ")


async def test_what_is_asked_below_is_answered_at_the_top(tmp_path):
    payer = windlass.Agent(
        "payer",
        ScriptedModel([call("weigh"), "Weighed."]),
        tools=[weigh],
        policy=windlass.Policy([windlass.ask("weigh")], default="allow"),
        description="weighs",
    )
    place = Place(tmp_path, None, call("spawn", agent="payer", task="weigh it"), "All done.")
    place.agent = dataclasses.replace(place.agent, agents=[payer])
    async with place.runner() as (runner, told):
        await runner.take(Prompt(message="go", behavior="steer"))
        end = await told.terminal(1)
        assert end["type"] == "ask"
        (question,) = end["questions"]
        assert question["question"].startswith("May weigh be called?")
        await runner.take(answer(question["question"], "allow"))
        assert (await told.terminal(2))["result"] == "All done."


@windlass.tool(contract="at_most_once")
def weigh() -> str:
    "Weighs it."
    return "3 kg"


async def test_an_interrupt_of_a_session_that_waits_for_nothing_says_nothing(tmp_path):
    place = Place(tmp_path, None, "Hello.")
    async with place.runner() as (runner, told):
        await runner.take(Interrupt())
        assert [event["type"] for event in told.events] == ["turn_started"]
        await runner.take(Prompt(message="hi", behavior="follow_up"))
        assert (await told.terminal(1))["result"] == "Hello."


async def test_a_fault_of_the_model_is_a_failed_turn(tmp_path):
    place = Place(tmp_path, None, windlass.testing.fail("invalid_request", "the provider says no"))
    async with place.runner() as (runner, told):
        await runner.take(Prompt(message="hi", behavior="steer"))
        end = await told.terminal(1)
        assert (end["type"], end["status"]) == ("complete", "failed")
        assert "the provider says no" in end["error"]
        assert end["state"]["status"] == "failed"


async def test_what_was_used_is_that_of_the_turn(tmp_path):
    place = Place(tmp_path, None, "One.", "Two.")
    async with place.runner() as (runner, told):
        await runner.take(Prompt(message="hi", behavior="steer"))
        first = (await told.terminal(1))["usage"]
        await runner.take(Prompt(message="hi", behavior="steer"))
        second = (await told.terminal(2))["usage"]
        async with place.opening([]) as runtime:
            session = await runtime.get(told.ends[1]["state"]["agent"]["session"]["id"])
            spent = (await session.state()).budget.spent.usage
        assert first["outputTokens"] + second["outputTokens"] == spent.output_tokens
        assert first["inputTokens"] + second["inputTokens"] == spent.input_tokens
        assert first == second, "the model counts each answer alike, and a turn has one"
        assert first["inputTokens"] > 0


async def test_a_store_that_cannot_be_opened_any_more_is_a_failed_turn(tmp_path):
    place = Place(tmp_path, None, "Hello.", "Hello again.")
    async with place.runner() as (runner, told):
        await runner.take(Prompt(message="hi", behavior="steer"))
        state = (await told.terminal(1))["state"]
        kept = tmp_path / "kept.db"
        kept.rename(tmp_path / "away.db")
        kept.write_bytes(b"this is no database, and was none before" * 100)
        await runner.take(Prompt(message="hi", behavior="steer"))
        end = await told.terminal(2)
        assert (end["type"], end["status"], end["state"]) == ("complete", "failed", state)
        (tmp_path / "away.db").replace(kept)
        await runner.take(Prompt(message="hi", behavior="steer"))
        assert (await told.terminal(3))["result"] == "Hello again."
