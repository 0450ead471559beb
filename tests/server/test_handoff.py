"""A session is handed over: whatever breaks off, one side may go on, the other says where it went, and it arrives
once."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

import windlass
from windlass.events.commands import CommandCompleted, PromptBody, PromptReceived
from windlass.events.errors import Refused, UsageError
from windlass.events.sessions import HandoffReceived
from windlass.events.stored import codec
from windlass.events.tools.permissions import PermissionApproved
from windlass.events.values.blocks import Text
from windlass.kernel import parts
from windlass.runtime.operate import command_delivery
from windlass.runtime.operate.log_point import read_point
from windlass.runtime.operate.open_requests import askers
from windlass.runtime.sessions import handoff
from windlass.runtime.sessions.handoff import HandedOver, Mover, hand_over_to_server, where
from windlass.store import open_store
from windlass.store.base import InboxCommand, Key, Store
from windlass.testing.scripted import ScriptedModel, by_history, call

from .handoff_mover import MOMENTS
from .support import Running, clerk, serving

ROOT = pathlib.Path(__file__).parent.parent.parent
MARCH = Key("default", "march")
BY = Mover(actor="ada", auth="os_user")
KILL_S = 300


@contextlib.asynccontextmanager
async def here(folder: pathlib.Path, *agents: windlass.Agent) -> AsyncIterator[windlass.Runtime]:
    async with windlass.open(str(folder / "here.db"), agents=agents) as runtime:
        yield runtime


def room(folder: pathlib.Path, name: str) -> pathlib.Path:
    """A folder of a server's own."""
    (folder / name).mkdir()
    return folder / name


async def asking(folder: pathlib.Path) -> None:
    """A session `march` that asks for a permission, driven by nobody."""
    agent = clerk()
    async with here(folder, agent) as runtime:
        session = await runtime.session(agent, "march")
        await session.prompt("Pay the invoice.")
        assert (await session.result()).status == "asked"


@contextlib.asynccontextmanager
async def stored(folder: pathlib.Path) -> AsyncIterator[Store]:
    store = await open_store(str(folder / "here.db"))
    try:
        yield store
    finally:
        await store.close()


async def handed(folder: pathlib.Path, running: Running, session: str | None = None) -> HandedOver:
    admin = running.client()
    async with stored(folder) as store:
        return await hand_over_to_server(store, MARCH, admin.url, str(admin.token), by=BY, session=session)


async def test_what_was_asked_here_is_answered_there_and_the_work_goes_on(tmp_path):
    await asking(tmp_path)
    async with serving(room(tmp_path, "there"), [clerk()]) as running:
        made = await handed(tmp_path, running)
        assert (made.session, made.to, made.before) == ("march", running.server.url, False)
        admin = running.client()
        asked = await admin.asked("march")
        answer = {"decision": "approve", "digest": asked["digest"]}
        await admin.post(f"/v1/sessions/march/requests/{asked['request_id']}", answer)
        ended = (await admin.get("/v1/sessions/march/result?wait_s=60"))["result"]
        assert (ended["status"], ended["text"]) == ("completed", "It is paid.")
        kinds = [one["event"]["type"] for one in await admin.records("march")]
        assert kinds.count("tool.started") == 1
        at = kinds.index("handoff.received")
        assert kinds[at + 1 : at + 3] == ["command.completed", "session.imported"]
        assert (await admin.get("/v1/sessions/march/verify"))["sound"]


async def test_what_was_handed_over_is_only_read_here_and_says_where_it_went(tmp_path):
    await asking(tmp_path)
    async with serving(room(tmp_path, "there"), [clerk()]) as running:
        made = await handed(tmp_path, running)
        async with here(tmp_path, clerk()) as runtime:
            session = await runtime.get("march")
            for command in (session.prompt("More."), session.wake()):
                with pytest.raises(Refused, match=f"goes on as 'march' at {made.to}") as refused:
                    await command
                assert refused.value.code == "handed_over"
            await session.close()
            assert [row.state for row in await runtime.sessions()] == ["left"]
            assert await session.requests() == ()
            kinds = [type(record.event) async for record in session.records()]
            assert kinds[-2:] == [HandoffReceived, CommandCompleted]
            branch = await session.fork("branch")
            assert (await branch.state()).session_id == "branch"
            await branch.prompt("Go on here.")
        async with stored(tmp_path) as store:
            left = await where(store, MARCH)
            assert left is not None
            assert (left.to, left.session) == (made.to, "march")


async def test_a_handoff_that_is_said_again_is_taken_once_and_one_to_another_place_is_refused(tmp_path):
    await asking(tmp_path)
    async with (
        serving(room(tmp_path, "there"), [clerk()]) as running,
        serving(room(tmp_path, "else"), [clerk()]) as other,
    ):
        await handed(tmp_path, running)
        assert (await handed(tmp_path, running)).before
        kinds = [one["event"]["type"] for one in await running.client().records("march")]
        assert kinds.count("handoff.received") == kinds.count("session.imported") == 1
        for wrong in (handed(tmp_path, other), handed(tmp_path, running, "april")):
            with pytest.raises(UsageError, match="was handed over to"):
                await wrong
        assert (await other.client().get("/v1/sessions"))["sessions"] == []


