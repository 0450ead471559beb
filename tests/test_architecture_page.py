"""The page on the architecture is true: its rooms are the folders, and a real turn goes the way that it describes."""

from __future__ import annotations

import ast
import asyncio
import itertools
import pathlib
import re
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from dev import rooms_page

import windlass
from windlass.testing import ScriptedModel, call

PACKAGE = pathlib.Path(windlass.__file__).parent
PAGE = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
STEP = re.compile(r"^\| (\d+) \| `([\w/]+\.py)` \| `([\w.]+)` \| (.+) \|$", re.MULTILINE)
ROOM = re.compile(r"^\| `([\w/]+)/` \| (.+) \|$", re.MULTILINE)


class Step(NamedTuple):
    """One function on the way of a turn."""

    file: str
    function: str


STEPS = [Step(file, function) for _, file, function, _ in STEP.findall(PAGE)]


@windlass.tool
def add(x: int, y: int) -> int:
    "Add two numbers."
    return x + y


def defined(tree: ast.AST, prefix: str = "") -> Iterator[str]:
    """The qualified names of the functions of a module."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name
            case ast.ClassDef(name=name):
                yield from defined(node, f"{prefix}{name}.")


def test_the_steps_are_numbered_and_name_functions_that_exist():
    assert [int(number) for number, *_ in STEP.findall(PAGE)] == list(range(1, len(STEPS) + 1))
    for step in STEPS:
        functions = set(defined(ast.parse((PACKAGE / step.file).read_text(encoding="utf-8"))))
        assert step.function in functions, f"{step.file} has no {step.function}: the way of a turn has changed"


def test_a_turn_goes_this_way(tmp_path):
    """Each step is called, for the first time behind the step before it: the rest of a turn only repeats them."""
    passed = asyncio.run(traced_turn(str(tmp_path / "work.db")))
    assert len(STEPS) >= 12
    rest = iter(passed)
    for step in STEPS:
        assert step in rest, f"{step.file} {step.function} is not called behind the steps before it"


async def traced_turn(place: str) -> list[Step]:
    """The functions of ours that a prompt with one tool call goes through, in the order of their calls, in all threads."""
    calls: list[Step] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            calls.append(Step(str(pathlib.Path(code.co_filename).relative_to(PACKAGE)), code.co_qualname))

    agent = windlass.Agent("math", model=ScriptedModel([[call("add", x=17, y=28)], "It is 45."]), tools=[add])
    before = sys.getprofile()
    threading.setprofile(note)  # for the threads of the store and of tools, which begin now
    try:
        async with windlass.open(place, agents=[agent]) as runtime:
            session = await runtime.session(agent, "sum")
            calls.clear()
            sys.setprofile(note)
            async for _ in session.prompt("What is 17 + 28?"):
                pass
            sys.setprofile(before)
    finally:
        sys.setprofile(before)
        threading.setprofile(before)
    return [first for first, _ in itertools.groupby(calls)]


def test_every_room_is_on_the_page_with_what_it_says_of_itself():
    assert dict(ROOM.findall(PAGE)) == rooms_page.rooms()
    assert all(says.endswith(".") for says in rooms_page.rooms().values()), "a room says in a sentence what it holds"
