"""Workflows end to end: outputs flow along the edges, nothing waits for what it does not need, nothing runs twice."""

from __future__ import annotations

import asyncio

import pytest

import windlass
from tests.runtime.support import JumpPorts, events_of, only, started
from windlass import flows
from windlass.events.errors import Refused, UsageError
from windlass.events.trees.children import ChildFinished, ChildStarted, ChildStopped
from windlass.events.trees.flows import NodeFinished, NodeRetried, NodeStarted, NodeStopped
from windlass.models.base import Request
from windlass.runtime.api.flows import FlowRun
from windlass.runtime.flows.reducers import REDUCERS
from windlass.testing.scripted import ScriptedModel

from .support import carried_out, children_of, listener, speaker


def echo(task: str) -> str:
    return f"<{task.splitlines()[0]}>"


async def never(request: Request) -> str:
    await asyncio.Event().wait()
    return ""


async def test_outputs_flow_along_the_edges_and_are_returned():
    agent = listener("echo", lambda task: f"<{task}>")
    flow = flows.Flow(
        "plain",
        [
            flows.spawn("one", agent, "one {input}"),
            flows.spawn("two", agent, "two"),
            flows.spawn("both", agent, "both", needs=["one", "two"]),
            flows.reduce("all", "concat", ["both", "two"]),
        ],
    )
    result = await carried_out(flow, "x")
    assert result.status == "completed"
    assert result.outputs == {
        "one": "<one x>",
        "two": "<two\n\nInput:\nx>",
        "both": "<both\n\nOutput of one:\n<one x>\n\nOutput of two:\n<two\n\nInput:\nx>>",
        "all": "<both\n\nOutput of one:\n<one x>\n\nOutput of two:\n<two\n\nInput:\nx>>\n\n<two\n\nInput:\nx>",
    }
    assert result.output == result.outputs["all"]
    assert result.usage.input_tokens > 0


async def test_a_node_starts_when_what_it_needs_is_there_and_waits_for_nothing_else():
    free = asyncio.Event()

    async def slow(request: Request) -> str:
        await free.wait()
        return "slow"

    agent = listener("echo", echo)
    crawler = windlass.Agent("crawler", ScriptedModel(slow))
    flow = flows.Flow(
        "no_barrier",
        [
            flows.spawn("fast", agent, "fast"),
            flows.spawn("slow", crawler, "slow"),
            flows.spawn("behind_fast", agent, "behind", needs=["fast"]),
        ],
    )
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        ended = await started(run.session, NodeFinished, count=2)
        assert [event.node for event in ended] == ["fast", "behind_fast"]
        free.set()
        assert (await run.result()).status == "completed"


@pytest.mark.parametrize(
    ("reducer", "outputs", "expected"),
    [
        ("dedupe_lines", ["a\nb", "b\nc"], "a\nb\nc"),
        ("merge_json_arrays", ["[1, 2]", "[3]"], [1, 2, 3]),
        ("concat", ["a", "b"], "a\n\nb"),
        ("count", ["a", "b"], 2),
        ("longest", ["a", "bbb"], "bbb"),
    ],
)
async def test_reducers_are_pure_functions_of_what_they_need(reducer, outputs, expected):
    agent = listener("says", lambda task: task.partition(":")[2])
    nodes = [flows.spawn(f"n{number}", agent, f"say:{text}") for number, text in enumerate(outputs)]
    flow = flows.Flow(
        "reduced",
        [*nodes, flows.reduce("end", reducer, [step.node.name for step in nodes])],
        reducers={"longest": lambda given: max(given, key=len)},
    )
    assert (await carried_out(flow)).output == expected


def test_reducers_of_texts_take_the_answers_of_a_map_one_by_one():
    assert REDUCERS["dedupe_lines"]([["a\nb", "b"], "c"]) == "a\nb\nc"
    assert REDUCERS["concat"]([["a", "b"], "c"]) == "a\n\nb\n\nc"


