"""The published Python client, unchanged, as a program of its own: it prints a line for each thing that it checks.

The client leaves files to the garbage collector, which the test run forbids in its own process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

from copilot import CopilotClient
from copilot.client import RuntimeConnection
from copilot.generated.rpc import (
    ExecuteCommandParams,
    HistoryTruncateRequest,
    ModeSetRequest,
    NameSetRequest,
    PermissionDecisionApproveOnce,
    PermissionDecisionReject,
    PlanUpdateRequest,
)
from copilot.generated.session_events import SessionMode
from copilot.session import CommandDefinition, PermissionNoResult
from copilot.tools import define_tool
from pydantic import BaseModel

from .support import WAIT_S, Launcher

made_tool: Any = define_tool
"""The client takes handlers without an invocation too, which its types do not say."""


class Sought(BaseModel):
    word: str


def check(name: str, value: Any, wanted: Any = True) -> None:
    """Says whether something is as it should be."""
    print(json.dumps({"check": name, "ok": value == wanted, "value": repr(value)[:500]}), flush=True)


class Heard:
    """What a client was told of a session."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self._more = asyncio.Event()

    def __call__(self, event: Any) -> None:
        self.events.append(event)
        self._more.set()

    def kinds(self) -> list[str]:
        return [event.type.value for event in self.events]

    def of(self, kind: str) -> list[Any]:
        return [event.data for event in self.events if event.type.value == kind]

    async def until(self, kind: str, wanted: Callable[[Any], bool] = lambda data: True, count: int = 1) -> Any:
        """Waits until an event has come."""
        async with asyncio.timeout(WAIT_S):
            while len(found := [data for data in self.of(kind) if wanted(data)]) < count:
                self._more.clear()
                await self._more.wait()
            return found[-1]


class Person:
    """Whoever sits before the client: answers what it is asked, and remembers that."""

    def __init__(self) -> None:
        self.permissions: list[Any] = []
        self.questions: list[Any] = []
        self.forms: list[Any] = []
        self.plans: list[Any] = []
        self.hooks: list[tuple[str, Any]] = []
        self.commands: list[str] = []
        self.deny: str | None = None
        self.silent = False

    def permit(self, request: Any, invocation: Any) -> Any:
        self.permissions.append(request)
        if self.silent:
            return PermissionNoResult()
        return PermissionDecisionReject(feedback=self.deny) if self.deny else PermissionDecisionApproveOnce()

    async def ask(self, request: Any, invocation: Any) -> Any:
        self.questions.append(request)
        return {"answer": request["choices"][1], "wasFreeform": False}

    async def fill_in(self, context: Any) -> Any:
        self.forms.append(context)
        return {"action": "accept", "content": {"colour": "red"}}

    async def judge(self, request: Any, invocation: Any) -> Any:
        self.plans.append(request)
        return {"approved": True, "selectedAction": "interactive"}

    async def before_tool(self, given: Any, invocation: Any) -> Any:
        self.hooks.append(("pre", given))
        if given["toolArgs"].get("thing") == "gold":
            return {"permissionDecision": "deny", "permissionDecisionReason": "gold is not weighed"}
        if given["toolArgs"].get("thing") == "lead":
            return {"modifiedArgs": {"thing": "feather"}}
        return None

    async def after_tool(self, given: Any, invocation: Any) -> Any:
        self.hooks.append(("post", given))
        return {"additionalContext": "(checked)"} if given["toolName"] == "weigh" else None

    async def on_prompt(self, given: Any, invocation: Any) -> Any:
        self.hooks.append(("prompt", given))
        return {"decision": "block", "reason": "not here"} if given["prompt"].startswith("blocked") else None

    async def on_start(self, given: Any, invocation: Any) -> Any:
        self.hooks.append(("start", given))

    def options(self) -> dict[str, Any]:
        return {
            "on_permission_request": self.permit,
            "on_user_input_request": self.ask,
            "on_elicitation_request": self.fill_in,
            "on_exit_plan_mode_request": self.judge,
            "streaming": True,
            "tools": tools(),
            "commands": [CommandDefinition("deploy", lambda context: self.commands.append(context.args), "Deploys.")],
            "hooks": {
                "on_pre_tool_use": self.before_tool,
                "on_post_tool_use": self.after_tool,
                "on_user_prompt_submitted": self.on_prompt,
                "on_session_start": self.on_start,
            },
        }


