"""Every Python block in the README and in the docs runs, page by page, as a reader would type it.

The blocks of a page share one namespace and an empty working directory. In a block:

- `# no-run: reason` as its first line: it is only compiled
- `# embedded: reason` as its first line: it runs where the embedded model is installed, and is only compiled elsewhere
- `# prints: text`: this line is among what the block prints, in this order; `# prints:` lines together are all of it
- `await` at the top level is fine; so are `async def` tests and tests by pytest's names, which are then called
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import functools
import inspect
import io
import pathlib
import re
import sys
import types
from typing import NamedTuple

import pytest

ROOT = pathlib.Path(__file__).parent.parent
BLOCK = re.compile(r"^(?P<indent> *)```python\n(?P<source>.*?)^ *```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"# (?P<kind>no-run|embedded): (?P<reason>\S.*)")
PRINTS = re.compile(r"^\s*# prints:(?: (.*))?$", re.MULTILINE)
WRONG_MARK = re.compile(r"^\s*# ?(no[-_ ]?run|embedded)\b(?!: \S)", re.MULTILINE | re.IGNORECASE)


class Block(NamedTuple):
    """One block: its text, and the line of the page before it."""

    source: str
    line: int

    @property
    def mark(self) -> str | None:
        found = MARK.match(self.source)
        return found["kind"] if found else None

    @property
    def prints(self) -> list[str] | None:
        found = [text or "" for text in PRINTS.findall(self.source)]
        return found or None


def pages() -> list[pathlib.Path]:
    texts = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    return [page for page in texts if blocks_of(page.read_text(encoding="utf-8"))]


def blocks_of(text: str) -> list[Block]:
    found = []
    for match in BLOCK.finditer(text):
        lines = [line.removeprefix(match["indent"]) for line in match["source"].splitlines(keepends=True)]
        found.append(Block("".join(lines), text.count("\n", 0, match.start("source"))))
    return found


def run_page(text: str, name: str, module: types.ModuleType, *, embedded: bool) -> None:
    """Runs the blocks of a page. What fails is shown at its line of the page."""
    for block in blocks_of(text):
        assert not WRONG_MARK.search(block.source), f"{name}:{block.line + 1}: write the mark as '# no-run: reason'"
        code = compile(
            "\n" * block.line + block.source,
            name,
            "exec",
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )
        if block.mark == "no-run" or (block.mark == "embedded" and not embedded):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            before = set(vars(module))
            outcome = eval(code, vars(module))
            if inspect.iscoroutine(outcome):
                asyncio.run(outcome)
            call_tests({key: value for key, value in vars(module).items() if key not in before})
        if block.prints is not None:
            said = printed.getvalue().rstrip("\n").split("\n")
            assert said == block.prints, f"{name}:{block.line + 1}: it prints something else"


def call_tests(defined: dict[str, object]) -> None:
    """Calls the tests that a block defines; those with parameters of their own are pytest's to run, not ours."""
    for name, test in defined.items():
        if not (name.startswith("test_") and inspect.isfunction(test)) or inspect.signature(test).parameters:
            continue
        outcome = test()
        if inspect.iscoroutine(outcome):
            asyncio.run(outcome)


@functools.cache
def embedded_is_here() -> bool:
    """Whether the embedded model's library and file are installed; tests never fetch them."""
    from windlass.models.embedded.model import missing, model_path

    return missing(model_path()) is None


@pytest.mark.guard(600)
@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_the_page_runs(page, tmp_path, monkeypatch):
    text = page.read_text(encoding="utf-8")
    name = str(page.relative_to(ROOT))
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # types are looked up in the module of their function
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WINDLASS_MODEL", raising=False)
    needed = any(block.mark == "embedded" for block in blocks_of(text))
    run_page(text, name, module, embedded=needed and embedded_is_here())


# --- the runner itself ---


def page_of(*sources: str) -> str:
    return "\n".join(f"Some words.\n\n```python\n{source}\n```\n" for source in sources)


def run(*sources: str, embedded: bool = False) -> None:
    run_page(page_of(*sources), "page.md", types.ModuleType("page"), embedded=embedded)


@pytest.mark.parametrize(
    "sources",
    [
        ("x = 1", "assert x == 1"),
        ("print('a')\nprint('b')\n# prints: a\n# prints: b",),
        ("print()\n# prints:",),
        ("import asyncio\nawait asyncio.sleep(0)\nx = 2", "assert x == 2"),
        ("# no-run: it needs a key\nraise SystemExit",),
        ("# embedded: a real model\nraise SystemExit",),
        ("async def test_it():\n    assert True",),
    ],
)
def test_a_page_that_is_true_passes(sources):
    run(*sources)


@pytest.mark.parametrize(
    ("sources", "error"),
    [
        (("assert False",), AssertionError),
        (("x = 1", "y = z"), NameError),
        (("print('b')\n# prints: a",), AssertionError),
        (("print('a')\nprint('b')\n# prints: a",), AssertionError),
        (("pass\n# prints: a",), AssertionError),
        (("# no-run: even so it must be Python\nx = = 1",), SyntaxError),
        (("# no-run\nraise SystemExit",), AssertionError),
        (("def test_it():\n    assert False",), AssertionError),
        (("async def test_it():\n    assert False",), AssertionError),
        (("await missing()",), NameError),
    ],
)
def test_a_page_that_is_not_true_fails(sources, error):
    with pytest.raises(error):
        run(*sources)


def test_a_block_for_the_embedded_model_runs_where_it_is_installed():
    with pytest.raises(ZeroDivisionError):
        run("# embedded: a real model\n1 / 0", embedded=True)


def test_an_error_is_shown_at_its_line_of_the_page():
    with pytest.raises(NameError) as caught:
        run("x = 1", "\ny = nothing")
    assert caught.traceback[-1].lineno + 1 == page_of("x = 1", "\ny = nothing").split("\n").index("y = nothing") + 1


def test_indented_blocks_are_found():
    assert [block.source for block in blocks_of("- one\n\n  ```python\n  x = 1\n  ```\n")] == ["x = 1\n"]
