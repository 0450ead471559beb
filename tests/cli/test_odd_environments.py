"""What services, launchers and unlucky accounts start the program with: closed and unread streams, no home folder, a
working folder that is gone, words that are no text, pipes that nobody closes."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pty
import select
import signal
import stat
import subprocess
import sys
import termios
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence

import pytest

from . import work
from .terminal import PROGRAM

PATIENCE_S = 300
NO_PIPES = "windlass: this is for a program at the other end: standard input and output must be pipes\n"
STDIO_SERVERS = (
    ("serve", "agents.py", "--stdio"),
    ("acp", "agents.py:free"),
    ("duet", "agents.py"),
    ("copilot", "agents.py", "--stdio"),
)
ANSWER = "I will pay it.\nDone: I-7 is paid.\n"
RUN = "$W run --agent agents.py:free --session s 'Pay it.' </dev/null"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return work.make_folder(tmp_path)


def in_a_shell(
    folder: pathlib.Path, line: str, *, stdin: int | None = None, environ: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """A line for `sh`, in which `$W` is windlass."""
    given = {**environ, "W": " ".join(PROGRAM), "WINDLASS_STORE": "windlass.db"}
    return subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env=given,
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


# --- standard streams ---


@pytest.mark.parametrize("words", STDIO_SERVERS, ids=lambda words: words[0])
@pytest.mark.parametrize("streams", ["</dev/null | cat", "<agents.py | cat", "<&- | cat"])
def test_a_server_for_the_one_who_starts_it_refuses_what_has_no_other_end(
    folder: pathlib.Path, words: Sequence[str], streams: str
):
    begun, _, rest = streams.partition("|")
    done = in_a_shell(folder, f"{{ $W {' '.join(words)} {begun}; echo $? >code; }} |{rest}")
    assert ((folder / "code").read_text(), done.stdout, done.stderr) == ("2\n", "", NO_PIPES)


@pytest.mark.parametrize("words", STDIO_SERVERS, ids=lambda words: words[0])
@pytest.mark.parametrize("output", [">/dev/null", ">file", ">&-"])
def test_a_server_for_the_one_who_starts_it_refuses_an_output_that_nobody_reads(
    folder: pathlib.Path, words: Sequence[str], output: str
):
    here, there = os.pipe()  # an input that stays open
    try:
        done = in_a_shell(folder, f"$W {' '.join(words)} {output}", stdin=here)
    finally:
        os.close(here)
        os.close(there)
    assert (done.returncode, done.stderr) == (2, NO_PIPES)


@pytest.mark.parametrize("error", ["2>&-", "2>/dev/full", "2</dev/null", "2>&1 >out | true"])
def test_a_run_does_its_work_if_nobody_reads_what_is_said_of_it(folder: pathlib.Path, error: str):
    redirected, _, reader = error.partition("|")
    line = f"{{ {RUN} {redirected}; echo $? >code; }}" + (f" |{reader}" if reader else " >out")
    in_a_shell(folder, line)
    assert ((folder / "code").read_text(), (folder / "out").read_text()) == ("0\n", ANSWER)


def test_verbs_end_as_documented_if_their_output_is_closed(folder: pathlib.Path):
    assert in_a_shell(folder, RUN).returncode == 0
    for words, code in (
        ("logs s --raw", 0),
        ("export s", 0),
        ("signal s x --wait 0", 0),
        ("interrupt s --wait 0", 0),
        ("approve s", 2),
        ("deny s", 2),
        ("anchor s", 0),
    ):
        done = in_a_shell(folder, f"$W {words} >&-")
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), (words, done.stderr)


def test_files_do_not_take_the_place_of_closed_streams(folder: pathlib.Path):
    assert in_a_shell(folder, f"{RUN} <&- >&- 2>&-").returncode == 0
    assert in_a_shell(folder, "$W logs s").stdout.count("Done: I-7 is paid.") == 1


def test_an_mcp_server_without_input_ends(folder: pathlib.Path):
    pytest.importorskip("mcp")
    done = in_a_shell(folder, "$W mcp serve agents.py <&-")
    assert (done.returncode, done.stdout) == (0, "")


# --- servers whose output is closed ---


@contextlib.contextmanager
def left_alone(folder: pathlib.Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A server whose starter reads where it listens, and then no more."""
    environ = {**os.environ, "WINDLASS_STORE": "windlass.db", "XDG_STATE_HOME": str(folder / "state")}
    process = subprocess.Popen(
        [*PROGRAM, *words],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = next(line.split()[-1] for line in process.stdout if "listening on" in line)
        process.stdout.close()
        with contextlib.suppress(urllib.error.HTTPError):  # it wants a token; that it says so shows that it serves
            urllib.request.urlopen(url, timeout=PATIENCE_S).close()
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@pytest.mark.parametrize("words", ["serve agents.py", "mcp serve agents.py --http", "serve agents.py --reload"])
def test_a_server_drains_if_nobody_reads_what_it_says(folder: pathlib.Path, words: str):
    pytest.importorskip("uvicorn")
    if words.startswith("mcp"):
        pytest.importorskip("mcp")
    with left_alone(folder, *words.split()) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 143
        assert process.stderr is not None
        assert process.stderr.read() == ""


# --- accounts and folders ---

HOMELESS = "import pwd, sys; pwd.getpwuid = {}.__getitem__; from windlass.cli.main import main; sys.exit(main())"


@pytest.mark.parametrize("words", [("run", "--agent", "agents.py:free", "Pay it."), ("ps",), ("doctor",), ("models",)])
def test_without_a_home_folder_it_is_said_what_to_set(folder: pathlib.Path, words: Sequence[str]):
    unset = ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "WINDLASS_STORE", "WINDLASS_CACHE")
    environ = {name: value for name, value in os.environ.items() if name not in unset}
    done = subprocess.run(
        [sys.executable, "-c", HOMELESS, *words],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "no home folder is known: set HOME" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (folder / "~").exists()


def test_whoever_started_a_server_over_its_own_pipes_needs_no_tokens_and_no_home(folder: pathlib.Path):
    unset = ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "WINDLASS_STORE")
    done = subprocess.run(
        [sys.executable, "-c", HOMELESS, "serve", "agents.py", "--stdio", "--store", "work.db"],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in unset},
        input='{"jsonrpc":"2.0","id":1,"method":"listSessions","params":{}}\n',
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["result"]["sessions"] == []
    assert not any("token" in path.name for path in folder.iterdir())


