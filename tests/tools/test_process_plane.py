"""The process plane: the same context in another process, whom a worker belongs to, and what cannot run there."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.faults import hostile_tools
from tests.faults.hostile_tools import Kit, decorated
from tests.sandboxes.programs import odd_signals
from windlass.events.errors import StaleEpoch, UsageError
from windlass.events.questions import Answer, AnswerBody
from windlass.events.stored.known_secrets import SECRETS
from windlass.events.tools.calls import CallBody
from windlass.events.values.blocks import Data
from windlass.events.workspace import FileChange
from windlass.tools.context import Answered, ModelAnswer, ModelAsk, Note, Progress, ToolContext
from windlass.tools.planes.outcome import Outcome
from windlass.tools.planes.plane import Planes
from windlass.tools.planes.process import places
from windlass.tools.planes.process.messages import Call
from windlass.tools.planes.process.plane import ABOUT, ProcessPlanes
from windlass.tools.planes.process.worker_process import Limits
from windlass.tools.processes import process_tree
from windlass.tools.sandboxes.local import LocalSandbox, LocalSandboxes
from windlass.tools.tool import AnyTool, tool

PATIENCE_S = 60.0


class Seat:
    """The runtime's side of a context: keeps what it hears, and answers."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.held = True
        self.lost = False

    def progress(self, call_id: str, progress: Progress) -> None:
        self.heard.append(progress)

    def note(self, call_id: str, note: Note) -> None:
        self.heard.append(note)

    async def ask(self, call_id: str, question: Any) -> Answered:
        self.heard.append(question.message)
        if self.lost:
            raise StaleEpoch("somebody else has it")
        return Answered(outcome="answered", body=AnswerBody(answers=(Answer(index=0, text="b"),)))

    async def model(self, call_id: str, ask: ModelAsk) -> ModelAnswer:
        self.heard.append(ask.prompt)
        return ModelAnswer(text="hi")

    def holds(self) -> bool:
        return self.held

    async def hold(self, call_id: str) -> bool:
        return False

    async def keep(self, call_id: str, files: Any) -> None:
        self.heard.append(files)

    def notice(self, call_id: str, code: str, message: str) -> None:
        self.heard.append(code)


@contextlib.asynccontextmanager
async def opened(**given: Any) -> AsyncIterator[ProcessPlanes]:
    """A kind of planes that is closed at the end, and has left no worker then."""
    kind = ProcessPlanes(grace_s=0.2, **given)
    try:
        yield kind
    finally:
        await kind.close()
        assert kind.places.count == 0


def process(function: Any, **options: Any) -> AnyTool:
    return tool(plane="process", **options)(function)


async def run(plane: Any, function: Any, seat: Any = None, box: Any = None, **args: Any) -> Outcome:
    made = function if hasattr(function, "options") else process(function)
    context = ToolContext(session="s", call_id="c1.0", tool=made.name, seat=seat, sandbox=box, exclude=("*.key",))
    outcome: Outcome = await plane.run(made, CallBody(args=args), context)
    return outcome


def value(outcome: Outcome) -> Any:
    assert outcome.ok, outcome
    assert outcome.body is not None
    block = outcome.body.content[0]
    return block.value if isinstance(block, Data) else outcome.text


# --- the same context ---


def held_back() -> list[int]:
    return sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


async def test_a_worker_hears_every_signal_whatever_the_runtime_was_started_with():
    async with opened() as kind:
        with odd_signals():
            assert value(await run(await kind.open("s"), held_back)) == []


