"""What a text that is exact is said to run is held against bash itself: it runs nothing else, and writes nothing else."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.tools.description import CallPlace
from windlass.tools.shell.parse import parse
from windlass.tools.shell.shell_description import shell_description

BASH = shutil.which("bash") or "/bin/bash"
END = "<end>"
RECORD = f'() {{ printf "%s\\0" "$@" "{END}" >> "$LOG"; }}'
"""Every command that bash does not find is given to this function, with its words."""
PIECES = st.sampled_from(
    [
        *(
            "x",
            "y",
            "z",
            "x1",
            "'a b'",
            '"c d"',
            "e\\ f",
            "''",
            '""',
            "g'h'\"i\"",
            "\\x",
            "-o",
            "--p=q",
            "A=1",
            "B='2 3'",
            "2",
            "=",
        ),
        *(" ", " ", " ", " ", " ", "\t", "\n", ";", "; ", " && ", " || ", " | ", " & ", "|", "&&", "&", " |& "),
        *(
            "(",
            ")",
            "( ",
            " )",
            "{ ",
            "; }",
            "! ",
            "if x; then ",
            "; else ",
            "; fi",
            "while y; do z; break; done",
            "then ",
            "fi",
        ),
        *(
            "> o1",
            ">o2 ",
            ">> o3",
            "2> o4",
            "2>&1",
            "&> o5",
            ">& o6",
            "<<< w",
            "<<'E'\nb $x `y`\nE\n",
            "<<E\nplain\nE\n",
            "3> o7",
        ),
        *(
            "# comment",
            " #\n",
            "a#b",
            "\\\n",
            " \\\n ",
            "'",
            '"',
            "\\",
            "$?",
            "$",
            '"$?"',
            "'$x'",
            '"a\\"b"',
            '"\\x"',
            "'\\'",
            "~",
            "{a}",
        ),
        *(
            "{",
            "}",
            "!",
            "then",
            "do",
            "done",
            "time ",
            "time -p ",
            "in",
            "esac",
            "[ a = b ]",
            "true",
            "false",
            ":",
            "echo hi",
        ),
    ]
)
TEXTS = st.lists(PIECES, min_size=1, max_size=14).map("".join)


def run_by_bash(text: str) -> tuple[set[tuple[str, ...]], set[str]]:
    """The commands that bash ran beside its own, and the files that were written."""
    with tempfile.TemporaryDirectory() as place:
        log, folder = pathlib.Path(place, "log"), pathlib.Path(place, "folder")
        folder.mkdir()
        env = {"PATH": "/nonexistent", "LOG": str(log), "BASH_FUNC_command_not_found_handle%%": RECORD}
        _run_to_its_last_process(text, folder, env)
        words = log.read_bytes().decode().split("\0")[:-1] if log.exists() else []
        return _commands(words), set(os.listdir(folder))


def _run_to_its_last_process(text: str, folder: pathlib.Path, env: dict[str, str]) -> None:
    """Runs a text; what it leaves running holds a pipe open, and is waited for."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as held:
        try:
            child = subprocess.Popen(
                [BASH, "--noprofile", "--norc", "-c", text],
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(writing,),
            )
        finally:
            os.close(writing)
        child.wait(timeout=30)
        held.read()


def _commands(words: list[str]) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    command: list[str] = []
    for word in words:
        if word == END:
            found.add(tuple(command))
            command = []
        else:
            command.append(word)
    return found


def unlisted(text: str) -> tuple[set[tuple[str, ...]], set[str]]:
    """What bash ran or wrote that nobody said."""
    ran, wrote = run_by_bash(text)
    found = parse(text)
    listed = {command.argv for command in found.commands}
    numbered = {argv for argv in listed if any("$" in word for word in argv)}
    said = {path.removeprefix("/ws/") for path in shell_description({"command": text}, CallPlace(folder="/ws")).writes}
    strange = {argv for argv in ran - listed if not any(len(argv) == len(other) for other in numbered)}
    return strange, wrote - said


@settings(max_examples=400, deadline=None)
@given(text=TEXTS)
def test_bash_runs_and_writes_only_what_was_listed(text: str) -> None:
    if parse(text).exact:
        assert unlisted(text) == (set(), set())


@pytest.mark.long
@settings(max_examples=20_000, deadline=None)
@given(text=TEXTS)
def test_bash_runs_and_writes_only_what_was_listed_in_many_texts(text: str) -> None:
    if parse(text).exact:
        assert unlisted(text) == (set(), set())


def test_the_comparison_notices_a_command_that_was_not_listed() -> None:
    assert run_by_bash("x; y 'a b' > o1") == ({("x",), ("y", "a b")}, {"o1"})
    assert run_by_bash("$'x' {a,b}")[0] == {("x", "a", "b")}
    assert run_by_bash("x >& 'o$(y)'")[0] == {("x",), ("y",)}  # in quotes, and run all the same
    assert unlisted("$'x' {a,b} > o$?") == ({("x", "a", "b")}, {"o0"})
