"""S17: a registered secret reaches no log, no blob, no export, no model, no reader, no hook and no terminal, by whatever
way it is said; and the process that needs it gets it."""

from __future__ import annotations

import asyncio
import base64
import io
import itertools
import json
import logging
import os
import pathlib
import re
import shlex
import stat
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass
from windlass.cli.main import main
from windlass.events.stored.known_secrets import HIDDEN, SECRETS, HiddenStream, KnownSecrets
from windlass.events.values.blocks import Document, Text
from windlass.models.catalogue.endpoints import ENDPOINTS, connect
from windlass.runtime.hooks.external_hooks import CommandHook
from windlass.runtime.hooks.hook import Denied
from windlass.store import open_store
from windlass.store.transfer import export_session
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.context import Progress, ToolContext, ToolError
from windlass.tools.files import file_tools
from windlass.tools.named_secrets import NamedSecrets
from windlass.tools.planes.large_output import LARGE_BYTES
from windlass.tools.web import fetch_tool

from .loopback import Site, answer

CANARY = 'cánary "x\\y" 4711/+==&<z>'
"""Awkward on purpose: JSON, addresses, pages and base 64 all write it in their own way."""
PLAIN = "Zq7-canary-for-headers-41d9"


def forms(value: str) -> list[bytes]:
    """Ways to write a value, found out anew: what the filter knows is not asked."""
    raw = value.encode()
    found = [raw, json.dumps(value)[1:-1].encode(), json.dumps(value, ensure_ascii=False)[1:-1].encode()]
    found += [json.dumps(json.dumps(value))[3:-3].encode(), quote(value).encode(), quote(value, safe="").encode()]
    for before in range(3):
        aligned = base64.b64encode(b"x" * before + raw + b"x" * 3)
        found.append(aligned[4 if before else 0 : len(aligned) - 8])
    return found


def leaks(data: bytes) -> list[bytes]:
    return [form for value in (CANARY, PLAIN) for form in forms(value) if form in data]