async def test_a_tool_in_a_worker_has_the_whole_context(tmp_path):
    seat, kind = Seat(), ProcessPlanes()
    plane = await kind.open("s")
    made = process(hostile_tools.uses_context)
    context = ToolContext(
        session="s", call_id="c1.0", tool="uses_context", run_id="r", agent="a", epoch=3, attempt=2, depth=1,
        seat=seat, sandbox=LocalSandbox(tmp_path), exclude=("*.key",),
    )  # fmt: skip
    outcome = await plane.run(made, CallBody(args={}), context)
    await kind.close()
    assert value(outcome) == {
        "who": ["s", "c1.0", "uses_context", "a", "r", 3, 2, 1],
        "key": context.idempotency_key,
        "exclude": ["*.key"],
        "cancelled": False,
        "answer": "b",
        "model": "hi",
        "ran": [3, b"\xffin".hex(), "err\n"],
        "file": "00ff",
        "list": ["f.bin"],
        "box": "local",
    }
    assert seat.heard == [
        Progress(message="half", fraction=0.5),
        Note(message="seen", data={"n": 1}),
        (("a.txt", None, b"\xff"),),
        "Which?",
        "Say hi.",
    ]
    assert context.labels == ("private:payroll",)
    assert context.changes == (FileChange(path="a.txt", operation="create", lines_added=2),)


def test_everything_public_of_a_context_crosses_over():
    made_when_asked_for = {"idempotency_key", "traceparent"}
    fields = {name for name in ToolContext.__slots__ if not name.startswith("_")} | made_when_asked_for
    # A worker starts no jobs and is told no secrets; openings and what is blotted are for built-in tools, which run here.
    not_there = {"jobs", "secret", "access", "blotted", "waits"}
    assert fields == {*ABOUT, "idempotency_key", *not_there}
    verbs = {name for name in vars(ToolContext) if not name.startswith("_")} - fields
    of_the_plane = {
        "labels",
        "holds",
        "hold",
        "notice",
        "changes",
        "attach",
        "on_report",
    }
    in_the_tool = {"keeps", "cancelled", "cancel", "wait_cancelled", "suspend", "wait"}
    asked_for = {"progress", "note", "changed", "mark", "keep", "ask", "model", "sandbox", "run"}
    assert verbs == of_the_plane | in_the_tool | asked_for


@pytest.mark.parametrize(("what", "told"), [("secret", "is told no secrets"), ("jobs", "starts no background jobs")])
async def test_what_a_worker_does_not_have_says_so(what, told):
    async with opened() as kind:
        outcome = await run(await kind.open("s"), hostile_tools.needs_what_is_not_there, what=what)
    assert not outcome.ok
    assert told in outcome.text


def _is_guard(pid: int) -> bool:
    """Whether a process is the guard of a worker of ours, and not the worker that it forked."""
    try:
        words, fields = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes(), process_tree.stat_of(pid)
    except OSError:  # it has ended meanwhile
        return False
    return b"guard.py" in words and fields is not None and int(fields[1]) == os.getpid()


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
async def test_what_a_tool_started_ends_with_a_guard_that_was_killed(tmp_path):
    path = tmp_path / "pid"
    async with opened() as kind:
        plane = await kind.open("s")
        call = asyncio.ensure_future(run(plane, hostile_tools.starts_and_hangs, pid=str(path)))
        async with asyncio.timeout(PATIENCE_S):
            while not path.exists():
                await asyncio.sleep(0.01)
        pid = int(path.read_text())
        (guard,) = [each for each in process_tree.descendants(os.getpid()) if _is_guard(each)]
        os.kill(guard, signal.SIGKILL)
        outcome = await call
    assert not outcome.ok
    assert not process_tree.is_alive(pid)


async def test_a_plain_function_waits_in_its_thread_for_what_the_runtime_does(tmp_path):
    async with opened() as kind:
        outcome = await run(await kind.open("s"), hostile_tools.uses_context_sync, Seat(), LocalSandbox(tmp_path))
        assert outcome.text == "bhi\n"


async def test_results_come_as_from_any_plane():
    async with opened() as kind:
        plane = await kind.open("s")
        assert value(await run(plane, decorated, a=1)) == 3
        assert (await run(plane, hostile_tools.yields)).text == 'one two\n{"three":3}'
        assert (await run(plane, decorated, a="x")).error_code == "tool_arguments"
        suspended = await run(plane, hostile_tools.suspends)
        assert suspended.payload is not None
        assert (suspended.status, suspended.payload.args, suspended.note) == ("suspended", {"ticket": 7}, "waits")
        told = await run(plane, hostile_tools.tells)
        assert (told.text, told.error_code) == ("no city 'Rome' here\nknown is: Paris", "no_city")
        assert (await run(plane, Kit.still, text="hey")).text == "HEY"
        assert (await run(plane, Kit.shared, text="hey")).text == "Kit hey"


