"""The shell blocks of the task pages, typed as they stand, one page after the other in an empty folder.

A Python block is saved where the page says so ("Save this as `name`:"), an `sh` block is run, and the `text` block that
follows is compared: its lines are among what was printed, in this order; `…` stands for anything.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.cli.test_tutorial import BLOCK, missing

TASKS = pathlib.Path(__file__).parent.parent / "docs" / "tasks"
BLOCK_TIME_S = 300


def pages() -> list[pathlib.Path]:
    return [page for page in sorted(TASKS.glob("*.md")) if "```sh\n" in page.read_text(encoding="utf-8")]


def environment() -> dict[str, str]:
    """That of a newcomer: no keys, no settings, `windlass` found."""
    kept = {key: value for key, value in os.environ.items() if not re.search(r"^WINDLASS_|_API_KEY$|_BASE_URL$", key)}
    return kept | {"PATH": f"{pathlib.Path(sys.executable).parent}:{kept['PATH']}", "USER": "ada"}


def typed(command: str, folder: pathlib.Path) -> str:
    """What a command prints, on both streams."""
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=BLOCK_TIME_S,
        text=True,
        check=False,
    ).stdout


def follow(text: str, folder: pathlib.Path) -> int:
    """Does what a page says; the number of screens that were compared."""
    printed, compared = "", 0
    for block in BLOCK.finditer(text):
        if block["kind"] == "python" and block["file"]:
            (folder / block["file"]).write_text(block["text"], encoding="utf-8")
        elif block["kind"] == "sh":
            printed = typed(block["text"], folder)
        elif block["kind"] == "text":
            compared += 1
            gone = missing(block["text"], printed)
            assert gone is None, f"{gone!r} is not in:\n{printed}"
    return compared


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_the_page_works_as_written(page, tmp_path):
    text = page.read_text(encoding="utf-8")
    assert follow(text, tmp_path) == text.count("```sh\n"), "show what each command prints"


def test_a_page_that_is_not_true_fails(tmp_path):
    page = "```sh\necho one\n```\n\n```text\n{}\n```\n"
    assert follow(page.format("one"), tmp_path) == 1
    with pytest.raises(AssertionError, match="'two' is not in"):
        follow(page.format("two"), tmp_path)
