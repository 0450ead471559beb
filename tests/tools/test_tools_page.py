"""The table of options on the page about tools is complete. That its code runs is seen by tests/test_docs_run.py."""

from __future__ import annotations

import pathlib
import re

from windlass.tools.tool import Options

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "tools.md"


def test_every_option_of_a_tool_is_on_the_page():
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert set(Options.__struct_fields__) - {"runs", "source"} <= named
