"""A canonical coding task of thirty steps under `sandboxed`, in a real sandbox: how often is a person asked?"""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from windlass.events.tools.calls import ToolDenied, ToolFinished
from windlass.events.tools.permissions import PermissionApproved, PermissionDenied, PermissionRequested
from windlass.policies import SANDBOXED
from windlass.testing import ScriptedModel, call
from windlass.tools.sandboxes.bubblewrap import BubblewrapSandboxes

PROMPTS_MAX = 3


def sh(command):
    return call("shell", command=command)


STEPS: list[Any] = [
    call("todo", todos=[{"todo_id": "1", "content": "fix the sum"}]),
    call("list", path="."),
    call("read", path="calc.py"),
    call("read", path="test_calc.py"),
    call("grep", pattern="def ", path="."),
    sh("python3 -m unittest -q 2>&1 | tail -5"),
    call("edit", path="calc.py", old="a - b", new="a + b"),
    sh("python3 -m unittest -q"),
    sh("git status --short || true"),
    call("glob", pattern="**/*.py"),
    call("write", path="calc/__init__.py", content=""),
    call("write", path="calc/more.py", content="def twice(a):\n    return a * 2\n"),
    call("read", path="calc/more.py"),
    sh("python3 -c 'import ast; ast.parse(open(\"calc/more.py\").read())'"),
    call("edit", path="calc/more.py", old="a * 2", new="a + a"),
    call("write", path="README.md", content="# calc\n"),
    sh("wc -l README.md calc.py"),
    call("write", path="docs/use.md", content="Use it.\n"),
    sh("ls -R docs && cat docs/use.md"),
    call("edit", path="README.md", old="# calc", new="# Calc"),
    sh("mkdir -p build && cp calc.py build/ && ls build"),
    [call("write", path=".envrc", content="x"), call("write", path=".gitattributes", content="* text\n")],
    sh("for f in *.py; do head -1 $f; done"),
    call("read", path="README.md"),
    sh("python3 -m unittest -q"),
    sh("rm -rf build"),
    sh("find . -name '*.py' | sort"),
    call("list", path="."),
    call("todo", todos=[{"todo_id": "1", "content": "fix the sum", "status": "completed"}]),
    sh("git diff --stat || true"),
    "The sum is right, and all tests pass.",
]


@pytest.mark.skipif(BubblewrapSandboxes().problem() is not None, reason="there is no bubblewrap here")
async def test_thirty_steps_of_coding_need_at_most_three_prompts(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    (work / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (work / "test_calc.py").write_text(
        "import unittest, calc\n\nclass T(unittest.TestCase):\n    def test(self):\n"
        "        self.assertEqual(calc.add(1, 2), 3)\n"
    )
    monkeypatch.chdir(work)
    tools = ["todo", "list", "read", "grep", "glob", "write", "edit", "shell"]
    agent = windlass.Agent(
        "coder",
        model=ScriptedModel(STEPS),
        tools=tools,
        policy=SANDBOXED,
        approver=lambda asked: windlass.Approve(together=True),
    )
    async with windlass.open(tmp_path / "s.db", agents=[agent], sandbox=BubblewrapSandboxes()) as rt:
        session = await rt.session(agent, "s", workspace=work)
        await session.prompt("Fix the sum.")
        result = await session.result()
        events = [record.event async for record in session.records()]
    assert result.text.startswith("The sum is right")
    assert [event for event in events if isinstance(event, ToolDenied)] == []
    assert sum(isinstance(event, ToolFinished) for event in events) >= 28
    asked = [event.tool for event in events if isinstance(event, PermissionRequested)]
    prompts = [event for event in events if isinstance(event, PermissionApproved | PermissionDenied)]
    assert asked == ["write", "write"], "the protected names, and nothing else"
    assert 1 == len(prompts) <= PROMPTS_MAX