async def test_a_reducer_that_raises_fails_its_node_and_names_why():
    def broken(outputs: list[object]) -> object:
        raise ZeroDivisionError("by nothing")

    agent = listener("echo", echo)
    flow = flows.Flow(
        "broken",
        [flows.spawn("a", agent, "a"), flows.reduce("b", "broken", ["a"]), flows.reduce("c", "concat", ["b"])],
        reducers={"broken": broken},
    )
    result = await carried_out(flow)
    assert result.status == "failed"
    assert {name: node.status for name, node in result.nodes.items()} == {"a": "done", "b": "failed", "c": "skipped"}
    assert result.nodes["b"].reason == "ZeroDivisionError: by nothing"
    assert result.failure is not None
    assert result.failure.kind == "node_failed"
    assert "c: it needs b" in result.failure.message


async def test_what_cannot_be_kept_fails_its_node():
    agent = listener("echo", echo)
    flow = flows.Flow(
        "odd",
        [flows.spawn("a", agent, "a"), flows.reduce("b", "odd", ["a"])],
        reducers={"odd": lambda outputs: float("nan")},
    )
    result = await carried_out(flow)
    assert result.nodes["b"].status == "failed"


async def test_a_node_is_tried_again_as_often_as_it_says():
    flaky = speaker("flaky", windlass_failure(), windlass_failure(), "third time")
    flow = flows.Flow("again", [flows.spawn("a", flaky, "try", retries=2, retry_wait=0.01)])
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        result = await run.result()
        assert (result.status, result.output) == ("completed", "third time")
        events = await events_of(run.session)
        assert [event.attempt for event in only(events, NodeStarted)] == [1, 2, 3]
        assert [event.at_ms is not None for event in only(events, NodeRetried)] == [True, True]
        assert len({event.child_id for event in only(events, ChildStarted)}) == 3


