"""What is said to only read is run for real, beside files, traps and a repository that would show the least change."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from functools import lru_cache
from typing import Any

from tests.shell import canary
from tests.shell.corpus import all_cases
from windlass.tools.description import CallPlace
from windlass.tools.shell.read_only.git_forms import READING_ENVIRONMENT
from windlass.tools.shell.shell_description import shell_description

NOT_FOUND = 127
MAY_BE_MISSING = ("rg", "jq", "tree", "ps", "file", "strings", "column", "hostname", "uptime", "free")
BREAKING = (
    "touch x",
    "sort -o b.txt log.txt",
    "sed -i s/a/b/ b.txt",
    "find . -name x -delete",
    "echo x > /dev/tcp/127.0.0.1/9",
    "echo x > /dev/udp/127.0.0.1/9",
    "sleep 600 >/dev/null 2>&1 & disown",
    "./evil",
    "git branch new",
    "git diff -U --output=out",
    "env -u GIT_CONFIG_COUNT git status",
    "uniq log.txt out",
    "chmod 600 a.py",
    "awk 'BEGIN {system(\"touch y\")}'",
)
"""Texts that the canary must notice: a rig that sees nothing proves nothing."""


@lru_cache(maxsize=1)
def _namespace() -> tuple[str, ...] | None:
    """The words that start a program in namespaces of its own; None if this machine has none."""
    found = shutil.which("bwrap")
    if found is None:
        return None
    words = (
        found,
        "--unshare-all",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--tmpfs",
        "/tmp",
    )
    tried = subprocess.run([*words, "true"], capture_output=True, check=False)
    return words if tried.returncode == 0 else None


def run_all(texts: list[str], place: pathlib.Path) -> list[dict[str, Any]]:
    """Runs texts in a throw-away folder, in namespaces of its own if there can be any."""
    words = _namespace()
    asked = {
        "texts": texts,
        "env": READING_ENVIRONMENT,
        "alone": words is not None,
        "beneath": "/tmp" if words is not None else str(place),
    }
    program = pathlib.Path(canary.__file__).read_text()
    ended = subprocess.run(
        [*(words or ()), os.path.realpath(sys.executable), "-I", "-c", program],  # not one that lies in /tmp
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
    )
    assert ended.returncode == 0, ended.stderr
    findings: list[dict[str, Any]] = json.loads(ended.stdout)
    return findings


def reading_texts() -> list[str]:
    """Every text of the corpus that is judged to only read, whatever the corpus expects."""
    place = CallPlace(folder="/ws")
    judged = [(c.text, shell_description({"command": c.text}, place)) for c in all_cases()]
    return list(dict.fromkeys(text for text, about in judged if about.traits == ("read",)))


def test_what_only_reads_changes_nothing_reaches_nobody_and_leaves_nothing_running(tmp_path: pathlib.Path) -> None:
    texts = reading_texts()
    assert len(texts) >= 180
    found = run_all(texts, tmp_path)
    clean = {"changed": [], "reached": False, "left": [], "late": False}
    assert {t: f for t, f in zip(texts, found, strict=True) if {k: f[k] for k in clean} != clean} == {}
    unknown = [t for t, f in zip(texts, found, strict=True) if f["exit"] == NOT_FOUND]
    assert [t for t in unknown if not t.startswith(MAY_BE_MISSING)] == []


def test_the_canary_notices_what_does_not_only_read(tmp_path: pathlib.Path) -> None:
    found = run_all(list(BREAKING), tmp_path)
    unseen = [t for t, f in zip(BREAKING, found, strict=True) if not (f["changed"] or f["reached"] or f["left"])]
    assert unseen == ([] if _namespace() is not None else [BREAKING[4], BREAKING[5], BREAKING[6]])
    place = CallPlace(folder="/ws")
    assert all(shell_description({"command": text}, place).traits is None for text in BREAKING)
