"""A full disk: sessions at work wait and say so, nobody else is kept waiting, and what was owed goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

MAY_MOUNT = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
TIMEOUT_S = 240


LIMITED = [("work.jsonl.d", "limit")]
"""SQLite cannot be opened under a limit on the size of files, and says so."""
MOUNTED = [("work.db", "mount"), ("work.jsonl.d", "mount")] if MAY_MOUNT else []


@pytest.mark.parametrize(("store", "how"), LIMITED + MOUNTED)
def test_a_full_disk_keeps_nobody_waiting_in_silence(tmp_path, store, how):
    before = ["unshare", "-rm"] if how == "mount" else []
    command = [*before, sys.executable, "-m", "tests.runtime.full_disk_target", str(tmp_path), store, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.stdout == "done\n", done.stderr
