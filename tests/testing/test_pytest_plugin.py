"""The page on testing offline, as a reader types it: in an empty folder, in a pytest without any plugin but ours."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import subprocess
import sys
import tomllib

from tests.test_docs_run import blocks_of

ROOT = pathlib.Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "tasks" / "test-an-agent-offline.md"
PLUGIN = "windlass.testing.pytest_plugin"


def installed() -> bool:
    """Whether pytest finds the plugin by itself: not in an installation that is older than it."""
    return any(found.value == PLUGIN for found in importlib.metadata.entry_points(group="pytest11"))


def plain_pytest(folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    found = [] if installed() else ["-p", PLUGIN]
    others = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:hypothesispytest"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", *others, *found, *words],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_pytest_finds_the_plugin_by_its_entry_point():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"windlass": PLUGIN}


def test_the_page_runs_in_a_plain_pytest(tmp_path: pathlib.Path):
    agent, *tests = [block.source for block in blocks_of(PAGE.read_text(encoding="utf-8"))]
    (tmp_path / "editor.py").write_text(agent, encoding="utf-8")
    (tmp_path / "test_editor.py").write_text("\n\n".join(tests), encoding="utf-8")
    done = plain_pytest(tmp_path)
    assert done.stdout.splitlines()[-1].startswith("4 passed"), done.stdout


def test_a_runtime_is_for_async_tests_and_all_others_are_left_alone(tmp_path: pathlib.Path):
    (tmp_path / "test_it.py").write_text(
        "import sys\n\n"
        "def test_plain():\n    assert 'windlass.runtime.api.runtime' not in sys.modules\n\n"
        "def test_wrong(windlass_runtime):\n    pass\n\n"
        "def test_too_early(scripted):\n    scripted.requests\n",
        encoding="utf-8",
    )
    done = plain_pytest(tmp_path)
    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 passed, 1 error"), done.stdout
    assert "windlass_runtime is open while an `async def` test runs: make this test one" in done.stdout
    assert "call scripted(agent, ...) first" in done.stdout


def test_a_failing_async_test_fails_and_leaves_nothing_open(tmp_path: pathlib.Path):
    (tmp_path / "test_it.py").write_text(
        "import windlass\n\n"
        "async def test_it(windlass_runtime, scripted):\n"
        "    session = await windlass_runtime.session(scripted(windlass.Agent('a'), 'Hi.'))\n"
        "    await session.prompt('hello')\n"
        "    assert (await session.result()).text == 'Bye.'\n",
        encoding="utf-8",
    )
    done = plain_pytest(tmp_path)
    assert done.stdout.splitlines()[-1].startswith("1 failed"), done.stdout
    assert "assert 'Hi.' == 'Bye.'" in done.stdout
