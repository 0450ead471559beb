"""The supervisor of one background job: a process of its own that starts the job, keeps its output, and ends all of it.

It is run as a file by `python -I -S`, so it imports the standard library, and by its place what such programs share.
Its folder is how it is spoken to: `keep` says that it goes on without whoever started it, `stop` that it is to end;
`output.*` and `end.json` are what it says. Its standard input is held open by whoever started it: at its end an unkept
job ends too.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from windlass.tools.processes import process_tree, secret_blots
else:
    shared = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "processes")
    sys.path.insert(0, shared)
    import process_tree
    import secret_blots

    sys.path.remove(shared)

SEGMENT_BYTES = 256 * 1024
SEGMENTS_KEPT = 7
"""How many of the last segments of output are kept, beside the first."""
TICK_S = 1.0
BEAT_S = 5.0
GRACE_S = 2.0
"""How long a job that is told to end may take before it is killed."""
KILL_S = 5.0
"""How long processes that were killed are waited for; one that hangs in the system itself is left to it."""
SEEN_MAX = 1000
"""How many processes of a job are written down, for whoever comes if this process is killed."""
CHUNK = 64 * 1024
SPEC_BYTES_MAX = 16 * 1024 * 1024
STATUS = {
    "killed": "cancelled",
    "stopped": "cancelled",
    "session_ended": "terminated",
    "given_up": "aborted",
    "retired": "retired",
}


class Output:
    """What the job prints, in files of one size: the first and the last of them are kept. What there is no room for is
    left out, and said as soon as there is."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._fd = -1
        self._begun = -1
        self.size = 0
        self.lost = 0
        """Bytes that there was no room for, and that nothing was said of yet."""

    def add(self, data: bytes) -> None:
        """The next piece; a full disk must not block the job."""
        if self.lost and data:
            self.say_lost()
        if not self.lost:
            data = self._written(data)
        self.lost += len(data)

    def say_lost(self) -> None:
        """Says how much is missing here, if there is room to say it."""
        said = f"\n[… {self.lost:,} bytes are missing: the disk was full …]\n".encode()
        before = self.size
        if self.lost and not self._written(said):
            self.lost = 0
        elif self.size > before:  # half a sentence is worse than none
            self._cut_to(before)

    def _written(self, data: bytes) -> bytes:
        """Writes what there is room for; gives the rest."""
        while data:
            number, used = divmod(self.size, SEGMENT_BYTES)
            try:
                if self._begun != number:
                    self._begin(number)
                written = os.write(self._fd, data[: SEGMENT_BYTES - used])
            except OSError:
                return data
            self.size += written
            data = data[written:]
        return b""

    def _cut_to(self, size: int) -> None:
        """Takes back what was written last, within one file."""
        if self.size // SEGMENT_BYTES == size // SEGMENT_BYTES:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, size % SEGMENT_BYTES)
                os.lseek(self._fd, 0, os.SEEK_END)
                self.size = size

    def _begin(self, number: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fd = os.open(segment(number), flags, 0o600, dir_fd=self._folder)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._begun = fd, number
        if number > SEGMENTS_KEPT:
            with contextlib.suppress(OSError):
                os.unlink(segment(number - SEGMENTS_KEPT), dir_fd=self._folder)


class Supervisor:
    """One job, from its start to its end."""

    def __init__(self, folder: str, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.output = Output(self.folder)
        self.blots = secret_blots.Blots([form.encode("latin-1") for form in spec.get("secrets", ())])
        self.began = time.monotonic()
        self.beaten = 0.0
        self.owned = True
        self.told_to_end = False
        self.job = -1
        self.pipe = -1
        self.status: int | None = None
        self.woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
        os.set_blocking(self.woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def start(self) -> str:
        """Starts the job; says why if it cannot be started."""
        process_tree.adopt_orphans()
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        process_tree.hear_signals()
        mine = process_tree.identity(os.getpid()) | {"token": self.spec["token"], "detached": self.spec["detached"]}
        if wrong := write_json(self.folder, "supervisor.json", mine):
            return f"the folder for jobs takes nothing ({wrong})"
        self.pipe, out = os.pipe()
        try:
            env = {**self.spec["env"], "WINDLASS_JOB": self.spec["token"]}
            child = subprocess.Popen(
                self.spec["argv"],
                cwd=self.spec["cwd"],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=self._become_job,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return getattr(error, "strerror", None) or str(error)
        finally:
            os.close(out)
        self.job = child.pid
        child.returncode = 0  # it is reaped here, not by its object
        write_json(self.folder, "supervisor.json", mine | {"job": process_tree.identity(self.job)})
        os.set_blocking(self.pipe, False)
        return ""

    def _become_job(self) -> None:
        """The job is killed if its supervisor is, and all that it starts can be told from others then."""
        signal.set_wakeup_fd(-1)
        process_tree.default_signals()
        process_tree.die_with_parent()
        process_tree.wear(process_tree.mark_of(self.spec["token"]))

    def _end(self, *_: object) -> None:
        self.told_to_end = True

    def run(self) -> None:
        """Carries output until the job ends or is to end; leaves nothing of it, and says how it ended."""
        reason = self._until(None)
        if reason is not None:
            process_tree.send(-self.job, signal.SIGTERM)
            self._until(time.monotonic() + GRACE_S)
        left = len(process_tree.descendants(os.getpid()))
        if self.status is None:
            left = max(0, left - 1)
        process_tree.send(-self.job, signal.SIGKILL)
        process_tree.end_descendants(KILL_S, self._reaped)
        self._drain()
        self.output.add(self.blots.end())
        self._tell(reason, left)

    def _until(self, deadline: float | None) -> str | None:
        """Waits for the end of the job; gives the reason for which it is to end before that, if there is one. With a
        deadline only the end is waited for."""
        while self.status is None:
            if deadline is not None and time.monotonic() >= deadline:
                return None
            wanted = [fd for fd in (self.pipe, self.woken, 0 if self.owned else -1) if fd >= 0]
            ready, _, _ = select.select(wanted, [], [], TICK_S if deadline is None else 0.1)
            self._take(ready)
            self._reap()
            if deadline is None and self.status is None and (reason := self._reason()) is not None:
                return reason
            self._beat()
        return None

    def _take(self, ready: list[int]) -> None:
        if self.woken in ready:
            os.read(self.woken, CHUNK)
        if self.pipe in ready and not self._read():
            os.close(self.pipe)
            self.pipe = -1
        if 0 in ready and not os.read(0, CHUNK):
            self.owned = False

    def _read(self) -> bool:
        """Takes what is there of the output; False at its end."""
        try:
            data = os.read(self.pipe, CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.output.add(self.blots.feed(data))
        return bool(data)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._reaped(pid, status)

    def _reaped(self, pid: int, status: int) -> None:
        if pid == self.job:
            self.status = os.waitstatus_to_exitcode(status)

    def _reason(self) -> str | None:
        told = read_text(self.folder, "stop")
        if told is not None:
            return told if told in STATUS else "killed"
        if self.told_to_end:
            return "session_ended"
        if self.spec["detached"]:
            return None
        if os.fstat(self.folder).st_nlink == 0:
            return "session_ended"
        life_ms = self.spec["life_ms"]
        if life_ms and (time.monotonic() - self.began) * 1000 >= life_ms:
            return "retired"
        return None if self.owned or read_text(self.folder, "keep") is not None else "given_up"

    def _beat(self) -> None:
        if time.monotonic() - self.beaten >= BEAT_S:
            self.beaten = time.monotonic()
            write_text(self.folder, "beat", str(time.time_ns() // 1_000_000))
            below = [process_tree.identity(pid) for pid in process_tree.descendants(os.getpid())[:SEEN_MAX]]
            write_json(self.folder, "processes.json", {"processes": below})

    def _drain(self) -> None:
        """Takes what was written before the end; nobody who is left is waited for."""
        while self.pipe >= 0 and select.select([self.pipe], [], [], 0)[0] and self._read():
            pass

    def _tell(self, reason: str | None, left: int) -> None:
        """Says how the job ended, as soon as there is room to say it; nobody waits for it once the folder is gone."""
        code = self.status if self.status is not None else -signal.SIGKILL
        by_itself = "completed" if code == 0 else "failed" if code > 0 else "aborted"
        end = {
            "token": self.spec["token"],
            "status": by_itself if reason is None else STATUS[reason],
            "exit_code": code,
            "duration_ms": int((time.monotonic() - self.began) * 1000),
            "output_bytes": self.output.size,
            "left": left,
        }
        while write_json(self.folder, "end.json", end) and os.fstat(self.folder).st_nlink > 0:
            for name in ("beat", "processes.json"):  # room for the one that matters
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self.folder)
            time.sleep(TICK_S)
        self.output.say_lost()


# --- files ---


def segment(number: int) -> str:
    """The name of a part of the output."""
    return f"output.{number:06d}"


def read_text(folder: int, name: str) -> str | None:
    try:
        with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), encoding="utf-8") as file:
            return file.read(CHUNK).strip()
    except OSError:
        return None


def write_text(folder: int, name: str, text: str) -> str:
    """Puts a small file there at once, never in part; says why if it cannot. A folder that is gone takes nothing."""
    part = f".{name}.part"
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=folder)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if name == "end.json":
                os.fsync(file.fileno())
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=folder)
        return error.strerror or str(error)
    return ""


def write_json(folder: int, name: str, value: dict[str, Any]) -> str:
    return write_text(folder, name, json.dumps(value))


def spec_from(stream: int) -> dict[str, Any]:
    """The one line that says what is to be run; the stream stays open behind it."""
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(stream, CHUNK)
        if not data or len(line) > SPEC_BYTES_MAX:
            raise SystemExit("nobody said what is to be run")
        line += data
    spec: dict[str, Any] = json.loads(line)
    return spec


def main() -> None:
    """Starts the job that standard input speaks of, says on standard output whether that went well, and stays."""
    with contextlib.suppress(OSError):
        os.setsid()
    supervisor = Supervisor(sys.argv[1], spec_from(0))
    wrong = supervisor.start()
    os.write(1, (json.dumps({"not_started": wrong}) + "\n").encode())
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    if not wrong:
        supervisor.run()


if __name__ == "__main__":
    main()