def tools() -> list[Any]:
    def look_up(sought: Sought) -> str:
        return f"{sought.word} is on page 7"

    def break_down(sought: Sought) -> str:
        raise RuntimeError("the key is hunter2")

    def count(sought: Sought) -> str:
        return str(len(sought.word))

    return [
        made_tool("look_up", description="Looks a word up.", handler=look_up, params_type=Sought),
        made_tool("break_down", description="Breaks.", handler=break_down, params_type=Sought),
        made_tool("count", description="Counts.", handler=count, params_type=Sought, skip_permission=True),
    ]


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[Any]:
    """A client as everybody makes one. An event that its types cannot read is an error of its loop, and fails."""
    wrong: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: wrong.append(context))
    client = CopilotClient(**options)
    await client.start()
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):  # its own limits of time are short, and no matter here
            await client.stop()
    check("its own types read every event", wrong, [])


async def said(session: Any, prompt: str, **more: Any) -> str:
    answer = await session.send_and_wait(prompt, timeout=WAIT_S, **more)
    return str(answer.data.content).strip()


async def refusal(work: Any) -> str:
    """What a client's error says."""
    try:
        await work
    except Exception as error:
        return str(error)
    return "nothing was refused"


async def talk(launcher: Launcher, folder: pathlib.Path) -> None:
    """Streams, tools, permissions, hooks, questions, forms."""
    person, heard = Person(), Heard()
    async with connected() as client:
        status = await client.get_status()
        check("protocol", (status.protocol_version, status.version.split()[0]), (3, "windlass"))
        check("models", [model.id for model in await client.list_models()], ["scripted"])
        session = await client.create_session(on_event=heard, working_directory=str(folder), **person.options())
        check("session.start", (await heard.until("session.start")).session_id, session.session_id)
        await words(session, heard)
        await tool_calls(session, heard, person)
        await hooks(session, heard, person)
        await questions(session, heard, person)
        history = await session.get_events()
        kept = [event.id for event in heard.events if not event.ephemeral]
        check("the history is what was told", [event.id for event in history], kept)


async def words(session: Any, heard: Heard) -> None:
    check("an answer", await said(session, "say one two three"), "one two three")
    deltas = "".join(data.delta_content for data in heard.of("assistant.message_delta"))
    check("its deltas", deltas, "one two three ")
    check("their size", heard.of("assistant.streaming_delta")[-1].total_response_size_bytes, 14)
    check("an answer with reasoning", await said(session, "think"), "thought")
    check("the reasoning", heard.of("assistant.reasoning")[0].content, "let me see")


async def tool_calls(session: Any, heard: Heard, person: Person) -> None:
    check("a client's tool", await said(session, 'call look_up {"word": "ox"}'), "look_up gave ox is on page 7")
    check("a permission is asked", [request.tool_name for request in person.permissions], ["look_up"])
    check("and given", heard.of("permission.completed")[0].result.kind, "approved")
    person.deny = "not today"
    check("a denial reaches the model", "not today" in await said(session, 'call look_up {"word": "ax"}'))
    check("a denial is told", heard.of("permission.completed")[1].result.feedback, "not today")
    check("results", [data.success for data in heard.of("tool.execution_complete")], [True, False])
    person.deny = None
    check("a tool that needs none", await said(session, 'call count {"word": "four"}'), "count gave 4")
    check("is not asked about", len(person.permissions), 2)
    broken = await said(session, 'call break_down {"word": "x"}')
    check("a tool that raises", (broken.startswith("break_down gave"), "hunter2" in broken), (True, False))


