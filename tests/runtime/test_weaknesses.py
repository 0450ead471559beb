"""Weaknesses observed in DeepStrike (W), Duet (D) and Zidane (Z), each by its name, shown not to be here.

Those that cannot apply yet are listed in WEAKNESSES.md with the reason.
"""

from __future__ import annotations

import asyncio
import itertools
import pathlib
import re
import subprocess
import sys
import threading
from typing import Any, Literal

import pytest

import windlass
from windlass.events.commands import CommandCompleted, PromptReceived
from windlass.events.context import CompactionFinished, ContextTruncated
from windlass.events.questions import AnswerBody, QuestionRequested
from windlass.events.runs import RunCancelled, RunCompleted, RunStarted, Terminal
from windlass.events.stored import codec
from windlass.events.timers import TimerCancelled
from windlass.events.tools.calls import ToolDenied, ToolFinished, ToolStarted
from windlass.events.turns import ModelFailed, ModelReplied
from windlass.events.values.blocks import plain_text
from windlass.events.values.items import AssistantItem, ResultItem, UserItem
from windlass.events.values.settings import Settings
from windlass.events.values.setup import RunOptions
from windlass.events.values.usage import Price, Usage
from windlass.models.base import ModelInfo
from windlass.store import open_store
from windlass.store.chain import history
from windlass.testing.model_server import call as http_call
from windlass.testing.model_server import calls as http_calls
from windlass.testing.model_server import fault, say
from windlass.testing.scripted import ScriptedModel, by_history, call, call_malformed, fail, hang, turn

from .serving import serving
from .support import QUICK, agent_of, events_of, only, scripted, sound, started, until

HERE = pathlib.Path(__file__).parent


@windlass.tool(contract="pure")
def note(text: str) -> str:
    "Note something."
    return f"noted {text} " + "x" * 400


@windlass.tool
def wipe() -> str:
    "Delete everything."
    WIPED.append(1)
    return "deleted everything"


WIPED: list[int] = []


@pytest.fixture(autouse=True)
def nothing_wiped():
    WIPED.clear()


def asked_of(agent: windlass.Agent) -> list[Any]:
    model = agent.model
    assert isinstance(model, ScriptedModel)
    return model.requests


# --- DeepStrike ---


async def test_W1_default_settings_carry_long_runs_and_never_break_pairs(tmp_path):
    def answer(request):
        return http_call("note", {"text": f"turn {request.number}"}) if request.number < 70 else say("done")

    async with serving(tmp_path, answer) as case:
        info = {"window_tokens": 4_000, "max_output_tokens": 500}
        agent = case.agent(info=info, tools=[note], settings=Settings(turns_max=100, retry_base_ms=5))
        async with case.session(agent) as session:
            await session.prompt("remember the goal: count to seventy")
            result = await session.result()
            assert result.status == "completed"
            events = await events_of(session)
            assert len(only(events, ToolFinished)) >= 60
            assert only(events, CompactionFinished) or only(events, ContextTruncated)
            assert any("count to seventy" in message.text for message in case.server.last.messages)


async def test_W2_allow_all_means_all():
    batches = [[call("note", text=f"{n}-{m}") for m in range(60)] for n in range(3)]
    agent = agent_of(*batches, "done", tools=[note], policy=windlass.ALLOW_ALL)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        events = await events_of(session)
        assert (len(only(events, ToolFinished)), only(events, ToolDenied)) == (180, [])


async def test_W3_the_plain_form_offers_its_tools():
    agent = agent_of("x", tools=[note])
    await agent.run("go")
    assert [tool.name for tool in asked_of(agent)[0].tools] == ["note"]


