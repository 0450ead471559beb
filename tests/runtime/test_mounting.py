"""Tools that come and go while a session lives: mounted code, tools that clients declare, and what a restart finds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass
from windlass.events.commands import CommandRefused
from windlass.events.sessions import AgentChanged
from windlass.events.tools.calls import ToolCancelled, ToolDenied, ToolFinished, ToolStarted
from windlass.events.tools.toolset import MountReceived, ToolBody, ToolsetChanged
from windlass.events.values.tools import ToolSpec, ToolText
from windlass.runtime.api.session import Session
from windlass.store.base import Key, Origin
from windlass.testing.scripted import ScriptedModel, call

from .support import agent_of, events_of, only, sound, started


@windlass.tool(contract="pure")
def add(x: int, y: int) -> int:
    "Add two numbers."
    return x + y


@windlass.tool(contract="pure")
def subtract(x: int, y: int) -> int:
    "Subtract two numbers."
    return x - y


@windlass.tool(contract="pure")
def double(x: int) -> int:
    "Double a number."
    return 2 * x


@windlass.tool(contract="pure", name="double")
def double_twice(x: int) -> int:
    "Double a number, twice."
    return 4 * x


@windlass.tool(contract="pure", alias="half")
def halve(x: int) -> int:
    "Halve a number."
    return x // 2


SCHEMA = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
OPEN_TAB = windlass.external_tool("open_tab", "Opens a tab.", SCHEMA)


def offered(agent: windlass.Agent, number: int = -1) -> list[str]:
    """The tools that a request told the model of."""
    model = agent.model
    assert isinstance(model, ScriptedModel)
    return [tool.name for tool in model.requests[number].tools]


def told(agent: windlass.Agent, number: int = -1) -> str:
    """The last item of a request."""
    model = agent.model
    assert isinstance(model, ScriptedModel)
    return str(model.requests[number].items[-1])


async def changes(session: Session) -> list[tuple[str, str, tuple[str, ...], int]]:
    found = only(await events_of(session), ToolsetChanged)
    return [(event.operation, event.phase, event.names, event.revision) for event in found]


def spec_of(tool: Any) -> ToolSpec:
    made: ToolSpec = tool.spec
    return made


# --- code of this process ---


async def test_a_mounted_function_runs_in_this_process_from_the_next_turn_on():
    agent = agent_of("before", call("double", x=4), "8", tools=[add])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        await session.mount(double)
        await session.prompt("double 4")
        assert (await session.result()).text == "8"
        assert (offered(agent, 0), offered(agent, 1)) == (["add"], ["add", "double"])
        assert "value=8" in told(agent, 2)
        assert await changes(session) == [("add", "pending", ("double",), 0), ("add", "applied", ("double",), 1)]
        assert spec_of(double).digest == (await session.state()).toolset.tools["double"].digest
        assert (await session.state()).toolset.tools["double"].runs == "host"
        await sound(session)


async def test_a_mount_in_the_middle_of_a_turn_waits_for_its_end():
    release, entered = asyncio.Event(), asyncio.Event()

    @windlass.tool(contract="pure")
    async def gate() -> str:
        "Waits."
        entered.set()
        await release.wait()
        return "passed"

    agent = agent_of(call("gate"), call("double", x=1), "done", tools=[gate])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await entered.wait()
        await session.mount(double)
        assert "double" not in (await session.state()).toolset.tools
        release.set()
        assert (await session.result()).text == "done"
        assert (offered(agent, 0), offered(agent, 1)) == (["gate"], ["gate", "double"])
        await sound(session)


async def test_a_newer_version_takes_the_place_of_an_older_one_and_never_runs_before():
    agent = agent_of(call("double", x=1), "two", call("double", x=1), "four", tools=[double])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        await session.mount(double_twice)
        await session.prompt("again")
        assert (await session.result()).text == "four"
        assert ("value=2" in told(agent, 1), "value=4" in told(agent, 3)) == (True, True)
        assert await changes(session) == [("reload", "pending", ("double",), 0), ("reload", "applied", ("double",), 1)]


async def test_an_alias_is_understood_and_built_in_tools_are_mounted_by_name():
    agent = agent_of(call("half", x=8), call("todo", todos=[]), "done", tools=[add])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.mount(halve, "todo")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        assert offered(agent, 0) == ["add", "half", "todo"]
        assert "value=4" in told(agent, 1)


async def test_an_unmounted_tool_is_neither_offered_nor_run():
    agent = agent_of("one", call("add", x=1, y=1), "no sum", tools=[add, double])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        await session.unmount("add")
        await session.prompt("add")
        assert (await session.result()).text == "no sum"
        assert offered(agent, 1) == ["double"]
        assert [event.reason for event in only(await events_of(session), ToolDenied)] == ["unknown_tool"]
        with pytest.raises(windlass.Refused, match="not mounted: add"):
            await session.unmount("add")
        await sound(session)


@pytest.mark.parametrize("force", [False, True])
async def test_unmounting_waits_for_calls_unless_it_is_forced(force):
    release, entered = asyncio.Event(), asyncio.Event()

    @windlass.tool(contract="pure")
    async def gate() -> str:
        "Waits."
        entered.set()
        await release.wait()
        return "passed"

    agent = agent_of(call("gate"), "done", tools=[gate])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await entered.wait()
        await session.unmount("gate", force=force)
        assert ("gate" in (await session.state()).toolset.tools) is not force
        if not force:
            release.set()
        assert (await session.result()).text == "done"
        phases = [phase for _, phase, _, _ in await changes(session)]
        assert phases == (["pending", "forced"] if force else ["pending", "draining", "applied"])
        assert len(only(await events_of(session), ToolCancelled)) == force
        assert offered(agent, 1) == []
        await sound(session)


async def test_what_was_unmounted_stays_away_after_a_restart(tmp_path):
    store = str(tmp_path / "work.db")
    first = agent_of("one", tools=[add, double])
    async with windlass.open(store, agents=[first]) as rt:
        session = await rt.session(first, "s")
        await session.unmount("add")
        await session.prompt("go")
        await session.result()
    second = agent_of("two", tools=[add, double])
    async with windlass.open(store, agents=[second]) as rt:
        session = await rt.session(second, "s")
        await session.prompt("go")
        await session.result()
        assert offered(second) == ["double"]
        assert only(await events_of(session), AgentChanged) == []


async def mounted_before(store: str) -> None:
    """A session with a mounted tool, left by its process."""
    agent = agent_of("one", tools=[add])
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.mount(double)
        await session.prompt("go")
        await session.result()


async def test_after_a_restart_without_its_code_a_mounted_tool_is_reported_missing(tmp_path):
    store = str(tmp_path / "work.db")
    await mounted_before(store)
    agent = agent_of("two", call("double", x=3), "six", tools=[add])
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (changed,) = only(await events_of(session), AgentChanged)
        assert (changed.missing, changed.changed, changed.added) == (("double",), (), ())
        assert offered(agent) == ["add"]
        await session.mount(double)
        await session.prompt("double 3")
        assert (await session.result()).text == "six"
        assert "value=6" in told(agent)
        await sound(session)


async def test_after_a_restart_with_its_code_a_mounted_tool_is_there_as_if_nothing_had_happened(tmp_path):
    store = str(tmp_path / "work.db")
    await mounted_before(store)
    agent = agent_of(call("double", x=3), "six", tools=[add])
    async with windlass.open(store, agents=[agent], tools=[double]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("double 3")
        assert (await session.result()).text == "six"
        assert only(await events_of(session), AgentChanged) == []
        assert offered(agent) == ["add", "double"]
        await sound(session)


async def test_after_a_restart_with_other_code_a_mounted_tool_is_reported_changed(tmp_path):
    store = str(tmp_path / "work.db")
    await mounted_before(store)
    agent = agent_of(call("double", x=3), "twelve", tools=[add])
    async with windlass.open(store, agents=[agent], tools=[double_twice]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("double 3")
        assert (await session.result()).text == "twelve"
        (changed,) = only(await events_of(session), AgentChanged)
        assert (changed.missing, changed.changed, changed.added) == ((), ("double",), ())
        assert "value=12" in told(agent)


async def test_a_fork_has_the_tools_that_were_mounted_on_its_origin():
    agent = agent_of("one", call("double", x=5), "ten", tools=[add])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.mount(double)
        await session.prompt("go")
        await session.result()
        fork = await session.fork("f")
        await fork.prompt("double 5")
        assert (await fork.result()).text == "ten"
        assert "value=10" in told(agent)


@pytest.mark.parametrize("how", ["here", "elsewhere", "not begun"])
async def test_a_fork_under_other_code_says_so_and_has_the_tools_that_are_there(tmp_path, how):
    store = str(tmp_path / "work.db")
    await mounted_before(store)
    if how == "elsewhere":
        async with windlass.open(store) as rt:
            await (await rt.get("s")).fork("f")
    elif how == "not begun":  # as its maker leaves it that dies in the middle
        async with windlass.open(store) as rt:
            head = await rt.store.log.head(Key("default", "s"))
            assert head is not None
            await rt.store.log.create(Key("default", "f"), origin=Origin(session="s", seq=head.seq, hash=head.hash))
    agent = agent_of(call("subtract", x=5, y=2), "three", tools=[subtract])
    async with windlass.open(store, agents=[agent], take_up=False) as rt:
        fork = await (await rt.get("s")).fork("f") if how == "here" else await rt.get("f")
        await fork.prompt("5 - 2")
        assert (await fork.result()).text == "three"
        (changed,) = only(await events_of(fork), AgentChanged)
        assert (changed.missing, changed.changed, changed.added) == (("add", "double"), (), ("subtract",))
        assert offered(agent) == ["subtract"]
        await sound(fork)


async def test_code_of_this_process_cannot_be_mounted_where_another_one_drives(tmp_path):
    store = str(tmp_path / "work.db")
    agent = agent_of("one", tools=[add])
    async with windlass.open(store, agents=[agent]) as rt:
        await rt.session(agent, "s")
        async with windlass.open(store) as other:
            session = await other.get("s")
            with pytest.raises(windlass.UsageError, match="external_tool"):
                await session.mount(double)
            with pytest.raises(windlass.UsageError, match="at least one tool"):
                await session.mount()


async def test_code_that_is_mounted_no_more_is_forgotten():
    agent = agent_of("one", tools=[add])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        for _ in range(3):
            await session.mount(double)
            await session.mount(double_twice)
        await session.unmount("double")
        await session.mount(halve)
        assert list(rt.slots.at(session.key).local_code.code) == [("halve", spec_of(halve).digest)]


# --- tools that clients declare ---


def declared(name: str = "open_tab", **more: Any) -> MountReceived:
    """A mount as a client over a protocol sends it: its specs say whatever it likes."""
    spec = ToolSpec(name=name, runs="host", source="author", **more)
    body = ToolBody(tools=(ToolText(name=name, description="Opens a tab.", parameters=SCHEMA),))
    return MountReceived(command_id=f"mount-{name}", actor="browser", tools=(spec,), body=body)


ALLOWED = windlass.Policy(rules=(windlass.allow("*"),))


async def test_whatever_a_client_says_its_tools_are_run_by_clients():
    agent = agent_of(call("open_tab", url="a"), "open", tools=[add], policy=ALLOWED)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await rt.send(session.key, declared())
        spec = (await session.state()).toolset.tools["open_tab"]
        assert (spec.runs, spec.source, spec.digest != "", spec.tokens > 0) == ("client", "client:browser", True, True)
        await session.prompt("go")
        result = await session.result()
        assert (result.status, offered(agent)) == ("asked", ["add", "open_tab"])
        await session.tool_result(result.waiting_for[0], "tab 3")
        assert (await session.result()).text == "open"
        assert only(await events_of(session), ToolStarted) == []
        await sound(session)


async def test_what_a_client_declared_is_in_the_log_and_outlives_every_process(tmp_path):
    store = str(tmp_path / "work.db")
    first = agent_of("one", tools=[add], policy=ALLOWED)
    async with windlass.open(store, agents=[first], poll_ms=10) as rt:
        session = await rt.session(first, "s")
        async with windlass.open(store) as other:
            await (await other.get("s")).mount(OPEN_TAB, actor="browser")
        await started(session, ToolsetChanged, count=2)
    second = agent_of(call("open_tab", nonsense=1), call("open_tab", url="a"), tools=[add], policy=ALLOWED)
    async with windlass.open(store, agents=[second]) as rt:
        session = await rt.session(second, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        assert offered(second) == ["add", "open_tab"]
        assert only(await events_of(session), AgentChanged) == []
        assert [event.reason for event in only(await events_of(session), ToolDenied)] == ["invalid_arguments"]
        await sound(session)


async def test_a_client_may_not_replace_what_the_author_gave():
    agent = agent_of("x", tools=[add])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        with pytest.raises(windlass.Refused, match="not a client's to replace") as caught:
            await rt.send(session.key, declared("add"))
        assert caught.value.code == "collision"
        await rt.send(session.key, declared())
        again = declared()
        await rt.send(session.key, MountReceived(command_id="again", actor="b", tools=again.tools, body=again.body))
        assert [entry[:2] for entry in await changes(session)][2:] == [("reload", "pending"), ("reload", "applied")]


@pytest.mark.parametrize(
    ("spec", "text", "code"),
    [
        (ToolSpec(name="a b"), ToolText(name="a b", parameters=SCHEMA), "malformed"),
        (ToolSpec(name="t"), ToolText(name="t", parameters={"type": "array"}), "malformed"),
        (ToolSpec(name="t"), ToolText(name="t", parameters={"type": "object", "properties": 5}), "malformed"),
        (ToolSpec(name="t"), ToolText(name="other"), "no_content"),
    ],
)
async def test_a_declaration_that_no_model_could_use_is_refused_on_record(tmp_path, spec, text, code):
    store = str(tmp_path / "work.db")
    agent = agent_of("x", tools=[add])
    command = MountReceived(command_id="m", actor="c", tools=(spec,), body=ToolBody(tools=(text,)))
    async with windlass.open(store, agents=[agent], poll_ms=10) as rt:
        session = await rt.session(agent, "s")
        async with windlass.open(store) as other:
            await other.send(session.key, command)
        (refused,) = await started(session, CommandRefused)
        assert (refused.command_id, refused.code) == ("m", code)
        assert list((await session.state()).toolset.tools) == ["add"]


async def test_an_external_tool_that_the_owner_mounts_is_the_authors_own():
    agent = agent_of(call("open_tab", url="a"), tools=[add])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.mount(OPEN_TAB, double)
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        specs = (await session.state()).toolset.tools
        assert [(spec.name, spec.runs, spec.source) for spec in specs.values()] == [
            ("add", "host", "author"),
            ("open_tab", "client", "author"),
            ("double", "host", "author"),
        ]
        assert only(await events_of(session), ToolFinished) == []
