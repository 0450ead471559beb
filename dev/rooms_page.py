"""The page on the architecture: its text is written by hand, its table of rooms comes from the folders themselves."""

from __future__ import annotations

import ast
import pathlib

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "architecture.md"
PACKAGE = pathlib.Path(__file__).parents[1] / "src" / "windlass"
HEAD = "| room | what it holds |\n|---|---|\n"


def rooms() -> dict[str, str]:
    """Every folder of the package, with what its `__init__.py` says of it first."""
    found = {}
    for path in sorted(PACKAGE.rglob("__init__.py")):
        if path.parent != PACKAGE:
            says = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            found[path.parent.relative_to(PACKAGE).as_posix()] = " ".join(says.split("\n\n")[0].split())
    return found


def render() -> str:
    """The page with its table as it should be."""
    before, head, rest = PAGE.read_text(encoding="utf-8").partition(HEAD)
    _, blank, after = rest.partition("\n\n")
    table = "\n".join(f"| `{folder}/` | {says} |" for folder, says in rooms().items())
    return before + head + table + blank + after