async def test_a_pause_before_another_try_outlives_the_process(tmp_path):
    flaky = speaker("flaky", windlass_failure(), "second time")
    flow = flows.Flow("again", [flows.spawn("a", flaky, "try", retries=1, retry_wait=3600)])
    async with windlass.open(tmp_path / "work.db", agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        (retried,) = await started(run.session, NodeRetried)
        state = await run.session.state()
        assert {timer.at_ms for timer in state.timers.open.values()} == {retried.at_ms}
        assert (await run.nodes())["a"].status == "pausing"
    ports = JumpPorts()
    ports.ahead_ms = 2 * 3600 * 1000
    async with windlass.open(tmp_path / "work.db", agents=[flow], ports=ports) as runtime:
        run = await runtime.flow(flow, "f")
        result = await run.result()
        assert (result.status, result.output) == ("completed", "second time")
        assert [event.attempt for event in only(await events_of(run.session), NodeStarted)] == [1, 2]


async def test_a_workflow_that_is_stopped_in_a_pause_begins_again_when_it_is_woken():
    flaky = speaker("flaky", windlass_failure(), "second time")
    flow = flows.Flow("again", [flows.spawn("a", flaky, "try", retries=1, retry_wait=3600)])
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        await started(run.session, NodeRetried)
        await run.interrupt()
        assert (await run.session.state()).timers.open == {}
        await run.wake()
        assert (await run.result()).output == "second time"


def windlass_failure() -> object:
    from windlass.events.values.failures import failure

    return failure("invalid_request", "no such thing")


async def test_what_does_not_need_a_failed_node_goes_on():
    flow = flows.Flow(
        "partly",
        [
            flows.spawn("bad", speaker("bad", windlass_failure()), "x"),
            flows.spawn("good", listener("good", echo), "y"),
            flows.reduce("behind_bad", "concat", ["bad"]),
            flows.reduce("behind_good", "concat", ["good"]),
        ],
    )
    result = await carried_out(flow)
    assert {name: node.status for name, node in result.nodes.items()} == {
        "bad": "failed",
        "good": "done",
        "behind_bad": "skipped",
        "behind_good": "done",
    }
    assert result.status == "failed"
    assert result.outputs == {"good": "<y>", "behind_good": "<y>"}
    assert "no such thing" in result.nodes["bad"].reason


async def test_a_flow_may_stop_at_the_first_failure():
    hanging = windlass.Agent("hanging", ScriptedModel(never))
    flow = flows.Flow(
        "strict",
        [
            flows.spawn("hangs", hanging, "x"),
            flows.spawn("bad", speaker("bad", windlass_failure()), "x"),
            flows.reduce("later", "concat", ["hangs"]),
        ],
        on_failure="stop",
    )
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        result = await run.result()
        assert {name: node.status for name, node in result.nodes.items()} == {
            "hangs": "cancelled",
            "bad": "failed",
            "later": "skipped",
        }
        assert len(only(await events_of(run.session), ChildStopped)) == 1
        await started(run.session, ChildFinished, count=2)


async def test_a_node_whose_time_is_over_fails_and_its_child_is_stopped(tmp_path):
    hanging = windlass.Agent("hanging", ScriptedModel(never))
    flow = flows.Flow("limited", [flows.spawn("hangs", hanging, "x", timeout=3600)])
    async with windlass.open(tmp_path / "work.db", agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        await started(run.session, ChildStarted)
    ports = JumpPorts()
    ports.ahead_ms = 2 * 3600 * 1000
    async with windlass.open(tmp_path / "work.db", agents=[flow], ports=ports) as runtime:
        run = await runtime.flow(flow, "f")
        result = await run.result()
        assert (result.nodes["hangs"].status, result.nodes["hangs"].reason) == ("failed", "its time was over")
        (end,) = await started(run.session, ChildFinished)
        assert end.status == "aborted"
        assert (await run.session.state()).timers.open == {}


async def test_an_interrupted_flow_goes_on_and_keeps_what_is_done():
    free = asyncio.Event()

    async def gated(request: Request) -> str:
        await free.wait()
        return "done at last"

    first = speaker("first", "once")
    second = windlass.Agent("second", ScriptedModel(gated))
    flow = flows.Flow("held", [flows.spawn("a", first, "x"), flows.spawn("b", second, "y", needs=["a"])])
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        await started(run.session, ChildStarted, count=2)
        await run.interrupt()
        stopped = await run.result()
        assert stopped.status == "interrupted"
        assert stopped.outputs == {"a": "once"}
        assert [event.reason for event in only(await events_of(run.session), NodeStopped)] == ["interrupted"]
        free.set()
        await run.wake()
        result = await run.result()
        assert (result.status, result.outputs) == ("completed", {"a": "once", "b": "done at last"})


async def test_a_cancelled_flow_keeps_what_is_done():
    hanging = windlass.Agent("hanging", ScriptedModel(never))
    flow = flows.Flow(
        "ended", [flows.spawn("a", speaker("a", "kept"), "x"), flows.spawn("b", hanging, "y", needs=["a"])]
    )
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        await started(run.session, ChildStarted, count=2)
        await run.cancel()
        result = await run.result()
        assert (result.status, result.outputs) == ("cancelled", {"a": "kept"})
        assert {name: node.status for name, node in result.nodes.items()} == {"a": "done", "b": "cancelled"}
        await started(run.session, ChildFinished, count=2)
        with pytest.raises(Refused, match="was cancelled: nothing can be added"):
            await run.add([flows.reduce("c", "concat", ["a"])])


async def test_a_failed_flow_goes_on_where_it_failed():
    flaky = speaker("flaky", windlass_failure(), "now")
    flow = flows.Flow(
        "resumed",
        [
            flows.spawn("a", speaker("a", "kept"), "x"),
            flows.spawn("b", flaky, "y", needs=["a"]),
            flows.reduce("c", "concat", ["a", "b"]),
        ],
    )
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        assert (await run.result()).status == "failed"
        await run.wake()
        result = await run.result()
        assert (result.status, result.output) == ("completed", "kept\n\nnow")


async def test_a_flow_is_no_conversation():
    flow = flows.Flow("deaf", [flows.spawn("a", listener("echo", echo), "x")])
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        await run.result()
        with pytest.raises(Refused, match="is a workflow"):
            await run.session.prompt("hello")
        with pytest.raises(Refused, match="has run"):
            await run.start("again")


async def test_the_same_id_finds_the_same_flow():
    agent = speaker("once", "only once")
    flow = flows.Flow("twice", [flows.spawn("a", agent, "x")])
    async with windlass.open(agents=[flow]) as runtime:
        first = await (await runtime.flow(flow, "f", input=1)).result()
        again = await (await runtime.flow(flow, "f", input=1)).result()
        unsaid = await (await runtime.flow(flow, "f")).result()
        assert first.outputs == again.outputs == unsaid.outputs == {"a": "only once"}


async def test_another_input_for_the_same_id_is_refused_and_both_are_named():
    flow = flows.Flow("twice", [flows.spawn("a", speaker("once", "only once"), "x")])
    async with windlass.open(agents=[flow]) as runtime:
        await (await runtime.flow(flow, "f", input={"month": "march"})).result()
        with pytest.raises(UsageError, match=r'begun with the input {"month":"march"}, not with "april"'):
            await runtime.flow(flow, "f", input="april")


async def test_progress_goes_on_behind_a_rest_and_leaves_out_what_was_told_before(tmp_path):
    flow = flows.Flow("asks", [flows.gate("agree", "Go on?"), flows.reduce("end", "count", ["agree"])])
    async with windlass.open(tmp_path / "work.db", agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        assert [event.node async for event in run.progress(after=run.since)] == ["agree"]
        (asked,) = (await run.result()).waiting_for
    async with windlass.open(tmp_path / "work.db") as elsewhere:
        await (await elsewhere.get("f")).answer(asked, "yes")
    async with windlass.open(tmp_path / "work.db", agents=[flow], take_up=False) as runtime:
        run = await runtime.flow(flow, "f")
        told = [(type(event).__name__, event.node) async for event in run.progress(after=run.since)]
        assert told == [("NodeFinished", "agree"), ("NodeStarted", "end"), ("NodeFinished", "end")]
        assert [event.node async for event in run.progress()] == ["agree", "agree", "end", "end"]


async def test_no_more_nodes_are_at_work_than_may_be():
    most = 0
    here = 0

    async def counted(request: Request) -> str:
        nonlocal most, here
        here += 1
        most = max(most, here)
        await asyncio.sleep(0)
        here -= 1
        return "ok"

    agent = windlass.Agent("counted", ScriptedModel(counted))
    nodes = [flows.spawn(f"n{number}", agent, "x") for number in range(12)]
    flow = flows.Flow("narrow", [*nodes, flows.reduce("all", "count", [n.node.name for n in nodes])], parallel=3)
    assert (await carried_out(flow)).output == 12
    assert most <= 3


async def test_a_fork_begins_anew_what_was_open_and_shares_what_is_done():
    free = asyncio.Event()

    async def gated(request: Request) -> str:
        await free.wait()
        return "late"

    second = windlass.Agent("second", ScriptedModel(gated))
    flow = flows.Flow(
        "forked", [flows.spawn("a", speaker("a", "shared"), "x"), flows.spawn("b", second, "y", needs=["a"])]
    )
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        await started(run.session, ChildStarted, count=2)
        branch = FlowRun(await run.session.fork("g"))
        free.set()
        await branch.start()
        result = await branch.result()
        assert result.outputs == {"a": "shared", "b": "late"} == (await run.result()).outputs
        assert [event.node for event in only(await events_of(branch.session), NodeFinished)] == ["a", "b"]


async def test_a_result_is_of_the_whole_workflow_also_behind_a_gate():
    worker = listener("worker", echo)
    spawned = [flows.spawn(f"n{number}", worker, "do") for number in range(5)]
    gate = flows.gate("agree", "Go on?", needs=[step.node.name for step in spawned])
    flow = flows.Flow("gated", [*spawned, gate, flows.spawn("last", worker, "do", needs=["agree"])])
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        asked = await run.result()
        (question,) = await run.session.questions()
        await run.session.answer(question, "yes")
        ended = await run.result()
        whole = sum(
            [(await (await runtime.get(child)).result()).usage.total_tokens for child in await children_of(run)]
        )
    assert (asked.status, ended.status) == ("asked", "completed")
    assert (asked.usage.total_tokens * 6, ended.usage.total_tokens) == (whole * 5, whole)
