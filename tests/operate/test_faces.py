"""Operator work has one home: the command line folds and steps nothing itself, and `operate` prints nothing."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator
from typing import TypeVar

import windlass

Node = TypeVar("Node", bound=ast.AST)
PACKAGE = pathlib.Path(windlass.__file__).parent


def statements(folder: str, kind: type[Node]) -> Iterator[tuple[str, Node]]:
    """What runs in the modules of a folder: not what is there for the type checker alone."""
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for_types = [
            node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        ]
        unseen = {id(inner) for node in for_types for inner in ast.walk(node)}
        for node in ast.walk(tree):
            if isinstance(node, kind) and id(node) not in unseen:
                yield f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)}", node


def test_the_command_line_runs_nothing_of_the_kernel():
    taken = [
        f"{place}: {node.module}"
        for place, node in statements("cli", ast.ImportFrom)
        if (node.module or "").startswith("windlass.kernel")
    ]
    assert not taken, "move it to runtime/operate, and call it from there"


def test_operator_work_prints_nothing():
    printed = [
        place
        for place, node in statements("runtime/operate", ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not printed, "give a value, and let the caller show it"
