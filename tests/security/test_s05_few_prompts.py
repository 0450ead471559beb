"""S5: people are asked when a boundary is crossed, and seldom. A coding task of thirty steps, done with the real tools in
a real sandbox over a real repository."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

import windlass
from windlass.events.tools.calls import ToolFinished, ToolRequested
from windlass.events.tools.permissions import PermissionRequested
from windlass.runtime.api.policy import PRESETS
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.sandboxes.bubblewrap import BubblewrapSandboxes
from windlass.tools.sandboxes.landlock import LandlockSandboxes

PROMPTS_MAX = 3
KINDS = [kind for kind in (BubblewrapSandboxes(), LandlockSandboxes()) if kind.problem() is None]
FILES = ("list", "read", "glob", "grep", "write", "edit", "patch", "make_directory", "move", "remove")

MODULE = """def total(prices):
    amount = 0
    for price in prices:
        amount += price
    return amount
"""
TEST = """import unittest

from shop.prices import total


class Totals(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)
"""
DISCOUNT = "\n\ndef discounted(prices, percent):\n    return total(prices) * (100 - percent) // 100\n"
RUN = "python3 -m unittest -q"

STEPS: list[Any] = [
    call("todo", items=[{"todo_id": "1", "content": "add a discount"}]),
    call("list"),
    call("glob", pattern="**/*.py"),
    call("grep", pattern="def total"),
    call("read", path="shop/prices.py"),
    call("read", path="tests/test_prices.py"),
    call("shell", command="git status --short && git log --oneline"),
    call("shell", command=RUN),
    call("edit", path="shop/prices.py", old="    return amount\n", new=f"    return amount\n{DISCOUNT}"),
    call("edit", path="tests/test_prices.py", old="import total", new="import discounted, total"),
    call("shell", command=RUN),
    call(
        "edit",
        path="tests/test_prices.py",
        old="[1, 2]), 3)\n",
        new="[1, 2]), 3)\n\n    def test_discount(self):\n        self.assertEqual(discounted([50, 50], 10), 90)\n",
    ),
    call("shell", command=RUN),
    call("read", path="shop/prices.py"),
    call("write", path="docs/discounts.md", content="# Discounts\n"),
    call("make_directory", path="shop/rates"),
    call("write", path="shop/rates/__init__.py", content="RATE = 10\n"),
    call("move", path="shop/rates/__init__.py", to="shop/rate.py"),
    call("remove", path="shop/rates"),
    call("shell", command="grep -rn RATE shop | head -5; wc -l shop/*.py"),
    call("shell", command="python3 -c 'from shop.rate import RATE; print(RATE)' > rate.txt; cat rate.txt"),
    call("shell", command="for f in shop/*.py; do python3 -m py_compile \"$f\" || exit 1; done"),
    call("remove", path="rate.txt"),
    call("grep", pattern="RATE"),
    call("shell", command="git diff --stat && git diff | head -40"),
    call("fetch", url="http://198.51.100.7/changes.html"),
    call("write", path="AGENTS.md", content="Run the tests.\n"),
    call("shell", command=RUN),
    call("shell", command="find . -name '*.pyc' -delete; git status --short"),
    call("shell", command="tar cf /tmp/made.tar shop && tar tf /tmp/made.tar | wc -l"),
]  # fmt: skip


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "tests").mkdir()
    for name, text in {
        "shop/__init__.py": "",
        "shop/prices.py": MODULE,
        "tests/__init__.py": "",
        "tests/test_prices.py": TEST,
    }.items():
        (tmp_path / name).write_text(text)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.skipif(not KINDS or shutil.which("git") is None, reason="no sandbox that confines can be used here")
async def test_thirty_steps_of_a_coding_task_ask_at_most_three_times(repository):
    assert len(STEPS) == 30
    agent = windlass.Agent(
        "coder",
        model=ScriptedModel([*[[step] for step in STEPS], "done"]),
        tools=[*FILES, "shell", "todo", "fetch"],
        policy=PRESETS["sandboxed"],
    )
    async with windlass.open(agents=[agent], sandbox=KINDS[0]) as rt:
        session = await rt.session(agent, "s", workspace=repository)
        await session.prompt("Add a discount.")
        while (await session.result()).status == "asked":
            for request in await session.requests():
                await session.approve(request)
        result = await session.result()
        events = [record.event async for record in session.records()]
    asked = [event.body.detail for event in events if isinstance(event, PermissionRequested) and event.body is not None]
    failed = [event.error_code for event in events if isinstance(event, ToolFinished) and not event.ok]
    assert result.ok
    assert sum(isinstance(event, ToolRequested) for event in events) == 30
    assert len(asked) <= PROMPTS_MAX, asked
    assert failed == ["refused_address"]  # a page that nobody may fetch
    assert (repository / "shop" / "rate.py").read_text() == "RATE = 10\n"
