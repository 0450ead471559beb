"""The page about tools runs: its blocks one after the other, as a reader would type them, and its table is complete."""

from __future__ import annotations

import pathlib
import re
import sys
import types

from windlass.tools.tool import Options

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "tools.md"


def test_every_block_of_the_page_runs(monkeypatch):
    text = PAGE.read_text(encoding="utf-8")
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # types are looked up in the module of their function
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert len(blocks) >= 8
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], str(PAGE), "exec", dont_inherit=True), vars(module))


def test_every_option_of_a_tool_is_on_the_page():
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert set(Options.__struct_fields__) - {"runs", "source"} <= named
