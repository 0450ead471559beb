"""A person at a real terminal: a tmux server of our own in which a program runs, is typed at and is looked at.

    with Terminal(folder) as terminal:          # 100 x 30, NO_COLOR unless colour=True, HOME is the folder
        terminal.start("chat", "--store", "x")  # `windlass chat …`; execute([...]) takes any program
        terminal.wait_for("> ")                 # until it is shown; wait_for("> ", times=2) for the second one
        terminal.type("hello"), terminal.key("Enter", "C-c")
        terminal.screen(), terminal.history()   # what is on the screen; that and what scrolled off it
        terminal.end()                          # waits until the program is over: its exit code

Lines are as they stand on the screen, so what was too wide shows as wrapped. One terminal can start any number of
programs, one after the other, each on a clean screen. `shown` does all of it for a command that asks nothing.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

PROGRAM = (sys.executable, "-m", "windlass.cli.main")
PATIENCE_S = 180.0
POLL_S = 0.02
HISTORY_LINES = 20_000
TMUX_PATIENCE_S = 120.0
SOCKET_FOLDER_MAX = 80

SETTINGS = f"""
set -g status off
set -g remain-on-exit on
set -g remain-on-exit-format ''
set -g history-limit {HISTORY_LINES}
set -g default-terminal screen-256color
set -s escape-time 0
set -g mouse off
set -s set-clipboard on
"""


class Terminal:
    """One terminal of a fixed size, and at most one program in it at a time."""

    def __init__(
        self,
        folder: pathlib.Path,
        *,
        columns: int = 100,
        rows: int = 30,
        colour: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._room = pathlib.Path(tempfile.mkdtemp(prefix="tm-", dir=_short_folder()))
        (self._room / "conf").write_text(SETTINGS, encoding="utf-8")
        self._environ = {**_environ(folder, colour=colour), **(environ or {})}
        self._tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(folder), "exec true")
        self.end()  # a pane whose program has ended looks otherwise, and when tmux sees that it has is tmux's own affair

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, *words: str, environ: Mapping[str, str] | None = None) -> None:
        """Starts `windlass` with these words on a clean screen; what ran before is killed."""
        self.execute([*PROGRAM, *words], environ=environ)

    def execute(self, argv: Sequence[str], *, environ: Mapping[str, str] | None = None) -> None:
        """Starts any program on a clean screen, as its own words: no shell reads them."""
        extra = [word for name, value in (environ or {}).items() for word in ("-e", f"{name}={value}")]
        # `env` makes a program of one word no shell command, which is what tmux takes a single word for.
        respawn = ["respawn-pane", "-k", "-c", str(self.folder), *extra, "env", *map(_word, argv)]
        # One command line, so that nothing which the program shows at once is cleared away.
        self._tmux(*respawn, ";", "clear-history")

    def type(self, text: str) -> None:
        """Types a text, as it is: no word in it is taken for the name of a key."""
        self._tmux("send-keys", "-l", "--", _word(text))

    def key(self, *names: str) -> None:
        """Presses keys by name: Enter, Escape, Up, C-c, C-d, BSpace, Tab …"""
        self._tmux("send-keys", *names)

    def line(self, text: str) -> None:
        """Types a text and presses Enter."""
        self.type(text)
        self.key("Enter")

    def wait_for(self, text: str, *, times: int = 1, patience_s: float = PATIENCE_S) -> str:
        """Waits until a text stands at least so many times in what was shown; gives everything shown. Spaces at the end
        of a line cannot be told from an empty screen, so those at the end of the text are not waited for."""
        wanted = text.rstrip(" ")
        return self.wait_until(lambda shown: shown.count(wanted) >= times, repr(text), patience_s=patience_s)

    def wait_gone(self, text: str) -> str:
        """Waits until a text stands no longer on the screen."""
        self._poll(lambda: text not in self.screen(), f"{text!r} never went away", PATIENCE_S)
        return self.history()

    def wait_until(self, holds: Callable[[str], bool], what: str, *, patience_s: float = PATIENCE_S) -> str:
        """Waits until something holds of everything shown; gives what it held of: a moment later the program may be
        drawing that anew."""
        shown = ""

        def done() -> bool:
            nonlocal shown
            shown = self.history()
            return holds(shown)

        self._poll(done, f"{what} was never shown", patience_s)
        return shown

    def _poll(self, done: Callable[[], bool], failure: str, patience_s: float) -> None:
        until = time.monotonic() + patience_s
        while not done():
            # The last look comes after the program's end, so that nothing it still wrote is missed.
            over = self._code() is not None or time.monotonic() > until
            if over and not done():
                raise AssertionError(
                    f"{failure}; the program's exit code is {self._code()}, the screen:\n{self.history()}"
                )
            time.sleep(POLL_S)

    def screen(self, *, colour: bool = False) -> str:
        """What is on the screen now, without the empty lines at its end; with `colour`, its escape sequences too."""
        return self._capture(*(["-e"] if colour else []))

    def history(self) -> str:
        """What the program has shown so far: the screen, and the lines that scrolled off it."""
        return self._capture("-S", "-")

    def joined(self) -> str:
        """The same, with the lines that the terminal itself had to break made whole."""
        return self._capture("-J", "-S", "-")

    def cursor(self) -> tuple[int, int]:
        """Where the cursor stands: column and row, both from 0."""
        column, row = self._ask("#{cursor_x} #{cursor_y}").split()
        return int(column), int(row)

    def steered(self) -> dict[str, str]:
        """What a program can do to a terminal besides showing text: its title, its other screen, the clipboard, the
        cursor (which tmux itself hides when a program has ended), what keys and the mouse send."""
        names = "pane_title alternate_on cursor_flag insert_flag keypad_cursor_flag keypad_flag origin_flag wrap_flag"
        names += " mouse_any_flag scroll_region_upper"
        facts = {name: self._ask(f"#{{{name}}}") for name in names.split()}
        return facts | {"clipboard": self._tmux("list-buffers", "-F", "#{buffer_sample}").strip()}

    def resize(self, columns: int, rows: int) -> None:
        """Makes the terminal another size, as a person who pulls at its corner."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def end(self, *, patience_s: float = PATIENCE_S) -> int:
        """Waits until the program is over; its exit code, negative for the signal that killed it."""
        until = time.monotonic() + patience_s
        while (code := self._code()) is None:
            if time.monotonic() > until:
                raise AssertionError(f"the program did not end; the screen:\n{self.history()}")
            time.sleep(POLL_S)
        return code

    def shown(self, *words: str, code: int = 0, environ: Mapping[str, str] | None = None) -> str:
        """Everything that a command shows which asks nothing; it must end with this exit code."""
        self.start(*words, environ=environ)
        found = self.end()
        shown = self.history()
        assert found == code, f"windlass {' '.join(words)} ended with {found}, not {code}:\n{shown}"
        return shown

    @property
    def pid(self) -> int:
        """The id of the program's process."""
        return int(self._ask("#{pane_pid}"))

    def kill(self) -> None:
        """Kills the program as `kill -9` does; the terminal stays."""
        os.kill(self.pid, signal.SIGKILL)
        self.end()

    def close(self) -> None:
        """Ends the program, whatever it ignores, and the terminal. Closing twice is no error."""
        if self._room.exists():
            if self._code() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
                self.end()
            subprocess.run([*self._command, "kill-server"], capture_output=True, timeout=TMUX_PATIENCE_S, check=False)
            shutil.rmtree(self._room, ignore_errors=True)

    def _code(self) -> int | None:
        form = "#{pane_dead}/#{pane_dead_status}/#{pane_dead_signal}/#{pid}"
        dead, status, killed_by, server = self._ask(form).split("/")
        if dead != "1":
            return None
        if not (status or killed_by):
            # tmux sometimes misses that a program has ended; told again, it looks.
            os.kill(int(server), signal.SIGCHLD)
            return None
        return int(status) if status else -int(killed_by)

    def _ask(self, form: str) -> str:
        return self._tmux("display-message", "-p", form).strip()

    def _capture(self, *flags: str) -> str:
        lines = self._tmux("capture-pane", "-p", *flags).split("\n")
        while lines and not lines[-1]:
            lines.pop()
        return "".join(line + "\n" for line in lines)

    @property
    def _command(self) -> list[str]:
        return ["tmux", "-u", "-S", str(self._room / "socket"), "-f", str(self._room / "conf")]

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            [*self._command, *words], capture_output=True, env=self._environ, timeout=TMUX_PATIENCE_S, check=False
        )
        assert done.returncode == 0, f"tmux {words[0]} failed: {done.stderr.decode(errors='replace')}"
        return done.stdout.decode()