class Stage:
    """A session over a store of files, with everything that anybody sees of it kept."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.model = ScriptedModel([])
        self.seen: list[Any] = []
        self.told: list[Any] = []
        """What hooks were told."""

    async def play(self, script: Any, *, tools: Any = (), prompt: Any = "go", **options: Any) -> Any:
        self.model = script if not isinstance(script, list) else ScriptedModel(script)
        begun = {name: options.pop(name) for name in ("title", "metadata", "workspace") if name in options}
        attachments = options.pop("attachments", ())
        then = options.pop("then", None)
        approver = options.pop("approver", lambda asked: True)
        agent = windlass.Agent("a", model=self.model, tools=list(tools), **options)
        secrets = {"TOKEN": CANARY, "HEADER": PLAIN}
        store = str(self.folder / "log.jsonl.d")
        async with windlass.open(store, agents=[agent], secrets=secrets, approver=approver) as runtime:
            session = await runtime.session(agent, "s", **begun)
            async for event in session.prompt(prompt, attachments=attachments):
                self.seen.append(event)
            if then is not None:
                await then(session)
            await session.wait_idle()
            self.seen += [record async for record in session.records()]
            exported = [line async for line in export_session(runtime.store, session.key)]
        (self.folder / "export.jsonl").write_bytes(b"".join(exported))
        return session


def tool_that(does: Callable[[ToolContext], Any]) -> Any:
    @windlass.tool(name="leak", contract="pure")
    async def leak(ctx: ToolContext) -> Any:
        "Says too much."
        made = does(ctx)
        return await made if isinstance(made, Awaitable) else made

    return leak


async def by_tool(stage: Stage, does: Callable[[ToolContext], Any]) -> None:
    await stage.play([[call("leak")], "done"], tools=[tool_that(does)])


def raising(error: BaseException) -> Any:
    raise error


async def environment(stage: Stage) -> None:
    os.environ["CANARY_IN_TESTS"] = CANARY
    try:
        await by_tool(stage, lambda ctx: dict(os.environ))
    finally:
        del os.environ["CANARY_IN_TESTS"]


async def process_environment(stage: Stage) -> None:
    async def run(ctx: ToolContext) -> str:
        done = await ctx.run([sys.executable, "-c", "import os; print(os.environ['T'])"], secrets={"T": "TOKEN"})
        assert done.stdout.text.strip() == CANARY, "the process itself gets it"
        return done.stdout.text

    await by_tool(stage, run)


async def argv(stage: Stage) -> None:
    async def run(ctx: ToolContext) -> str:
        done = await ctx.run(["no-such-program-at-all", ctx.secret("TOKEN")])
        return done.stdout.text

    await by_tool(stage, run)


async def error_output(stage: Stage) -> None:
    async def run(ctx: ToolContext) -> str:
        code = "import sys, os; sys.exit('failed with ' + os.environ['T'])"
        return (await ctx.run([sys.executable, "-c", code], secrets={"T": "TOKEN"})).stderr.text

    await by_tool(stage, run)


async def file_read(stage: Stage) -> None:
    (stage.folder / "w").mkdir()
    (stage.folder / "w" / "notes.txt").write_text(f"the password is {CANARY}\n")
    (stage.folder / "w" / f"{PLAIN}.txt").write_text("x")
    script = [[call("read", path="notes.txt"), call("list"), call("grep", pattern="password")], "done"]
    await stage.play(script, tools=file_tools(stage.folder / "w"))
    for path in (stage.folder / "w").iterdir():
        path.unlink()


async def header_echo(stage: Stage) -> None:
    async with Site().serving() as site:

        async def echo(writer: Any, path: str) -> None:
            writer.write(answer(site.heard[-1].encode(), headers=(f"X-Echo: {PLAIN}",)))

        site.pages["/"] = echo
        headers = {site.host: {"Authorization": "Bearer {HEADER}", "X-Basic": "{HEADER}"}}
        tool = fetch_tool(allow_private=(site.endpoint,), headers=headers)
        await stage.play([[call("fetch", url=site.url())], "done"], tools=[tool])
        assert PLAIN in site.heard[0], "the host itself gets it"


async def provider_error(stage: Stage) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"error": {"message": f"wrong key {PLAIN}", "code": CANARY}}, status=400)

    app = web.Application()
    app.router.add_post("/{tail:.*}", refuse)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        model = connect(msgspec.structs.replace(ENDPOINTS["openai"], base_url=url), "m", credential=PLAIN)
        await stage.play(model)
        await model.close()
    finally:
        await runner.cleanup()


async def streamed_text(stage: Stage) -> None:
    cut = len(CANARY) // 2

    async def then(session: Any) -> None:
        async for event in session.prompt("again"):
            stage.seen.append(event)

    await stage.play([f"it is {CANARY} indeed", [f"{CANARY[:cut]}", f"{CANARY[cut:]}"]], then=then)


async def call_arguments(stage: Stage) -> None:
    @windlass.tool(contract="pure")
    def echo(text: str) -> str:
        "Says it again."
        return text

    await stage.play([[call("echo", text=CANARY)], "done"], tools=[echo])


async def progress(stage: Stage) -> None:
    @windlass.tool(contract="pure")
    async def slow(ctx: ToolContext) -> Any:
        "Goes on."
        ctx.progress(f"at {CANARY}", content=(Text(text=CANARY),))
        yield Progress(message=CANARY)
        for piece in ("so ", CANARY[:7], CANARY[7:], " far"):
            yield piece

    await stage.play([[call("slow")], "done"], tools=[slow])


async def hooks(stage: Stage) -> None:
    def guard(moment: Any) -> Any:
        stage.told.append(moment)
        return Denied(message=f"not with {CANARY}") if moment.point == "before_tool" else None

    places = ("prompt", "before_model", "after_model", "before_tool", "after_tool", "run_end", "session_start")
    made = [
        windlass.Hook(point=point, run=guard, kind="guard" if point in ("before_tool", "prompt") else "observe")  # type: ignore[arg-type]
        for point in places
    ]
    tool = tool_that(lambda ctx: CANARY)
    await stage.play(
        [[call("leak")], f"said {CANARY}"], tools=[tool], hooks=made, prompt=f"use {CANARY}", instructions=CANARY
    )


async def hook_programs(stage: Stage) -> None:
    kept = stage.folder / "heard-by-the-hook.json"
    code = f"import sys; open({str(kept)!r}, 'a').write(sys.stdin.read()); sys.exit({CANARY!r})"
    hook = windlass.Hook(point="after_tool", run=CommandHook(sys.executable, "-c", code))
    await stage.play([[call("leak")], "done"], tools=[tool_that(lambda ctx: CANARY)], hooks=[hook])
    assert kept.stat().st_size > 0


async def attachments(stage: Stage) -> None:
    (stage.folder / "key.txt").write_text(f"x {CANARY} y")
    text = base64.b64encode(b"one " + CANARY.encode() + b" two").decode()
    large = base64.b64encode(b"\0" * 300_000 + CANARY.encode()).decode()
    blocks = [
        Text(text="look"), Document(media_type="text/plain", data=text, name="a.txt"),
        Document(media_type="application/pdf", data=large, name="b.pdf"),
    ]  # fmt: skip
    await stage.play(["done"], prompt=blocks, attachments=[str(stage.folder / "key.txt")])
    (stage.folder / "key.txt").unlink()


async def instruction_files(stage: Stage) -> None:
    (stage.folder / "w").mkdir()
    (stage.folder / "w" / "AGENTS.md").write_text(f"Always say {CANARY}.")
    await stage.play(["done"], workspace=str(stage.folder / "w"))
    (stage.folder / "w" / "AGENTS.md").unlink()


async def questions(stage: Stage) -> None:
    async def ask(ctx: ToolContext) -> str:
        return (await ctx.ask(f"is it {CANARY}?", options=[CANARY, "no"])).text

    def approver(asked: Any) -> Any:
        stage.told.append(asked)
        return CANARY

    await stage.play([[call("leak")], "done"], tools=[tool_that(ask)], approver=approver)


async def approvals(stage: Stage) -> None:
    @windlass.tool
    def pay(text: str) -> str:
        "Pays."
        return text

    def approver(asked: Any) -> Any:
        stage.told.append(asked)
        return windlass.Deny(feedback=f"{CANARY} is wrong")

    await stage.play([[call("pay", text=CANARY)], "done"], tools=[pay], approver=approver)


async def said_to_sessions(stage: Stage) -> None:
    async def then(session: Any) -> None:
        await session.signal("mail", CANARY, payload={"k": CANARY}, source=CANARY)
        await session.set_title(CANARY)
        await session.set_metadata(k=CANARY)
        await session.interrupt(CANARY)
        await session.close(CANARY, error=True)

    script = [[call("todo", todos=[{"todo_id": "1", "content": CANARY, "status": "pending"}])], *["done"] * 5]
    await stage.play(script, tools=["todo"], title=CANARY, metadata={"k": CANARY}, prompt=CANARY, then=then)


async def shell_output(stage: Stage) -> None:
    """Printed by commands: one that is waited for, and one that goes on in the background and is heard of later."""
    code = f"print({CANARY!r})"
    command = f"{sys.executable} -c {shlex.quote(code)}"
    script = [[call("shell", command=command), call("shell", command=f"sleep 0.2; {command}", background=True)]]

    async def then(session: Any) -> None:
        await session.wait_idle()
        for record in [record async for record in session.records()]:
            stage.seen.append(record.event)

    await stage.play([*script, *["done"] * 4], tools=["shell"], policy=windlass.ALLOW_ALL, then=then)


async def tool_of_another_process(stage: Stage) -> None:
    await stage.play([[call("far")], "done"], tools=[far])


@windlass.tool(contract="pure", plane="process")
async def far(ctx: ToolContext) -> str:
    "Runs in a process of its own."
    ctx.progress(f"with {CANARY}")
    print(CANARY)
    done = await ctx.run(["/usr/bin/env"], secrets={"T": "TOKEN"})
    return done.stdout.text


WAYS: dict[str, Callable[[Stage], Awaitable[None]]] = {
    "environment of this process": environment,
    "environment of a process": process_environment,
    "words of a process": argv,
    "error output of a process": error_output,
    "file read": file_read,
    "header echo": header_echo,
    "provider error": provider_error,
    "streamed text": streamed_text,
    "arguments of a call": call_arguments,
    "result": lambda stage: by_tool(stage, lambda ctx: f"the key is {CANARY}"),
    "data": lambda stage: by_tool(stage, lambda ctx: {CANARY: [CANARY, base64.b64encode(CANARY.encode()).decode()]}),
    "large result": lambda stage: by_tool(stage, lambda ctx: "x" * LARGE_BYTES + CANARY + "y" * LARGE_BYTES),
    "bytes": lambda stage: by_tool(stage, lambda ctx: b"\xff" * 9 + CANARY.encode()),
    "basic authorisation": lambda stage: by_tool(stage, lambda ctx: " ".join(base64.b64encode(f"{me}:{CANARY}".encode()).decode() for me in ("", "a", "ab"))),
    "address": lambda stage: by_tool(stage, lambda ctx: f"https://x.example/?k={quote(CANARY)}&j={quote(CANARY, safe='')}"),
    "exception": lambda stage: by_tool(stage, lambda ctx: raising(RuntimeError(f"401 for {CANARY}"))),
    "tool error": lambda stage: by_tool(stage, lambda ctx: raising(ToolError(CANARY, hint=CANARY, code=PLAIN))),
    "private error": lambda stage: by_tool(stage, lambda ctx: raising(ToolError(CANARY, for_model=False))),
    "audit note": lambda stage: by_tool(stage, lambda ctx: ctx.note(CANARY, k=CANARY)),
    "changed file": lambda stage: by_tool(stage, lambda ctx: ctx.changed(f"/tmp/{PLAIN}")),
    "progress": progress,
    "output of a shell": shell_output,
    "tool of another process": tool_of_another_process,
    "hooks": hooks,
    "hook programs": hook_programs,
    "attachments": attachments,
    "instructions": lambda stage: stage.play(["done"], instructions=CANARY, knowledge=[CANARY]),
    "instruction files": instruction_files,
    "questions": questions,
    "approvals": approvals,
    "what is said to a session": said_to_sessions,
}  # fmt: skip


def test_there_are_twenty_ways_and_more() -> None:
    assert len(WAYS) >= 20


@pytest.mark.parametrize("way", WAYS)
async def test_a_secret_is_nowhere_by_this_way(
    way: str, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    stage = Stage(tmp_path)
    await WAYS[way](stage)
    said = capfd.readouterr()
    places = {
        "the log, its blobs and the export": _kept(tmp_path),
        "what the model was sent": _plain([_sent(request) for request in getattr(stage.model, "requests", ())]),
        "what readers were shown": b"\n".join(_shown(stage.seen)),
        "what hooks and approvers were told": _plain(stage.told),
        "the loggers": caplog.text.encode(),
        "the terminal": (said.out + said.err).encode(),
    }
    assert {place: leaks(data) for place, data in places.items() if leaks(data)} == {}
    assert all(b"canary" not in data for data in places.values()) or way in ("file read",)


def _plain(values: list[Any]) -> bytes:
    """As JSON, whose ways of writing a value are among those looked for."""
    return msgspec.json.encode(values, enc_hook=repr)


def _kept(folder: pathlib.Path) -> bytes:
    """All files there, with their names."""
    return b"\n".join(
        str(path).encode() + b"\n" + (path.read_bytes() if path.is_file() else b"") for path in folder.rglob("*")
    )


def _sent(request: Any) -> Any:
    return [request.instructions, request.knowledge, request.items, request.task_state]


def _shown(seen: list[Any]) -> list[bytes]:
    """Each event, and the texts of each stream joined: a secret in pieces is one too."""
    plain = [msgspec.to_builtins(getattr(event, "event", event)) for event in seen]
    streams: dict[str, str] = {}
    for event in plain:
        if event["type"].endswith(".delta"):
            streams[event["type"]] = streams.get(event["type"], "") + event.get("text", event.get("fragment", ""))
        if event["type"] == "tool.progressed":
            streams["progress"] = streams.get("progress", "") + "".join(
                block.get("text", "") for block in event.get("content", ())
            )
    return [json.dumps(plain).encode(), *(text.encode() for text in streams.values())]


@pytest.mark.parametrize(
    "verb", [["show", "s"], ["logs", "s", "--full"], ["ps"], ["logs", "s", "--json"], ["inspect", "s"]]
)
async def test_verbs_show_nothing_of_it_in_a_process_that_does_not_know_it(
    verb: list[str], tmp_path: pathlib.Path
) -> None:
    await said_to_sessions(Stage(tmp_path))
    SECRETS.__init__()  # type: ignore[misc]  # another process, which was told of no secret
    out, err = io.StringIO(), io.StringIO()

    def run() -> None:
        with redirect_stdout(out), redirect_stderr(err):
            main([*verb, "--store", str(tmp_path / "log.jsonl.d")])

    await asyncio.to_thread(run)
    assert leaks((out.getvalue() + err.getvalue()).encode()) == []
    assert out.getvalue()


def test_files_of_a_store_are_private(tmp_path: pathlib.Path) -> None:
    async def made(place: str) -> None:
        store = await open_store(tmp_path / place)
        await store.close()

    for place in ("log.db", "log.jsonl.d"):
        asyncio.run(made(place))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert [name for name, mode in modes.items() if mode & 0o077] == []


# --- handles -------------------------------------------------------------------------------------------------------


async def test_a_value_is_looked_up_when_it_is_used_and_hidden_from_then_on(tmp_path: pathlib.Path) -> None:
    looked_up: list[int] = []

    def vault() -> str:
        looked_up.append(1)
        return CANARY

    async def run(ctx: ToolContext) -> str:
        return (await ctx.run(["/usr/bin/env"], secrets={"T": "VAULT"})).stdout.text

    model = ScriptedModel([[call("leak")], "done"])
    agent = windlass.Agent("a", model=model, tools=[tool_that(run)])
    async with windlass.open(tmp_path / "log.db", agents=[agent], secrets={"VAULT": vault}) as runtime:
        session = await runtime.session(agent, "s")
        assert looked_up == []
        await session.prompt("go")
        await session.result()
    assert looked_up == [1]
    assert f"T={HIDDEN}" in repr(model.requests[-1].items)


async def test_a_secret_that_there_is_not_is_an_error_that_names_those_there_are(tmp_path: pathlib.Path) -> None:
    stage = Stage(tmp_path)
    await by_tool(stage, lambda ctx: ctx.run(["/usr/bin/env"], secrets={"T": "NOPE"}))
    assert "there is no secret 'NOPE' here: there are HEADER, TOKEN" in repr(stage.model.requests[-1].items)


def test_a_source_that_fails_tells_nothing_of_what_it_says() -> None:
    secrets = NamedSecrets({"VAULT": lambda: raising(RuntimeError(CANARY))})
    with pytest.raises(ToolError) as raised:
        secrets("VAULT")
    assert raised.value.message == "the secret 'VAULT' cannot be had (RuntimeError)"
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    "wrong", ["abc", {"": "long enough"}, {"a b": "long enough"}, {"A": "abc"}, {"A": 7}, [7], {"A": "a\0bcdef"}]
)
def test_secrets_that_could_not_be_told_apart_are_refused(wrong: Any) -> None:
    with pytest.raises(windlass.UsageError):
        NamedSecrets(wrong)


# --- the filter ------------------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(st.text(max_size=40), st.text(max_size=40), st.lists(st.integers(0, 120), max_size=8))
def test_a_stream_hides_a_secret_wherever_it_is_cut(before: str, after: str, cuts: list[int]) -> None:
    known = KnownSecrets()
    known.add(CANARY)
    text = before.replace("\ud800", "") + CANARY + after
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    stream = HiddenStream(known)
    shown = [stream.feed(text[start:end]) for start, end in itertools.pairwise(places)] + [stream.end()]
    assert "".join(shown) == known.hidden_text(text)
    assert CANARY not in "".join(shown)


def test_a_stream_holds_back_no_more_than_it_must() -> None:
    known = KnownSecrets()
    known.add(CANARY)
    stream = HiddenStream(known)
    assert stream.feed("hello ") == "hello "
    assert (stream.feed(CANARY[:3]), stream.feed("!"), stream.end()) == ("", CANARY[:3] + "!", "")


@pytest.mark.parametrize("cut", [8, 12])
async def test_a_secret_that_is_cut_by_where_reading_begins_or_ends_is_hidden_whole(tmp_path, cut):
    """Half of a secret is not known any more: it is hidden before the cut."""
    (tmp_path / "conf").write_text(f"token={PLAIN}\n")
    (tmp_path / "long").write_text("x" * 995 + PLAIN + "x" * 500)  # a line is shown up to its 1,000th character

    def looks(request):
        return [call("job_output", job_id=job_ids(str(request.items))[0], offset=cut, wait_ms=10_000)]

    steps: list[Any] = [
        call("read", path="conf", column=cut),
        call("read", path="long"),
        call("grep", pattern="xxx", path="long"),
        call("shell", command="cat conf", background=True),
        looks,
    ]
    model = ScriptedModel([*steps, "done", "done"])
    tools = [*file_tools(tmp_path), "shell", "job_output"]
    agent = windlass.Agent("a", model=model, tools=tools, policy=windlass.ALLOW_ALL)
    opened = windlass.open(tmp_path / "w.db", agents=[agent], secrets={"T": PLAIN}, jobs=tmp_path / "jobs")
    async with opened as rt:
        session = await rt.session(agent, "s", workspace=tmp_path)
        await session.prompt("go")
        await session.result()
        await session.wait_idle()
        told = str([record.event async for record in session.records()])
    assert PLAIN[-6:] not in told
    assert PLAIN[:5] not in told
    assert "*****" in told


def job_ids(text: str) -> list[str]:
    return re.findall(r"j\d+\.\d+", text)
