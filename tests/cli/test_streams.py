"""Standard input and output as services, pipes and other people's terminals leave them: closed, full, binary, ASCII."""

from __future__ import annotations

import os
import pathlib
import subprocess
from typing import Any

import pytest

from windlass.cli.main import main
from windlass.cli.prompt_input import TEXT_BYTES_MAX

from . import work
from .terminal import PROGRAM

PATIENCE_S = 300


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return work.make_folder(tmp_path)


def ran(folder: pathlib.Path, *words: str, given: bytes = b"", **more: Any) -> subprocess.CompletedProcess[bytes]:
    environ = {name: value for name, value in os.environ.items() if name not in ("WINDLASS_STORE", "PYTHONIOENCODING")}
    environ |= {"WINDLASS_STORE": "windlass.db", **more.pop("environ", {})}
    return subprocess.run(
        [*PROGRAM, *words], cwd=folder, input=given, capture_output=True, timeout=PATIENCE_S, env=environ, **more
    )


def in_a_shell(folder: pathlib.Path, line: str) -> subprocess.CompletedProcess[str]:
    """A line for `sh`, in which `$W` is windlass."""
    environ = {**os.environ, "W": " ".join(PROGRAM), "WINDLASS_STORE": "windlass.db"}
    return subprocess.run(
        ["sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, env=environ, check=False
    )


def test_closed_input_is_no_input(folder: pathlib.Path):
    done = in_a_shell(folder, "$W run --agent agents.py:free --session s 'Pay it.' <&-")
    assert (done.returncode, done.stdout) == (0, "I will pay it.\nDone: I-7 is paid.\n")
    none = in_a_shell(folder, "$W run --agent agents.py:free <&-")
    assert (none.returncode, none.stderr) == (
        2,
        "windlass: nothing to do: write a prompt, pipe one in, or name a --session to resume\n",
    )


def test_input_that_is_too_long_is_refused_and_not_cut(folder: pathlib.Path):
    words = ["run", "--agent", "agents.py:free", "--session", "s"]
    whole = "ä" * (TEXT_BYTES_MAX // 2)
    done = ran(folder, *words, given=(whole + "x").encode())
    assert (done.returncode, done.stderr.decode()) == (
        2,
        f"windlass: standard input has more than the {TEXT_BYTES_MAX:,} bytes allowed: put it in a file that the agent "
        "can read in parts, with --tool read\n",
    )
    assert not (folder / "windlass.db").exists()
    assert ran(folder, *words, given=whole.encode()).returncode == 0


def test_input_that_is_no_text_is_refused(folder: pathlib.Path):
    done = ran(folder, "run", "--agent", "agents.py:free", "Look:", given=b"\xff\xfe\x00")
    assert (done.returncode, done.stderr) == (2, b"windlass: standard input is not text in UTF-8\n")


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["--help", "models --json", "doctor", "completion bash"])
def test_full_output_is_one_line(folder: pathlib.Path, words: str):
    done = in_a_shell(folder, f"$W {words} > /dev/full")
    assert (done.returncode, done.stderr) == (1, "windlass: cannot write the output: No space left on device\n")


def test_output_that_knows_few_letters_spells_out_the_others(folder: pathlib.Path):
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    words = ["run", "--agent", "agents.py:free", "--session", "s", "Pay “it”."]
    done = ran(folder, *words, environ=ascii_only)
    assert (done.returncode, done.stdout) == (0, b"I will pay it.\nDone: I-7 is paid.\n")
    assert b'\\u2192 pay(invoice="I-7", cents=1200)' in done.stderr
    shown = ran(folder, "show", "s", environ=ascii_only)
    assert shown.stdout.startswith(b"session  s  \\u201cPay \\u201cit\\u201d.\\u201d\n")


def test_ctrl_c_before_a_verb_began_is_no_traceback(monkeypatch: pytest.MonkeyPatch):
    def interrupted(argv: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("windlass.cli.main.build", interrupted)
    assert main(["ps"]) == 130
