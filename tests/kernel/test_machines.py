"""A machine in the kernel alone: one state at a time, each left once, and no kill has anything done twice."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.session import TOOLS, Session, call, names
from windlass.events.errors import Refused
from windlass.events.questions import Answer, AnswerBody
from windlass.events.runs import RunAsked, RunCompleted, RunFailed, RunSlept, RunStarted
from windlass.events.trees.flows import NodeCall
from windlass.events.trees.machines import (
    ComputedBody,
    MachineBody,
    MachineComputed,
    MachineEnded,
    MachineLeft,
    MachineMoved,
    MachineReceived,
)
from windlass.events.turns import Prepared
from windlass.events.values.machines import MachineSpec, MachineState
from windlass.events.values.policy import Policy, Rule
from windlass.events.values.settings import Settings
from windlass.events.values.tools import ToolSpec
from windlass.kernel.effects import AskPerson, CallModel, ComputeState, RunTool
from windlass.kernel.phases import Asked, Asleep, Idle
from windlass.testing.invariants import Checker, check_items

OURS = (
    *TOOLS,
    ToolSpec(name="run_state", digest="d-run", contract="at_most_once"),
    ToolSpec(name="poll_state", digest="d-poll", contract="idempotent"),
    *(ToolSpec(name=n, runs="kernel") for n in ("create_machine", "select_state", "machine_state")),
)
TOOL_OF = {"script": "run_state", "poll": "poll_state", "park": "ask_user"}


def one(name: str, kind: str, *next_: str, **more: Any) -> MachineState:
    more = {"every_ms": 30_000} | more if kind == "poll" else more
    more = {"after_ms": 60_000} | more if kind == "timer" and "at_ms" not in more else more
    return MachineState(name=name, kind=kind, next=next_, **more)  # type: ignore[arg-type]


def end(name: str = "done", **more: Any) -> MachineState:
    return one(name, "terminal", **more)


class Pilot(Session):
    """A session with a machine; what the host would work out is made up."""

    def __init__(self, *states: MachineState, **more: Any) -> None:
        limits = {name: more.pop(name) for name in ("visits_max", "quick_polls_max") if name in more}
        spec = MachineSpec(name="m", states=states, first=states[0].name, **limits) if states else None
        routing = "explicit" if states else "auto"
        super().__init__(tools=OURS, machine=spec, routing=routing, settings=Settings(losses_max=10_000), **more)

    @property
    def machine(self) -> Any:
        return self.state.machine

    def begin(self, state: str = "", **given: Any) -> list[Any]:
        body = MachineBody(input=given)
        return self.take(MachineReceived(command_id=self.command(), state=state, body=body))

    def compute(self, work: str = "") -> list[Any]:
        """The host says what the current state does."""
        machine = self.machine
        spec = machine.states[machine.current]
        kind = work or ("told" if spec.kind == "agent" else "call")
        made = None
        if kind == "call":
            args = {"question": spec.question or "?", "options": list(spec.next)} if spec.kind == "park" else {}
            made = NodeCall(tool=TOOL_OF[spec.kind], args=args, prepared=Prepared(digest=f"d{machine.visit}"))
        return self.take(
            MachineComputed(
                visit=machine.visit,
                attempt=machine.attempt,
                work=kind,  # type: ignore[arg-type]
                tokens=10,
                reason="it does not fit" if kind == "none" else "",
                body=ComputedBody(input={}, call=made, text=spec.prompt),
            )
        )

    def ran(self, *, well: bool = True) -> list[Any]:  # type: ignore[override]
        """The program of the current state ends."""
        return self.finish(self.running()[-1], ok=well, error_code=None if well else "exit_code")

    def work(self, *, well: bool = True) -> list[Any]:
        self.compute()
        return self.ran(well=well)

    def picks(self, label: str) -> list[Any]:
        ask = next(iter(self.state.asks.open))
        return self.answer(ask, body=AnswerBody(answers=(Answer(index=0, selected=(label,)),)))

    def selects(self, state: str, **given: Any) -> list[Any]:
        return self.reply("", call("select_state", {"state": state, **({"input": given} if given else {})}))

    def way(self) -> list[str]:
        return [event.state for event in self.events() if isinstance(event, MachineMoved)]

    def ended_as(self) -> list[tuple[str, str]]:
        return [(event.outcome, event.reason) for event in self.events() if isinstance(event, MachineEnded)]

    def sound(self) -> None:
        assert self.verify().problems == []
        checker = Checker()
        for event in self.events():
            checker.feed(event)
        checker.rest(self.state)
        check_items(self.items())


# --- states that follow by rule ---


def test_states_follow_each_other_by_rule_and_the_run_ends_with_the_machine():
    pilot = Pilot(one("build", "script", "test"), one("test", "script", "done"), end(reason="built"))
    pilot.begin(branch="x")
    pilot.work()
    events = pilot.work()
    assert names(events)[-4:] == ["machine.left", "machine.moved", "machine.ended", "run.completed"]
    assert pilot.way() == ["build", "test", "done"]
    assert pilot.ended_as() == [("completed", "built")]
    assert not any(isinstance(effect, CallModel) for effect in pilot.owed())
    pilot.sound()


def test_a_state_that_fails_leads_where_it_says():
    pilot = Pilot(one("try_it", "script", "done", on_failure="mend"), one("mend", "script", "done"), end())
    pilot.begin()
    pilot.work(well=False)
    assert pilot.way() == ["try_it", "mend"]
    pilot.work()
    assert pilot.ended_as() == [("completed", "")]


def test_a_state_whose_call_is_denied_has_failed():
    policy = Policy(rules=(Rule(action="deny", tool="run_state"),))
    pilot = Pilot(one("try_it", "script", "done", on_failure="mend"), one("mend", "poll", "done"), end(), policy=policy)
    pilot.begin()
    assert "tool.denied" in names(pilot.compute())
    assert pilot.way() == ["try_it", "mend"]
    pilot.sound()


def test_a_failure_that_nothing_follows_ends_the_machine_and_not_the_run():
    pilot = Pilot(one("try_it", "script", "done"), end())
    pilot.begin()
    events = pilot.work(well=False)
    told = "try_it failed: its program ended with another code than is success"
    assert pilot.ended_as() == [("failed", told)]
    assert isinstance(events[-1], RunCompleted)
    pilot.sound()


def test_an_input_that_does_not_fit_fails_its_state():
    pilot = Pilot(one("try_it", "script", "done"), end())
    pilot.begin()
    pilot.compute("none")
    assert pilot.ended_as() == [("failed", "try_it failed: it does not fit")]


# --- polls and timers ---


def test_a_poll_sleeps_until_what_it_looks_for_is_so():
    pilot = Pilot(one("look", "poll", "done"), end())
    pilot.begin()
    for attempt in (1, 2):
        slept = pilot.work(well=False)[-1]
        assert isinstance(slept, RunSlept)
        assert slept.wake_at_ms == pilot.at_ms + 30_000
        assert isinstance(pilot.state.phase, Asleep)
        begun = [event for event in pilot.fire() if isinstance(event, RunStarted)]
        assert [(event.trigger, event.continues is not None) for event in begun] == [("machine", True)]
        assert pilot.machine.attempt == attempt + 1
    pilot.work()
    assert pilot.ended_as() == [("completed", "")]
    progress = pilot.machine.progress["look"]
    assert (progress.visits, progress.attempts, progress.sleeps) == (1, 3, 2)
    pilot.sound()


def test_a_poll_gives_up_when_its_time_is_over():
    pilot = Pilot(one("look", "poll", "done", give_up_ms=70_000, on_failure="late"), end(), end("late"))
    pilot.begin()
    pilot.work(well=False)
    pilot.fire()
    pilot.work(well=False)
    pilot.fire()
    pilot.work(well=False)
    assert pilot.way() == ["look", "late"]
    assert [event.reason for event in pilot.events() if isinstance(event, MachineLeft)] == [
        "it was given up after 3 attempts"
    ]


def test_a_poll_that_always_succeeds_tests_nothing():
    pilot = Pilot(one("look", "poll", "act"), one("act", "script", "look"), end())
    pilot.begin()
    for _ in range(2):
        pilot.work()
        pilot.work()
    pilot.work()
    told = "the poll look found at once what it waits for, 3 times in a row: it tests nothing"
    assert pilot.ended_as() == [("failed", told)]


def test_a_poll_that_had_to_wait_in_between_is_no_such_poll():
    pilot = Pilot(one("look", "poll", "act"), one("act", "script", "look"), end())
    pilot.begin()
    for number in range(6):
        if number % 2:
            pilot.work(well=False)
            pilot.fire()
        pilot.work()
        pilot.work()
    assert pilot.ended_as() == []


def test_states_that_follow_each_other_in_a_circle_end_the_machine():
    pilot = Pilot(one("a", "script", "b"), one("b", "script", "a"), end(), visits_max=3)
    pilot.begin()
    while not pilot.ended_as():
        pilot.work()
    assert pilot.way() == ["a", "b"] * 3
    assert pilot.ended_as() == [("failed", "it goes in circles: a was entered 3 times")]


@pytest.mark.parametrize(("late_ms", "way"), [(59_000, ["nap", "done"]), (61_000, ["nap", "missed"])])
def test_a_timer_that_is_noticed_too_late_fails_if_it_says_so(late_ms, way):
    pilot = Pilot(one("nap", "timer", "done", on_failure="missed", misfire="fail"), end(), end("missed"))
    pilot.begin()
    pilot.at_ms += 60_000 + late_ms
    pilot.fire()
    assert pilot.way() == way


def test_a_timer_fires_however_late_it_is_noticed_otherwise():
    pilot = Pilot(one("nap", "timer", "done", at_ms=5_000), end())
    assert isinstance(pilot.begin()[-1], RunSlept)
    pilot.at_ms = 10**12
    pilot.fire()
    assert pilot.ended_as() == [("completed", "")]


def test_a_wake_is_one_attempt_of_a_poll_and_calls_no_model():
    pilot = Pilot(one("look", "poll", "done"), end())
    pilot.begin()
    pilot.work(well=False)
    pilot.wake()
    assert [type(effect) for effect in pilot.owed()] == [ComputeState]
    pilot.work(well=False)
    assert isinstance(pilot.state.phase, Asleep)
    assert pilot.machine.attempt == 2
    pilot.sound()


# --- people ---


def test_a_person_decides_at_a_park():
    pilot = Pilot(one("ask", "park", "merge", "drop", question="merge it?"), end("merge"), end("drop"))
    pilot.begin()
    pilot.compute()
    assert [type(effect) for effect in pilot.owed()] == [AskPerson]
    assert isinstance(pilot.nobody()[-1], RunAsked)
    pilot.crash()
    pilot.picks("merge")
    assert pilot.way() == ["ask", "merge"]
    pilot.sound()


def test_a_prompt_instead_of_an_answer_is_handled_and_then_it_is_asked_again():
    pilot = Pilot(one("ask", "park", "merge", "drop"), end("merge"), end("drop"))
    pilot.begin()
    pilot.compute()
    pilot.nobody()
    pilot.prompt("what is this about?", behavior="steer")
    pilot.reply("about the merge")
    assert pilot.way() == ["ask", "ask"]
    pilot.compute()
    pilot.nobody()
    assert isinstance(pilot.state.phase, Asked)
    pilot.picks("drop")
    assert pilot.way() == ["ask", "ask", "drop"]
    pilot.sound()


@pytest.mark.parametrize("next_", [("merge", "drop"), ("merge",)])
def test_what_is_no_choice_at_a_park_is_no_yes_and_it_is_asked_again(next_):
    pilot = Pilot(one("ask", "park", *next_), end("merge"), end("drop"))
    pilot.begin()
    pilot.compute()
    pilot.picks("no, do not merge this")
    assert pilot.way() == ["ask", "ask"]
    pilot.compute()
    pilot.picks("merge")
    assert pilot.way() == ["ask", "ask", "merge"]
    pilot.sound()


@pytest.mark.parametrize("stopped", [False, True])
def test_the_agent_does_not_pass_a_park(stopped: bool):
    pilot = Pilot(one("ask", "park", "merge", "drop"), end("merge"), end("drop"))
    pilot.begin()
    pilot.compute()
    pilot.nobody()
    if stopped:
        pilot.interrupt()
    pilot.prompt("go on", behavior=None if stopped else "steer")
    pilot.selects("merge")
    assert "merge" not in pilot.way()
    assert "a person says what follows ask" in str(pilot.items()[-1])
    pilot.reply("well then")
    assert "merge" not in pilot.way()
    pilot.sound()


@pytest.mark.parametrize("machine", [True, False])
def test_nobody_but_a_state_calls_what_states_run_programs_with(machine: bool):
    pilot = Pilot(*([one("build", "script", "done"), end()] if machine else []))
    pilot.prompt("run it")
    pilot.reply("", call("run_state", {"argv": ["sh", "-c", "id"]}))
    assert pilot.running() == []
    assert "called by the states of a machine alone" in str(pilot.items()[-1])


def test_a_prompt_while_it_sleeps_is_handled_and_it_sleeps_on():
    pilot = Pilot(one("nap", "timer", "done"), end())
    first = pilot.begin()[-1]
    pilot.prompt("how is it going?")
    again = pilot.reply("it sleeps")[-1]
    assert isinstance(first, RunSlept)
    assert isinstance(again, RunSlept)
    assert again.wake_at_ms == first.wake_at_ms
    pilot.fire()
    assert pilot.ended_as() == [("completed", "")]
    pilot.sound()


def test_a_time_that_comes_while_a_prompt_is_handled_is_taken_behind_it():
    pilot = Pilot(one("nap", "timer", "work"), one("work", "script", "done"), end())
    pilot.begin()
    pilot.prompt("how is it going?")
    pilot.fire()
    assert pilot.way() == ["nap"]
    pilot.reply("it sleeps")
    assert pilot.way() == ["nap", "work"]
    pilot.work()
    pilot.sound()


def test_a_person_has_another_state_take_the_place_of_one_at_work():
    pilot = Pilot(one("a", "script", "done"), one("b", "script", "done"), end())
    pilot.begin()
    pilot.compute()
    events = pilot.begin("b")
    assert [event.outcome for event in events if isinstance(event, MachineLeft)] == ["replaced"]
    assert "tool.outcome_unknown" in names(events)
    pilot.work()
    assert pilot.way() == ["a", "b", "done"]
    pilot.sound()


@pytest.mark.parametrize(("state", "code"), [("nowhere", "unknown_state"), ("", "no_machine")])
def test_a_state_that_is_not_there_is_refused(state, code):
    pilot = Pilot(*([one("a", "script", "done"), end()] if state else []))
    with pytest.raises(Refused) as refused:
        pilot.begin(state)
    assert refused.value.code == code


# --- the agent ---


def test_the_agent_chooses_among_the_states_that_may_follow():
    pilot = Pilot(one("draft", "agent", prompt="write it"), one("send", "script"), end(), end("dropped"))
    pilot.prompt("write to them")
    pilot.selects("draft")
    pilot.compute()
    pilot.reply("Dear all")
    assert pilot.machine.status == "choosing"
    assert pilot.machine.choices == ("draft", "send", "done", "dropped")
    pilot.selects("send", to="all")
    assert [type(effect) for effect in pilot.owed()] == [ComputeState]
    pilot.work()
    assert pilot.machine.status == "choosing"
    pilot.selects("done")
    assert pilot.ended_as() == [("completed", "")]
    assert isinstance(pilot.reply("all is sent")[-1], RunCompleted)
    pilot.sound()


def test_a_state_that_cannot_follow_is_not_chosen():
    pilot = Pilot(one("a", "agent", "b", "c"), one("b", "agent"), one("c", "agent"), end())
    pilot.prompt("go")
    pilot.selects("a")
    pilot.compute()
    pilot.reply("done")
    pilot.selects("done")
    assert pilot.results()[-1].content[0].text == "done cannot follow a: choose from b, c"
    assert pilot.way() == ["a"]


def test_an_agent_that_never_chooses_fails_the_machine():
    pilot = Pilot(one("a", "agent"), end())
    pilot.prompt("go")
    pilot.selects("a")
    pilot.compute()
    for _ in range(5):
        pilot.reply("done")
        if pilot.ended_as():
            break
    assert pilot.ended_as() == [("failed", "no state was chosen behind a")]
    pilot.reply("sorry")
    pilot.sound()


def test_an_agent_that_goes_in_circles_is_told_and_then_refused():
    pilot = Pilot(one("a", "script"), end(), visits_max=6)
    pilot.prompt("go")
    for _ in range(6):
        pilot.selects("a")
        pilot.work()
    pilot.selects("a")
    told = [item.content[0].text for item in pilot.results()]
    assert told[4] == "the machine is in state a; it has been entered 5 times: do you go in circles?"
    assert told[6] == "it goes in circles: a was entered 6 times. Choose another state, or an end"
    pilot.selects("done")
    pilot.reply("stopped")
    pilot.sound()


def test_an_agent_creates_one_and_another_when_that_has_ended():
    pilot = Pilot()
    pilot.prompt("ship it")
    spec = {
        "name": "ship",
        "first": "push",
        "states": [
            {"name": "push", "kind": "script", "command": ["true"], "next": ["done"]},
            {"name": "done", "kind": "terminal"},
        ],
    }
    pilot.reply("", call("create_machine", spec))
    pilot.work()
    assert pilot.ended_as() == [("completed", "")]
    pilot.reply("", call("create_machine", spec | {"name": "again"}))
    assert pilot.machine.spec.name == "again"
    pilot.work()
    pilot.reply("shipped twice")
    pilot.sound()


def test_an_agent_cannot_create_one_while_another_is_at_work():
    pilot = Pilot()
    spec = {"name": "m", "first": "nap", "states": [{"name": "nap", "kind": "timer", "after_ms": 60_000}]}
    pilot.prompt("wait")
    pilot.reply("", call("create_machine", spec))
    assert isinstance(pilot.state.phase, Asleep)
    pilot.prompt("another one")
    pilot.reply("", call("create_machine", spec))
    told = "the machine m is at work, in state nap: end it first, with select_state"
    assert pilot.results()[-1].content[0].text == told


def test_a_machine_that_ended_begins_again_at_a_state_that_is_no_end():
    pilot = Pilot(one("a", "script", "done"), end())
    pilot.begin()
    pilot.work()
    pilot.prompt("once more")
    pilot.selects("done")
    assert "choose a state that is no end" in pilot.results()[-1].content[0].text
    pilot.selects("a")
    moved = [event for event in pilot.events() if isinstance(event, MachineMoved)]
    assert [event.reactivates for event in moved] == [False, False, True]
    pilot.work()
    assert len(pilot.ended_as()) == 2
    pilot.reply("done again")
    pilot.sound()


def test_a_prompt_that_fits_no_state_is_answered_as_ever():
    pilot = Pilot(one("a", "script", "done"), end())
    pilot.prompt("what time is it?")
    assert isinstance(pilot.reply("noon")[-1], RunCompleted)
    assert pilot.machine.status == "none"
    assert pilot.way() == []


# --- stopping ---


@pytest.mark.parametrize("kind", ["agent", "script", "poll", "park", "timer", "asleep"])
def test_an_interrupt_leaves_a_marker_in_every_kind_of_state(kind):
    pilot = Pilot(one("a", "poll" if kind == "asleep" else kind, "done"), end())
    pilot.begin()
    if kind == "asleep":
        pilot.work(well=False)
    elif kind != "timer":
        pilot.compute()
    pilot.interrupt("half an answer" if kind == "agent" else "")
    assert pilot.names().count("machine.interrupted") == 1
    assert pilot.machine.status == "interrupted"
    assert pilot.state.timers.open == {}
    pilot.crash()
    pilot.prompt("go on")
    pilot.selects("a")
    assert pilot.way() == ["a", "a"]
    pilot.sound()


def test_a_cancel_ends_the_machine():
    pilot = Pilot(one("a", "script", "done"), end())
    pilot.begin()
    pilot.compute()
    pilot.cancel()
    assert pilot.ended_as() == [("cancelled", "cancelled by a command")]
    pilot.sound()


def test_a_run_that_fails_leaves_the_machine_interrupted():
    pilot = Pilot(one("a", "agent", "done"), end())
    pilot.begin()
    pilot.compute()
    assert isinstance(pilot.model_fails("invalid_request")[-1], RunFailed)
    assert pilot.machine.status == "interrupted"
    pilot.wake()
    pilot.selects("a")
    pilot.compute()
    pilot.reply("there it is")
    assert pilot.ended_as() == [("completed", "")]
    pilot.sound()


def test_a_fork_begins_without_what_its_origin_does():
    pilot = Pilot(one("nap", "timer", "done"), end())
    pilot.begin()
    branch = pilot.fork(pilot.state.seq)
    assert branch.state.machine.status == "interrupted"
    assert branch.state.timers.open == {}
    assert pilot.machine.status == "sleeping"


def test_a_script_that_was_cut_off_is_not_run_again_and_a_poll_is():
    for kind, again in (("script", False), ("poll", True)):
        pilot = Pilot(one("a", kind, "done", on_failure="lost"), end(), end("lost"))
        pilot.begin()
        pilot.compute()
        pilot.crash()
        assert any(isinstance(effect, RunTool) for effect in pilot.owed()) == again
        if again:
            pilot.ran()
        assert pilot.way() == ["a", "done" if again else "lost"]
        pilot.sound()


# --- whatever happens ---

KINDS = ("agent", "script", "poll", "timer", "park")


def drawn(chance: random.Random) -> list[MachineState]:
    """A machine of some states, with ways between them and ends."""
    named = [f"s{n}" for n in range(chance.randint(1, 5))]
    ends = ["won", "lost"]
    found = []
    for name in named:
        count = chance.randint(0, 3)
        follow = chance.sample([*named, *ends], min(count, len(named) + 2))
        failure = chance.choice(["", *named, "lost"])
        kind = chance.choice(KINDS)
        if kind == "park" and "won" not in follow:
            follow.append("won")  # people may go round as long as they like, and must be able to stop
        found.append(one(name, kind, *follow, on_failure=failure))
    return [*found, end("won"), end("lost", outcome="failed")]


def tick(pilot: Pilot, chance: random.Random) -> None:
    """Something that may happen now."""
    doing = chance.random()
    state = pilot.state
    if doing < 0.06:
        pilot.crash()
    elif doing < 0.09:
        pilot.interrupt()
    elif doing < 0.10:
        pilot.cancel()
    elif doing < 0.14:
        pilot.prompt("and?", behavior=chance.choice(["steer", "follow_up", None]))
    elif doing < 0.17:
        pilot.begin(chance.choice([one.name for one in state.machine.given.states]))  # type: ignore[union-attr]
    elif doing < 0.20:
        pilot.wake()
    else:
        go_on(pilot, chance)


def go_on(pilot: Pilot, chance: random.Random, *, calm: bool = False) -> bool:
    """The world does one thing that it owes; whether there was one. People who are `calm` bring the machine to its
    end."""
    state = pilot.state
    effects = list(pilot.owed())
    chance.shuffle(effects)
    for effect in effects:
        match effect:
            case ComputeState():
                pilot.compute("none" if chance.random() < 0.05 else "")
            case RunTool():
                well = chance.random() < 0.6
                pilot.finish(effect.call_id, ok=well, error_code=None if well else "exit_code")
            case CallModel() if chance.random() < 0.6 and not state.turn.wrap_up:
                pilot.selects(chance.choice([one.name for one in state.machine.given.states]))  # type: ignore[union-attr]
            case CallModel():
                pilot.reply("so it is")
            case AskPerson() if chance.random() < 0.5:
                pilot.nobody()
            case AskPerson():
                answer(pilot, chance, calm)
            case _:
                continue
        return True
    if state.asks.open:
        answer(pilot, chance, calm)
    elif state.timers.open:
        pilot.fire()
    else:
        return False
    return True


def answer(pilot: Pilot, chance: random.Random, calm: bool) -> None:
    spec = pilot.machine.states[pilot.machine.current]
    pilot.picks("won" if calm else chance.choice([*spec.next, "neither"]))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**9))
def test_whatever_happens_each_state_is_entered_and_left_once(seed: int):
    chance = random.Random(seed)
    pilot = Pilot(*drawn(chance), visits_max=4)
    pilot.begin()
    for _ in range(40):
        pilot.at_ms += chance.choice([0, 0, 1_000, 100_000])
        tick(pilot, chance)
    pilot.sound()
    state = pilot.folded()
    assert state == pilot.state
    for _ in range(400):
        if not go_on(pilot, chance, calm=True):
            break
    assert not pilot.state.active
    assert isinstance(pilot.state.phase, Idle)
    at_limit = any(isinstance(event, RunCompleted) and event.stop == "max_turns" for event in pilot.events())
    assert pilot.machine.status in ("ended", "interrupted", *(["choosing"] if at_limit else []))
    pilot.sound()


def test_a_park_that_was_talked_over_asks_again_though_the_agent_says_that_its_task_is_complete():
    pilot = Pilot(one("review", "park", "done", "again"), one("again", "script", "review"), end())
    pilot.begin()
    pilot.compute()
    pilot.nobody()
    assert isinstance(pilot.state.phase, Asked)
    pilot.prompt("how far are you?", behavior="steer")
    pilot.reply("Here.", call("complete_task", {"summary": "all is said"}))
    pilot.compute()
    assert pilot.way() == ["review", "review"]
    pilot.picks("done")
    assert pilot.ended_as() == [("completed", "")]
    pilot.sound()