def test_a_name_that_is_too_long_for_the_system_is_one_line(folder: pathlib.Path):
    done = in_a_shell(folder, f"$W ps --store {'x' * 300}.db")
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("windlass: ")
    assert done.stderr.count("\n") == 1


def test_a_folder_that_may_not_be_entered_is_one_line(folder: pathlib.Path):
    (folder / "shut").mkdir(mode=0)
    # Root may enter every folder, as long as it may.
    held = "setpriv --bounding-set=-dac_override,-dac_read_search " if os.geteuid() == 0 else ""
    done = in_a_shell(folder, f"{held}$W ps --store shut/in/it.db")
    assert (done.returncode, done.stderr) == (1, "windlass: 'shut/in/it.db': Permission denied\n")


@pytest.mark.parametrize("words", ["run --agent $A:free --session s 'Pay it.'", "fork s", "replay s", "doctor"])
def test_a_working_folder_that_was_deleted_is_named_as_the_reason(folder: pathlib.Path, words: str):
    (folder / "gone").mkdir()
    done = in_a_shell(folder, f"A=$PWD/agents.py; cd gone; rmdir ../gone; unset WINDLASS_STORE; $W {words} </dev/null")
    assert (done.returncode, done.stderr) == (1, "windlass: the working folder was deleted: change to another one\n")


# --- words and input ---


@pytest.mark.parametrize("words", ["signal s", "interrupt s --reason", "ps --agent", "run --instructions", "deny s"])
def test_a_word_that_is_no_text_is_refused_by_name(folder: pathlib.Path, words: str):
    done = subprocess.run(
        [os.fsencode(PROGRAM[0]), *map(os.fsencode, PROGRAM[1:]), *map(os.fsencode, words.split()), b"h\xff"],
        cwd=folder,
        env={**os.environ, "WINDLASS_STORE": "windlass.db", "PYTHONUTF8": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "windlass: 'h\\xff' is not text in UTF-8\n")


def test_a_prompt_beside_an_input_that_stays_open_says_what_it_waits_for(folder: pathlib.Path):
    with subprocess.Popen(
        [*PROGRAM, "run", "--agent", "agents.py:free", "--session", "s", "Pay it."],
        cwd=folder,
        env={**os.environ, "WINDLASS_STORE": "windlass.db"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            assert select.select([process.stderr], [], [], 60)[0], "it waits without a word"
            assert process.stderr.readline() == (
                "(standard input is read too, and has not ended: with </dev/null there is none)\n"
            )
            assert process.communicate(timeout=PATIENCE_S)[0] == ANSWER  # which ends its input
        finally:
            process.kill()


def test_a_history_that_is_a_pipe_is_not_waited_for(tmp_path: pathlib.Path):
    fifo = tmp_path / "history"
    os.mkfifo(fifo)
    script = (
        "import pathlib, sys; from windlass.cli.terminal.history import HistoryFile\n"
        "history = HistoryFile(pathlib.Path(sys.argv[1])); history.add('kept in memory'); print(history.entries)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(fifo)], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (0, "['kept in memory']\n"), done.stderr
    assert stat.S_ISFIFO(fifo.stat().st_mode)


# --- signals ---


def test_a_hang_up_ends_a_chat_as_sigterm_does_and_leaves_the_terminal_as_it_was(folder: pathlib.Path):
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    environ = {**os.environ, "TERM": "xterm", "WINDLASS_STORE": "windlass.db", "WINDLASS_HISTORY": "off"}
    inherited = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under `nohup` the chat would go on, as it should
    try:
        process = subprocess.Popen(
            [*PROGRAM, "chat", "--agent", "agents.py:free"],
            cwd=folder,
            env=environ,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
    finally:
        signal.signal(signal.SIGHUP, inherited)
    said, until = b"", time.monotonic() + PATIENCE_S
    try:
        while b"/help lists the commands" not in said and time.monotonic() < until:
            said += _read(ours)
        assert b"/help lists the commands" in said, said
        process.send_signal(signal.SIGHUP)
        while process.poll() is None and time.monotonic() < until:
            said += _read(ours)
        said += _read(ours)
        assert process.returncode == 143, said
        assert termios.tcgetattr(theirs)[3] == before[3]
        assert said.rfind(b"\x1b[?2004l") > said.rfind(b"\x1b[?2004h") > 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


def _read(terminal: int) -> bytes:
    """What is on the terminal within a moment."""
    return os.read(terminal, 65_536) if select.select([terminal], [], [], 0.2)[0] else b""


def test_ctrl_c_in_a_simulation_is_no_broken_rule(folder: pathlib.Path):
    """Whatever part of the world it comes to: here a task of it, which dies of it."""
    script = (
        "import os, signal, sys\n"
        "from windlass.testing.simulator.people import People\n"
        "async def live(self):\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        __import__('time').sleep(1)\n"
        "    except KeyboardInterrupt as error:\n"
        "        raise RuntimeError('a task of the world died') from error\n"
        "People.live = live\n"
        "from windlass.cli.main import main\n"
        "sys.exit(main(['sim', '3']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
