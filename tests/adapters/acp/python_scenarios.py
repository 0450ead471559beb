"""The official Python client, unchanged, as a program of its own: its types read every message, and it prints a line for
each thing that is checked."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import pathlib
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import acp
from acp import schema

from .support import WAIT_S, command

PIXEL = base64.b64encode(
    base64.b16decode(
        "89504E470D0A1A0A0000000D4948445200000001000000010806000000"
        "1F15C4890000000D49444154789C6360606060000000050001A5F645400000000049454E44AE426082"
    )
).decode()
LEAVE_S = 120.0
"""How long a program may take to end once its editor has left; a busy machine is no reason to terminate it."""
TEXT_SERVER = (
    "import mcp.server; server = mcp.server.MCPServer('words')\n"
    "@server.tool()\ndef shout(word: str) -> str: return word.upper()\nserver.run()"
)


def check(name: str, value: Any, wanted: Any = True) -> None:
    """Says whether something is as it should be."""
    print(json.dumps({"check": name, "ok": value == wanted, "value": repr(value)[:700]}), flush=True)


class Editor:
    """What is shown in an editor, and the person before it."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[tuple[Any, list[Any]]] = []
        self.forms: list[tuple[str, Any]] = []
        self.chosen = "allow"
        """The option that the person takes; `wait` if none is taken, `dismiss` if the window is closed."""
        self._more = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        """Nothing is needed of it."""

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.updates.append(update)
        self._more.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **more: Any) -> Any:
        self.asked.append((tool_call, options))
        self._more.set()
        if self.chosen == "wait":
            await asyncio.Event().wait()
        if self.chosen == "dismiss":
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=self.chosen)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, message: str, mode: Any, **more: Any) -> Any:
        self.forms.append((message, mode))
        return schema.AcceptElicitationResponse(action="accept", content={"colour": "red"})

    # --- what was shown ---

    def of(self, kind: str) -> list[Any]:
        return [update for update in self.updates if update.session_update == kind]

    def said(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update.content.text for update in self.of(kind) if update.content.type == "text")

    def call(self, title: str) -> list[Any]:
        """What was told of the last call with this title."""
        began = [update for update in self.of("tool_call") if update.title == title][-1]
        told = [update for update in self.of("tool_call_update") if update.tool_call_id == began.tool_call_id]
        return [began, *told]

    def statuses(self, title: str) -> list[str]:
        return [update.status for update in self.call(title) if update.status is not None]

    async def until(self, wanted: Callable[[], Any]) -> Any:
        """Waits until something was shown or asked."""
        async with asyncio.timeout(WAIT_S):
            while not (found := wanted()):
                self._more.clear()
                await self._more.wait()
            return found


class Talk:
    """A connection with one session."""

    def __init__(self, connection: Any, process: Any, editor: Editor) -> None:
        self.connection, self.process, self.editor = connection, process, editor
        self.session_id = ""
        self.made: Any = None

    async def begin(self, folder: pathlib.Path, **more: Any) -> Talk:
        self.made = await self.connection.new_session(cwd=str(folder), mcp_servers=[], **more)
        self.session_id = self.made.session_id
        return self

    async def prompt(self, *said: Any) -> Any:
        """A turn; what was shown before is forgotten."""
        self.editor.updates.clear()
        self.editor.asked.clear()
        blocks = [schema.TextContentBlock(type="text", text=one) if isinstance(one, str) else one for one in said]
        async with asyncio.timeout(WAIT_S):
            return await self.connection.prompt(session_id=self.session_id, prompt=blocks)

    async def turn(self, *said: Any) -> str:
        """Why a turn ended, and what the agent said in it."""
        stopped = (await self.prompt(*said)).stop_reason
        return f"{stopped}: {self.editor.said()}"


@asynccontextmanager
async def connected(folder: pathlib.Path, *words: str, forms: bool = False) -> AsyncIterator[Talk]:
    editor = Editor()
    client: Any = editor
    started = acp.spawn_agent_process(
        client,
        *command(folder, *words),
        env=dict(os.environ),
        use_unstable_protocol=forms,
        transport_kwargs={"shutdown_timeout": LEAVE_S},
    )
    async with started as (connection, process):
        can = schema.ClientCapabilities()
        if forms:
            can.elicitation = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
        agreed = await connection.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=can)
        assert agreed.agent_capabilities is not None
        assert agreed.agent_capabilities.load_session
        yield Talk(connection, process, editor)