async def test_what_would_be_refused_there_is_refused_before_anything_happens(tmp_path):
    await asking(tmp_path)
    async with (
        serving(room(tmp_path, "there"), [clerk("other")]) as running,
        serving(room(tmp_path, "two"), [clerk()]) as taken,
    ):
        driver = taken.client("drive", "approve")
        await taken.client().begin("march")
        async with stored(tmp_path) as store:
            tries: list[tuple[Any, Any, str | None, str]] = [
                (running.client(), None, None, "nobody serves the agent 'clerk'"),
                (taken.client(), None, None, "there is a session 'march' already"),
                (driver, None, "april", "role 'admin'"),
            ]
            for client, _, name, why in tries:
                with pytest.raises(UsageError, match=why):
                    await hand_over_to_server(store, MARCH, client.url, client.token, by=BY, session=name)
            assert await where(store, MARCH) is None
        async with here(tmp_path, clerk()) as runtime:
            assert len(await (await runtime.get("march")).requests()) == 1


async def test_a_session_at_work_is_not_handed_over(tmp_path):
    import threading

    go = threading.Event()

    @windlass.tool
    def pay(amount: int) -> str:
        """Pays."""
        go.wait(250)
        return "paid"

    agent = windlass.Agent("clerk", model=clerk().model, tools=[pay], policy=windlass.ALLOW_ALL)
    async with serving(room(tmp_path, "there"), [clerk()]) as running, here(tmp_path, agent) as runtime:
        session = await runtime.session(agent, "march")
        following = session.prompt("Pay.")
        async for event in following:
            if type(event).__name__ == "ToolStarted":
                break
        with pytest.raises(UsageError, match="does not fit a session that is awaitingtools"):
            await handed(tmp_path, running)
        go.set()
        assert (await session.result()).status == "completed"
        made = await handed(tmp_path, running)  # the process that drives it lets it go
        assert not made.before
        with pytest.raises(Refused, match="goes on as"):
            await session.prompt("More.")


async def killed(folder: pathlib.Path, running: Running, moment: str) -> int:
    admin = running.client()
    words = (sys.executable, "-m", "tests.server.handoff_mover", str(folder), admin.url, str(admin.token), "march")
    process = await asyncio.create_subprocess_exec(*words, moment, cwd=ROOT)
    async with asyncio.timeout(KILL_S):
        return await process.wait()


@pytest.mark.parametrize("moment", sorted(MOMENTS))
async def test_a_handoff_that_is_killed_leaves_one_side_that_may_go_on_and_is_finished_by_saying_it_again(
    tmp_path, moment
):
    await asking(tmp_path)
    late = PromptReceived(command_id="late", actor="ada", body=PromptBody(content=(Text(text="And then?"),)))
    async with stored(tmp_path) as store:
        if "command" in moment:  # one that came into the inbox in the same instant
            await store.inbox.send(MARCH, InboxCommand(command_id="late", at_ms=1, data=codec.encode_command(late)))
    async with serving(room(tmp_path, "there"), [clerk()]) as running:
        assert await killed(tmp_path, running, moment) == -signal.SIGKILL
        admin = running.client()
        arrived = [row["session"] for row in (await admin.get("/v1/sessions"))["sessions"]]
        async with stored(tmp_path) as store:
            left = await where(store, MARCH)
        async with here(tmp_path, clerk()) as runtime:
            session = await runtime.get("march")
            if left is None:
                assert arrived == []
                await session.set_title("still here")
            else:
                with pytest.raises(Refused, match=f"goes on as 'march' at {running.server.url}"):
                    await session.set_title("not here")
        made = await handed(tmp_path, running)
        assert made.before is bool(arrived)
        records = await admin.records("march")
        kinds = [one["event"]["type"] for one in records]
        assert kinds.count("handoff.received") == kinds.count("session.imported") == 1
        assert len(await admin.get("/v1/sessions/march/requests")) == 2
        if "command" in moment:
            await admin.get("/v1/sessions/march/result?wait_s=60")
            seen = [one["event"].get("command_id") for one in await admin.records("march")]
            assert seen.count("late") == 1


def lead(mode: str = "foreground") -> windlass.Agent:
    """An agent that has a specialist pay."""
    model = ScriptedModel(
        by_history([call("spawn", agent="clerk", task="Pay.", mode=mode), "It is done.", "It is told."])
    )
    return windlass.Agent("lead", model=model, agents=[clerk()])


async def below(folder: pathlib.Path, agent: windlass.Agent) -> str:
    """A session `march` that rests, and whose child asks for a permission; gives the child's id."""
    async with here(folder, agent) as runtime:
        session = await runtime.session(agent, "march")
        await session.prompt("Pay the invoice.")
        await session.result()
        (child,) = await session.children()
        assert (await (await runtime.get(child)).result()).status == "asked"
        await session.wait_idle()
    return child


