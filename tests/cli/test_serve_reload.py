"""`windlass serve --reload`: what is saved is served, by a fresh process at the same address, and nothing is lost."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from windlass.cli.main import main
from windlass.cli.reload.watched_files import WatchedFiles, candidates

from .terminal import PROGRAM

WAIT_S = 300
HIDING = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
"""With these, lines are written and modules compiled otherwise than where people develop."""
PROMPT = {"type": "prompt.received", "body": {"content": [{"type": "text", "text": "Go."}]}}
AGENT = """
import asyncio, os, windlass, words
from windlass.testing.scripted import ScriptedModel, by_history, call, hang

@windlass.tool(contract="at_most_once")
async def stare() -> str:
    while not os.path.exists("gate"):
        await asyncio.sleep(0.01)
    return "stared"

def agent(name, *turns):
    return windlass.Agent(name, model=ScriptedModel(by_history(list(turns))), tools=[stare], policy=windlass.ALLOW_ALL)

says = agent("says", *words.TURNS)
stares = agent("stares", call("stare"), "Seen.")
process = agent(f"pid-{os.getpid()}", "I am.")
"""
HANGS = "from windlass.testing.scripted import hang\nTURNS = [[hang()]]\n"


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "agents.py").write_text(AGENT, encoding="utf-8")
    says(tmp_path, "one")
    return tmp_path


def says(folder: pathlib.Path, answer: str) -> None:
    save(folder / "words.py", f"TURNS = [{answer!r}] * 9\n")


def save(path: pathlib.Path, text: str) -> None:
    """As editors do it: the file is there, old or new, at every moment."""
    beside = path.with_suffix(".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


class Reloading:
    """A server that reloads, in processes of its own."""

    def __init__(self, process: subprocess.Popen[str], folder: pathlib.Path) -> None:
        self.process = process
        self.url = self.until("listening on").split()[-1]
        token = (folder / "tokens.first").read_text().strip()
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def until(self, beginning: str) -> str:
        """Waits for a line."""
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            if line.startswith(beginning):
                return line
        raise AssertionError("".join(said))

    def open(self, path: str, body: Any = None, **more: str) -> http.client.HTTPResponse:
        data = json.dumps(body).encode() if body is not None else None
        headers = {**self.headers, **more}
        answer = urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=WAIT_S)
        assert isinstance(answer, http.client.HTTPResponse)
        return answer

    def ask(self, path: str, body: Any = None) -> Any:
        with self.open(path, body) as answer:
            return json.load(answer)

    def prompt(self, session: str, agent: str = "says") -> None:
        self.ask("/v1/sessions", {"agent": agent, "session_id": session})
        self.ask(f"/v1/sessions/{session}/commands", PROMPT)

    def answer(self, session: str) -> str:
        result = self.ask(f"/v1/sessions/{session}/result?wait_s={WAIT_S // 10}")["result"]
        assert result["status"] == "completed", result
        return str(result["text"])

    def child(self) -> int:
        """The process that serves."""
        names = [agent["name"] for agent in self.ask("/v1/agents")["agents"]]
        return next(int(name.removeprefix("pid-")) for name in names if name.startswith("pid-"))

    def follow(self, session: str, until: str, cursor: str = "") -> tuple[list[int], str]:
        """The records up to one of a kind, after a cursor: their numbers, and the last cursor."""
        seqs, at = [], cursor
        with self.open(f"/v1/sessions/{session}/events", **({"Last-Event-ID": cursor} if cursor else {})) as stream:
            for line in stream:
                if line.startswith(b"id: "):
                    at = line[4:].decode().strip()
                if line.startswith(b"data: ") and "event" in (data := json.loads(line[6:])):
                    seqs.append(data["seq"])
                    if data["event"]["type"] == until:
                        return seqs, at
        raise AssertionError(f"the stream ended after {seqs}")

    def stop(self, number: int) -> int:
        """Asks it to stop. Its output ends when nobody is left who could write to it."""
        self.process.send_signal(number)
        self.process.communicate(timeout=WAIT_S)
        return self.process.returncode


@contextmanager
def reloading(folder: pathlib.Path, *words: str) -> Iterator[Reloading]:
    line = [*PROGRAM, "serve", "agents.py", "--reload", *words, "--store", "s.db", "--tokens", "tokens.json"]
    with subprocess.Popen(
        line,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in HIDING},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield Reloading(process, folder)
        finally:
            process.kill()  # its server ends when it hears nothing more of it


def gone(pid: int, most_s: float = WAIT_S) -> bool:
    """Waits until a process is gone that is no child of this one."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], most_s)[0])
    finally:
        os.close(handle)


def test_a_module_that_is_saved_is_served_at_the_same_address_and_sessions_go_on(folder):
    with reloading(folder) as server:
        server.prompt("s")
        assert server.answer("s") == "one"
        before, _ = server.follow("s", "run.completed")
        first = server.child()
        says(folder, "two")
        assert server.until("changed:") == "changed: words.py\n"
        server.until("serving again: agents says, stares, pid-")
        assert server.child() != first
        assert gone(first)
        server.ask("/v1/sessions/s/commands", PROMPT)
        assert server.answer("s") == "two"
        assert [one["seq"] for one in server.ask("/v1/sessions/s/records")["records"]][: len(before)] == before
        assert server.stop(signal.SIGINT) == 130