async def refusal(work: Any) -> tuple[int, str]:
    """The error that a request was answered with."""
    try:
        await work
    except acp.RequestError as error:
        return error.code, str(error)
    return 0, ""


# --- a conversation -----------------------------------------------------------------------------------------------


async def talk(folder: pathlib.Path) -> None:
    async with connected(folder) as one:
        again = await one.connection.initialize(protocol_version=7)
        check("another version is told the one there is", again.protocol_version, 1)
        check("who it is", again.agent_info.name, "windlass")
        check(
            "nobody signs in",
            (again.auth_methods, (await refusal(one.connection.authenticate("any")))[0]),
            ([], -32602),
        )
        await one.begin(folder)
        check("modes", [m.id for m in one.made.modes.available_modes], ["interactive", "plan", "autopilot"])
        check("the model", one.made.config_options[0].current_value, "scripted")
        commands = await one.editor.until(lambda: one.editor.of("available_commands_update"))
        check("commands", [c.name for c in commands[-1].available_commands], ["compact"])

        check("words, piece by piece", await one.turn("say well met"), "end_turn: well met ")
        check("they came in pieces", len(one.editor.of("agent_message_chunk")), 2)
        check("what one said oneself is not told", one.editor.of("user_message_chunk"), [])
        check("the context", one.editor.of("usage_update")[-1].size, 128000)
        check(
            "a thought",
            (await one.turn("think"), one.editor.said("agent_thought_chunk")),
            ("end_turn: thought", "let me see"),
        )
        await blocks(one, folder)
        await tools(one)
        await files(one, folder)
        await plans(one)
        await questions(one)
        error = await refusal(one.prompt("fail"))
        check("a model that fails", (error[0], "the provider says no" in error[1]), (-32603, True))
        check("and the session goes on", await one.turn("say on"), "end_turn: on ")
        check("a summary on request", (await one.prompt("/compact be brief")).stop_reason, "end_turn")
    check("it ends with its editor", one.process.returncode, 0)


async def blocks(one: Talk, folder: pathlib.Path) -> None:
    (folder / "notes.txt").write_text("first\nsecond\nthird\n")
    picture = schema.ImageContentBlock(type="image", data=PIXEL, mime_type="image/png")
    check("a picture", await one.turn("look", picture), "end_turn: heard look in Text, Image")
    uri = (folder / "notes.txt").as_uri() + "#L2:2"
    heard = await one.turn("see", schema.ResourceContentBlock(type="resource_link", name="notes.txt", uri=uri))
    check("lines of a file", ("second" in heard, "third" in heard), (True, False))
    resource = schema.TextResourceContents(uri="file:///unsaved.py", text="x = 1", mime_type="text/x-python")
    embedded = schema.EmbeddedResourceContentBlock(type="resource", resource=resource)
    check("what was embedded", await one.turn("take", embedded), "end_turn: heard take in Text, Resource")
    sound = schema.AudioContentBlock(type="audio", data="AAAA", mime_type="audio/wav")
    check("sound is refused", "audio" in (await refusal(one.prompt("hear", sound)))[1])


async def tools(one: Talk) -> None:
    editor = one.editor
    said = await one.turn('call weigh {"thing": "gold"}')
    check("a tool that is allowed", said, "end_turn: one momentweigh gave gold weighs 4")
    call, options = editor.asked[-1]
    check("what was asked", (call.title, call.kind, call.raw_input), ("weigh", "read", {"thing": "gold"}))
    kinds = ["allow_once", "allow_always", "allow_always", "reject_once", "reject_always"]
    check("what can be said", [option.kind for option in options], kinds)
    check("how far each reaches", [option.name for option in options][1:3], [
        "Allow weigh for exactly 'gold' in this session",
        "Allow every call of weigh in this session",
    ])  # fmt: skip
    check("how it went", editor.statuses("weigh"), ["pending", "in_progress", "completed"])
    check("what came of it", editor.call("weigh")[-1].content[0].content.text, "gold weighs 4")

    editor.chosen = "reject"
    said = await one.turn('call weigh {"thing": "lead"}')
    check("a tool that is rejected", (said.startswith("end_turn"), "lead weighs" in said), (True, False))
    check("it failed", editor.statuses("weigh"), ["pending", "failed"])

    editor.chosen = "allow-subject"
    await one.turn('call weigh {"thing": "silver"}')
    editor.chosen = "reject"
    await one.turn('call weigh {"thing": "silver"}')
    check("the same again is not asked about", (len(editor.asked), editor.statuses("weigh")[-1]), (0, "completed"))
    await one.turn('call weigh {"thing": "tin"}')
    check("another one is", (len(editor.asked), editor.statuses("weigh")[-1]), (1, "failed"))

    editor.chosen = "allow-session"
    await one.turn('call weigh {"thing": "zinc"}')
    await one.turn('call weigh {"thing": "iron"}')
    check("none is asked about any more", (len(editor.asked), editor.statuses("weigh")[-1]), (0, "completed"))
    editor.chosen = "allow"


