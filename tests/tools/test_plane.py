"""The tool fault matrix (promises 3.6), the rows that a tool in this process can reach in detail, and cancellation.

The rows that hold on every plane and sandbox are in `tests/faults`. Waiting for MCP: its servers.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import pathlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from windlass.events.tools.calls import CallBody
from windlass.events.values.blocks import Data, Image, JsonObject, Text
from windlass.tools.context import Progress, Suspend, ToolContext, ToolError
from windlass.tools.planes.local import LocalPlane
from windlass.tools.planes.outcome import Outcome
from windlass.tools.planes.results import ToolResult
from windlass.tools.tool import AnyTool, external_tool, tool
from windlass.tools.types.plain_values import base64_text

SHORT_MS = 250
GRACE_S = 0.05


class Listener:
    """A seat that keeps what it hears, and answers when told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.answer: asyncio.Future[Any] | None = None

    def progress(self, call_id: str, progress: Progress) -> None:
        self.heard.append(progress)

    def note(self, call_id: str, note: Any) -> None:
        self.heard.append(note)

    async def ask(self, call_id: str, question: Any) -> Any:
        self.answer = asyncio.get_running_loop().create_future()
        return await self.answer

    async def model(self, call_id: str, ask: Any) -> Any:
        raise ToolError("no budget left")

    def holds(self) -> bool:
        return True

    async def hold(self, call_id: str) -> bool:
        return True

    def notice(self, call_id: str, code: str, message: str) -> None:
        self.heard.append(code)


def context(seat: Any = None) -> ToolContext:
    return ToolContext(session="s", call_id="c7.0", seat=seat)


async def run(
    made: AnyTool, args: JsonObject | None = None, *, plane: LocalPlane | None = None, seat: Any = None
) -> Outcome:
    return await (plane or LocalPlane(grace_s=GRACE_S)).run(made, CallBody(args=args or {}), context(seat))


async def eventually(condition: Any) -> None:
    """Waits for what another thread does."""
    while not condition():
        await asyncio.sleep(0.005)


# --- raises anything ---------------------------------------------------------------------------------------------


def overflow(n: int = 0) -> int:
    return overflow(n + 1) + 1


class Base(BaseException):
    pass


RAISES: list[Any] = [
    lambda: ValueError("secret"),
    lambda: Base("secret"),
    lambda: SystemExit("secret"),
    lambda: KeyboardInterrupt("secret"),
    lambda: GeneratorExit("secret"),
    lambda: MemoryError("secret"),
    lambda: asyncio.CancelledError("secret"),
    lambda: StopAsyncIteration("secret"),
    lambda: ExceptionGroup("secret", [ValueError("secret")]),
    lambda: TimeoutError("secret"),
]


def raising(kind: str, error: Any) -> AnyTool:
    def sync() -> None:
        raise error()

    async def awaited() -> None:
        await asyncio.sleep(0)
        raise error()

    def generator() -> Iterator[str]:
        yield "some"
        raise error()

    async def async_generator() -> AsyncIterator[str]:
        yield "some"
        raise error()

    made: AnyTool = tool(locals()[kind])
    return made


@pytest.mark.parametrize("error", RAISES, ids=lambda error: type(error()).__name__)
@pytest.mark.parametrize("kind", ["sync", "awaited", "generator", "async_generator"])
async def test_whatever_is_raised_becomes_an_error_result(kind, error):
    outcome = await run(raising(kind, error))
    assert (outcome.status, outcome.ok) == ("finished", False)
    assert outcome.body is not None
    assert "secret" in str(outcome.body.private_error)
    assert "secret" not in outcome.text
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("in_thread", [True, False])
async def test_endless_recursion_becomes_an_error_result(in_thread):
    @tool
    def sync() -> int:
        return overflow()

    @tool
    async def awaited() -> int:
        return overflow()

    outcome = await run(sync if in_thread else awaited)
    assert (outcome.ok, outcome.error_code) == (False, "RecursionError")


async def test_stop_iteration_of_a_sync_tool_is_an_error_result():
    @tool
    def f() -> Any:
        return next(iter(()))

    assert (await run(f)).error_code == "StopIteration"


async def test_arguments_that_do_not_convert_are_an_error_result():
    @tool
    def f(n: int) -> int:
        return n

    outcome = await run(f, {"n": "x"})
    assert (outcome.ok, outcome.error_code, outcome.text) == (False, "tool_arguments", "n: must be integer, got string")


# --- never returns, blocks, ignores cancel -----------------------------------------------------------------------


async def hang_politely() -> None:
    await asyncio.Event().wait()


async def hang_stubbornly() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass


async def hang_undead() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            pass


async def hang_in_cleanup() -> None:
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(3600)


async def hang_spinning() -> None:
    while True:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass


async def hang_shielded() -> None:
    await asyncio.shield(asyncio.sleep(3600))


async def hang_yielding() -> AsyncIterator[Progress]:
    while True:
        yield Progress(message="still here")


def hang_in_thread(ctx: ToolContext) -> None:
    ctx.wait_cancelled(3600)


def hang_generating() -> Iterator[Progress]:
    while True:
        yield Progress(message="still here")


HANGS = [
    hang_politely,
    hang_stubbornly,
    hang_undead,
    hang_in_cleanup,
    hang_spinning,
    hang_shielded,
    hang_yielding,
    hang_in_thread,
    hang_generating,
]


@pytest.mark.parametrize("function", HANGS)
async def test_tool_that_never_returns_times_out(function):
    plane = LocalPlane(grace_s=GRACE_S)
    made: AnyTool = tool(timeout_ms=SHORT_MS)(function)
    outcome = await run(made, plane=plane)
    assert (outcome.status, outcome.timeout_ms, outcome.error_code) == ("timed_out", SHORT_MS, "tool_timed_out")
    assert plane.running == 0
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
    await asyncio.sleep(0)  # the task goes on
    await eventually(lambda: plane.orphans == 0)  # these threads look at their flag
    await end_shielded()


@pytest.mark.parametrize("function", HANGS)
@pytest.mark.parametrize("inline", [True, False])
async def test_cancellation_lands_in_every_hanging_tool(function, inline):
    plane = LocalPlane(grace_s=GRACE_S)
    made: AnyTool = tool(function)
    call = (plane.run_inline if inline else plane.run)(made, CallBody(args={}), context())
    task = asyncio.create_task(call)
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(60):
            await task
    assert plane.running == 0
    await eventually(lambda: plane.orphans == 0)
    await end_shielded()