async def hooks(session: Any, heard: Heard, person: Person) -> None:
    checked = await said(session, 'call weigh {"thing": "stone"}')
    check("a hook adds to a result", checked, "weigh gave stone weighs 5\n\n(checked)")
    check("a hook denies", "gold is not weighed" in await said(session, 'call weigh {"thing": "gold"}'))
    check("a hook changes arguments", "feather weighs 7" in await said(session, 'call weigh {"thing": "lead"}'))
    names = {name for name, _ in person.hooks}
    check("hooks are asked", names, {"start", "prompt", "pre", "post"})
    check("with the arguments", person.hooks[-1][1]["toolArgs"], {"thing": "feather"})
    types = {data.hook_type for data in heard.of("hook.end")}
    check("hooks are told", types, {"userPromptSubmitted", "preToolUse", "postToolUse"})
    await session.send("blocked words")
    check("a hook blocks a prompt", (await heard.until("session.warning")).warning_type, "policy_blocked")


async def questions(session: Any, heard: Heard, person: Person) -> None:
    asked = await said(session, 'call ask_user {"question": "which?", "options": ["a", "b"]}')
    check("a question", asked, "ask_user gave b")
    check("its choices", person.questions[0]["choices"], ["a", "b"])
    form = '{"message": "your colour?", "form": {"type": "object", "properties": {"colour": {"type": "string"}}}}'
    check("a form", "red" in await said(session, f"call ask_user {form}"))
    check("its message", person.forms[0]["message"], "your colour?")
    check("its answer is told", heard.of("elicitation.completed")[0].action.value, "accept")
    check("a form of the client's own", (await session.ui.confirm("sure?"), len(person.forms)), (False, 2))


async def change(launcher: Launcher, folder: pathlib.Path) -> None:
    """Attachments, models, modes, plans, commands, compaction, abort, the list of sessions, resume, delete."""
    person, heard = Person(), Heard()
    async with connected() as client:
        session = await client.create_session(on_event=heard, working_directory=str(folder), **person.options())
        await attachments(session, heard, folder)
        await modes(session, heard, person)
        await commands(session, heard, person)
        await history(session, heard)
        await stops(session, heard)
        await lists(client, session, person)
        await options(client, person)


async def attachments(session: Any, heard: Heard, folder: pathlib.Path) -> None:
    (folder / "notes.txt").write_text("the moon is full", encoding="utf-8")
    notes = {"type": "file", "path": "notes.txt", "displayName": "notes"}
    check("a file", "the moon is full" in await said(session, "read this", attachments=[notes]))
    check("is told by its name", heard.of("user.message")[0].attachments[0].display_name, "notes")
    place = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 3}}
    marked = {"type": "selection", "filePath": "a.py", "displayName": "a.py", "text": "let", "selection": place}
    check("a selection", "let" in await said(session, "and this", attachments=[marked]))


async def modes(session: Any, heard: Heard, person: Person) -> None:
    await session.set_model("other")
    check("another model", (await heard.until("session.model_change")).new_model, "other")
    check("which answers", await said(session, "anything"), "in short: much was said")
    await session.set_model("scripted")
    await session.rpc.mode.set(ModeSetRequest(mode=SessionMode.PLAN))
    check("plan mode", await session.rpc.mode.get(), SessionMode.PLAN)
    plan = '{"summary": "tidy up", "content": "1. sweep"}'
    check("a plan", "plan gave" in await said(session, f"call plan {plan}"))
    shown = person.plans[0]
    check("is shown", (shown["summary"], shown["planContent"]), ("tidy up", "1. sweep"))
    changed = [data.new_mode.value for data in heard.of("session.mode_changed")]
    check("and approved", changed, ["plan", "interactive"])
    check("the plan is kept", (await session.rpc.plan.read()).content, "1. sweep")
    await session.rpc.plan.update(PlanUpdateRequest(content="1. mop"))
    check("and changed", (await session.rpc.plan.read()).content, "1. mop")


