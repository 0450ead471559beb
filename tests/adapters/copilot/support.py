"""What the published clients start in place of their own server, and what they are given to talk to."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

AGENTS = pathlib.Path(__file__).parent / "agents.py"
WAIT_S = 200.0
PROGRAM_S = 900.0
"""How long a whole scenario may take on a machine that is very busy."""
ROOT = pathlib.Path(__file__).parents[3]


class Launcher:
    """A program that is `windlass copilot` with an agent, as `COPILOT_CLI_PATH` wants it, and tells its pid."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.path = folder / "windlass-copilot"
        self._pid = folder / "pid"
        words = [sys.executable, "-m", "windlass.cli.main", "copilot", str(AGENTS), "--store", str(folder / "kept.db")]
        script = f'#!/bin/sh\necho $$ > {shlex.quote(str(self._pid))}\nexec {shlex.join(words)} "$@"\n'
        self.path.write_text(script, encoding="utf-8")
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    @contextmanager
    def listening(self, token: str) -> Iterator[int]:
        """The server on a port, for clients that connect by themselves: one that starts it waits only 10 seconds."""
        environ = {**os.environ, "COPILOT_CONNECTION_TOKEN": token}
        with subprocess.Popen([str(self.path)], env=environ, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield int(process.stdout.readline().split()[-1])
            finally:
                process.kill()

    def kill(self) -> None:
        """Ends the last server that was started, without a word to it."""
        os.kill(int(self._pid.read_text()), signal.SIGKILL)


def client_types() -> ModuleType:
    """The types of events that the Python client has, without the client, which takes seconds to load."""
    name = "copilot_session_events"
    if name not in sys.modules:
        found = importlib.util.find_spec("copilot")
        assert found is not None
        assert found.origin is not None
        path = pathlib.Path(found.origin).parent / "generated" / "session_events.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