async def end_shielded() -> None:
    """Ends what a shielding tool left on the loop, as the test's own."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        if task.get_coro().__qualname__ == "sleep":  # type: ignore[union-attr]
            task.cancel()
    await asyncio.sleep(0)


async def test_sync_tool_that_ignores_its_flag_is_an_orphan_and_its_late_result_is_dropped():
    plane = LocalPlane()
    release = threading.Event()

    @tool(timeout_ms=SHORT_MS)
    def deaf() -> str:
        release.wait()
        return "late" * 100_000

    outcome = await run(deaf, plane=plane)
    assert (outcome.status, plane.orphans) == ("timed_out", 1)
    release.set()
    await eventually(lambda: plane.orphans == 0)


async def test_orphans_do_not_take_the_places_of_others_until_they_are_too_many():
    plane = LocalPlane(threads_max=1, orphans_max=2)
    release = threading.Event()

    @tool(timeout_ms=SHORT_MS)
    def deaf() -> None:
        release.wait()

    @tool
    def quick() -> str:
        return "done"

    await run(deaf, plane=plane)
    assert (await run(quick, plane=plane)).text == "done"
    await run(deaf, plane=plane)
    refused = await run(deaf, plane=plane)
    assert (refused.ok, refused.error_code, plane.orphans) == (False, "tool_unavailable", 2)
    assert (await run(quick, plane=plane)).text == "done"  # another tool has orphans of its own
    release.set()
    await eventually(lambda: plane.orphans == 0)
    assert (await run(quick, plane=plane)).text == "done"


async def test_sync_tool_that_waits_for_a_thread_and_is_given_up_never_runs():
    plane = LocalPlane(threads_max=1)
    release = threading.Event()
    ran: list[str] = []

    @tool
    def busy() -> None:
        release.wait()

    @tool(timeout_ms=SHORT_MS)
    def queued() -> None:
        ran.append("queued")

    first = asyncio.create_task(run(busy, plane=plane))
    await asyncio.sleep(0.01)
    waiting = asyncio.create_task(run(queued, plane=plane))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)  # given up before a thread is free, not beside it
    release.set()
    assert (await first).ok
    assert (await run(tool(lambda_called("after", ran)), plane=plane)).ok
    assert (ran, plane.orphans) == (["after"], 0)


def lambda_called(name: str, ran: list[str]) -> Any:
    def after() -> None:
        ran.append(name)

    return after


async def test_sync_tools_run_beside_each_other_and_the_loop_w18():
    together = threading.Barrier(3, timeout=60)

    @tool
    def meet() -> str:
        together.wait()  # passes only if both tools and the loop's own thread get here
        return "met"

    plane = LocalPlane()
    calls = [asyncio.create_task(run(meet, plane=plane)) for _ in range(2)]
    await asyncio.to_thread(together.wait)
    assert [(await call).text for call in calls] == ["met", "met"]


async def test_tools_own_timeout_is_not_taken_for_a_cancellation():
    @tool
    async def patient() -> str:
        for _ in range(3):
            try:
                async with asyncio.timeout(0.01):
                    await asyncio.sleep(3600)
            except TimeoutError:
                await asyncio.sleep(GRACE_S * 2)  # longer than the grace of a cancelled tool
        return "gave up three times"

    plane = LocalPlane(grace_s=GRACE_S)
    assert (await run(patient, plane=plane)).text == "gave up three times"
    outcome = await plane.run_inline(patient, CallBody(args={}), context())
    assert outcome.text == "gave up three times"


async def test_cancelled_tool_may_clean_up_within_the_grace():
    cleaned: list[str] = []

    @tool
    async def tidy() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)
            cleaned.append("yes")

    task = asyncio.create_task(run(tidy, plane=LocalPlane(grace_s=5)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == ["yes"]


async def test_tool_that_answers_its_cancellation_with_a_result_is_still_cancelled():
    @tool
    async def sly() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
        return "nothing happened"

    task = asyncio.create_task(run(sly))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_awaited_task_of_the_tool_that_was_cancelled_is_the_tools_own_error():
    @tool
    async def careless() -> None:
        inner = asyncio.ensure_future(asyncio.sleep(3600))
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner

    outcome = await run(careless)
    assert (outcome.ok, outcome.error_code) == (False, "CancelledError")


async def test_closing_the_caller_closes_the_tool():
    ended: list[str] = []

    @tool
    async def f() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("yes")

    inner = LocalPlane().run_inline(f, CallBody(args={}), context())

    async def drive() -> None:
        inner.send(None)
        inner.close()

    await drive()
    assert ended == ["yes"]


async def test_waiting_for_a_person_does_not_count():
    seat = Listener()

    @tool(timeout_ms=3_000)
    async def asks(ctx: ToolContext) -> str:
        answered = await ctx.ask("Which?")
        return str(answered)

    @tool(timeout_ms=3_000)
    def asks_in_thread(ctx: ToolContext) -> str:
        return str(ctx.wait(ctx.ask("Which?")))

    for made in (asks, asks_in_thread):
        task = asyncio.create_task(run(made, seat=seat))
        await eventually(lambda: seat.answer is not None)
        await asyncio.sleep(3.2)
        assert not task.done()
        assert seat.answer is not None
        seat.answer.set_result("this one")
        seat.answer = None
        assert (await task).text == "this one"


async def test_time_after_the_answer_counts_again():
    seat = Listener()

    @tool(timeout_ms=SHORT_MS)
    async def asks(ctx: ToolContext) -> None:
        await ctx.ask("Which?")
        await asyncio.sleep(3600)

    task = asyncio.create_task(run(asks, seat=seat))
    await eventually(lambda: seat.answer is not None)
    assert seat.answer is not None
    seat.answer.set_result("x")
    assert (await task).status == "timed_out"


# --- huge output -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_output_without_end_is_drained_with_bounded_memory(kind):
    line = "y" * 65_535 + "\n"
    total = 600 * 1024 * 1024

    @tool
    def sync() -> Iterator[str]:
        for _ in range(total // len(line)):
            yield line

    @tool
    async def awaited() -> AsyncIterator[str]:
        for _ in range(total // len(line)):
            yield line

    before = peak_bytes(anew=True)
    outcome = await run(sync if kind == "sync" else awaited)
    assert outcome.ok
    assert outcome.spooled == total
    assert "the first 268435456 bytes are kept" in outcome.text
    assert peak_bytes() - before < 64 * 1024 * 1024
    for blob in outcome.blobs:
        assert blob.ref.size == 268_435_456
        blob.close()


def peak_bytes(*, anew: bool = False) -> int:
    """The most memory that this process has held, since the last reading `anew`."""
    gc.collect()
    if anew:
        pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024


async def test_one_huge_line_is_not_copied_whole():
    text = "z" * (200 * 1024 * 1024)

    @tool
    def huge() -> str:
        return text

    before = peak_bytes(anew=True)
    outcome = await run(huge)
    assert outcome.spooled == len(text)
    assert peak_bytes() - before < 64 * 1024 * 1024
    for blob in outcome.blobs:
        blob.close()


# --- generators --------------------------------------------------------------------------------------------------


async def test_generators_show_progress_and_gather_their_pieces():
    seat = Listener()

    @tool
    def sync() -> Iterator[Any]:
        yield Progress(message="begin", fraction=0.0)
        yield "one "
        yield None
        yield b"two"

    @tool
    async def awaited() -> AsyncIterator[Any]:
        yield Progress(message="begin", fraction=0.0)
        yield "one "
        yield b"two"

    for made in (sync, awaited):
        seat.heard.clear()
        outcome = await run(made, seat=seat)
        assert outcome.text == "one two"
        await asyncio.sleep(0)
        assert seat.heard == [
            Progress(message="begin", fraction=0.0),
            Progress(content=(Text(text="one "),)),
            Progress(content=(Text(text="two"),)),
        ]


async def test_what_a_generator_returns_is_its_result():
    @tool
    def f() -> Any:
        yield "shown only"
        return {"n": 1}

    outcome = await run(f)
    assert outcome.body is not None
    assert outcome.body.content == (Data(value={"n": 1}),)


async def test_pieces_of_several_kinds_stand_together():
    picture = Image(media_type="image/png", data=base64_text(b"x"))

    @tool
    async def mixed() -> AsyncIterator[Any]:
        yield "see: "
        yield picture
        yield {"n": 1}

    @tool
    async def final() -> AsyncIterator[Any]:
        yield "shown only"
        yield ToolResult(value="the result", labels=("private",))

    @tool
    async def values() -> AsyncIterator[Any]:
        yield {"n": 1}
        yield {"n": 2}

    body = (await run(mixed)).body
    assert body is not None
    assert body.content == (Text(text="see: "), picture, Data(value={"n": 1}))
    outcome = await run(final)
    assert (outcome.text, outcome.labels) == ("the result", ("private",))
    body = (await run(values)).body
    assert body is not None
    assert body.content == (Data(value=[{"n": 1}, {"n": 2}]),)


async def test_generator_without_an_end_of_pieces_is_refused():
    @tool
    def f() -> Iterator[Any]:
        while True:
            yield {"n": 1}

    assert (await run(f)).error_code == "tool_result_invalid"


# --- the rest of the seam ----------------------------------------------------------------------------------------


async def test_every_kind_of_callable_runs():
    class Counter:
        def __init__(self) -> None:
            self.n = 0

        def __call__(self, by: int) -> int:
            """Count."""
            self.n += by
            return self.n

        @tool
        def method(self, by: int) -> int:
            return self.n + by

        @tool
        async def async_method(self, by: int) -> int:
            return self.n + by

        @staticmethod
        @tool
        def static(by: int) -> int:
            return by

        @classmethod
        @tool
        def of_class(cls, by: int) -> str:
            return f"{cls.__name__} {by}"

    async def delayed(by: int) -> int:
        return by

    counter = Counter()
    tools: list[Any] = [tool(counter), counter.method, counter.async_method, counter.static, counter.of_class]
    tools.append(tool(name="sync_looking")(lambda by: delayed(by)))
    from windlass.tools.tool import as_tool

    outcomes = [await run(as_tool(one), {"by": 2}) for one in tools]
    contents = [outcome.body.content for outcome in outcomes if outcome.body]
    assert contents == [
        (Data(value=2),),
        (Data(value=4),),
        (Data(value=4),),
        (Data(value=2),),
        (Text(text="Counter 2"),),
        (Data(value=2),),
    ]


async def test_context_variables_reach_a_tool_and_do_not_leak_from_it():
    variable = contextvars.ContextVar("variable", default="none")

    @tool
    def sync() -> str:
        seen = variable.get()
        variable.set("changed")
        return seen

    @tool
    async def awaited() -> str:
        seen = variable.get()
        variable.set("changed")
        await asyncio.sleep(0)
        return seen + variable.get()

    variable.set("given")
    assert (await run(sync)).text == "given"
    assert (await run(awaited)).text == "givenchanged"
    assert variable.get() == "given"


async def test_suspension_is_an_outcome_raised_or_returned():
    @tool
    def raises(ctx: ToolContext) -> str:
        try:
            ctx.suspend({"ticket": 5}, note="waits for the bank")
        except Exception:
            return "swallowed"

    @tool
    async def returns() -> Any:
        return Suspend({"ticket": 5}, "waits for the bank")

    for made in (raises, returns):
        outcome = await run(made)
        assert (outcome.status, outcome.note, outcome.payload) == (
            "suspended",
            "waits for the bank",
            CallBody(args={"ticket": 5}),
        )


async def test_external_tool_is_not_run_here():
    made = external_tool("pick", "Pick.", {"type": "object", "properties": {}})
    assert (await run(made)).error_code == "tool_unavailable"


async def test_refused_model_call_is_what_the_tool_makes_of_it():
    @tool
    async def f(ctx: ToolContext) -> str:
        answer = await ctx.model("Summarise.")
        return answer.text

    outcome = await run(f, seat=Listener())
    assert (outcome.ok, outcome.text) == (False, "no budget left")


async def test_plane_without_threads_runs_sync_tools_on_the_loop():
    @tool
    def where() -> str:
        return threading.current_thread().name

    here = threading.current_thread().name
    assert (await run(where, plane=LocalPlane(threads_max=0))).text == here
    assert (await run(where)).text.startswith("windlass-tool-")


UNDEAD = """
import asyncio, sys, time
sys.path.insert(0, sys.argv[1])
from windlass.events.tools.calls import CallBody
from windlass.tools.context import ToolContext
from windlass.tools.planes.local import LocalPlane
from windlass.tools.tool import tool

