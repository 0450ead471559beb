"""The threat table of docs/security.md names a test for each row, and each of them exists."""

from __future__ import annotations

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
ROW = re.compile(r"^\| (S\d+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
ROWS = {f"S{number}" for number in (*range(1, 13), 16, 17, 18, 20, 22, 24)}


def table() -> dict[str, list[str]]:
    return {row: re.findall(r"`([^`]+)`", tests) for row, tests in ROW.findall(PAGE.read_text(encoding="utf-8"))}


def test_each_row_names_a_test() -> None:
    found = table()
    assert set(found) == ROWS
    assert [row for row, tests in found.items() if not tests] == []


def test_each_test_that_is_named_exists() -> None:
    missing = []
    for named in {named for tests in table().values() for named in tests}:
        path, _, name = named.partition("::")
        if not (ROOT / path).is_file():
            missing.append(named)
            continue
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        imported = any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in tree.body)
        if name not in tests and (name or not (imported or any(test.startswith("test_") for test in tests))):
            missing.append(named)
    assert missing == []