def test_an_edit_of_the_same_size_in_the_same_second_is_served(folder):
    os.utime(folder / "words.py", ns=(10**18, 10**18))
    with reloading(folder) as server:
        save(folder / "words.py", "TURNS = ['two'] * 9\n")
        os.utime(folder / "words.py", ns=(10**18 + 5, 10**18 + 5))
        server.until("serving again")
        server.prompt("s")
        assert server.answer("s") == "two"


def test_a_run_that_was_parked_goes_on_with_the_new_code_and_its_stream_resumes_by_cursor(folder):
    save(folder / "words.py", HANGS)
    with reloading(folder, "--drain", "0") as server:
        server.prompt("s")
        before, cursor = server.follow("s", "model.requested")
        says(folder, "at last")
        server.until("serving again")
        after, _ = server.follow("s", "run.completed", cursor)
        assert [*before, *after] == list(range(before[0], after[-1] + 1))
        assert server.answer("s") == "at last"


def test_a_call_under_way_is_brought_to_its_end_before_the_fresh_server_takes_over(folder):
    with reloading(folder, "--drain", "600") as server:
        server.prompt("s", "stares")
        server.follow("s", "tool.started")
        first = server.child()
        says(folder, "two")
        server.until("changed:")
        (folder / "gate").touch()
        server.until("serving again")
        assert server.answer("s") == "Seen."
        kinds = [one["event"]["type"] for one in server.ask("/v1/sessions/s/records")["records"]]
        assert (kinds.count("tool.started"), kinds.count("tool.finished")) == (1, 1)
        assert gone(first)
        assert server.stop(signal.SIGTERM) == 143


def test_an_error_is_told_with_its_place_and_the_server_before_it_goes_on_until_it_is_mended(folder):
    with reloading(folder) as server:
        first = server.child()
        save(folder / "words.py", "\nTURNS = [\n")
        assert "agents.py cannot be loaded: words.py line 2: SyntaxError" in server.until("windlass:")
        server.until("the server before it goes on")
        assert server.child() == first
        save(folder / "words.py", "import more\nTURNS = more.TURNS\n")
        assert "words.py line 1: ModuleNotFoundError" in server.until("windlass:")
        server.until("the server before it goes on")
        save(folder / "more.py", "TURNS = ['mended'] * 9\n")
        assert server.until("changed:") == "changed: more.py\n"
        server.until("serving again")
        server.prompt("s")
        assert server.answer("s") == "mended"


def test_a_killed_server_is_told_of_and_started_again_until_it_dies_too_often(folder):
    with reloading(folder) as server:
        for _ in range(2):
            os.kill(server.child(), signal.SIGKILL)
            assert server.until("the server has ended") == "the server has ended (SIGKILL): it is started again\n"
            server.until("serving again")
        os.kill(server.child(), signal.SIGKILL)
        assert "(SIGKILL): nothing is served until a file changes" in server.until("the server has ended")
        says(folder, "two")
        server.until("serving again")
        server.prompt("s")
        assert server.answer("s") == "two"


def test_nothing_is_left_running_also_if_the_parent_is_killed(folder):
    with reloading(folder, "--socket", "w.sock") as server:
        server.url = ""
        server.process.kill()
        server.process.communicate(timeout=WAIT_S)  # the output ends with the last who could write to it


def test_a_server_ends_whose_parent_was_killed_before_it_read_what_it_was_told():
    program = (
        "import socket, time; from windlass.cli.reload.server_child import Parent\n"
        "ours, theirs = socket.socketpair(); parent = Parent(ours.makefile('rwb'), drain_s=600)\n"
        "parent.say(word='loaded'); theirs.close(); time.sleep(600)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S)
    assert (done.returncode, done.stderr) == (143, "")


def test_the_socket_of_a_path_is_there_throughout_and_removed_at_the_end(folder):
    with reloading(folder, "--socket", "w.sock") as server:
        before = (folder / "w.sock").stat().st_ino
        says(folder, "two")
        server.until("serving again")
        assert (folder / "w.sock").stat().st_ino == before
        assert server.stop(signal.SIGTERM) == 143
        assert not (folder / "w.sock").exists()


def test_what_cannot_be_loaded_to_begin_with_ends_it(folder):
    save(folder / "words.py", "1 / 0\n")
    line = [*PROGRAM, "serve", "agents.py", "--reload", "--store", "s.db", "--tokens", "t.json"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 2
    assert "agents.py cannot be loaded: words.py line 1: ZeroDivisionError" in done.stderr


def test_it_is_refused_together_with_stdio(folder, capsys):
    assert main(["serve", "agents.py", "--reload", "--stdio", "--store", "s.db"]) == 2
    assert "--reload and --stdio do not go together" in capsys.readouterr().err


def test_a_file_that_changed_while_it_was_read_counts_as_changed(tmp_path):
    early, late, none = (tmp_path / name for name in ("early.py", "late.py", "none.py"))
    for path, at in ((early, 10**18), (late, 2 * 10**18)):
        path.touch()
        os.utime(path, ns=(at, at))
    files = WatchedFiles([])
    files.add(map(str, (early, late, none)), since_ns=15 * 10**17)
    assert files.changes() == [str(late)]
    files.renew()
    assert files.changes() == []
    none.touch()
    assert files.changes() == [str(none)]
    files.keep([str(early)])
    early.unlink()
    assert files.changes() == [str(early)]


def test_a_missing_module_is_looked_for_where_it_could_be_written(tmp_path):
    assert candidates([tmp_path], "a.b") == [str(tmp_path / "a" / "b.py"), str(tmp_path / "a" / "b" / "__init__.py")]
