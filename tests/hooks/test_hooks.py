"""Hooks at their points: what they may do, what happens when they fail, and what the log says of it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from aiohttp import web

import windlass
from windlass.events.commands import CommandCompleted
from windlass.events.errors import UsageError
from windlass.events.hooks import HookPoint, HookRuled
from windlass.events.tools.calls import ToolDenied
from windlass.events.values.blocks import Data, Resource, ResourceLink, Terminal, Text, plain_text
from windlass.events.values.items import ResultItem
from windlass.models.base import Request
from windlass.runtime.api.session import Session
from windlass.runtime.hooks.external_hooks import CommandHook, HttpHook
from windlass.runtime.hooks.hook import Changed, Denied, Hook, Moment
from windlass.runtime.hooks.judge import judge_guard
from windlass.runtime.hooks.observers import Observers
from windlass.runtime.hooks.pattern_guard import pattern_guard
from windlass.runtime.host.ports import SystemPorts
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.planes.threads import Threads


@windlass.tool(contract="pure")
def add(x: int, y: int) -> int:
    "Add two numbers."
    return x + y


async def events_of(session: Session):
    return [record.event async for record in session.records()]


def rulings(events):
    return [(e.ruling.hook_id, e.ruling.outcome) for e in events if isinstance(e, HookRuled)]


def results(model):
    """What the model read as results in its last request."""
    blocks = [item.content[0] for item in model.requests[-1].items if isinstance(item, ResultItem)]
    return [str(block.value) if isinstance(block, Data) else plain_text((block,)) for block in blocks]


async def run_once(hooks, script=None, prompt="go"):
    model = ScriptedModel(script or [[call("add", x=1, y=2)], "done"])
    agent = windlass.Agent("hooked", model=model, tools=[add], hooks=hooks)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        async for _ in session.prompt(prompt):
            pass
        return model, await events_of(session)


async def test_a_guard_denies_a_call_and_the_model_reads_why():
    def no(moment: Moment):
        return Denied(message="not today", reason="safety")

    model, events = await run_once([Hook(point="before_tool", run=no, kind="guard")])
    denial = next(event for event in events if isinstance(event, ToolDenied))
    assert (denial.reason, denial.detail) == ("hook", "not today")
    assert rulings(events) == [("before_tool:no", "denied")]
    assert results(model) == ["not run (hook): not today"]


async def test_a_fatal_denial_ends_the_run():
    hook = Hook(point="before_tool", run=lambda moment: Denied(message="stop", fatal=True), kind="guard", name="g")
    _, events = await run_once([hook])
    assert type(events[-1]) is windlass.RunFailed
    assert events[-1].stop == "hook_denied"


@pytest.mark.parametrize("broken", [lambda moment: 1 / 0, lambda moment: __import__("asyncio").sleep(60)])
async def test_a_guard_that_fails_or_hangs_denies(broken):
    hook = Hook(point="before_tool", run=broken, kind="guard", name="g", timeout_ms=50)
    _, events = await run_once([hook])
    assert rulings(events)[0][1] in ("failed", "timed_out")
    assert any(isinstance(event, ToolDenied) and event.reason == "hook" for event in events)


async def test_a_transform_changes_arguments_and_they_are_validated_again():
    def bigger(moment: Moment):
        return Changed(value={**moment.value, "x": 40})

    model, events = await run_once([Hook(point="before_tool", run=bigger, kind="transform")])
    assert results(model) == ["42"]
    assert rulings(events) == [("before_tool:bigger", "changed")]

    def wrong(moment: Moment):
        return Changed(value={"x": "forty"})

    model, events = await run_once([Hook(point="before_tool", run=wrong, kind="transform")])
    assert next(e for e in events if isinstance(e, ToolDenied)).reason == "invalid_arguments"


async def test_a_result_can_be_changed_or_withheld():
    change = Hook(point="after_tool", run=lambda m: Changed(value={"text": "redacted"}), kind="transform", name="t")
    model, _ = await run_once([change])
    assert results(model) == ["redacted"]
    withhold = Hook(point="after_tool", run=lambda m: Denied(message="private"), kind="guard", name="w")
    model, _ = await run_once([withhold])
    assert results(model) == ["the result is withheld: private"]


async def test_a_prompt_can_be_changed_or_refused():
    change = Hook(point="prompt", run=lambda m: Changed(value=m.value.upper()), kind="transform", name="t")
    model, events = await run_once([change], ["ok"], "hello")
    assert model.requests[0].items[0].content[0].text == "HELLO"
    prompt = next(e for e in events if e.__class__.__name__ == "PromptReceived")
    assert prompt.body.displayed == "hello"
    refuse = Hook(point="prompt", run=lambda m: False, kind="guard", name="r")
    model, events = await run_once([refuse], ["never"], "hello")
    assert model.requests == []
    assert isinstance(events[-1], CommandCompleted)


async def test_hooks_run_by_priority_then_in_the_order_given():
    seen: list[str] = []

    def noting(name):
        def note(moment: Moment):
            seen.append(name)

        return note

    await run_once(
        [
            Hook(point="before_tool", run=noting("late"), kind="guard", name="late", priority=200),
            Hook(point="before_tool", run=noting("a"), kind="guard", name="a"),
            Hook(point="before_tool", run=noting("b"), kind="guard", name="b"),
        ]
    )
    assert seen == ["a", "b", "late"]


async def test_observers_hear_of_runs_and_never_hurt():
    seen: list[str] = []

    def hear(moment: Moment):
        seen.append(moment.point)
        raise RuntimeError("an observer's own trouble")

    points: tuple[HookPoint, ...] = ("run_start", "turn_start", "turn_end", "run_end", "session_save", "before_tool")
    _, events = await run_once([Hook(point=point, run=hear) for point in points])
    assert type(events[-1]) is windlass.RunCompleted
    assert {"run_start", "turn_start", "turn_end", "run_end", "session_save"} <= set(seen)
    assert rulings(events) == []


async def test_nobody_is_told_behind_the_end_of_a_runtime():
    """An append may be on its way to the store when the runtime is closed; what it says is not told behind that."""
    heard: list[str] = []

    async def listen(moment: Moment) -> None:
        heard.append(moment.point)

    hook = Hook(point="session_save", run=listen)
    observing = Observers(SystemPorts(), Threads(1, 1))
    observing.start(hook, lambda: listen(Moment(point="session_save", session="s", value=1)))
    await observing.quiet()
    assert heard == ["session_save"]
    before = asyncio.all_tasks()
    observing.start(hook, lambda: listen(Moment(point="session_save", session="s", value=2)))
    assert asyncio.all_tasks() == before
    assert observing.dropped == 1


async def test_observers_hear_that_a_session_begins_is_taken_up_and_is_forked(tmp_path):
    seen: list[str] = []

    def hear(moment: Moment):
        assert moment.session in ("s", "f")
        seen.append(moment.value["type"])

    def agent():
        hooks = [Hook(point="session_start", run=hear)]
        return windlass.Agent("a", model=ScriptedModel(["hi"]), instructions="long " * 50_000, hooks=hooks)

    for _ in range(2):
        bound = agent()
        async with windlass.open(tmp_path / "s.db", agents=[bound]) as runtime:
            session = await runtime.session(bound, "s")
            await session.set_title("t")
    async with windlass.open(tmp_path / "s.db", agents=[agent()]) as runtime:
        await (await runtime.get("s")).fork("f")
    assert seen == ["session.started", "session.resumed", "session.forked"]


async def test_settings_of_a_request_can_be_changed_but_not_past_the_reservation():
    hook = Hook(
        point="before_model",
        run=lambda m: Changed(value={**m.value, "settings": {"temperature": 0.5, "max_output_tokens": 10**9}}),
        kind="transform",
        name="t",
    )
    model, _ = await run_once([hook], ["ok"])
    assert model.requests[0].settings.temperature == 0.5
    assert model.requests[0].settings.max_output_tokens < 10**6


@pytest.mark.parametrize(("said", "sent"), [(7, 7), (None, None)])
async def test_a_hook_may_have_less_written_and_without_a_word_the_reservation_holds(said, sent):
    plain, _ = await run_once([], ["ok"])
    settings = {"temperature": 0.5, "max_output_tokens": said}
    hook = Hook(
        point="before_model", run=lambda m: Changed(value={**m.value, "settings": settings}), kind="transform", name="t"
    )
    model, _ = await run_once([hook], ["ok"])
    reserved = plain.requests[0].settings.max_output_tokens
    assert model.requests[0].settings.max_output_tokens == (sent or reserved)
    assert reserved > 7


async def test_an_external_command_rules_by_json():
    script = "import json,sys; m=json.load(sys.stdin); print(json.dumps({'decision':'deny','message':m['tool']}))"
    hook = Hook(point="before_tool", run=CommandHook(sys.executable, "-c", script), kind="guard", timeout_ms=20_000)
    _, events = await run_once([hook])
    assert next(e for e in events if isinstance(e, ToolDenied)).detail == "add"
    broken = Hook(
        point="before_tool", run=CommandHook(sys.executable, "-c", "exit(3)"), kind="guard", timeout_ms=20_000
    )
    _, events = await run_once([broken])
    assert rulings(events)[0][1] == "failed"
    vague = CommandHook(sys.executable, "-c", "print('{\"patches\": []}')")
    _, events = await run_once([Hook(point="before_tool", run=vague, kind="guard", timeout_ms=20_000)])
    assert rulings(events)[0][1] == "failed", "an answer with unknown fields must not pass"


async def test_an_external_command_sees_no_key_of_this_process(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-this-process")
    script = "import json,os; print(json.dumps({'decision':'deny','message':' '.join(sorted(os.environ))}))"
    run = CommandHook(sys.executable, "-c", script, env={"GIVEN": "1"})
    _, events = await run_once([Hook(point="before_tool", run=run, kind="guard", timeout_ms=20_000)])
    names = next(e for e in events if isinstance(e, ToolDenied)).detail.split()
    assert "OPENAI_API_KEY" not in names
    assert {"GIVEN", "PATH"} <= set(names)


async def test_a_guard_of_patterns_takes_none_that_could_run_long_and_denies_what_is_too_long_for_it():
    with pytest.raises(UsageError, match="cannot guard anything: look-around"):
        pattern_guard(["(?=a)"])
    guard: Any = pattern_guard(["[ab]{900}c"])
    denied = await guard.run(Moment(point="before_tool", session="s", value={"x": "d" * 200_000}))
    assert isinstance(denied, Denied)


async def test_an_address_rules_by_json():
    asked: list[dict[str, object]] = []

    async def rule(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return web.json_response({"decision": "deny", "message": "over http"})

    app = web.Application()
    app.router.add_post("/", rule)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        _, events = await run_once([Hook(point="before_tool", run=HttpHook(f"http://127.0.0.1:{port}/"), kind="guard")])
    finally:
        await runner.cleanup()
    assert next(e for e in events if isinstance(e, ToolDenied)).detail == "over http"
    assert asked[0]["tool"] == "add"


async def test_the_pattern_guard_tries_every_pattern():
    _, events = await run_once([pattern_guard(["nothing", r'"y":2'])])
    assert any(isinstance(event, ToolDenied) for event in events)
    _, events = await run_once([pattern_guard(["nothing"])])
    assert not any(isinstance(event, ToolDenied) for event in events)


@pytest.mark.parametrize(
    ("answer", "passes"), [("Allow. fine", True), ("deny: no", False), ("", False), ("maybe", False)]
)
async def test_the_judge_must_say_allow(answer, passes):
    def said(request: Request) -> Any:
        if request.lane == "judge":
            return answer
        return "done" if len(request.items) > 1 else [call("add", x=1, y=2)]

    _, events = await run_once([judge_guard("only small sums")], said)
    assert any(isinstance(event, ToolDenied) for event in events) is not passes


def test_a_hook_that_could_not_do_anything_is_refused():
    with pytest.raises(windlass.UsageError, match="a guard cannot stand at 'run_end'"):
        Hook(point="run_end", run=lambda m: None, kind="guard")
    with pytest.raises(windlass.UsageError, match="nothing can be changed at 'after_model'"):
        Hook(point="after_model", run=lambda m: None, kind="transform")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"kind": "gard"}, "hook: kind 'gard' is none of observe, guard, transform"),
        ({"point": "before_tol"}, "hook: point 'before_tol' is none of "),
        ({"run": "no"}, "hook at 'before_tool': run is a function, not 'no'"),
    ],
)
def test_a_hook_with_a_wrong_letter_is_refused(wrong, told):
    """A guard that is none would let everything pass."""
    with pytest.raises(windlass.UsageError, match=told):
        Hook(**{"point": "before_tool", "kind": "observe", "run": lambda m: None, **wrong})


async def test_a_payload_that_is_too_large_is_denied_not_cut():
    script = [[call("add", x=1, y=2)], "done"]
    hook = Hook(point="prompt", run=lambda m: None, kind="guard", name="g")
    model, events = await run_once([hook], script, "x" * 200_000)
    assert model.requests == []
    assert rulings(events)[0][1] == "failed"


async def test_what_hooks_ruled_before_a_request_is_on_record_whatever_becomes_of_it():
    seen: list[Any] = []

    def guard(moment: Moment) -> Any:
        seen.append(moment.value["messages"])
        return Denied(message="not with these words") if len(seen) == 2 else None

    hook = Hook(point="before_model", run=guard, kind="guard")
    _, events = await run_once([hook])
    assert rulings(events) == [("before_model:guard", "allowed"), ("before_model:guard", "denied")]
    assert [[message["type"] for message in messages] for messages in seen] == [
        ["user"],
        ["user", "assistant", "result"],
    ]
    assert (type(events[-1]), events[-1].stop) == (windlass.RunFailed, "hook_denied")


async def test_settings_that_no_request_can_be_sent_with_stop_it_and_not_the_session():
    hook = Hook(point="before_model", run=lambda m: Changed(value={"settings": 7}), kind="transform", name="t")
    model, events = await run_once([hook], ["ok"])
    assert model.requests == []
    assert (type(events[-1]), events[-1].stop) == (windlass.RunFailed, "hook_denied")
    assert "a hook gave settings that no request can be sent with" in events[-1].failure.message


async def test_a_hook_after_a_tool_sees_all_that_the_model_reads():
    seen: list[Any] = []

    def sees(moment: Moment):
        seen.append(moment.value["text"])
        return Denied(message="private") if "TOPSECRET" in moment.value["text"] else None

    @windlass.tool
    def many() -> list[Any]:
        "Blocks of each kind."
        return [
            Text(text="a text"),
            Terminal(text="printed"),
            Data(value={"data": ["x"]}),
            Resource(uri="file:///a", text="embedded"),
            ResourceLink(uri="file:///b", name="link"),
        ]

    @windlass.tool
    def printed() -> Any:
        "What a command says."
        return [Terminal(text="TOPSECRET\n", exit_code=0)]

    model = ScriptedModel([call("many"), call("printed"), "done"])
    hook = Hook(point="after_tool", run=sees, kind="guard")
    agent = windlass.Agent("a", model=model, tools=[many, printed], hooks=[hook])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
    assert all(part in seen[0] for part in ("a text", "printed", '{"data":["x"]}', "embedded", "file:///b"))
    assert "TOPSECRET" in seen[1]
    assert "TOPSECRET" not in str(model.requests[-1].items)