async def commands(session: Any, heard: Heard, person: Person) -> None:
    listed = await session.rpc.commands.list()
    check("slash commands", [one.name for one in listed.commands], ["deploy"])
    await session.rpc.commands.execute(ExecuteCommandParams(command_name="deploy", args="to the moon"))
    await session.send("/deploy to mars")
    await heard.until("command.completed", count=2)
    check("are run", person.commands, ["to the moon", "to mars"])


async def history(session: Any, heard: Heard) -> None:
    for number in range(6):
        await said(session, f"say words number {number}")
    check("compaction", (await session.rpc.history.compact()).success)
    summary = (await heard.until("session.compaction_complete")).summary_content
    check("its summary", summary, "in short: much was said")
    await session.log("a note of mine")
    check("a note", (await heard.until("session.info")).message, "a note of mine")
    await session.rpc.name.set(NameSetRequest(name="March"))
    check("a name", (await session.rpc.name.get()).name, "March")


async def stops(session: Any, heard: Heard) -> None:
    waiting = asyncio.ensure_future(session.send_and_wait("hang", timeout=WAIT_S))
    await heard.until("assistant.message_delta", lambda data: data.delta_content == "begun")
    await session.abort()
    check("abort", await refusal(waiting), "Session aborted before response completed")
    check("its reason", heard.of("abort")[0].reason.value, "user_initiated")
    failed = await refusal(session.send_and_wait("fail", timeout=WAIT_S))
    check("a failing model", "the provider says no" in failed)
    check("the session is there", await said(session, "say still here"), "still here")


async def lists(client: Any, session: Any, person: Person) -> None:
    listed = [(one.session_id, one.summary) for one in await client.list_sessions()]
    check("the list", listed, [(session.session_id, "March")])
    check("the last one", await client.get_last_session_id(), session.session_id)
    await session.disconnect()
    heard = Heard()
    again = await client.resume_session(session.session_id, on_event=heard, **person.options())
    check("resume", await said(again, "say back"), "back")
    check("is told", len(heard.of("session.resume")), 1)
    kept = [event.type.value for event in await again.get_events()]
    check("the end before it is kept", (kept.count("session.shutdown"), kept.count("session.resume")), (1, 1))
    await client.delete_session(session.session_id)
    check("delete", await client.list_sessions(), [])
    gone = await refusal(client.resume_session(session.session_id, on_permission_request=person.permit))
    check("what is gone is not resumed", "no session" in gone)


async def options(client: Any, person: Person) -> None:
    told = {"mode": "append", "content": "Be brief."}
    some = {**person.options(), "excluded_tools": ["custom:*", "weigh"], "system_message": told}
    session = await client.create_session(**some)
    check("instructions", await said(session, "instructions"), "You are a clerk.\n\nBe brief.")
    check("a filter of tools", await said(session, "tools"), "ask_user, plan, spawn, task, tell_child, todo")
    picture = {"type": "blob", "data": "aGVsbG8=", "mimeType": "image/png", "displayName": "p.png"}
    check("a picture", (await said(session, "look", attachments=[picture])).startswith("heard look"))
    users = [event for event in await session.get_events() if event.type.value == "user.message"]
    await session.rpc.history.truncate(HistoryTruncateRequest(event_id=str(users[-1].id)))
    check("truncation", await said(session, "instructions again"), "You are a clerk.\n\nBe brief.")
    await session.set_tools([])
    check("other tools of the client's", await said(session, "tools"), "ask_user, plan, spawn, task, tell_child, todo")
    await client.delete_session(session.session_id)


