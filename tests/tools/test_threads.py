"""Threads for sync tools: a call's time begins when it does, those who hang do not starve the others, and nothing begins
for a session that somebody else may have."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from windlass.events.errors import StaleEpoch
from windlass.events.tools.calls import CallBody
from windlass.tools.context import ToolContext
from windlass.tools.planes import local
from windlass.tools.planes.local import LocalPlane
from windlass.tools.planes.outcome import Outcome
from windlass.tools.planes.threads import FIRSTS_FACTOR, Threads, TooManyOrphans
from windlass.tools.tool import AnyTool, tool

SHORT_MS = 600


class Seat:
    """A seat that says what it is told to about the session, and keeps what was noticed."""

    def __init__(self, *holds: bool | Exception) -> None:
        self._holds = list(holds)
        self.noticed: list[str] = []
        self.asked = 0

    def holds(self) -> bool:
        return not self._holds

    async def hold(self, call_id: str) -> bool:
        self.asked += 1
        said = self._holds.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    def notice(self, call_id: str, code: str, message: str) -> None:
        self.noticed.append(code)


def run(plane: LocalPlane, made: AnyTool, session: str = "s", seat: Any = None) -> asyncio.Task[Outcome]:
    context = ToolContext(session=session, call_id="c7.0", tool=made.name, seat=seat)
    return asyncio.create_task(plane.run(made, CallBody(args={}), context))


async def until(condition: Any) -> None:
    """Waits for what another thread does."""
    while not condition():
        await asyncio.sleep(0.002)


class Hanging:
    """A tool that hangs until it is released, and counts how often it was begun."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.begun = 0
        hanging = self

        @tool
        def hang() -> str:
            """Hangs."""
            hanging.begun += 1
            hanging.release.wait()
            return "released"

        self.tool = hang


@pytest.mark.guard(60)
async def test_the_time_of_a_call_begins_when_it_gets_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "SATURATED_S", 0.01)
    plane, hanging, seat = LocalPlane(threads_max=1), Hanging(), Seat()

    @tool(timeout_ms=SHORT_MS)
    def quick() -> str:
        """Is quick."""
        return "done"

    @tool(timeout_ms=SHORT_MS)
    def slow() -> None:
        """Is too slow."""
        threading.Event().wait(5)

    first = run(plane, hanging.tool)
    await until(lambda: hanging.begun)
    waits, too_long = run(plane, quick, seat=seat), run(plane, slow)
    await asyncio.sleep(3 * SHORT_MS / 1000)
    assert not waits.done()
    hanging.release.set()
    assert ((await first).text, (await waits).text) == ("released", "done")
    assert (await too_long).status == "timed_out"  # by the time that it had itself
    assert seat.noticed == ["threads_saturated"]


@pytest.mark.guard(60)
async def test_sessions_that_hang_in_every_thread_do_not_starve_another_one() -> None:
    plane, hanging = LocalPlane(threads_max=8), Hanging()

    @tool
    def quick() -> str:
        """Is quick."""
        return "done"

    calls = [run(plane, hanging.tool, session=f"s{number % 4}") for number in range(32)]
    await until(lambda: hanging.begun >= 8)
    assert (await run(plane, quick, session="fifth")).text == "done"
    assert hanging.begun < 32
    hanging.release.set()
    assert {(await call).text for call in calls} == {"released"}


@pytest.mark.guard(60)
async def test_groups_take_turns_whatever_each_has_waiting() -> None:
    threads, order, release = Threads(1), [], threading.Event()
    for number in range(FIRSTS_FACTOR):
        threads.submit(release.wait, f"busy{number}")  # type: ignore[arg-type]
    for group in ("a", "a", "a", "b", "c"):
        threads.submit(lambda group=group: order.append(group), group)  # type: ignore[misc]
    release.set()
    await until(lambda: len(order) == 5)
    assert sorted(order[:3]) == ["a", "b", "c"]
    threads.close()


@pytest.mark.guard(60)
async def test_orphans_count_for_their_own_tool_alone() -> None:
    threads, release = Threads(8, orphans_max=1), threading.Event()
    job = threads.submit(release.wait, "s", "deaf")  # type: ignore[arg-type]
    await until(lambda: job.started)
    threads.give_up(job)
    with pytest.raises(TooManyOrphans):
        threads.submit(lambda: None, "s", "deaf")
    ran = threading.Event()
    threads.submit(ran.set, "s", "other")
    assert ran.wait(60)
    release.set()
    await until(lambda: threads.orphans == 0)
    threads.submit(lambda: None, "s", "deaf")
    threads.close()


@pytest.mark.guard(60)
async def test_a_call_begins_only_while_the_session_is_ours() -> None:
    plane, begun = LocalPlane(), []

    @tool
    def pay() -> str:
        """Pays."""
        begun.append("paid")
        return "paid"

    again = Seat(True)
    assert (await run(plane, pay, seat=again)).text == "paid"
    assert again.asked == 1
    begun.clear()
    assert (await run(plane, pay, seat=Seat(False))).error_code == "tool_cancelled"
    with pytest.raises(StaleEpoch):
        await run(plane, pay, seat=Seat(StaleEpoch("somebody else has it")))
    assert begun == []


async def test_a_seat_that_breaks_in_the_thread_keeps_nobody_waiting():
    class Seat:
        def holds(self) -> bool:
            raise LookupError("gone")

    @tool
    def quick() -> str:
        return "done"

    seat: Any = Seat()
    with pytest.raises(LookupError, match="gone"):
        await LocalPlane().run_inline(quick, CallBody(args={}), ToolContext(session="s", call_id="c", seat=seat))
