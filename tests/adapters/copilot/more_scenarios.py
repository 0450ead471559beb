"""More of what clients rely on: what is listed and told of sessions, results of every kind, answers of every kind, and
two clients at one session, in a program of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import sys
from typing import Any

from copilot import CopilotClient
from copilot.client import RuntimeConnection
from copilot.generated.rpc import (
    AgentSelectRequest,
    ModelSwitchToRequest,
    ModeSetRequest,
    NameSetRequest,
    PlanUpdateRequest,
)
from copilot.generated.session_events import SessionMode
from copilot.tools import ToolResult, define_tool
from pydantic import BaseModel

from .python_scenarios import Heard, Person, Sought, check, connected, main, refusal, said
from .support import WAIT_S, Launcher

made_tool: Any = define_tool


class Nested(BaseModel):
    words: list[str]
    inner: Sought


async def around(launcher: Launcher, folder: pathlib.Path) -> None:
    """What is known of sessions without sitting at one."""
    async with connected() as client:
        check("no last session", await client.get_last_session_id(), None)
        check("nobody to sign in", (await client.get_auth_status()).isAuthenticated)
        check("ping", (await client.ping("you")).message, "pong: you")
        check("removing what is not there", "no session" in await refusal(client.delete_session("none")))
        told: list[tuple[str, str]] = []
        created: list[str] = []
        client.on_lifecycle(lambda event: told.append((str(event.type), event.session_id)))
        client.on_lifecycle("session.created", lambda event: created.append(event.session_id))
        session = await client.create_session(session_id="mine", working_directory=str(folder))
        check("an id of one's own", session.session_id, "mine")
        check("its metadata", (await client.get_session_metadata("mine")).session_id, "mine")
        check("metadata of none", await client.get_session_metadata("none"), None)
        with contextlib.suppress(Exception):
            await session.disconnect()
        check("whoever has left says nothing", "has left" in await refusal(session.send("x")))
        check("and reads nothing", "has left" in await refusal(session.get_events()))
        await client.delete_session("mine")
        check(
            "lifecycle",
            [one for one in told if one[1] == "mine"],
            [("session.created", "mine"), ("session.deleted", "mine")],
        )
        check("lifecycle of one kind", created, ["mine"])
        await results(client, folder)
        await asked(client, folder)
        await selected(client)
        await set_up(client, folder)
        await stopped(client)


async def results(client: Any, folder: pathlib.Path) -> None:
    """Results of tools, and hooks that change them."""

    def kind_of(word: Any) -> Any:
        return ToolResult(text_result_for_llm=f"it was {word}", result_type=word)

    options = {"skip_permission": True}
    tools = [
        made_tool("kinds", description="k", params_type=Sought, handler=lambda sought: kind_of(sought.word), **options),
        made_tool(
            "nest", description="n", params_type=Nested, handler=lambda given: {"got": given.inner.word}, **options
        ),
    ]
    person = Person()
    hooks = {
        "on_user_prompt_submitted": lambda given, invocation: {"modifiedPrompt": given["prompt"].replace("foo", "bar")},
        "on_post_tool_use": lambda given, invocation: (
            {"modifiedResult": "rewritten"} if given["toolName"] == "weigh" else None
        ),
    }
    heard = Heard()
    session = await client.create_session(
        on_event=heard, on_permission_request=person.permit, tools=tools, hooks=hooks, working_directory=str(folder)
    )
    for word in ("success", "failure", "rejected", "denied"):
        check(
            f"a result: {word}",
            await said(session, f"call kinds {json.dumps({'word': word})}"),
            f"kinds gave it was {word}",
        )
    told = [data.success for data in heard.of("tool.execution_complete")]
    check("which of them are told as good", told, [True, False, False, False])
    nested = json.dumps({"words": ["a"], "inner": {"word": "deep"}})
    check("arguments and results with parts", await said(session, f"call nest {nested}"), 'nest gave {"got": "deep"}')
    check("a hook changes a prompt", await said(session, "say foo"), "bar")
    check("a hook changes a result", await said(session, 'call weigh {"thing": "ox"}'), "weigh gave rewritten")


async def asked(client: Any, folder: pathlib.Path) -> None:
    """Questions in words, and the ways to ask a person oneself."""
    answers: list[Any] = [{"action": "accept", "content": {"confirmed": True}}, {"action": "decline"}]
    answers += [{"action": "accept", "content": {"selection": "b"}}, {"action": "accept", "content": {"value": "free"}}]

    async def fill_in(context: Any) -> Any:
        return answers.pop(0)

    async def free(request: Any, invocation: Any) -> Any:
        return {"answer": "in my words", "wasFreeform": True}

    session = await client.create_session(on_elicitation_request=fill_in, on_user_input_request=free)
    check("a question in words", await said(session, 'call ask_user {"question": "why?"}'), "ask_user gave in my words")
    check("it is said that there are forms", session.capabilities["ui"]["elicitation"])
    check("confirmed", (await session.ui.confirm("sure?"), await session.ui.confirm("sure?")), (True, False))
    check("selected", await session.ui.select("which?", ["a", "b"]), "b")
    check("put in", await session.ui.input("what?"), "free")
    bare = await client.create_session()
    check("and that there are none", (bare.capabilities or {}).get("ui", {}).get("elicitation", False), False)


async def selected(client: Any) -> None:
    """A custom agent is selected for the session, and deselected."""
    heard = Heard()
    session = await client.create_session(on_event=heard)
    check("agents", [one.display_name for one in (await session.rpc.agent.list()).agents], ["The critic"])
    check("none selected", (await session.rpc.agent.get_current()).agent, None)
    check("of none", "no specialist" in await refusal(session.rpc.agent.select(AgentSelectRequest(name="nobody"))))
    answer = await session.rpc.agent.select(AgentSelectRequest(name="critic"))
    check("selected", (answer.agent.name, answer.agent.description), ("critic", "Finds what is wrong."))
    check("the current one", (await session.rpc.agent.get_current()).agent.name, "critic")
    check("its instructions", await said(session, "instructions"), "You are a critic.")
    check("its tools", await said(session, "tools"), "weigh")
    await session.rpc.agent.deselect()
    check("instructions of the agent", await said(session, "instructions"), "You are a clerk.")
    told = await heard.until("subagent.selected")
    check("it is told", (told.agent_name, told.agent_display_name, told.tools), ("critic", "The critic", ["weigh"]))
    await heard.until("subagent.deselected")


async def set_up(client: Any, folder: pathlib.Path) -> None:
    """How a session is set up, and set otherwise."""
    heard = Heard()
    session = await client.create_session(
        on_event=heard,
        working_directory=str(folder),
        available_tools=["weigh"],
        system_message={"mode": "replace", "content": "You are a baker."},
    )
    check("instructions of its own", await said(session, "instructions"), "You are a baker.")
    check("a tool that is available", "weigh" in await said(session, "tools"))
    (folder / "inside.txt").write_text("x")
    directory = {"type": "directory", "path": str(folder), "displayName": "here"}
    check("a directory", "inside.txt" in await said(session, "look", attachments=[directory]))
    for mode in (SessionMode.AUTOPILOT, SessionMode.PLAN, SessionMode.INTERACTIVE):
        await session.rpc.mode.set(ModeSetRequest(mode=mode))
        check(f"mode {mode.value}", await session.rpc.mode.get(), mode)
    await session.rpc.model.switch_to(ModelSwitchToRequest(model_id="other"))
    check("the model it has", (await session.rpc.model.get_current()).model_id, "other")
    await session.rpc.plan.update(PlanUpdateRequest(content="one"))
    await session.rpc.plan.update(PlanUpdateRequest(content="two"))
    await session.rpc.plan.delete()
    await heard.until("session.plan_changed", count=3)
    check(
        "its plan", [data.operation.value for data in heard.of("session.plan_changed")], ["create", "update", "delete"]
    )
    for name in ("One", "Two"):
        await session.rpc.name.set(NameSetRequest(name=name))
    await heard.until("session.title_changed", count=2)
    check("its names", [data.title for data in heard.of("session.title_changed")], ["One", "Two"])


async def stopped(client: Any) -> None:
    """Aborts: of a tool, twice, and of nothing."""
    begun = asyncio.Event()

    async def stall(sought: Sought) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    tool = made_tool("stall", description="s", params_type=Sought, handler=stall, skip_permission=True)
    session = await client.create_session(tools=[tool])
    waiting = asyncio.ensure_future(session.send_and_wait('call stall {"word": "ox"}', timeout=WAIT_S))
    async with asyncio.timeout(WAIT_S):
        await begun.wait()
    await session.abort()
    check("a tool is aborted", "aborted" in await refusal(waiting))
    await session.abort()
    check("an abort of nothing", await said(session, "say on"), "on")


async def together(launcher: Launcher, folder: pathlib.Path) -> None:
    """Two clients, each with a tool of its own; one of them refuses."""
    token, first, second = "hunter2-hunter2", Person(), Person()
    with launcher.listening(token) as port:
        place = f"127.0.0.1:{port}"
        stranger = CopilotClient(connection=RuntimeConnection.for_uri(place))
        check("no token", "connection token" in await refusal(stranger.start()))
        await stranger.force_stop()
        async with connected(connection=RuntimeConnection.for_uri(place, connection_token=token)) as one:
            heard, also = Heard(), Heard()
            guarded = made_tool("weigh_all", description="w", params_type=Sought, handler=lambda sought: "x")
            session = await one.create_session(
                on_event=heard, on_permission_request=first.permit, tools=[named("left"), guarded]
            )
            async with connected(connection=RuntimeConnection.for_uri(place, connection_token=token)) as two:
                more = {"on_permission_request": second.permit, "tools": [named("right")]}
                other = await two.resume_session(session.session_id, on_event=also, **more)
                check("a tool of the one", await said(other, 'call left {"word": "a"}'), "left gave a from left")
                check("a tool of the other", await said(session, 'call right {"word": "b"}'), "right gave b from right")
                first.silent, second.deny = True, "not today"
                refused = await said(session, 'call weigh_all {"word": "c"}')
                check("one refuses for both", "not today" in refused)
                for each in (heard, also):
                    told = await each.until("permission.completed")
                    check("and both are told", told.result.kind, "denied-interactively-by-user")


def named(name: str) -> Any:
    """A tool that says whose it is."""
    handler = lambda sought: f"{sought.word} from {name}"  # noqa: E731
    return made_tool(name, description=name, params_type=Sought, handler=handler, skip_permission=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:], {"around": around, "together": together})