async def test_large_output_crosses_over_whole_and_its_digest_is_the_runtimes():
    async with opened() as kind:
        outcome = await run(await kind.open("s"), hostile_tools.writes_much, size=3_000_000)
        assert outcome.body is not None
        assert outcome.body.whole is not None
        (blob,) = outcome.blobs
        assert (blob.ref, blob.read()) == (outcome.body.whole, b"0123456789" * 300_000)
        assert (outcome.spooled, len(outcome.text) < 6_000) == (3_000_000, True)
        blob.close()


async def test_a_secret_of_the_runtime_is_hidden_in_what_a_worker_returns():
    SECRETS.add("0123456789")
    async with opened() as kind:
        outcome = await run(await kind.open("s"), hostile_tools.writes_much, size=2_000_000)
        (blob,) = outcome.blobs
        assert b"0123456789" not in blob.read() + outcome.text.encode()
        assert outcome.body is not None
        assert outcome.body.whole == blob.ref
        blob.close()


# --- whom a worker belongs to ---


async def test_a_session_keeps_its_worker_and_shares_it_with_no_other():
    async with opened() as kind:
        one, two = await kind.open("one"), await kind.open("two")
        pids = [value(await run(plane, hostile_tools.state))["pid"] for plane in (one, one, two)]
        assert pids[0] == pids[1] != pids[2]
        assert os.getpid() not in pids
        await one.close()
        assert not alive(pids[0])
        assert alive(pids[2])
        await kind.close()
        assert not alive(pids[2])


async def test_calls_at_the_same_time_have_a_worker_each_and_never_more_than_allowed():
    kind = ProcessPlanes(workers_max=2, session_workers_max=2)
    one, two = await kind.open("one"), await kind.open("two")
    outcomes = await asyncio.gather(*(run(plane, decorated, a=n) for n in range(3) for plane in (one, two)))
    assert sorted(value(outcome) for outcome in outcomes) == [2, 2, 3, 3, 4, 4]
    assert kind.places.count <= 2
    await kind.close()
    assert kind.places.count == 0


async def test_a_call_that_waits_for_a_worker_says_so_and_its_time_stands_still(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "SATURATED_S", 0.01)
    kind = ProcessPlanes(workers_max=1)
    plane, seat = await kind.open("s"), Seat()
    flag = process(hostile_tools.looks_at_its_flag)
    first = asyncio.ensure_future(run(plane, flag, pid=str(tmp_path / "pid")))
    await appeared(tmp_path / "pid")
    second = asyncio.ensure_future(run(plane, process(hostile_tools.add, timeout_ms=2_000), seat, a=1))
    while "workers_saturated" not in seat.heard:
        await asyncio.sleep(0.01)
    await asyncio.sleep(2.1)  # longer than its time
    first.cancel()
    assert value(await second) == 3
    await kind.close()


async def test_what_a_tool_changes_of_its_process_the_next_call_does_not_meet(tmp_path):
    async with opened() as kind:
        plane = await kind.open("s")
        before = value(await run(plane, hostile_tools.state))
        assert (await run(plane, hostile_tools.changes_process, where=str(tmp_path))).text == "changed"
        after = value(await run(plane, hostile_tools.state))
        assert (after["folder"], after["changed"]) == (before["folder"], None)
        assert after["pid"] != before["pid"]