async def test_W4_a_finished_sibling_of_a_batch_is_not_run_again(tmp_path):
    store = str(tmp_path / "work.db")
    ran: list[str] = []

    @windlass.tool(contract="idempotent")
    async def first() -> str:
        ran.append("first")
        if ran.count("first") == 1:
            await asyncio.get_running_loop().create_future()
        return "first done"

    @windlass.tool(contract="idempotent")
    async def second() -> str:
        ran.append("second")
        return "second done"

    one = agent_of([call("first"), call("second")], tools=[first, second])
    async with windlass.open(store, agents=[one]) as rt:
        session = await rt.session(one, "s")
        await session.prompt("the goal")
        await started(session, ToolFinished)
    two = agent_of("done", tools=[first, second])
    async with windlass.open(store, agents=[two]) as rt:
        session = await rt.get("s")
        result = await session.result()
        assert (result.text, sorted(ran)) == ("done", ["first", "first", "second"])
        assert result.usage.total_tokens > 0
        items = asked_of(two)[0].items
        assert [type(item) for item in items] == [UserItem, AssistantItem, ResultItem, ResultItem]
        assert "the goal" in str(items[0])
        await sound(session)


async def test_W5_work_survives_an_outage_of_the_provider():
    agent = agent_of(call("note", text="a"), *[fail("server_error")] * 6, "done", tools=[note])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "failed"
        await session.wake()
        assert (await session.result()).text == "done"
        assert len(only(await events_of(session), ToolStarted)) == 1


async def test_W6_a_new_goal_on_an_interrupted_session_is_never_discarded():
    agent = agent_of([hang()], "both known")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("FIRST")
        await until(lambda: len(asked_of(agent)) == 1)
        await session.interrupt()
        await session.prompt("SECOND")
        assert (await session.result()).text == "both known"
        assert "SECOND" in str(asked_of(agent)[1].items)
        assert "FIRST" in str(asked_of(agent)[1].items)


async def test_W7_a_later_crash_in_a_session_of_many_runs_goes_on(tmp_path):
    store = str(tmp_path / "work.db")
    one = agent_of("one", "two", [hang()])
    async with windlass.open(store, agents=[one]) as rt:
        session = await rt.session(one, "s")
        for prompt in ("a", "b"):
            await session.prompt(prompt)
            await session.result()
        await session.prompt("c")
        await until(lambda: len(asked_of(one)) == 3)
    two = agent_of("three")
    async with windlass.open(store, agents=[two]) as rt:
        assert (await (await rt.get("s")).result()).text == "three"


@pytest.mark.parametrize("name", ["truncated", "no_end_marker", "reset", "partial_call_as_tool_calls"])
async def test_W8_a_cut_stream_is_no_answer_and_runs_no_tool(tmp_path, name):
    async with serving(tmp_path, http_call("wipe", {}), say("done")) as case:
        async with case.session(case.agent(tools=[wipe])) as session:
            case.server.inject(name)
            case.server.script._entries.pop(0)  # type: ignore[union-attr]
            await session.prompt("go")
            assert (await session.result()).text == "done"
            assert WIPED == []


async def test_W9_malformed_arguments_are_shown_to_the_model_and_never_replaced():
    agent = agent_of(call_malformed("wipe", '{"all": tru'), "sorry", tools=[wipe])
    assert (await agent.run("go")).text == "sorry"
    assert WIPED == []
    told = str(asked_of(agent)[1].items[-1])
    assert "JSON" in told or "read" in told


async def test_W10_retries_are_on_the_path_of_the_run(tmp_path):
    async with serving(tmp_path, fault("503"), fault("reset"), say("x")) as case:
        async with case.session(case.agent()) as session:
            await session.prompt("go")
            assert (await session.result()).text == "x"
            assert len(only(await events_of(session), ModelFailed)) == 2


@pytest.mark.parametrize("name", ["duplicate_ids", "empty_ids"])
async def test_W11_bad_call_ids_neither_kill_the_run_nor_the_session(tmp_path, name):
    two = http_calls(("note", {"text": "a"}), ("note", {"text": "b"}))
    async with serving(tmp_path, two, say("done"), say("more")) as case:
        async with case.session(case.agent(tools=[note])) as session:
            case.server.inject(name)
            await session.prompt("go")
            await session.wait_idle()
            await session.prompt("more")
            assert (await session.result()).status == "completed"


