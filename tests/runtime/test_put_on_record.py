"""What a run puts on record beside its main line: odd answers, loose schemas, where signals come from, how it ended."""

from __future__ import annotations

import msgspec

import windlass
from windlass.events.commands import QueueEdited
from windlass.events.live import HookStarted
from windlass.events.sessions import NoticeGiven, SessionShutDown, SessionStarted
from windlass.events.signals import SignalReceived
from windlass.events.turns import OutputExtracted
from windlass.events.values.items import ModelSettings, UserItem
from windlass.runtime.hooks.hook import Hook
from windlass.testing.model_server import fault
from windlass.testing.scripted import call, hang

from .serving import serving
from .support import QUICK, agent_of, events_of, only, sound


async def test_what_was_odd_about_an_answer_is_a_warning_in_the_log(tmp_path):
    async with serving(tmp_path, fault("usage_missing"), "fine") as case:
        async with case.session(case.agent()) as session:
            await session.prompt("go")
            assert (await session.result()).text == "fine"
            (notice,) = only(await events_of(session), NoticeGiven)
    assert (notice.level, notice.code) == ("warning", "model_reply")
    assert notice.message == "the provider reported no usage; the counts are estimates"
    assert notice.data["request_id"]


async def test_readers_learn_that_a_hook_begins_whatever_it_rules():
    @windlass.tool(contract="pure")
    def look() -> str:
        "Look."
        return "seen"

    hooks = [
        Hook(point="before_tool", kind="guard", run=lambda moment: None, name="guard"),
        Hook(point="run_start", run=lambda moment: None, name="watcher"),
    ]
    agent = agent_of(call("look"), "done", tools=[look], hooks=hooks)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        begun = [event async for event in session.prompt("go") if isinstance(event, HookStarted)]
    found = {(event.hook_id, event.point, event.kind, event.call_id is not None) for event in begun}
    assert found == {
        ("before_tool:guard", "before_tool", "guard", True),
        ("run_start:watcher", "run_start", "observe", False),
    }


class Loose(msgspec.Struct, forbid_unknown_fields=True):
    """A field with a default is not required, which strict modes do not take."""

    total: int
    note: str = ""


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    """Every field is required."""

    total: int


async def test_an_output_says_where_its_schema_is_too_loose_for_strict_modes():
    found = {}
    for kind, answer in ((Loose, '{"total": 3}'), (Strict, '{"total": 3}'), (Strict, '```json\n{"total": 3}\n```')):
        agent = agent_of(answer, output=kind)
        async with windlass.open(agents=[agent]) as rt:
            session = await rt.session(agent, "s")
            await session.prompt("sum")
            await session.result()
            (extracted,) = only(await events_of(session), OutputExtracted)
            found[kind, answer[0]] = extracted.warnings
    assert found[Strict, "{"] == ()
    assert found[Strict, "`"] == ("$: the answer stood in a fence, which was taken off",)
    assert found[Loose, "{"] == ("$: note may be absent, so no provider holds its model to the schema",)


async def test_a_signal_says_what_it_carries_and_where_it_comes_from():
    agent = agent_of("noted")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.signal("mail", "you have mail", payload={"from": "ada"}, source="imap", urgency="high")
        await session.wait_idle()
        (signal,) = only(await events_of(session), SignalReceived)
        assert (signal.source, signal.body.payload, signal.body.text) == ("imap", {"from": "ada"}, "you have mail")


async def test_a_waiting_prompt_gets_other_words_before_a_model_sees_it():
    agent = agent_of(["so far ", hang()], "done", settings=QUICK)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        async for event in session.prompt("first"):
            if isinstance(event, windlass.TextDelta):
                break
        await session.prompt("my card is 4111")
        (waiting,) = (await session.state()).queue.waiting
        await session.edit_queue(f"i{waiting}", texts={f"i{waiting}": "never mind"})
        await session.interrupt()
        await session.wake()
        await session.wait_idle()
        (edited,) = only(await events_of(session), QueueEdited)
        assert edited.body.edits[f"i{waiting}"].content[0].text == "never mind"
        await sound(session)
    said = str([item for item in agent.model.requests[-1].items if isinstance(item, UserItem)])  # type: ignore[union-attr]
    assert "never mind" in said
    assert "4111" not in said


async def test_a_session_that_is_closed_because_of_an_error_says_so():
    agent = agent_of("fine")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.close("the disk is gone", error=True)
        (ended,) = only(await events_of(session), SessionShutDown)
        assert (ended.kind, ended.reason) == ("error", "the disk is gone")


async def test_what_is_set_on_the_model_is_in_the_setup():
    agent = agent_of("fine", model_settings=ModelSettings(thinking="low", temperature=0.5))
    plain = agent_of("fine", name="plain")
    async with windlass.open(agents=[agent, plain]) as rt:
        begun = [only(await events_of(await rt.session(each, each.name)), SessionStarted)[0] for each in (agent, plain)]
    assert begun[0].setup.model.settings == ModelSettings(thinking="low", temperature=0.5)
    assert begun[1].setup.model.settings is None