async def test_a_worker_gets_no_variables_but_those_allowed(monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    monkeypatch.setenv("PYTHONSTARTUP", "/nowhere")
    kind = ProcessPlanes(env={"GIVEN": "yes"}, env_allowed=("PATH",))
    seen = value(await run(await kind.open("s"), hostile_tools.environment))
    await kind.close()
    assert {name: text for name, text in seen.items() if name != "LC_CTYPE"} == {
        "PATH": os.environ["PATH"],
        "GIVEN": "yes",
    }


async def test_what_a_tool_prints_is_logged_and_is_no_message(caplog):
    async with opened() as kind:
        caplog.set_level(logging.INFO, "windlass.tools")
        plane = await kind.open("s")
        assert (await run(plane, hostile_tools.prints, text="hello\x1b[31m", times=3)).text == "printed"
        await plane.close()
        lines = [record.getMessage() for record in caplog.records if record.name == "windlass.tools"]
        assert lines.count("tool 'prints' printed: hello\\x1b[31m") == 3
        assert "tool 'prints' printed: errors too" in lines


async def test_a_call_that_is_not_owed_any_more_does_not_begin(tmp_path):
    async with opened() as kind:
        seat = Seat()
        seat.held = False
        outcome = await run(await kind.open("s"), hostile_tools.counts, seat, path=str(tmp_path / "n"))
        assert outcome.failure is not None
        assert (outcome.failure.kind, (tmp_path / "n").exists()) == ("tool_cancelled", False)


async def test_a_session_that_was_lost_is_not_taken_for_a_failing_tool(tmp_path):
    async with opened() as kind:
        seat = Seat()
        seat.lost = True
        with pytest.raises(StaleEpoch):
            await run(await kind.open("s"), hostile_tools.uses_context_sync, seat, LocalSandbox(tmp_path))


# --- what cannot run there ---


def local_function() -> AnyTool:
    def inner() -> str:
        "Inner."
        return "x"

    return process(inner)


class Thing:
    def __call__(self) -> str:
        "Call."
        return "x"


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (local_function, "'local_function.<locals>.inner' is made while the program runs"),
        (lambda: process(lambda: "x", name="anonymous"), "is made while the program runs"),
        (lambda: process(functools.partial(hostile_tools.add, 1), name="partly"), "no function with a name"),
        (lambda: process(Kit().own, name="own"), "no function with a name"),
        (lambda: process(Thing(), name="thing"), "no function with a name"),
    ],
    ids=["closure", "lambda", "partial", "method", "object"],
)
async def test_a_tool_without_a_name_is_refused_before_anything_runs(made, told):
    with pytest.raises(UsageError, match=told):
        Planes({"process": ProcessPlanes()}).check([made()])


def test_a_name_that_stands_for_something_else_is_refused(monkeypatch):
    made = process(hostile_tools.add)
    monkeypatch.setattr(hostile_tools, "add", print)
    with pytest.raises(UsageError, match="add is not it"):
        ProcessPlanes().check(made)


