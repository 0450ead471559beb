"""Every program in examples/ runs as it is, offline, in an empty directory, and says what it promises to say."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
TIME_S = 300

NUMBER_OF_ID = re.compile(r"(?<=\b[cp])\d+\b")
"""What an id says of where in the log the thing stands, which is nothing to the example."""

SAID = {
    "first_agent": [
        "17 + 28 is 45.",
        "2 turns, 20 tokens written, $0.00",
    ],
    "approval_elsewhere": [
        "the run ended asked, waiting for 1 approval",
        "approved a call of pay in session march",
        "The March invoice is paid.",
    ],
    "nightly_report": [
        "one process: Three builds, all green.",
        "the next one: 4 reports",
        "each once: True",
    ],
    "pull_request_shepherd": [
        "sleeping in checks",
        "The checks of the timeout are green. Merge?",
        "completed: it is merged",
        "implement -> open -> checks -> review -> merge -> merged",
        "I fixed the timeout in client.py.",
        "flowchart TD",
    ],
    "research_with_verifiers": [
        "claims done",
        "verdicts done",
        "report done",
        "3 verdicts",
        "One of three is wrong: billing.py drops errors.",
        "flowchart TD",
    ],
    "mcp_server": [
        "connected, 4 tools",
        "the server says: +9.0h",
        "Noon in London is nine in the evening in Tokyo.",
        "marked: untrusted:mcp",
    ],
    "survive_a_kill": [
        "the first process was ended by signal 9",
        "Both pages are here.",
        "page 1, attempt 1",
        "page 2, attempt 1",
        "page 2, attempt 2",
        "the same key both times: True",
    ],
    "attachments": [
        "Line 2 divides by zero.",
        "Still line 2.",
        "the same again: True",
        "What is wrong?",
        "[attached file 'pay.py', lines 1 to 2]",
        "[attached file '…/screen.png']",
        "image/png, 100,008 bytes beside the log",
    ],
    "budget": [
        "max_turns: I looked 3 levels deep, and there is more.",
        "call_budget: I looked 5 levels deep, and there is more.",
        "max_turns: I looked 50 levels deep, and there is more.",
    ],
    "structured_output": [
        "Invoice(number='2024-17', cents=129900, paid=False)",
        "2 requests",
    ],
    "hooks": [
        "before_tool:only_ours: allowed",
        "before_tool:sign: changed",
        "sent to ada@example.org: hello -- the robot",
        "before_tool:only_ours: denied",
        "One was sent, one was refused.",
        "watched: send to ada@example.org, send to eve@elsewhere.example",
    ],
    "policy": [
        "deny delete (nothing is ever deleted)",
        "ask pay when args.cents > 10000",
        "allow pay",
        "otherwise: the author's own tools and reading are allowed, everything else is asked about",
        "c#.0: allowed by rule 'allow pay'",
        "c#.2: denied by 'deny delete': nothing is ever deleted",
        "asked: may pay run?",
        "c#.1: allowed by person 'p#'",
    ],
    "stream_and_reconnect": [
        "live: 'Let me '",
        "live: 'see. '",
        "then: turn.finished",
        "then: turn.started",
        "then: model.requested",
        "then: model.replied",
        "then: turn.finished",
        "then: run.completed",
    ],
    "offline_tests": [
        "test_the_tool_counts: passed",
        "test_the_agent_uses_its_tool: passed",
        "test_the_agent_waits_for_a_busy_provider: passed",
        "test_the_agent_stays_within_its_policy: passed",
    ],
    "own_store": [
        "Good morning.",
        "Good morning again.",
        "one file for each append: True",
    ],
    "fork_and_compare": [
        "trip: Three days in Bern. (asked so far: 1)",
        "trip-cheaper: Cheaper! Two days in Bern. (asked so far: 2)",
        "trip-warmer: Warmer! Three days in Lugano. (asked so far: 2)",
        "the origin has not changed: True",
    ],
}


@pytest.mark.parametrize("name", SAID)
def test_the_example_says_what_it_promises(name, tmp_path):
    environment = {key: value for key, value in os.environ.items() if not key.endswith(("_API_KEY", "_BASE_URL"))}
    environment["PYTHONPATH"] = str(ROOT / "src")
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIME_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert NUMBER_OF_ID.sub("#", done.stdout).splitlines() == SAID[name]


def test_every_example_is_run_and_listed():
    programs = sorted(path.stem for path in EXAMPLES.glob("*.py"))
    assert programs == sorted(SAID)
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in programs if f"({name}.py)" not in listed] == []