async def files(one: Talk, folder: pathlib.Path) -> None:
    editor, path = one.editor, folder / "a.txt"
    await one.turn('call write {"path": "a.txt", "content": "one\\ntwo\\n"}')
    asked = editor.asked[-1][0]
    check("a new file", (asked.kind, asked.content[0].path, asked.content[0].old_text), ("edit", str(path), None))
    await one.turn('call edit {"path": "a.txt", "old": "two", "new": "2"}')
    asked = editor.asked[-1][0].content[0]
    check("a change that is asked about", (asked.old_text, asked.new_text), ("one\ntwo\n", "one\n2\n"))
    shown = [update.content[0] for update in editor.call("edit a.txt") if update.content]
    check(
        "and shown",
        [(d.type, d.path, d.old_text, d.new_text) for d in shown],
        [("diff", str(path), "one\ntwo\n", "one\n2\n")],
    )
    check("it was made", path.read_text(), "one\n2\n")
    await one.turn('call read {"path": "a.txt", "offset": 2}')
    began = editor.call("read a.txt")[0]
    check("where it reads", (began.kind, began.locations[0].path, began.locations[0].line), ("read", str(path), 2))
    editor.chosen = "reject-tool"
    await one.turn('call write {"path": "b.txt", "content": "x"}')
    editor.chosen = "allow"
    await one.turn('call write {"path": "c.txt", "content": "x"}')
    refused = (len(editor.asked), editor.statuses("write c.txt")[-1], (folder / "c.txt").exists())
    check("a tool that was refused for good", refused, (0, "failed", False))


async def plans(one: Talk) -> None:
    editor = one.editor
    todos = [
        {"todo_id": "1", "content": "dig", "status": "completed"},
        {"todo_id": "2", "content": "sow", "status": "failed"},
    ]
    await one.turn(f"call todo {json.dumps({'todos': todos})}")
    entries = [(entry.content, entry.status) for entry in editor.of("plan")[-1].entries]
    check("a list of todos is a plan", entries, [("dig", "completed"), ("sow (failed)", "completed")])
    editor.updates.clear()
    await one.connection.set_session_mode(session_id=one.session_id, mode_id="plan")
    told = await editor.until(lambda: editor.of("current_mode_update"))
    check("a mode", told[-1].current_mode_id, "plan")
    check(
        "no mode", (await refusal(one.connection.set_session_mode(session_id=one.session_id, mode_id="x")))[0], -32602
    )
    editor.chosen = "plan-reject"
    plan = json.dumps({"summary": "A hole", "content": "1. dig"})
    await one.turn(f"call plan {plan}")
    call, options = editor.asked[-1]
    check("a plan", (call.kind, call.title, call.content[0].content.text), ("switch_mode", "A hole", "1. dig"))
    check("how it can be taken", [option.kind for option in options], ["allow_once", "allow_always", "reject_once"])
    check("sent back, it changes no mode", editor.of("current_mode_update"), [])
    editor.chosen = "plan-interactive"
    await one.turn(f"call plan {plan}")
    check("approved, it does", editor.of("current_mode_update")[-1].current_mode_id, "interactive")


