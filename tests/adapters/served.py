"""`windlass serve` in a process of its own, which can be killed: its store and its tokens stay."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent.parent
AGENTS = pathlib.Path(__file__).parent / "served_agents.py"
MODULES = pathlib.Path(sys.prefix) / "node" / "node_modules"
PROGRAM_S = 280
WAIT_S = 200


class Served:
    """A server that listens."""

    def __init__(self, process: subprocess.Popen[str], url: str, token: str) -> None:
        self._process = process
        self.url = url
        self.token = token

    def kill(self) -> None:
        """Ends it as a power failure would."""
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(WAIT_S)


@contextlib.contextmanager
def served(folder: pathlib.Path, adapter: str) -> Iterator[Served]:
    """The teller behind an adapter, over `folder/work.db`; killed at the end, whatever it does."""
    command = [sys.executable, "-m", "windlass.cli.main", "serve", str(AGENTS), "--with", adapter]
    command += ["--store", str(folder / "work.db"), "--tokens", str(folder / "tokens.json")]
    environ = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    with (
        (folder / "serve.err").open("ab") as errors,
        subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            url = next((line.split()[-1] for line in lines if line.startswith("listening on ")), "")
            assert url, (folder / "serve.err").read_text()[-3000:]
            yield Served(process, url, (folder / "tokens.first").read_text().strip())
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


def talked(folder: pathlib.Path, adapter: str, command: Sequence[str]) -> list[dict[str, Any]]:
    """What a client prints, an object on each line. It is given the address and the token of a server; when it says
    `kill`, the server is killed and it reads the address of the next one."""
    lines: list[dict[str, Any]] = []
    pipe = subprocess.PIPE
    with served(folder, adapter) as first:
        argv = [*command, first.url, first.token]
        with subprocess.Popen(argv, cwd=ROOT, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as client:
            try:
                _listen(client, first, folder, adapter, lines)
            finally:
                client.kill()
    return lines


def _listen(
    client: subprocess.Popen[str], running: Served, folder: pathlib.Path, adapter: str, lines: list[dict[str, Any]]
) -> None:
    assert client.stdin is not None
    assert client.stdout is not None
    assert client.stderr is not None
    for line in client.stdout:
        lines.append(json.loads(line))
        if "kill" in lines[-1]:
            running.kill()
            with served(folder, adapter) as following:
                client.stdin.write(following.url + "\n")
                client.stdin.flush()
                _listen(client, following, folder, adapter, lines)
            return
    assert client.wait(PROGRAM_S) == 0, (lines[-3:], client.stderr.read()[-3000:])