@tool(timeout_ms=50)
async def undead():
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            pass

@tool(timeout_ms=50)
def deaf():
    time.sleep(3600)

async def main():
    plane = LocalPlane(grace_s=0.05)
    for made in (undead, deaf):
        print((await plane.run(made, CallBody(args={}), ToolContext(session="s", call_id="c"))).status)

asyncio.run(main())
"""


def test_tools_that_were_given_up_do_not_keep_the_process_alive():
    source = str(pathlib.Path(__file__).parents[2] / "src")
    command = [sys.executable, "-c", UNDEAD, source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert (done.stdout, done.stderr) == ("timed_out\ntimed_out\n", "")


async def test_idle_threads_end_when_the_plane_is_closed():
    plane = LocalPlane()

    @tool
    def f() -> None: ...

    await run(f, plane=plane)
    await plane.close()
    await plane.close()
    await eventually(lambda: not plane._threads.workers)  # type: ignore[union-attr]


@pytest.mark.parametrize("awaits", [False, True], ids=["thread", "loop"])
async def test_a_tool_that_ended_while_the_loop_stood_still_is_not_timed_out(awaits: bool):
    @tool(timeout_ms=SHORT_MS)
    def in_a_thread() -> str:
        "Ends at once."
        return "done"

    @tool(timeout_ms=SHORT_MS)
    async def on_the_loop() -> str:
        "Ends at once, if anybody looks."
        await asyncio.sleep(0.001)
        return "done"

    made: AnyTool = on_the_loop if awaits else in_a_thread
    plane, context = LocalPlane(grace_s=GRACE_S), ToolContext(session="test", call_id="c1.0")
    under_way = asyncio.ensure_future(plane.run(made, CallBody(args={}), context))
    await asyncio.sleep(0)
    time.sleep(SHORT_MS / 1000 * 4)  # noqa: ASYNC251 - as a tool of another session would, that blocks instead of awaiting
    outcome = await under_way
    assert (outcome.status, outcome.text) == ("finished", "done")
    await plane.close()


async def test_a_tool_that_blocks_the_loop_again_and_again_is_timed_out_all_the_same():
    @tool(timeout_ms=SHORT_MS)
    async def blocks() -> str:
        "Never ends."
        while True:
            time.sleep(SHORT_MS / 1000 * 3)  # noqa: ASYNC251 - that is what it is tested for
            await asyncio.sleep(0)

    plane, context = LocalPlane(grace_s=GRACE_S), ToolContext(session="test", call_id="c1.0")
    outcome = await plane.run(blocks, CallBody(args={}), context)
    assert outcome.status == "timed_out"
    await plane.close()


@pytest.mark.parametrize(
    "value",
    [["x" * 1_000] * 2_000, {"a": {"b": "x" * 2_000_000}}, list(range(20_000)), ToolResult(value=["x" * 2_000_000])],
    ids=["list", "dict", "many", "result"],
)
async def test_a_large_result_of_any_kind_is_written_down_beside_the_loop(value: Any, monkeypatch: pytest.MonkeyPatch):
    from windlass.tools.planes import outcome

    wrote: list[threading.Thread] = []
    returned = outcome.returned

    def noted(given: Any) -> outcome.Outcome:
        wrote.append(threading.current_thread())
        return returned(given)

    monkeypatch.setattr("windlass.tools.planes.local.returned", noted)

    @tool
    async def large() -> Any:
        "Gives much."
        return value

    @tool
    async def small() -> Any:
        "Gives little."
        return {"a": [1, 2, "three"]}

    for made in (large, small):
        context = ToolContext(session="test", call_id="c1.0")
        assert (await LocalPlane().run(made, CallBody(args={}), context)).ok
    assert [thread is threading.main_thread() for thread in wrote] == [False, True]
