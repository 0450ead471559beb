"""Tables and differences on a terminal: the letters of the plain ones, with colours; and no library where none is needed."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import hypothesis
import pytest
from hypothesis import strategies as st

from windlass.cli.screen import number_words, tables
from windlass.cli.terminal.text import Paint
from windlass.cli.terminal.visible_text import visible

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ROWS = [("SESSION", "COST"), ("march", "$1"), ("[red]a[/red] :smile:", "$0.50"), ("日本", "-")]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if standard output were a terminal with colours."""
    monkeypatch.setattr(tables, "Paint", lambda: Paint(on=True))


def without_colours(lines: list[str]) -> list[str]:
    return [COLOUR.sub("", line).rstrip() for line in lines]


@pytest.mark.usefixtures("screen")
def test_a_table_in_colours_has_the_letters_of_the_plain_one():
    painted = tables.table(ROWS, right=(1,), colours=lambda row, column: "green" if (row, column) == (1, 0) else "")
    assert without_colours(painted) == number_words.table(ROWS, right=(1,))
    assert painted[0].startswith("\x1b[1mSESSION")
    assert "\x1b[32mmarch" in painted[1]


@pytest.mark.usefixtures("screen")
def test_a_screen_without_room_for_a_table_gets_each_row_by_itself():
    assert tables.fitted(ROWS, 12) == number_words.fitted(ROWS, 12)
    assert without_colours(tables.fitted(ROWS, 80)) == number_words.table(ROWS)


@pytest.mark.usefixtures("screen")
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), min_size=1, max_size=4))
def test_no_cell_can_steer_a_terminal(rows: list[tuple[str, str]]):
    lines = [tuple(visible(cell).replace("\n", " ").replace("\t", " ") for cell in row) for row in rows]
    for line in without_colours(tables.table(lines)):
        assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]", line)


@pytest.mark.usefixtures("screen")
def test_a_difference_in_colours_has_the_letters_of_the_plain_one():
    lines = ["--- a", "+++ b", "@@ -1,2 +1,2 @@", " same", "-old [red]", "+new", "", "+  indented"]
    painted = tables.difference(lines)
    assert without_colours(painted) == lines
    assert all("\x1b[" in painted[at] for at in (0, 1, 2, 4, 5))


def test_without_a_terminal_lines_stay_plain():
    assert tables.table(ROWS) == number_words.table(ROWS)
    assert tables.difference(["-a", "+b"]) == ["-a", "+b"]


@pytest.mark.parametrize("words", ["--help", "chat --help", "ps", "models", "cost done", "logs done", "show march"])
def test_what_is_piped_loads_no_library_of_the_terminal(words: str, made: pathlib.Path):
    code = (
        "import sys; from windlass.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print({'prompt_toolkit', 'rich', 'pygments', 'markdown_it'} & set(sys.modules), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *words.split()]
    ran = subprocess.run(command, cwd=made, capture_output=True, text=True, check=True)
    assert ran.stderr == "set()\n"
    assert ran.stdout