async def questions(one: Talk) -> None:
    editor = one.editor
    editor.chosen = "choice-1"
    said = await one.turn('call ask_user {"question": "which?", "options": ["a", "b"]}')
    check("a question with choices", said, "end_turn: one momentask_user gave b")
    check("what was to choose from", [option.name for option in editor.asked[-1][1]], ["a", "b", "Do not answer"])
    editor.chosen = "allow"
    check(
        "a question in words ends the turn",
        await one.turn('call ask_user {"question": "why?"}'),
        "end_turn: one momentwhy?",
    )
    check("the next prompt answers it", await one.turn("because"), "end_turn: ask_user gave because")
    check("the one after it is a prompt", await one.turn("say so"), "end_turn: so ")


# --- stopping, leaving, coming back -------------------------------------------------------------------------------


async def stop(folder: pathlib.Path) -> None:
    async with connected(folder) as one:
        editor = (await one.begin(folder)).editor
        turn = asyncio.create_task(one.turn("hang"))
        await editor.until(lambda: editor.said() == "begun")
        await one.connection.cancel(session_id=one.session_id)
        check("an answer that is stopped", await turn, "cancelled: begun")
        turn = asyncio.create_task(one.turn("hang at once"))
        await asyncio.sleep(0)
        await one.connection.cancel(session_id=one.session_id)
        check("one that has not begun", (await turn).startswith("cancelled"))
        editor.chosen = "wait"
        turn = asyncio.create_task(one.turn('call weigh {"thing": "gold"}'))
        await editor.until(lambda: editor.asked)
        await one.connection.cancel(session_id=one.session_id)
        check(
            "a call that is asked about",
            (await turn, editor.statuses("weigh")[-1]),
            ("cancelled: one moment", "failed"),
        )
        editor.chosen = "dismiss"
        check("a question that is dismissed", await one.turn('call weigh {"thing": "tin"}'), "cancelled: one moment")
        await one.connection.cancel(session_id=one.session_id)
        check("nothing to stop", await one.turn("say on"), "end_turn: on ")
        first = asyncio.create_task(one.turn("hang"))
        await editor.until(lambda: editor.said() == "begun")
        second = asyncio.create_task(
            one.connection.prompt(session_id=one.session_id, prompt=[acp.text_block("say late")])
        )
        await one.connection.list_sessions()
        await one.connection.cancel(session_id=one.session_id)
        stopped = [await first, (await second).stop_reason]
        check("and what waits behind it", stopped, ["cancelled: begun", "cancelled"])
        check("it goes on", await one.turn("say on"), "end_turn: on ")


async def children(folder: pathlib.Path) -> None:
    """What a child session asks, by its parent's editor; the second time after it was killed."""
    task = json.dumps({"agent": "helper", "task": 'call weigh {"thing": "ox"}'})
    async with connected(folder) as one:
        editor = (await one.begin(folder)).editor
        said = await one.turn(f"call spawn {task}")
        check("a child's call that is allowed", said.endswith("weigh gave ox weighs 2"), True)
        call, options = editor.asked[-1]
        check("is one of its own", (call.title, call.status), ("weigh", "pending"))
        check("it reaches no further", [option.option_id for option in options], ["allow", "reject"])
        told = [update.status for update in editor.of("tool_call_update") if update.tool_call_id == call.tool_call_id]
        check("its window is closed", told, ["completed"])
        editor.chosen = "wait"
        editor.asked.clear()
        turn = asyncio.create_task(one.turn(f"call spawn {task}"))
        await editor.until(lambda: editor.asked)
        os.kill(one.process.pid, signal.SIGKILL)
        with contextlib.suppress(Exception):
            await turn
    async with connected(folder) as two:
        editor = two.editor
        await two.connection.load_session(cwd=str(folder), session_id=one.session_id, mcp_servers=[])
        await editor.until(lambda: editor.said().count("weigh gave ox weighs 2") == 2)
        check("it is asked again, and the parent goes on", len(editor.asked), 1)


