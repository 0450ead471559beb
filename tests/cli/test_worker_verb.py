"""`windlass worker`: what it prints, what it leaves, and what it refuses."""

from __future__ import annotations

import re
import signal
import stat
import subprocess

from .screens import proves
from .terminal import PROGRAM
from .test_run import ran


@proves("worker", "normal", "empty")
def test_it_says_where_it_listens_and_makes_a_token_for_its_owner_alone(tmp_path):
    token = tmp_path / "token"
    words = [*PROGRAM, "worker", "--root", str(tmp_path), "--token-file", str(token)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        lines = [worker.stdout.readline()]
        while not lines[-1].startswith("listening on"):
            assert lines[-1], "it ended"
            lines.append(worker.stdout.readline())
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    assert re.fullmatch(r"listening on http://127\.0\.0\.1:\d+\n", lines[-1])
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert token.read_text().strip()


@proves("worker", "error")
def test_a_token_that_others_can_read_is_refused_by_name(tmp_path):
    token = tmp_path / "token"
    token.write_text("0" * 64)
    token.chmod(0o644)
    done = ran(tmp_path, "worker", "--root", str(tmp_path), "--token-file", str(token))
    assert done.returncode == 2
    assert str(token) in done.stderr.replace("\n  ", "")