def _short_folder() -> str:
    """Where the socket of tmux has room: its path may have 107 bytes, and temporary folders can be deeper than that."""
    found = tempfile.gettempdir()
    return found if len(os.fsencode(found)) <= SOCKET_FOLDER_MAX else "/tmp"


def _is_about_models(name: str) -> bool:
    return name.endswith(("_API_KEY", "_BASE_URL")) or name == "WINDLASS_MODEL"


def _word(text: str) -> str:
    """A word for tmux, which takes a semicolon at its end for the end of a command."""
    return text[:-1] + "\\;" if text.endswith(";") else text


def _environ(folder: pathlib.Path, *, colour: bool) -> dict[str, str]:
    """What a program in the terminal finds: the environment of the tests, less what would change a screen."""
    dropped = {"NO_COLOR", "FORCE_COLOR", "WINDLASS_STORE", "XDG_STATE_HOME", "TMUX", "TMUX_PANE", "COLUMNS", "LINES"}
    environ = {name: value for name, value in os.environ.items() if name not in dropped and not _is_about_models(name)}
    environ |= {"OLLAMA_HOST": "127.0.0.1:1"}  # where nothing answers
    environ |= {"WINDLASS_STORE": "windlass.db"}
    environ |= {"HOME": str(folder), "USER": "ada", "TZ": "UTC", "LC_ALL": "C.UTF-8", "TERM": "screen-256color"}
    if not colour:
        environ["NO_COLOR"] = "1"
    return environ