async def crash(folder: pathlib.Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        one = await stack.enter_async_context(connected(folder))
        editor = (await one.begin(folder)).editor
        await one.turn("say hello")
        editor.chosen = "wait"
        turn = asyncio.create_task(one.turn('call weigh {"thing": "gold"}'))
        await editor.until(lambda: editor.asked)
        os.kill(one.process.pid, signal.SIGKILL)
        with contextlib.suppress(Exception):
            await turn
    async with connected(folder) as two:
        two.session_id, editor = one.session_id, two.editor
        editor.chosen = "wait"
        loaded = await two.connection.load_session(cwd=str(folder), session_id=one.session_id, mcp_servers=[])
        check("it is loaded", loaded.modes.current_mode_id, "interactive")
        await editor.until(lambda: editor.asked)
        check("what was said is told again", editor.said("user_message_chunk"), 'say hellocall weigh {"thing": "gold"}')
        check("and what was answered", editor.said(), "hello one moment")
        check("the call waits", editor.statuses("weigh"), ["pending"])
        check("it is asked about again", editor.asked[-1][0].title, "weigh")
        check("what of another folder", (await two.connection.list_sessions(cwd="/")).sessions, [])
    async with connected(folder) as three:
        three.session_id, editor = one.session_id, three.editor
        loaded = await three.connection.resume_session(cwd=str(folder), session_id=one.session_id, mcp_servers=[])
        await editor.until(lambda: editor.said() == "weigh gave gold weighs 4")
        check("resumed, only what comes is told", editor.of("user_message_chunk"), [])
        check("the work went on", editor.of("tool_call_update")[-1].status, "completed")
        check("and goes on", await three.turn("say more"), "end_turn: more ")
        await around(three, folder)


async def around(one: Talk, folder: pathlib.Path) -> None:
    """The sessions that there are, and those that there are not."""
    connection = one.connection
    listed = await connection.list_sessions(cwd=str(folder))
    check("it is listed", [(s.session_id, s.cwd) for s in listed.sessions], [(one.session_id, str(folder))])
    await connection.close_session(session_id=one.session_id)
    check("closed, it hears nothing", (await refusal(one.prompt("say x")))[0], -32602)
    await connection.load_session(cwd=str(folder), session_id=one.session_id, mcp_servers=[])
    check("but can be loaded", await one.turn("say again"), "end_turn: again ")
    load = connection.load_session(cwd=str(folder), session_id="no-such", mcp_servers=[])
    check("one that is not there", (await refusal(load))[0], -32602)
    check("no folder", "cwd" in (await refusal(connection.new_session(cwd="nowhere", mcp_servers=[])))[1])
    raw = connection._conn
    check("removed", await raw.send_request("session/delete", {"sessionId": one.session_id}), {})
    check("it is gone", (await connection.list_sessions()).sessions, [])
    check("no such method", (await refusal(raw.send_request("session/nothing", {})))[0], -32601)
    check("nothing in it", (await refusal(raw.send_request("session/prompt", {})))[0], -32602)


async def more(folder: pathlib.Path) -> None:
    """Forms, models, and MCP servers that the editor names."""
    async with connected(folder, forms=True) as one:
        await one.begin(folder)
        form = {"question": "which colour?", "form": {"type": "object", "properties": {"colour": {"type": "string"}}}}
        check("a form", "red" in await one.turn(f"call ask_user {json.dumps(form)}"))
        check("what it asked", one.editor.forms[-1][0], "which colour?")
        made = await one.connection.set_config_option(config_id="model", session_id=one.session_id, value="scripted")
        check("a model", made.config_options[0].current_value, "scripted")
        words = schema.McpServerStdio(name="My words", command=sys.executable, args=["-c", TEXT_SERVER], env=[])
        served = await one.connection.new_session(cwd=str(folder), mcp_servers=[words])
        one.session_id = served.session_id
        said = await one.turn('call My-words__shout {"word": "ox"}')
        check("a server of the editor's", said, "end_turn: one momentMy-words__shout gave OX")
        check("it is asked about", one.editor.asked[-1][0].kind, "other")
        strange = {"cwd": str(folder), "mcpServers": [{"type": "acp", "name": "x", "serverId": "1"}]}
        error = await refusal(one.connection._conn.send_request("session/new", strange))
        check("one that cannot be reached", "stdio, http and sse" in error[1])


SCENARIOS = {"talk": talk, "stop": stop, "crash": crash, "children": children, "more": more}


def main(folder: pathlib.Path, names: list[str]) -> None:
    for name in names or SCENARIOS:
        place = folder / name
        place.mkdir()
        check(f"begins: {name}", True)
        asyncio.run(SCENARIOS[name](place))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