async def test_code_that_was_changed_since_is_not_run(tmp_path, monkeypatch):
    async with opened() as kind:
        module = tmp_path / "changing_tool.py"
        module.write_text("def work() -> str:\n    'Work.'\n    return 'old'\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        import changing_tool  # type: ignore[import-not-found]

        made = process(changing_tool.work)
        kind.check(made)
        module.write_text("def work() -> str:\n    'Work.'\n    return 'new'\n")
        outcome = await run(await kind.open("s"), made)
        assert outcome.failure is not None
        assert outcome.failure.kind == "tool_unavailable"
        assert "is not the code that the runtime has" in outcome.text


async def test_a_module_that_cannot_be_imported_there_is_said_so(tmp_path, monkeypatch):
    async with opened() as kind:
        (tmp_path / "only_here.py").write_text(
            "import os\nif os.environ.get('HERE') != 'yes': raise ValueError('no')\ndef work() -> str:\n    return 'x'\n"
        )
        monkeypatch.setenv("HERE", "yes")
        monkeypatch.syspath_prepend(str(tmp_path))
        import only_here  # type: ignore[import-not-found]

        outcome = await run(await kind.open("s"), process(only_here.work))
        assert outcome.text == "the tool 'work' cannot be loaded in its process (ValueError)"
        assert outcome.body is not None
        assert "ValueError: no" in (outcome.body.private_error or "")


PROGRAM = """
import asyncio, os, sys
import windlass
from windlass.testing.scripted import ScriptedModel, call

@windlass.tool(plane="process", contract="pure")
def far(n: int) -> str:
    "Far."
    return f"{n + 1} {__name__}"

async def main():
    agent = windlass.Agent("a", model=ScriptedModel([call("far", n=1), "done"]), tools=[far])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent)
        await session.prompt("go")
        await session.result()
        for record in [record async for record in session.records()]:
            if type(record.event).__name__ == "ToolFinished":
                print(record.event.body.content[0].text)

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["path", "module"])
def test_a_tool_of_the_program_itself_runs_and_the_program_does_not_run_twice(tmp_path, how):
    (tmp_path / "program.py").write_text(PROGRAM)
    words = [str(tmp_path / "program.py")] if how == "path" else ["-m", "program"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    name = "__windlass_main__" if how == "path" else "program"
    assert (done.stdout, done.stderr) == (f"2 {name}\n", "")


def test_a_program_that_was_typed_in_is_refused():
    code = (
        "import windlass\nfrom windlass.tools.planes.process.plane import ProcessPlanes\n"
        "def far() -> str:\n    return 'x'\n"
        "try:\n    ProcessPlanes().check(windlass.tool(far))\nexcept windlass.UsageError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert "it was typed in and is in no file" in done.stdout, done


# --- confined workers ---


async def test_a_worker_in_a_sandbox_of_its_own_runs_programs_there_and_not_in_the_sessions(tmp_path):
    kind = ProcessPlanes(sandbox=LocalSandboxes())
    plane = await kind.open("s")
    (tmp_path / "of-the-session").write_text("x")
    outcome = await run(plane, hostile_tools.uses_context, Seat(), LocalSandbox(tmp_path))
    assert value(outcome)["list"] == ["f.bin"]
    assert os.listdir(tmp_path) == ["of-the-session"]
    where = value(await run(plane, hostile_tools.state))["folder"]
    assert "windlass-plane-" in where
    await plane.close()
    assert not _exists(where)
    await kind.close()


async def test_a_worker_in_the_sessions_sandbox_starts_in_its_folder(tmp_path):
    kind = ProcessPlanes(sandbox="session")
    seen = value(await run(await kind.open("s"), hostile_tools.state, None, LocalSandbox(tmp_path)))
    assert seen["folder"] == str(tmp_path.resolve())
    await kind.close()


@pytest.mark.parametrize(
    "wrong", [{"workers_max": 0}, {"session_workers_max": 0}, {"folder": "/tmp"}, {"folder": "/", "sandbox": "session"}]
)
def test_a_plane_that_cannot_be_is_refused(wrong):
    with pytest.raises(UsageError):
        ProcessPlanes(**wrong)
    with pytest.raises(UsageError):
        Limits(processes=0)


# --- a worker that lies ---


@pytest.mark.parametrize(
    "sends", [b"no message at all", b"J\xff\xff\xff\xff", b"J\x00\x00\x00\x02{}", b"B\x00\x00\x00\x01x"]
)
async def test_what_is_no_message_ends_the_worker_and_the_call(sends):
    async with opened() as kind:
        outcome = await run(await kind.open("s"), hostile_tools.speaks_itself, data=sends.hex())
        assert (outcome.ok, outcome.error_code) == (False, "process_died")
        assert "said something that is no message" in outcome.text


async def test_a_result_that_names_the_bytes_of_others_is_refused():
    async with opened() as kind:
        outcome = await run(await kind.open("s"), hostile_tools.names_bytes, digest="sha256:" + "0" * 64)
        assert outcome.failure is not None
        assert (outcome.failure.kind, outcome.blobs) == ("tool_result_invalid", ())
        assert "did not come with it" in outcome.text


def test_a_call_is_plain_data():
    assert Call.__struct_fields__ == ("address", "tool", "code", "parameters", "args", "about")


def alive(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def appeared(path: pathlib.Path) -> int:
    async with asyncio.timeout(PATIENCE_S):
        while not _exists(path):
            await asyncio.sleep(0.005)
    return int(path.read_text())  # noqa: ASYNC240


def _exists(path: str | pathlib.Path) -> bool:
    return os.path.exists(path)
