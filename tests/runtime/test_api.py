"""The Python API in small: one-shot runs, sessions, events, results, overrides, errors."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from typing import Any

import msgspec
import pydantic
import pytest

import windlass
from windlass.events.live import TextDelta
from windlass.events.runs import RunCompleted, RunStarted
from windlass.events.sessions import SessionStarted
from windlass.events.values.setup import RunOptions
from windlass.runtime.api.result import error_of
from windlass.runtime.api.runtime_options import RuntimeOptions, host_life
from windlass.testing.scripted import ScriptedModel, call, fail, hang, turn

from .support import QUICK, agent_of, events_of, names_of, only, scripted, sound


@windlass.tool
def add(x: int, y: int) -> int:
    "Add two numbers."
    return x + y


def math(*turns: Any, **more: Any) -> windlass.Agent:
    return agent_of(*turns, name="math", tools=[add], **more)


def test_the_first_snippet_of_the_design_runs():
    agent = windlass.Agent("math", model=scripted(call("add", x=17, y=28), "17 + 28 = 45"), tools=[add])
    assert agent.run_sync("What is 17 + 28?").text == "17 + 28 = 45"


async def test_the_second_snippet_of_the_design_runs(tmp_path):
    paid = []

    class bank:
        @staticmethod
        async def pay(invoice: str, cents: int, key: str) -> str:
            paid.append((invoice, cents, key))
            return "paid"

    @windlass.tool(contract="idempotent", timeout_ms=30_000)
    async def pay(ctx: windlass.ToolContext, invoice: str, cents: int) -> str:
        "Pay an invoice."
        return await bank.pay(invoice, cents, key=ctx.idempotency_key)

    def clerk(*turns: Any) -> windlass.Agent:
        return windlass.Agent(
            "clerk",
            model=scripted(*turns),
            instructions="Pay what is due.",
            tools=[pay],
            policy=windlass.Policy(
                rules=(windlass.ask("pay", when="args.cents > 10000"), windlass.allow("pay")),
            ),
            budget=windlass.Budget(usd=0.50, turns=20),
        )

    store = str(tmp_path / "work.db")
    first = clerk(["Paying ", "now.", call("pay", invoice="a", cents=500), call("pay", invoice="b", cents=50_000)])
    shown, waiting = [], []
    async with windlass.open(store, agents=[first]) as rt:
        session = await rt.session(first, "march")
        async for event in session.prompt("Pay the March invoices."):
            match event:
                case windlass.TextDelta(text=text):
                    shown.append(text)
                case windlass.PermissionRequested(request_id=rid):
                    waiting.append(rid)
        result = await session.result()
        assert result.status == "asked"
    assert ("".join(shown), len(waiting)) == ("Paying now.", 1)
    assert [entry[:2] for entry in paid] == [("a", 500)]
    second = clerk("All paid.")
    async with windlass.open(store, agents=[second]) as rt:
        session = await rt.get("march")
        await session.approve((await session.requests())[0])
        result = await session.result()
        assert (result.status, result.text) == ("completed", "All paid.")
        await sound(session)
    assert [entry[:2] for entry in paid] == [("a", 500), ("b", 50_000)]


async def test_run_inside_a_loop_and_run_sync_inside_a_running_one():
    result = await math(call("add", x=1, y=2), "3").run("1 + 2?")
    assert (result.text, result.status, result.stop, result.turns) == ("3", "completed", "completed", 2)
    assert result.usage.total_tokens > 0
    assert math("nested").run_sync("hello").text == "nested"


async def test_awaiting_a_prompt_acknowledges_it_and_iterating_it_yields_its_events():
    agent = math("one", ["tw", "o"], "three")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("first")
        assert (await session.result()).text == "one"
        seen = [event async for event in session.prompt("second")]
        assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == "two"
        assert isinstance(seen[-1], RunCompleted)
        assert [type(event) for event in seen].count(RunStarted) == 1
        await sound(session)


async def test_leaving_the_loop_detaches_and_never_cancels():
    agent = math(call("add", x=1, y=1), "done")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        async for event in session.prompt("go"):
            if isinstance(event, RunStarted):
                break
        assert (await session.result()).text == "done"


async def test_stream_is_the_same_path_as_run():
    agent = math(call("add", x=1, y=1), ["do", "ne"])
    kinds = [type(event).__name__ async for event in agent.stream("go")]
    assert kinds[-1] == "RunCompleted"
    assert kinds.count("TextDelta") == 2


async def test_a_session_is_created_once_and_found_again(tmp_path):
    store = str(tmp_path / "work.db")
    agent = math("one", "two")
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s", title="Sums", metadata={"team": "a"})
        await session.prompt("first")
        await session.result()
        again = await rt.session(agent, "s")
        await again.prompt("second")
        assert (await again.result()).text == "two"
        (row,) = await rt.sessions()
        assert (row.session, row.title, row.metadata, row.state) == ("s", "Sums", {"team": "a"}, "idle")
        assert len(only(await events_of(session), SessionStarted)) == 1
    model = agent.model
    assert isinstance(model, ScriptedModel)
    assert len(model.requests[1].items) == 3


async def test_a_session_of_another_agent_is_refused_by_name():
    one, two = math("x"), agent_of("y", name="other")
    async with windlass.open(agents=[one, two]) as rt:
        await rt.session(one, "s")
        with pytest.raises(windlass.UsageError, match="belongs to agent 'math'"):
            await rt.session(two, "s")


async def test_a_session_that_is_not_there_is_named():
    async with windlass.open() as rt:
        with pytest.raises(windlass.WindlassError, match="there is no session 'nowhere'"):
            await rt.get("nowhere")


async def test_a_result_before_any_run_says_what_to_do():
    agent = math("x")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        with pytest.raises(windlass.UsageError, match="send it a prompt first"):
            await session.result()


async def test_two_agents_with_one_name_are_refused():
    async with windlass.open(agents=[math("x")]) as rt:
        with pytest.raises(windlass.UsageError, match="another agent named 'math'"):
            rt.bind(math("y"))


async def test_close_is_safe_twice():
    rt = await windlass.open(agents=[math("x")]).start()
    await rt.close()
    await rt.close()


async def test_a_command_after_close_says_so():
    agent = math("x")
    rt = await windlass.open(agents=[agent]).start()
    session = await rt.session(agent, "s")
    await rt.close()
    with pytest.raises(windlass.UsageError, match="closed"):
        await session.prompt("hello")


async def test_the_same_command_id_is_taken_once():
    agent = math("one", "two")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("hello", command_id="c1")
        await session.result()
        await session.prompt("hello", command_id="c1")
        await session.result()
        assert (await names_of(session)).count("prompt.received") == 1
        assert [type(event).__name__ async for event in session.prompt("hello", command_id="c1")][-1] == "RunCompleted"


# --- structured output ---


@dataclasses.dataclass
class Invoice:
    number: str
    cents: int


class InvoiceStruct(msgspec.Struct):
    number: str
    cents: int


class InvoiceModel(pydantic.BaseModel):
    number: str
    cents: int


SCHEMA = {
    "type": "object",
    "properties": {"number": {"type": "string"}, "cents": {"type": "integer"}},
    "required": ["number", "cents"],
}
ANSWER = '{"number": "a", "cents": 5}'


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Invoice, Invoice("a", 5)),
        (InvoiceStruct, InvoiceStruct("a", 5)),
        (InvoiceModel, InvoiceModel(number="a", cents=5)),
        (SCHEMA, {"number": "a", "cents": 5}),
    ],
)
async def test_output_is_a_value_of_the_type_that_was_asked_for(kind, expected):
    agent = agent_of(ANSWER, output=kind)
    result = await agent.run("read it")
    assert result.output == expected
    model = agent.model
    assert isinstance(model, ScriptedModel)
    assert model.requests[0].output is not None


async def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_errors():
    agent = agent_of("no JSON", '{"number": "a"}', ANSWER, output=Invoice)
    result = await agent.run("read it")
    assert (result.output, result.turns) == (Invoice("a", 5), 3)
    model = agent.model
    assert isinstance(model, ScriptedModel)
    assert "cents" in str(model.requests[2].items[-1])


async def test_an_output_that_never_fits_is_an_honest_failure():
    agent = agent_of("no", "no", "no", output=Invoice)
    with pytest.raises(windlass.RunError, match="schema") as caught:
        await agent.run("read it")
    assert (caught.value.result.stop, caught.value.result.output) == ("output_invalid", None)


# --- budgets ---


async def test_a_turn_budget_stops_the_run_after_one_wrap_up():
    agent = math(call("add", x=1, y=1), call("add", x=2, y=2), "so far", budget=windlass.Budget(turns=2))
    result = await agent.run("go on for ever")
    assert (result.status, result.stop, result.text) == ("completed", "max_turns", "so far")


async def test_a_token_budget_is_never_passed():
    agent = math(call("add", x=1, y=1), "no more", budget=windlass.Budget(tokens=40))
    with pytest.raises(windlass.LimitReached, match="token budget") as caught:
        await agent.run("go")
    result = caught.value.result
    assert (result.status, result.stop) == ("completed", "token_budget")
    assert result.usage.total_tokens <= 40


async def test_money_without_a_price_fails_closed():
    from windlass.models.base import ModelInfo

    info = ModelInfo(name="m", provider="p", model="m", price=None)
    agent = windlass.Agent("a", model=scripted("x", info=info), budget=windlass.Budget(usd=1.0))
    with pytest.raises(windlass.RunError, match="price"):
        await agent.run("go")
    model = agent.model
    assert isinstance(model, ScriptedModel)
    assert model.requests == []


async def test_a_call_budget_denies_further_calls():
    twice = [call("add", x=1, y=1), call("add", x=2, y=2)]
    agent = math(twice, "one sum", budget=windlass.Budget(calls=1))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        result = await session.result()
        assert (await names_of(session)).count("tool.finished") == 1
        assert (result.text, result.stop) == ("one sum", "call_budget")


async def test_a_time_budget_counts_work_only():
    agent = math(call("add", x=1, y=1), "done", budget=windlass.Budget(seconds=30))
    assert (await agent.run("go")).status == "completed"


async def test_a_session_budget_binds_over_several_runs():
    agent = math("one", "two", "three", session_budget=windlass.Budget(turns=2))
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        stops = []
        for prompt in ("a", "b", "c"):
            await session.prompt(prompt)
            stops.append((await session.result()).stop)
        assert stops == ["completed", "completed", "max_turns"]


async def test_one_prompt_may_narrow_the_tools_of_its_run():
    agent = math(call("add", x=1, y=1), "no tools", call("add", x=1, y=1), "tools")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go", options=RunOptions(tools=()))
        await session.result()
        assert "tool.denied" in await names_of(session)
        await session.prompt("go")
        assert (await session.result()).text == "tools"
        assert (await names_of(session)).count("tool.finished") == 1
        await sound(session)


# --- exceptions ---


async def test_a_provider_that_fails_raises_and_is_a_status_on_result():
    with pytest.raises(windlass.ProviderError, match="the key is used up") as caught:
        await agent_of(fail("quota_exhausted", "the key is used up")).run("go")
    assert caught.value.result.status == "failed"
    agent = agent_of(fail("quota_exhausted", "the key is used up"), "back")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        result = await session.result()
        assert (result.status, result.ok) == ("failed", False)
        assert result.failure is not None
        assert result.failure.kind == "quota_exhausted"
        await session.prompt("again")
        assert (await session.result()).text == "back"


async def test_a_context_that_does_not_fit_raises_context_exceeded():
    with pytest.raises(windlass.ContextExceeded):
        await agent_of(fail("context_exceeded"), fail("context_exceeded")).run("go")


async def test_an_aborted_run_raises_aborted():
    agent = agent_of([hang()], name="slow")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.cancel()
        result = await session.result()
        assert isinstance(error_of(result), windlass.Aborted)


async def test_asked_without_a_store_raises_needs_answer_and_with_one_is_a_status(tmp_path):
    def agent() -> windlass.Agent:
        policy = windlass.Policy(rules=(windlass.ask("add"),))
        return math(call("add", x=1, y=1), "2", policy=policy)

    with pytest.raises(windlass.NeedsAnswer, match="approver"):
        await agent().run("go")
    result = await agent().run("go", store=str(tmp_path / "work.db"), session="s")
    assert result.status == "asked"
    assert len(result.waiting_for) == 1


async def test_a_denial_that_stops_the_run_raises_tool_not_allowed():
    async def approver(asked):
        return windlass.Deny(feedback="never", stop=True)

    agent = math(call("add", x=1, y=1), "2", policy=windlass.Policy(rules=(windlass.ask("add"),)), approver=approver)
    with pytest.raises(windlass.ToolNotAllowed, match="'add' was not allowed"):
        await agent.run("go")


def test_a_run_that_a_guard_ended_raises_tool_not_allowed():
    result = windlass.Result(session="s", run_id="r", status="failed", stop="hook_denied")
    assert isinstance(error_of(result), windlass.ToolNotAllowed)


async def test_a_model_that_raises_is_a_failed_run_not_a_lost_one():
    def broken(request):
        raise ZeroDivisionError("bug in the model")

    agent = windlass.Agent("a", model=ScriptedModel(broken), settings=QUICK)
    with pytest.raises(windlass.RunError, match="ZeroDivisionError"):
        await agent.run("go")


async def test_a_refusal_and_a_cut_off_answer_are_told_apart_from_success():
    cut = await agent_of(turn("half an ans", finish="length")).run("go")
    assert (cut.status, cut.stop, cut.text) == ("completed", "max_tokens", "half an ans")
    refused = await agent_of(turn("I will not", finish="refusal")).run("go")
    assert (refused.status, refused.stop) == ("completed", "refused")


# --- idle, title, metadata ---


async def test_wait_idle_returns_at_once_when_nothing_runs_and_else_at_the_end():
    release = asyncio.Event()

    @windlass.tool
    async def wait_for_it() -> str:
        await release.wait()
        return "ok"

    agent = agent_of(call("wait_for_it"), "done", tools=[wait_for_it])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.wait_idle()
        await session.prompt("go")
        waiting = asyncio.ensure_future(session.wait_idle())
        await asyncio.sleep(0.02)
        assert not waiting.done()
        release.set()
        await waiting
        assert (await session.result()).text == "done"


async def test_title_and_metadata_can_be_changed():
    agent = math("x")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.set_title("New")
        await session.set_metadata(team="b")
        (row,) = await rt.sessions(metadata={"team": "b"})
        assert row.title == "New"
        await session.set_metadata(team=None)
        assert await rt.sessions(metadata={"team": "b"}) == []


async def test_agents_are_values_and_their_digest_follows_what_shapes_them():
    one = agent_of("x", name="a")
    assert one.digest == agent_of("y", name="a").digest
    assert one.digest != agent_of("x", name="a", instructions="Be brief.").digest
    assert one.digest != agent_of("x", name="a", tools=[add]).digest
    with pytest.raises(windlass.UsageError, match="agent name"):
        agent_of("x", name="a/b")


def test_what_type_checkers_are_told_of_the_options_is_what_a_runtime_takes():
    taken = {name: said for name, said in inspect.get_annotations(host_life).items() if name not in ("store", "return")}
    told = {name: said.__forward_arg__ for name, said in inspect.get_annotations(RuntimeOptions).items()}
    assert told == taken


def test_an_option_that_is_none_is_refused():
    with pytest.raises(TypeError, match="lease_s"):
        windlass.open(None, lease_s=1)  # type: ignore[call-arg]