@pytest.mark.parametrize("mode", ["foreground", "background", "detached"])
async def test_a_session_whose_child_asks_stays_until_the_child_has_ended(tmp_path, mode):
    child = await below(tmp_path, lead(mode))
    async with serving(room(tmp_path, "there"), [lead(mode)]) as running:
        with pytest.raises(UsageError, match=rf"child session {child} \(clerk\) is not over: answer what it asks"):
            await handed(tmp_path, running)
        async with stored(tmp_path) as store:
            assert await where(store, MARCH) is None
        async with here(tmp_path, lead(mode)) as runtime:
            session = await runtime.get("march")
            (asked,) = await session.requests()
            await session.approve(asked)
            assert (await (await runtime.get(child)).result()).status == "completed"
            while await session.children():
                await asyncio.sleep(0.01)
            assert (await session.result()).status == "completed"
        assert not (await handed(tmp_path, running)).before
        kinds = [one["event"]["type"] for one in await running.client().records("march")]
        assert kinds.count("child.started") == kinds.count("child.finished") == 1


async def test_what_a_detached_child_left_behind_deep_below_keeps_the_session_here(tmp_path):
    low = windlass.Agent(
        "mid",
        model=ScriptedModel(by_history([call("spawn", agent="clerk", task="Pay.", mode="detached"), "It is begun."])),
        agents=[clerk()],
    )
    top = windlass.Agent(
        "lead", model=ScriptedModel(by_history([call("spawn", agent="mid", task="Pay."), "Done."])), agents=[low]
    )
    async with here(tmp_path, top) as runtime:
        session = await runtime.session(top, "march")
        await session.prompt("Pay the invoice.")
        assert (await session.result()).status == "completed"
        assert await session.children() == ()
        deep = "march~c6.0~c6.0"
        assert (await (await runtime.get(deep)).result()).status == "asked"
    async with serving(room(tmp_path, "there"), [top]) as running:
        with pytest.raises(UsageError, match=rf"child session {deep} \(clerk\) is not over"):
            await handed(tmp_path, running)


async def test_a_detached_job_of_a_child_that_has_ended_keeps_the_session_here(tmp_path):
    """It runs on this machine, as a job of the session itself would."""
    waits = call("shell", command="until [ -e go ]; do sleep 0.02; done", background="detached")
    helper = windlass.Agent(
        "helper",
        model=ScriptedModel(by_history([waits, "It is begun."])),
        tools=["shell"],
        policy=windlass.Policy(default="allow"),
        description="helps",
    )
    top = windlass.Agent(
        "lead",
        model=ScriptedModel(by_history([call("spawn", agent="helper", task="Build."), "Done."])),
        agents=[helper],
    )
    async with here(tmp_path, top) as runtime:
        session = await runtime.session(top, "march", workspace=tmp_path)
        await session.prompt("Build it.")
        assert (await session.result()).status == "asked"
        (asked,) = await session.requests()
        await session.approve(asked)
        while (result := await session.result()).status == "asked":
            await asyncio.sleep(0.01)
        assert result.status == "completed"
        child = await runtime.get("march~c6.0")
        (job,) = (await child.state()).jobs.open
    async with serving(room(tmp_path, "there"), [top]) as running:
        try:
            with pytest.raises(
                UsageError, match=rf"in child session march~c6.0, job {job} runs here: wait for its end"
            ):
                await handed(tmp_path, running)
        finally:
            async with here(tmp_path, top) as runtime:
                child = await runtime.get("march~c6.0")
                await child.kill_job(job)
                while (await child.state()).jobs.open:
                    await asyncio.sleep(0.01)
        assert not (await handed(tmp_path, running)).before


async def test_below_a_session_that_left_nothing_is_answered_and_all_can_be_cancelled(tmp_path, monkeypatch):
    """As in stores of versions that handed such sessions over."""
    agent = lead()
    child = await below(tmp_path, agent)
    row = parts.TABLES.facts[HandoffReceived]
    monkeypatch.setitem(parts.TABLES.facts, HandoffReceived, msgspec.structs.replace(row, check=None))
    monkeypatch.setattr(handoff, "rows_below", nothing_below)
    async with serving(room(tmp_path, "there"), [agent]) as running:
        await handed(tmp_path, running)
    async with here(tmp_path, agent) as runtime:
        session, under = await runtime.get("march"), await runtime.get(child)
        assert await session.requests() == ()
        (asked,) = await under.requests()
        for answer in (under.approve(asked), session.approve(f"c6.0/{asked.request_id}", digest=asked.digest)):
            with pytest.raises(Refused, match=f"'march', which began this one, was handed over.* Cancel '{child}'"):
                await answer
        approval = PermissionApproved(command_id="a", request_id=asked.request_id, digest=asked.digest)
        with pytest.raises(UsageError, match="'march', which began this one, was handed over"):
            await command_delivery.deliver(runtime.store, under.key, approval)
        point = await read_point(runtime.store, MARCH)
        assert [asker.scope for asker in await askers(runtime.store, point)] == [""]
        await under.cancel()
        assert (await under.result()).status == "cancelled"


async def nothing_below(store: Store, key: Key) -> list[Any]:
    return []
