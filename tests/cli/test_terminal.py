"""The rig of the terminal tests itself: what it shows is what a terminal shows."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from .terminal import Terminal

ECHO = "import sys\nfor line in sys.stdin: print('got', repr(line), flush=True)"


@pytest.fixture(scope="module")
def terminal(tmp_path_factory):
    """One that is small."""
    with Terminal(tmp_path_factory.mktemp("terminal"), columns=40, rows=6) as terminal:
        yield terminal


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_what_is_typed_arrives_and_is_shown(terminal):
    terminal.execute(python(ECHO))
    terminal.line("Enter C-c; $HOME ü;")
    assert terminal.wait_for("got") == "Enter C-c; $HOME ü;\ngot 'Enter C-c; $HOME ü;\\n'\n"
    terminal.key("C-d")
    assert terminal.end() == 0


def test_a_wide_line_wraps_and_what_scrolls_off_is_history(terminal):
    terminal.execute(python("print('x' * 50)\nfor n in range(7): print(n)"))
    assert terminal.end() == 0
    assert terminal.history() == "x" * 40 + "\n" + "x" * 10 + "\n0\n1\n2\n3\n4\n5\n6\n"
    assert terminal.screen() == "2\n3\n4\n5\n6\n"


def test_each_program_has_a_clean_screen_and_its_own_exit_code(terminal):
    terminal.execute(python("print('x\\n' * 20); raise SystemExit(7)"))
    assert terminal.end() == 7
    terminal.execute(python("print('\\x1b[31mred\\x1b[0m')"))
    assert terminal.end() == 0
    assert (terminal.history(), terminal.screen(colour=True)) == ("red\n", "\x1b[31mred\n")


def test_ctrl_c_interrupts_and_a_kill_is_told_from_an_exit(terminal):
    terminal.execute(python("import time\ntry: print('up'); time.sleep(60)\nexcept KeyboardInterrupt: exit(3)"))
    terminal.wait_for("up")
    terminal.key("C-c")
    assert terminal.end() == 3
    terminal.execute(python("print('up'); import time; time.sleep(60)"))
    terminal.wait_for("up")
    terminal.kill()
    assert terminal.end() == -9


def test_a_text_that_never_comes_fails_with_the_screen(terminal):
    terminal.execute(python("print('this'); exit(4)"))
    with pytest.raises(
        AssertionError, match=r"'that' was never shown; the program's exit code is 4, the screen:\nthis"
    ):
        terminal.wait_for("that")


def test_closing_leaves_neither_a_process_nor_a_file(tmp_path):
    terminal = Terminal(tmp_path)
    terminal.execute(["sh", "-c", "trap '' HUP TERM; echo up; sleep 60"])
    terminal.wait_for("up")
    room, pid = terminal._room, terminal.pid
    terminal.close()
    terminal.close()
    assert not room.exists()
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    assert state.strip()[:1] in ("", "Z")
    assert not pathlib.Path(f"/proc/{pid}/exe").exists()