async def test_W12_a_torn_last_line_is_cut_and_an_evil_id_stays_inside(tmp_path):
    place = tmp_path / "work.jsonl.d"
    agent = agent_of("one", "two")
    async with windlass.open(str(place), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await session.result()
        with pytest.raises(windlass.UsageError):
            await rt.session(agent, "../evil")
    (log,) = [path for path in place.rglob("*") if path.is_file() and b"prompt.received" in path.read_bytes()]
    log.write_bytes(log.read_bytes() + b'{"v":1,"seq":99,"ev')
    again = agent_of("two")
    async with windlass.open(str(place), agents=[again]) as rt:
        session = await rt.get("s")
        await session.prompt("b")
        assert (await session.result()).text == "two"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work.jsonl.d"]


async def test_W13_two_appends_a_turn_and_one_commit_each(tmp_path):
    store = await open_store(str(tmp_path / "work.db"))
    agent = agent_of(*[call("note", text=str(n)) for n in range(20)], "done", tools=[note])
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        appends = [sealed async for sealed in history(store, session.key)]
        assert len(appends) <= 2 * 21 + 3
    await store.close()


async def test_W14_a_turn_that_does_nothing_writes_little_at_any_length(tmp_path):
    @windlass.tool(contract="pure")
    async def nothing(n: int) -> str:
        "Nothing."
        return "ok"

    agent = agent_of(
        *[call("nothing", n=n) for n in range(200)], "done", tools=[nothing], settings=Settings(turns_max=300)
    )
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        sizes = [len(sealed.data) async for sealed in history(rt.store, session.key)]
        early, late = sum(sizes[20:60]) / 20, sum(sizes[-60:-20]) / 20
        assert early < 1_500
        assert late < early * 1.1


async def test_W15_an_item_is_rendered_once():
    agent = agent_of(*[call("note", text=str(n)) for n in range(10)], "done", tools=[note])
    await agent.run("go")
    requests = asked_of(agent)
    for before, after in itertools.pairwise(requests):
        assert all(mine is theirs for mine, theirs in zip(before.items, after.items, strict=False))


async def test_W16_a_large_result_shows_its_ends_its_size_and_how_to_read_it():
    @windlass.tool(contract="pure")
    def big() -> str:
        "A big result."
        return "THE BEGINNING " + "middle " * 20_000 + "THE END"

    agent = agent_of(call("big"), "done", tools=[big])
    await agent.run("go")
    (shown,) = [str(item) for item in asked_of(agent)[1].items if isinstance(item, ResultItem)]
    assert "THE BEGINNING" in shown
    assert "THE END" in shown
    assert len(shown) < 20_000
    assert re.search(r"1[34]\d[,_ ]?\d{3}", shown), "the size is not shown"


async def test_W17_schemas_follow_signatures_with_future_annotations():
    @windlass.tool
    def find(kind: Literal["a", "b"], names: list[str], limit: int = 5, note: str | None = None) -> str:
        "Find."
        return kind

    schema = find.parameters.schema
    assert schema["properties"]["kind"]["enum"] == ["a", "b"]
    assert schema["properties"]["names"]["items"] == {"type": "string"}
    assert schema["properties"]["limit"]["type"] == "integer"
    assert schema["required"] == ["kind", "names"]


async def test_W18_sync_tools_run_beside_each_other_and_never_block_the_loop():
    loop = asyncio.get_running_loop()
    both = threading.Barrier(2, timeout=60)
    answered: list[bool] = []

    @windlass.tool(contract="pure", timeout_ms=120_000)
    def meet(n: int) -> str:
        "Waits for the other call, and for an answer of the loop."
        both.wait()
        answer = threading.Event()
        loop.call_soon_threadsafe(answer.set)
        answered.append(answer.wait(60))
        return "ok"

    agent = agent_of([call("meet", n=1), call("meet", n=2)], "done", tools=[meet])
    assert (await agent.run("go")).text == "done"
    assert answered == [True, True]


async def test_W18_a_tool_that_never_ends_is_timed_out():
    @windlass.tool(timeout_ms=50)
    async def endless() -> str:
        "Never ends."
        await asyncio.get_running_loop().create_future()
        return ""

    agent = agent_of(call("endless"), "gave up on it", tools=[endless])
    assert (await agent.run("go")).text == "gave up on it"


async def test_W19_an_approver_sees_the_arguments_and_the_request_outlives_the_process(tmp_path):
    store = str(tmp_path / "work.db")
    policy = windlass.Policy(rules=(windlass.ask("note"),))
    one = agent_of(call("note", text="secret plan"), tools=[note], policy=policy)
    async with windlass.open(store, agents=[one]) as rt:
        session = await rt.session(one, "s")
        await session.prompt("go")
        await session.result()
    two = agent_of("done", tools=[note], policy=policy)
    async with windlass.open(store, agents=[two]) as rt:
        session = await rt.get("s")
        (asked,) = [e for e in await events_of(session) if isinstance(e, windlass.PermissionRequested)]
        assert asked.body is not None
        assert "secret plan" in str(asked.body.detail)
        await session.approve(asked)
        assert (await session.result()).text == "done"


async def test_W21_events_say_when_how_long_and_how_much():
    info = ModelInfo(name="m", provider="p", model="m", price=Price(input=1_000_000, output=2_000_000))
    agent = windlass.Agent("w", model=scripted(call("note", text="a"), "done", info=info), tools=[note])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        result = await session.result()
        records = [record async for record in session.records()]
        assert all(record.at_ms > 1_600_000_000_000 for record in records)
        assert all(hasattr(r.event, "duration_ms") for r in records if isinstance(r.event, ModelReplied | ToolFinished))
        assert result.cost_usd > 0


async def test_W22_a_failure_is_never_an_empty_string_and_an_exception_stays_private():
    with pytest.raises(windlass.ProviderError):
        await agent_of(fail("quota_exhausted")).run("go")

    @windlass.tool
    def leaky() -> str:
        "Leaks."
        raise RuntimeError("password hunter2 in /home/me/secret")

    agent = agent_of(call("leaky"), "done", tools=[leaky])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        assert "hunter2" not in str(asked_of(agent)[1].items)
        assert "hunter2" in str(await events_of(session))


def test_W23_every_public_name_is_there():
    for name in windlass.__all__:
        assert getattr(windlass, name) is not None


async def test_W24_text_in_any_script_is_summarised_and_cut_safely(tmp_path):
    def answer(request):
        return (
            say("Zusammenfassung: 要約 🎈") if "Write the summary now" in request.prompt else say("日本語 🎈 äöü " * 40)
        )

    async with serving(tmp_path, answer) as case:
        agent = case.agent(info={"window_tokens": 2_500, "max_output_tokens": 300})
        async with case.session(agent) as session:
            for number in range(12):
                await session.prompt(f"質問 {number} 🎈 " + "ありがとう " * 30)
                assert (await session.result()).status == "completed"


async def test_W25_what_a_person_says_reaches_the_model_as_it_was_said():
    agent = agent_of("x")
    await agent.run("Just this.")
    (item,) = asked_of(agent)[0].items
    assert [block.text for block in item.content] == ["Just this."]
    assert asked_of(agent)[0].task_state == ""


def test_W27_importing_it_loads_no_vendor_and_little_else():
    code = (
        "import sys; before = set(sys.modules); import windlass; windlass.Agent; windlass.tool; windlass.open;"
        "new = set(sys.modules) - before;"
        "heavy = {'openai', 'anthropic', 'google', 'aiohttp', 'apsw', 'pydantic', 'jsonschema_rs'} & new;"
        "assert not heavy, heavy;"
        "heavy = [name for name in new if name.startswith(('windlass.kernel', 'windlass.store', 'windlass.models'))];"
        "assert not heavy, heavy; print(len(new))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 300


async def test_W28_a_log_written_today_is_read_back_whole():
    agent = agent_of(call("note", text="a"), "done", tools=[note])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        lines = [sealed.data async for sealed in history(rt.store, session.key)]
        again = [event for line in lines for event in codec.decode(line).events]
        assert again == await events_of(session)
    [prompted] = [event for event in again if isinstance(event, PromptReceived)]
    replies = [event for event in again if isinstance(event, ModelReplied)]
    [result] = [event for event in again if isinstance(event, ToolFinished)]
    assert prompted.body is not None
    assert plain_text(prompted.body.content) == "go"
    assert replies[0].body is not None
    assert [reply.call.args for reply in replies[0].body.calls] == [{"text": "a"}]
    assert result.body is not None
    assert plain_text(result.body.content) == note("a")
    assert replies[1].body is not None
    assert plain_text(replies[1].body.blocks) == "done"


def test_W29_the_surface_is_small():
    assert len(windlass.__all__) <= 45


# --- Duet, A1.7 and A12 ---


async def test_D_every_prompt_has_a_terminal_of_its_own():
    agent = agent_of("one", "two", "three")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        ids = [await session.prompt(text) for text in ("a", "b", "c")]
        await started(session, Terminal, count=3)
        ended = [name for event in only(await events_of(session), Terminal) for name in event.commands]
        assert ended == ids


@pytest.mark.parametrize("end", ["interrupted", "failed"])
async def test_D_accepted_input_is_kept_when_a_run_ends_badly(end):
    agent = agent_of([hang()] if end == "interrupted" else fail("quota_exhausted"), "a goes on", "b", "c")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        if end == "interrupted":
            await until(lambda: len(asked_of(agent)) == 1)
            await session.prompt("b")
            await session.interrupt()
            await session.wait_idle()
            assert len((await session.state()).queue.waiting) == 1
        else:
            await session.wait_idle()
            await session.prompt("b")
        await session.wake()
        await until(lambda: "'b'" in str(asked_of(agent)[-1].items))
        await session.wait_idle()
        await sound(session)


async def test_D_a_wake_and_an_interrupt_with_nothing_to_do_have_their_one_end():
    agent = agent_of("x")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        ids = [await session.wake(), await session.interrupt()]
        assert [event.command_id for event in only(await events_of(session), CommandCompleted)] == ids


async def test_D_a_sleeping_session_that_is_interrupted_does_not_wake():
    agent = agent_of(call("wait", for_ms=3_600_000), "sleeping", tools=["wait"])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        await session.interrupt()
        events = await events_of(session)
        assert len(only(events, TimerCancelled)) == 1
        assert (await session.state()).timers.open == {}


async def test_D_a_thrown_error_still_gives_a_terminal():
    def broken(request):
        raise KeyError("a bug")

    agent = windlass.Agent("w", model=ScriptedModel(broken), settings=QUICK)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        events = [event async for event in session.prompt("go")]
        assert isinstance(events[-1], Terminal)


async def test_D_what_is_done_is_kept_at_every_step_and_not_only_at_the_end(tmp_path):
    store = str(tmp_path / "work.db")
    agent = agent_of(call("note", text="a"), [hang()], tools=[note])
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await until(lambda: len(asked_of(agent)) == 2)
        async with windlass.open(store) as other:
            assert len(only(await events_of(await other.get("s")), ToolFinished)) == 1


async def test_D_a_prompts_own_limits_hold_when_its_run_goes_on(tmp_path):
    store = str(tmp_path / "work.db")
    one = agent_of([hang()], tools=[note])
    async with windlass.open(store, agents=[one]) as rt:
        session = await rt.session(one, "s")
        await session.prompt("go", options=RunOptions(tools=()))
        await until(lambda: len(asked_of(one)) == 1)
    two = agent_of(call("note", text="a"), "no tools", tools=[note])
    async with windlass.open(store, agents=[two]) as rt:
        session = await rt.get("s")
        assert (await session.result()).text == "no tools"
        assert asked_of(two)[0].tools == ()


@pytest.mark.parametrize(
    ("name", "message", "retried"),
    [
        ("503", "503 after 408 ms", True),
        ("429_none", "429: retry in 400 ms", True),
        ("400", "50000 tokens exceeds the 503 limit", False),
    ],
)
async def test_D_failures_are_classified_by_what_they_are_and_not_by_digits_in_their_text(
    tmp_path, name, message, retried
):
    async with serving(tmp_path, say("x")) as case, case.session(case.agent()) as session:
        case.server.inject(name, message=message)
        await session.prompt("go")
        assert ((await session.result()).status == "completed") is retried


async def test_D_events_carry_seq_time_and_place():
    agent = agent_of("x")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        records = [record async for record in session.records()]
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        assert all(record.first <= record.seq for record in records)


async def test_D_answers_are_matched_by_place_and_not_by_the_questions_text():
    twice = [{"question": "Which?"}, {"question": "Which?"}]
    agent = agent_of(call("ask_user", questions=twice), "ok", tools=["ask_user"])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (asked,) = only(await events_of(session), QuestionRequested)
        from windlass.events.questions import Answer

        body = AnswerBody(answers=(Answer(index=0, text="red"), Answer(index=1, text="blue")))
        await session.answer(asked.question_id, body)
        assert (await session.result()).text == "ok"
        told = str(asked_of(agent)[1].items[-1])
        assert told.index("red") < told.index("blue")


# --- Zidane, B2 ---


async def test_Z1_a_tool_is_found_by_the_name_that_the_model_was_told():
    @windlass.tool(name="readFile", alias="read_file", contract="pure")
    def read_it(path: str) -> str:
        "Read."
        return f"content of {path}"

    agent = agent_of(call("read_file", path="a"), "done", tools=[read_it])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        assert [tool.name for tool in asked_of(agent)[0].tools] == ["read_file"]
        assert "content of a" in str(asked_of(agent)[1].items[-1])
        assert "readFile" in str(only(await events_of(session), windlass.ToolRequested))


async def test_Z2_the_model_sees_its_own_answer_when_more_is_said():
    agent = agent_of("my answer", "again")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        for prompt in ("a", "b"):
            await session.prompt(prompt)
            await session.result()
        assert "my answer" in str(asked_of(agent)[1].items[1])


async def test_Z3_steering_between_tools_leaves_no_empty_message(tmp_path):
    entered, release = asyncio.Event(), asyncio.Event()

    @windlass.tool
    async def slow() -> str:
        "Slow."
        entered.set()
        await release.wait()
        return "ok"

    async with serving(tmp_path, http_call("slow", {}), say("both")) as case:
        async with case.session(case.agent(tools=[slow])) as session:
            await session.prompt("go")
            await entered.wait()
            await session.prompt("faster", behavior="steer")
            release.set()
            assert (await session.result()).text == "both"
            roles = [message.role for message in case.server.last.messages]
            assert roles == ["user", "assistant", "tool", "user"]


async def test_Z4_a_stop_in_the_middle_of_a_batch_leaves_a_result_for_every_call(tmp_path):
    entered = asyncio.Event()

    @windlass.tool
    async def slow() -> str:
        "Slow."
        entered.set()
        await asyncio.get_running_loop().create_future()
        return ""

    batch = http_calls(("note", {"text": "a"}), ("slow", {}), ("note", {"text": "b"}))
    async with serving(tmp_path, batch, say("fine")) as case, case.session(case.agent(tools=[note, slow])) as session:
        await session.prompt("go")
        await entered.wait()
        await session.cancel()
        await session.prompt("next")
        assert (await session.result()).text == "fine"
        assert len([m for m in case.server.last.messages if m.role == "tool"]) == 3


async def test_Z5_the_turn_cap_ends_a_run_once_tellably_and_a_stopped_run_keeps_its_count():
    agent = agent_of(
        *[call("note", text=str(n)) for n in range(3)], "wrapped up", tools=[note], budget=windlass.Budget(turns=3)
    )
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        result = await session.result()
        assert (result.stop, result.text) == ("max_turns", "wrapped up")
        assert len(only(await events_of(session), Terminal)) == 1
    stopped = agent_of(call("note", text="a"), [hang()], tools=[note])
    async with windlass.open(agents=[stopped]) as rt:
        session = await rt.session(stopped, "s")
        await session.prompt("go")
        await until(lambda: len(asked_of(stopped)) == 2)
        await session.cancel()
        result = await session.result()
        assert (result.turns, result.usage.output_tokens >= 10) == (2, True)
        assert len(only(await events_of(session), RunCancelled)) == 1


async def test_Z6_an_error_reaches_the_provider_as_one_and_a_denial_is_on_record(tmp_path):
    @windlass.tool
    def broken() -> str:
        "Breaks."
        raise windlass.ToolError("no such file")

    script = (http_call("broken", {}), http_call("wipe", {}), say("ok"))
    async with serving(tmp_path, *script) as case:
        policy = windlass.Policy(rules=(windlass.deny("wipe"),))
        async with case.session(case.agent("anthropic", tools=[broken, wipe], policy=policy)) as session:
            await session.prompt("go")
            assert (await session.result()).text == "ok"
            results = [result for message in case.server.last.messages for result in message.results]
            assert [result.is_error for result in results] == [True, True]
            assert len(only(await events_of(session), ToolDenied)) == 1


async def test_Z7_broken_tool_json_is_a_result_and_usage_is_asked_for(tmp_path):
    async with serving(tmp_path, http_call("note", {"text": "a"}), say("ok")) as case:
        async with case.session(case.agent(tools=[note])) as session:
            case.server.inject("malformed_args")
            await session.prompt("go")
            result = await session.result()
            assert result.status == "completed"
            assert result.usage.input_tokens > 0
            assert b"include_usage" in case.server.requests[0].raw


async def test_Z11_arguments_are_checked_by_type_before_anything_runs():
    ran = []

    @windlass.tool
    def pay(cents: int) -> str:
        "Pay."
        ran.append(cents)
        return "paid"

    agent = agent_of(call("pay", cents="many"), call("pay", cents=5), "ok", tools=[pay])
    await agent.run("go")
    assert ran == [5]
    assert "cents" in str(asked_of(agent)[1].items[-1])


async def test_Z12_a_session_keeps_its_history_and_what_was_queued_is_read():
    agent = agent_of("one", "two", "three")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await session.prompt("b")
        await started(session, RunCompleted, count=2)
        await session.wait_idle()
        await session.prompt("c")
        await session.result()
        assert len(asked_of(agent)[2].items) == 5


async def test_Z13_requests_speak_in_our_own_name(tmp_path):
    async with serving(tmp_path, say("x")) as case, case.session(case.agent("anthropic")) as session:
        await session.prompt("go")
        await session.result()
        headers = str(case.server.requests[0].headers).lower()
        for other in ("claude-cli", "claude-code", "codex", "openai-python", "anthropic-python"):
            assert other not in headers
        assert "Claude Code" not in case.server.requests[0].raw.decode()


async def test_Z14_cost_is_counted():
    info = ModelInfo(name="m", provider="p", model="m", price=Price(input=2_000_000, output=4_000_000))
    usage = Usage(input_tokens=1_000, output_tokens=500)
    agent = windlass.Agent("w", model=scripted(turn("x", usage=usage), info=info))
    assert (await agent.run("go")).cost_usd == pytest.approx(1_000 * 2 / 1e6 + 500 * 4 / 1e6)


async def test_Z15_a_stop_does_not_wait_for_the_turn_to_end():
    agent = agent_of(["begin", hang()], "next")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await until(lambda: len(asked_of(agent)) == 1)
        async with asyncio.timeout(60):  # the turn itself never ends
            await session.cancel()
            await session.wait_idle()


async def test_Z15_a_request_that_is_seen_cannot_be_changed_from_outside():
    agent = windlass.Agent("w", model=ScriptedModel(by_history(["one", "two"])))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await session.result()
        state = await session.state()
        state.history.items.clear()
        state.budget.spent.turns = 99
        assert len((await session.state()).history.items) == 2
        await session.prompt("b")
        assert (await session.result()).text == "two"
        assert len(only(await events_of(session), RunStarted)) == 2


def test_each_weakness_has_a_test_or_a_reason():
    tests = (HERE / "test_weaknesses.py").read_text()
    reasons = (HERE / "WEAKNESSES.md").read_text()
    for number in range(1, 30):
        named = re.search(rf"def test_W{number}_", tests) or re.search(rf"^\| W{number} \|", reasons, re.MULTILINE)
        assert named, f"W{number} has neither a test nor a line in WEAKNESSES.md"
    for number in range(1, 16):
        named = re.search(rf"def test_Z{number}_", tests) or re.search(rf"^\| Z{number} \|", reasons, re.MULTILINE)
        assert named, f"Z{number} has neither a test nor a line in WEAKNESSES.md"