async def crash(launcher: Launcher, folder: pathlib.Path) -> None:
    """kill -9 of the server while a permission is asked for."""
    person, heard = Person(), Heard()
    person.silent = True
    client = CopilotClient()
    await client.start()
    session = await client.create_session(on_event=heard, **person.options())
    await session.send('call look_up {"word": "ox"}')
    asked = await heard.until("permission.requested")
    before = [event.id for event in await session.get_events()]
    launcher.kill()
    await client.force_stop()
    person.silent, later = False, Heard()
    async with connected() as second:
        session = await second.resume_session(session.session_id, on_event=later, **person.options())
        check("it is asked again", (await later.until("permission.requested")).request_id, asked.request_id)
        answer = await later.until("assistant.message")
        check("the work goes on", answer.content, "look_up gave ox is on page 7")
        await later.until("session.idle")
        after = [event.id for event in await session.get_events()]
        check("nothing is lost or told twice", after[: len(before)], before)
        check("and the session is there", await said(session, "say on we go"), "on we go")
    await crash_in_a_tool(launcher)


async def crash_in_a_tool(launcher: Launcher) -> None:
    begun = asyncio.Event()

    async def stall(sought: Sought) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    params = {"description": "Stalls.", "params_type": Sought, "skip_permission": True}
    client = CopilotClient()
    await client.start()
    session = await client.create_session(tools=[made_tool("stall", handler=stall, **params)])
    await session.send('call stall {"word": "ox"}')
    async with asyncio.timeout(WAIT_S):
        await begun.wait()
    launcher.kill()
    await client.force_stop()
    heard = Heard()
    async with connected() as second:
        again = made_tool("stall", handler=lambda sought: "done at last", **params)
        await second.resume_session(session.session_id, on_event=heard, tools=[again])
        answer = await heard.until("assistant.message")
        check("a call that was cut off is run by the next client", answer.content, "stall gave done at last")


async def share(launcher: Launcher, folder: pathlib.Path) -> None:
    """Two clients over TCP at one session, and one that does not know the token."""
    token, first, second = "hunter2-hunter2", Person(), Person()
    heard, also = Heard(), Heard()
    with launcher.listening(token) as port:
        await share_at(f"127.0.0.1:{port}", token, first, second, heard, also)


async def share_at(place: str, token: str, first: Person, second: Person, heard: Heard, also: Heard) -> None:
    async with connected(connection=RuntimeConnection.for_uri(place, connection_token=token)) as one:
        stranger = CopilotClient(connection=RuntimeConnection.for_uri(place, connection_token="guessed"))
        check("a wrong token", "connection token" in await refusal(stranger.start()))
        await stranger.force_stop()
        session = await one.create_session(on_event=heard, **first.options())
        async with connected(connection=RuntimeConnection.for_uri(place, connection_token=token)) as two:
            first.silent = True
            other = await two.resume_session(session.session_id, on_event=also, on_permission_request=second.permit)
            await session.send('call look_up {"word": "ox"}')
            answer = await heard.until("assistant.message", lambda data: "page 7" in data.content)
            check("one asks, the other allows, the first runs", answer.content, "look_up gave ox is on page 7")
            check("both were asked", (len(first.permissions), len(second.permissions)), (1, 1))
            await also.until("session.idle")
            check(
                "only who streams hears deltas",
                (bool(heard.of("assistant.message_delta")), also.of("assistant.message_delta")),
                (True, []),
            )
            check(
                "both have one history",
                [e.id for e in await other.get_events()],
                [e.id for e in await session.get_events()],
            )
            await session.disconnect()
            denied = await said(other, 'call look_up {"word": "ox"}')
            check("who leaves takes its tools along", "is on page 7" not in denied)


Scenarios = Mapping[str, Callable[[Launcher, pathlib.Path], Coroutine[Any, Any, None]]]
SCENARIOS: Scenarios = {"talk": talk, "change": change, "crash": crash, "share": share}


def main(folder: pathlib.Path, names: list[str], scenarios: Scenarios = SCENARIOS) -> None:
    for name in names or scenarios:
        place = folder / name
        place.mkdir()
        launcher = Launcher(place)
        os.environ["COPILOT_CLI_PATH"] = str(launcher.path)
        check(f"begins: {name}", True)
        asyncio.run(scenarios[name](launcher, place))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
