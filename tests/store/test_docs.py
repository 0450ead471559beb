"""The code in docs/stores.md runs."""

from __future__ import annotations

import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "stores.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("source", BLOCKS, ids=range(len(BLOCKS)))
def test_code_on_the_page_runs(source: str):
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(source, str(PAGE), "exec"), names)
    check = names.get("test_my_store_against_the_model")
    if callable(check):
        check()
