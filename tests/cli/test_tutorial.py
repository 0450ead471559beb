"""The tutorial, followed to the letter: its files are saved, its commands typed, its screens compared."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

from dev import lock

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^(?:Save this as `(?P<file>[\w.]+)`:\n\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
ANY = "…"


def as_pattern(line: str) -> str:
    return ".*".join(map(re.escape, line.rstrip().split(ANY)))


def missing(wanted: str, printed: str) -> str | None:
    """The first line that was not printed behind the one before it."""
    lines = printed.splitlines()
    for line in wanted.splitlines():
        pattern = re.compile(as_pattern(line))
        while lines:
            if pattern.fullmatch(lines.pop(0).rstrip()):
                break
        else:
            return line
    return None


def test_what_the_page_needs_is_installed_by_then():
    """The tests have every extra; whoever follows the pages has those that they were told to install."""
    assert "when=" in PAGE.read_text(encoding="utf-8")
    (extras,) = re.findall(r"pip install '\.\[([\w,]+)\]'", (PAGE.parent / "install.md").read_text(encoding="utf-8"))
    assert {"cel", "embedded"} <= set(extras.split(","))
    assert "--requirement locks/demo.txt" in (PAGE.parents[1] / "demo").read_text(encoding="utf-8")
    assert {"cel", "embedded"} <= set(lock.LOCKS["demo"])


def test_tutorial_works_as_written(tmp_path: pathlib.Path):
    environ = {key: value for key, value in os.environ.items() if not key.startswith("WINDLASS_")}
    environ |= {"PATH": f"{pathlib.Path(sys.executable).parent}:{environ['PATH']}", "USER": "ada"}
    printed, compared = "", 0
    for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        text = block["text"]
        if block["kind"] == "python":
            (tmp_path / block["file"]).write_text(text, encoding="utf-8")
        elif block["kind"] == "sh":
            done = subprocess.run(
                ["sh", "-c", text],
                cwd=tmp_path,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=300,
                text=True,
                check=False,
            )
            printed = done.stdout
        else:
            compared += 1
            assert missing(text, printed) is None, f"{missing(text, printed)!r} is not in:\n{printed}"
    assert compared >= 7


def test_comparison_can_fail():
    assert missing("a …\nb", "a 1\nb\n") is None
    assert missing("b\na", "a\nb\n") == "a"
    assert missing("a", "ab") == "a"
