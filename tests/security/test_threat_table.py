"""The threat table of docs/security.md names a test for each row, and each of them exists."""

from __future__ import annotations

import ast
import pathlib
import re

from tests.shell.corpus_published import CASES

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
ROW = re.compile(r"^\| (S\d+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
ROWS = {f"S{number}" for number in range(1, 25)}


def table() -> dict[str, list[str]]:
    return {row: re.findall(r"`([^`]+)`", tests) for row, tests in ROW.findall(PAGE.read_text(encoding="utf-8"))}


ATTACKS = re.compile(r"^\| (CVE-[^|]+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
PUBLISHED = """
    2025-54794 2025-54795 2025-58764 2025-64755 2025-66032 2026-25722 2025-59536 2025-65099 2026-21852 2026-25725
    2026-39861 2026-46406 2026-54316 2025-55284 2025-53773 2025-54135 2025-54136 2025-54133 2025-62354 2025-61260
    2025-49596 2025-58444 2025-66416 2026-22812 2026-25253 2026-25593 2025-6514 2025-53967 2025-53109 2025-53110
    2025-64439 2025-68664 2026-45349 2025-32711
"""
ELSEWHERE = """
    2025-54136 2025-49596 2025-58444 2025-66416 2026-22812 2026-25253 2026-25593 2025-64439 2025-68664 2026-45349 2025-32711
"""
"""Those that no text for a shell can show."""


def test_each_published_attack_is_a_case_for_the_shell_or_held_by_a_row() -> None:
    told = {
        name: rows.split(", ")
        for names, rows in ATTACKS.findall(PAGE.read_text(encoding="utf-8"))
        for name in names.split(", ")
    }
    assert {f"CVE-{number}" for number in PUBLISHED.split()} == set(told)
    assert {row for rows in told.values() for row in rows} <= ROWS
    cases = {found for case in CASES for found in re.findall(r"CVE-\d+-\d+", case.name)}
    assert set(told) - cases == {f"CVE-{number}" for number in ELSEWHERE.split()}


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
