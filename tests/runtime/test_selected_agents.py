"""Specialists that are selected as a session's own agent: what they bring, what stays, and whoever resumes it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import windlass
from windlass.events.changes import AgentDeselected, AgentSelected, ChangeAgent, ChangeReceived
from windlass.events.commands import CommandRefused, PromptBody, PromptReceived
from windlass.events.sessions import AgentChanged, SessionResumed
from windlass.events.stored import codec
from windlass.events.tools.calls import ToolDenied, ToolFinished
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.values.blocks import Text
from windlass.events.values.setup import Chosen
from windlass.runtime.api.session import Session
from windlass.store.base import InboxCommand, Key
from windlass.store.memory import MemoryStore
from windlass.testing.scripted import SCRIPTED_INFO, ScriptedModel, call

from .support import agent_of, events_of, names_of, only, scripted, sound

PAY = windlass.Policy(rules=[windlass.ask("pay", reason="a person decides", missing_ok=True)], default="allow")


@windlass.tool(traits=("write",))
def pay(cents: int) -> str:
    "Pay somebody."
    return f"paid {cents}"


@windlass.tool(contract="pure", traits=("read",))
def look() -> str:
    "Look."
    return "seen"


@windlass.tool(name="look", contract="pure", traits=("read",))
def look_closely(twice: bool = False) -> str:
    "Look closely."
    return "seen closely"


@windlass.tool
def touch() -> str:
    "Nobody said what it does."
    return "touched"


def specialist(name: str, *turns: Any, **more: Any) -> windlass.Agent:
    return agent_of(*turns, name=name, **({"instructions": f"You are {name}.", "description": "helps"} | more))


def lead(*turns: Any, agents: list[windlass.Agent], **more: Any) -> windlass.Agent:
    return agent_of(*turns, name="lead", instructions="You lead.", agents=agents, **more)


def requests(agent: windlass.Agent) -> list[tuple[str, list[str]]]:
    """What the model of an agent was told first, and which tools it was told of, by request."""
    model = agent.model
    assert isinstance(model, ScriptedModel)
    return [(asked.instructions, [tool.name for tool in asked.tools]) for asked in model.requests]


async def say(session: Session, text: str = "go") -> str:
    await session.prompt(text)
    return (await session.result()).text


async def test_a_selected_specialist_runs_the_session_and_a_deselected_one_does_not():
    critic = specialist("critic", "it is bad", tools=[look], display_name="The critic")
    agent = lead("one", "three", agents=[critic], tools=[pay])
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        assert await say(session) == "one"
        await session.select("critic", actor="ada")
        assert await session.selected() == "critic"
        assert await say(session) == "it is bad"
        await session.select(None)
        assert await session.selected() is None
        assert await say(session) == "three"
        events = await events_of(session)
        assert only(events, AgentSelected) == [
            AgentSelected(agent="critic", display_name="The critic", tools=("look",)),
        ]
        assert only(events, AgentDeselected) == [AgentDeselected(agent="critic")]
        assert only(events, ChangeReceived)[0].actor == "ada"
        changed = [(event.missing, event.added) for event in only(events, AgentChanged)]
        assert changed == [(("pay", "spawn", "tell_child"), ("look",)), (("look",), ("pay", "spawn", "tell_child"))]
        assert requests(critic) == [("You are critic.", ["look"])]
        assert requests(agent) == [("You lead.", ["pay", "spawn", "tell_child"])] * 2
        state = await sound(session)
        assert (state.setup.agent.name, state.setup.model.name, len(state.history.items)) == ("lead", "scripted", 6)


async def test_its_history_budget_mode_and_labels_stay_the_sessions():
    critic = specialist("critic", "bad", budget=windlass.Budget(turns=1), settings=windlass.Settings(turns_max=3))
    agent = lead("one", agents=[critic], session_budget=windlass.Budget(turns=9), budget=windlass.Budget(turns=7))
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go", labels=["untrusted:mail"])
        await session.result()
        before = await session.state()
        await session.select(critic)
        after = await session.state()
        kept = [
            (state.budget.limits, state.budget.run_limits, state.budget.spent, state.setup.settings, state.setup.mode)
            for state in (before, after)
        ]
        assert kept[0] == kept[1]
        assert list(after.labels.held) == list(before.labels.held) == ["untrusted:mail"]
        assert after.history.items == before.history.items


async def test_what_the_agent_denies_or_asks_about_stays_so():
    careless = specialist("careless", call("pay", cents=5), tools=[pay], policy=windlass.Policy(default="allow"))
    agent = lead(agents=[careless], policy=PAY)
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.select("careless")
        await session.prompt("go")
        assert (await session.result()).status == "asked"


async def test_one_whose_role_is_to_read_reads_only_whatever_its_policy_says():
    everything = windlass.Policy(default="allow")
    calls = [call("pay", cents=5), call("touch"), call("look"), "done"]
    reader = specialist("reader", *calls, role="explore", tools=[pay, touch, look], policy=everything)
    agent = lead(agents=[reader], policy=everything)
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.select("reader")
        assert await say(session) == "done"
        events = await events_of(session)
        assert [denied.reason for denied in only(events, ToolDenied)] == ["isolation", "isolation"]
        assert [end.ok for end in only(events, ToolFinished)] == [True]


async def test_a_tool_of_both_is_the_specialists_while_it_is_selected():
    critic = specialist("critic", call("look", twice=True), "done", tools=[look_closely])
    agent = lead(call("look"), "one", call("look"), "two", agents=[critic], tools=[look])
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await say(session)
        await session.select("critic")
        await say(session)
        await session.select(None)
        await say(session)
        events = await events_of(session)
        said = [end.body.content[0].text for end in only(events, ToolFinished)]
        assert said == ["seen", "seen closely", "seen"]
        assert [event.changed for event in only(events, AgentChanged)] == [("look",), ("look",)]


async def test_tools_that_were_mounted_stay_and_those_that_were_taken_away_stay_away():
    critic = specialist("critic", "bad", tools=[])
    agent = lead("one", agents=[critic], tools=[pay, look])
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.mount(touch)
        await session.unmount("pay")
        await session.select("critic")
        assert list((await session.state()).toolset.tools) == ["touch"]
        await session.select(None)
        assert sorted((await session.state()).toolset.tools) == ["look", "spawn", "tell_child", "touch"]


async def test_an_approval_that_was_asked_for_is_judged_again_under_the_specialist():
    reader = specialist("reader", "done", role="explore", tools=[pay])
    agent = lead(call("pay", cents=5), agents=[reader], tools=[pay], policy=PAY)
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (request,) = await session.requests()
        await session.select("reader")
        assert (await session.result()).text == "done"
        with pytest.raises(windlass.Refused, match="withdrawn"):
            await session.approve(request)
        events = await events_of(session)
        assert [denied.reason for denied in only(events, ToolDenied)] == ["isolation"]
        await sound(session)


async def test_a_call_of_a_tool_that_the_specialist_lacks_is_denied_when_it_is_approved():
    critic = specialist("critic", "done", tools=[look])
    agent = lead(call("pay", cents=5), agents=[critic], tools=[pay], policy=PAY)
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (request,) = await session.requests()
        await session.select("critic")
        await session.approve(request)
        assert (await session.result()).text == "done"
        assert only(await events_of(session), ToolFinished) == []
        await sound(session)


async def test_a_standing_approval_rests_on_the_policy_it_was_given_under():
    strict = windlass.Policy(rules=[windlass.ask("pay", reason="twice a day")])
    payer = specialist("payer", call("pay", cents=5), "paid", tools=[pay], policy=strict)
    agent = lead(call("pay", cents=1), "one", call("pay", cents=2), "two", agents=[payer], tools=[pay], policy=PAY)
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (request,) = await session.requests()
        await session.approve(request, scope="session")
        await session.result()
        await session.select("payer")
        await session.prompt("again")
        assert (await session.result()).status == "asked"
        await session.deny((await session.requests())[0])
        await session.result()
        await session.select(None)
        assert await say(session) == "two"
        assert len(only(await events_of(session), PermissionRequested)) == 2


async def test_a_run_ends_under_its_agent_and_a_prompt_that_waits_is_read_by_the_specialist():
    critic = specialist("critic", "it is bad")

    @windlass.tool(contract="pure")
    async def choose() -> str:
        "Chooses."
        await session.select("critic")
        await session.prompt("next", behavior="follow_up", command_id="next")
        return "chosen"

    agent = lead(call("choose"), "one", agents=[critic], tools=[choose])
    async with windlass.open(MemoryStore(), agents=[agent], poll_ms=5) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go", command_id="go")
        assert (await session.result("go")).text == "one"
        assert (await session.result("next")).text == "it is bad"
        assert requests(critic) == [("You are critic.", [])]
        await sound(session)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"name": "nobody"}, "there are critic"),
        ({"quarantine": True}, "quarantined"),
        ({"machine": "auto"}, "machine"),
    ],
)
async def test_who_cannot_run_a_session_is_refused_with_the_reason(more, words):
    wanted = more.pop("name", "critic")
    agent = lead("one", agents=[specialist("critic", "bad", **more)])
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        with pytest.raises(windlass.Refused, match=words):
            await session.select(wanted)
        assert only(await events_of(session), AgentSelected) == []


async def test_a_quarantined_session_keeps_its_agent():
    agent = lead("one", agents=[specialist("critic", "bad")], quarantine=True)
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        with pytest.raises(windlass.Refused, match="quarantined, for good"):
            await session.select("critic")


async def test_selecting_the_same_one_again_records_nothing_more():
    agent = lead("one", agents=[specialist("critic", "bad")])
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        for _ in range(2):
            await session.select("critic")
        events = await events_of(session)
        assert (len(only(events, AgentSelected)), len(only(events, SessionResumed))) == (1, 1)


async def test_whoever_resumes_the_session_has_it_run_by_the_specialist(tmp_path):
    store = str(tmp_path / "work.db")
    for turn in ("first", "second"):
        critic = specialist("critic", turn, tools=[look])
        agent = lead("mine", agents=[critic])
        async with windlass.open(store, agents=[agent]) as rt:
            session = await rt.session(agent, "s")
            await session.select("critic")
            assert await say(session) == turn
            assert len(only(await events_of(session), AgentChanged)) == 1
            await sound(session)


async def test_a_process_whose_agent_lacks_the_specialist_does_not_run_the_session(tmp_path):
    store = str(tmp_path / "work.db")
    agent = lead("mine", agents=[specialist("critic", "bad")])
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.select("critic")
        length = (await session.state()).seq
    other = lead("mine", agents=[specialist("poet", "roses")])
    async with windlass.open(store, agents=[other]) as rt:
        session = await rt.get("s")
        with pytest.raises(windlass.UsageError, match="no specialist 'critic' to run this session: there are poet"):
            await session.prompt("go")
        assert (await session.state()).seq == length
    back = lead("mine", agents=[specialist("critic", "bad again")])
    async with windlass.open(store, agents=[back]) as rt:
        assert await say(await rt.get("s")) == "bad again"


async def test_the_code_of_the_specialist_says_whether_it_only_reads(tmp_path):
    store = str(tmp_path / "work.db")
    for role, reads in (("custom", False), ("explore", True), ("custom", False)):
        agent = lead(agents=[specialist("critic", role=role, tools=[look])])
        async with windlass.open(store, agents=[agent]) as rt:
            session = await rt.session(agent, "s")
            await session.select("critic")
            state = await session.state()
            assert state.setup.options.specialist == Chosen(name="critic", only_reads=reads)


async def test_a_fork_of_an_earlier_point_is_run_by_the_specialist_too():
    critic = specialist("critic", "bad", "bad too", tools=[look])
    agent = lead("one", agents=[critic], tools=[pay])
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await say(session)
        before = (await session.state()).seq
        await session.select("critic")
        branch = await session.fork("branch", at_seq=before)
        assert await branch.selected() == "critic"
        assert await say(branch) == "bad"
        assert list((await branch.state()).toolset.tools) == ["look"]
        await sound(branch)


async def test_a_prompt_that_waits_behind_the_selection_is_read_by_the_specialist():
    critic = specialist("critic", "bad", tools=[look])
    agent = lead("mine", agents=[critic])
    store = MemoryStore()
    async with windlass.open(store, agents=[agent]) as rt:
        await rt.session(agent, "s")
    key = Key("default", "s")
    selects = ChangeReceived(command_id="one", change=ChangeAgent(agent="critic"))
    prompt = PromptReceived(command_id="two", body=PromptBody(content=(Text(text="go"),)))
    for command in (selects, prompt):
        data = codec.encode_command(command)
        await store.inbox.send(key, InboxCommand(command_id=command.command_id, at_ms=1, data=data))
    async with windlass.open(store, agents=[agent], poll_ms=5) as rt:
        session = await rt.get("s")
        await rt.drive("s")
        assert (await session.result("two")).text == "bad"
        names = await names_of(session)
        assert names.index("agent.selected") < names.index("agent.changed") < names.index("run.started")
        assert only(await events_of(session), CommandRefused) == []


async def test_its_specialists_are_its_own_while_children_of_the_agent_go_on():
    helper = specialist("helper", "helped")
    critic = specialist("critic", call("spawn", agent="helper", task="help"), "bad", agents=[helper])
    worker = specialist("worker", "worked")
    agent = lead(call("spawn", agent="worker", task="work", mode="background"), "one", agents=[critic, worker])
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        assert await say(session) == "one"
        await session.select("critic")
        assert await say(session) == "bad"
        await sound(session)


async def test_hooks_of_both_hear_and_the_sessions_approver_answers():
    heard: list[str] = []

    def hook(name: str) -> Any:
        return windlass.Hook(point="before_tool", kind="guard", run=lambda moment: heard.append(name), name=name)

    async def yes(ask: Any) -> windlass.Approve:
        return windlass.Approve()

    payer = specialist("payer", call("pay", cents=5), "paid", tools=[pay], policy=PAY, hooks=[hook("specialist")])
    agent = lead(agents=[payer], policy=PAY, hooks=[hook("agent")], approver=yes)
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.select("payer")
        assert await say(session) == "paid"
        assert heard == ["agent", "specialist"]


async def test_its_model_is_its_own_if_it_names_one_and_else_the_sessions():
    named = scripted("by another model", info=msgspec.structs.replace(SCRIPTED_INFO, name="other"))
    modelled = windlass.Agent("modelled", model=named)
    agent = lead("mine", agents=[modelled])
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.select("modelled")
        assert (await session.state()).setup.model.name == "other"
        assert await say(session) == "by another model"
        await session.select(None)
        assert (await session.state()).setup.model.name == "scripted"


async def test_a_specialist_is_selected_by_a_command_and_not_by_options():
    agent = lead("one", agents=[specialist("critic", "bad")])
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        options = windlass.SessionOptions(specialist=Chosen(name="critic"))
        with pytest.raises(windlass.UsageError, match=r"session.select\(name\)"):
            await rt.session(agent, "s", options=options)


async def test_the_setup_and_explanations_are_those_of_the_specialist():
    critic = specialist("critic", "bad", tools=[look])
    agent = lead("one", agents=[critic], tools=[pay], policy=PAY)
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.select("critic")
        setup = await session.setup()
        assert (setup.specialist, setup.specialists) == ("critic", ("critic",))
        assert [tool.name for tool in setup.tools] == ["look"]
        assert "allow" in await session.explain("look")
