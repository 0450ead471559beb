"""The folder of one job: how whoever started it, and whoever comes after them, speaks with its supervisor."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import time
from typing import Any

import msgspec

from windlass.events import known_types
from windlass.tools.jobs.job_host import JobEnd, JobOutput
from windlass.tools.processes.process_tree import START_FIELD, all_processes, boot, mark_of, marked, stat_of

from .job_supervisor import SEGMENT_BYTES, segment

SESSION_FIELD = 3
KILL_ROUNDS = 100
SHORT_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What the system says when there are no more files or memory. It says nothing of the file that was asked for."""


class JobFolder:
    """What stands in a job's folder. Nothing here waits."""

    def __init__(self, path: str) -> None:
        self.path = path

    # --- whose it is ---

    def claim(self, token: str, *, detached: bool = False) -> bool:
        """Makes the folder, for whoever is first; False if it is there. Raises `OSError`, and leaves nothing, if it
        cannot be made."""
        try:
            os.mkdir(self.path, 0o700)
        except FileExistsError:
            return False
        try:
            self._write("claim.json", json.dumps({"token": token, "detached": detached}))
        except OSError:
            self.forget()
            raise
        return True

    @property
    def is_there(self) -> bool:
        """Whether anything was started under this id and is not forgotten."""
        return os.path.isdir(self.path)

    @property
    def token(self) -> str:
        """What its processes carry in their environment."""
        return str(self._claimed("token") or "")

    @property
    def detached(self) -> bool:
        """Whether it goes on when its session ends."""
        return self._claimed("detached") is True

    def _claimed(self, field: str) -> object:
        """What the claim says, or the supervisor if the claim cannot be read."""
        claim = self._json("claim.json")
        return claim.get(field) if claim else self._json("supervisor.json").get(field)

    def keep(self) -> None:
        """Has the job go on when whoever started it is gone."""
        self._write("keep", "")

    @property
    def kept(self) -> bool:
        """Whether it goes on when whoever started it is gone."""
        return os.path.exists(os.path.join(self.path, "keep"))

    def forget(self) -> None:
        """Removes the folder; a supervisor that is still there ends its job."""
        shutil.rmtree(self.path, ignore_errors=True)

    # --- how it is ---

    def end(self) -> JobEnd | None:
        """How the job ended, if its supervisor has said so."""
        report = self._json("end.json")
        if not report or report.get("token") != self.token:
            return None
        try:
            return known_types.convert(report, JobEnd)
        except msgspec.ValidationError:
            return JobEnd(status="lost")

    def supervisor(self) -> int | None:
        """The number of the supervisor's process, if that is still the very process. Raises `OSError` if that cannot be
        found out now, as `end` does."""
        process = self._json("supervisor.json")
        return _living(process) if process.get("token") == self.token else None

    def stop(self, reason: str) -> None:
        """Has the job end. The first reason that was given stands; without room to write it down the job ends with
        none."""
        if not os.path.exists(os.path.join(self.path, "stop")):
            with contextlib.suppress(OSError):
                self._write("stop", reason)
        pid = self.supervisor()
        if pid is not None:
            _signal(pid, self, signal.SIGTERM, signal.SIGCONT)

    def kill(self) -> None:
        """Kills a supervisor that does not do what it is told, and all that it had started."""
        pid = self.supervisor()
        if pid is not None:
            _signal(pid, self, signal.SIGKILL)
        self.kill_left()

    def kill_left(self) -> None:
        """Kills what a supervisor that is gone has left, until nothing of it is found or the system holds on to it."""
        for _ in range(KILL_ROUNDS):
            left = self._left()
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if not left:
                return
            time.sleep(0.01)

    def _left(self) -> list[int]:
        """Processes that carry the job's token or wear its mark, are in its session, or were seen beneath its
        supervisor."""
        token, job = self.token, self._json("supervisor.json").get("job")
        seen = self._json("processes.json").get("processes")
        pids = {_living(process) for process in [job, *(seen if isinstance(seen, list) else ())]}
        session = _session_of(job)
        if token:
            pids.update(marked(mark_of(token)))
        for pid in all_processes():
            fields = stat_of(pid)
            if fields is None or fields[0] in "ZX":
                continue
            if fields[SESSION_FIELD] == session or (token and f"WINDLASS_JOB={token}".encode() in _environment(pid)):
                pids.add(pid)
        return [pid for pid in pids if pid is not None and pid not in (os.getpid(), self.supervisor())]

    # --- what it printed ---

    def output(self, offset: int, most: int) -> JobOutput:
        """The bytes from an offset on; a negative one counts from the end."""
        kept = {int(name[7:]) for name in _listed(self.path) if name.startswith("output.") and name[7:].isdigit()}
        if not kept:
            return JobOutput()
        last = max(kept)
        size = last * SEGMENT_BYTES + self._size(segment(last))
        begin = max(0, size + offset) if offset < 0 else min(offset, size)
        if begin // SEGMENT_BYTES not in kept and begin < size:
            begin = min(number for number in kept if number > begin // SEGMENT_BYTES) * SEGMENT_BYTES
        data = b""
        while len(data) < most and begin + len(data) < size:
            number, within = divmod(begin + len(data), SEGMENT_BYTES)
            piece = self._bytes(segment(number), within, min(most - len(data), SEGMENT_BYTES - within))
            if not piece:
                break
            data += piece
        return JobOutput(data=data, offset=begin, size=size)

    # --- files ---

    def _bytes(self, name: str, offset: int, most: int) -> bytes:
        try:
            with open(os.path.join(self.path, name), "rb") as file:
                file.seek(offset)
                return file.read(most)
        except OSError:
            return b""

    def _size(self, name: str) -> int:
        try:
            return os.stat(os.path.join(self.path, name)).st_size
        except OSError:
            return 0

    def _json(self, name: str) -> dict[str, Any]:
        """What a file holds; nothing if it is not there or is none of ours. Raises `OSError` if no file can be read."""
        try:
            with open(os.path.join(self.path, name), encoding="utf-8") as file:
                document = json.load(file)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in SHORT_ERRNOS:
                raise
            return {}
        return document if isinstance(document, dict) else {}

    def _write(self, name: str, text: str) -> None:
        part = os.path.join(self.path, f".{name}.{os.getpid()}")
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
                file.write(text)
            os.rename(part, os.path.join(self.path, name))
        except FileNotFoundError:
            return  # the folder is gone, and the job with it


def _living(process: object) -> int | None:
    """The number of a process that was written down, if that is still the very process. Raises `OSError` for one that
    is there and cannot be looked at."""
    if not isinstance(process, dict):
        return None
    if process.get("boot") != (now := boot()):
        if not now:
            raise OSError(errno.EAGAIN, "since when this machine runs cannot be read now")
        return None
    pid = process.get("pid")
    fields = stat_of(pid) if isinstance(pid, int) else None
    if fields is None and os.path.lexists(f"/proc/{pid}"):
        raise OSError(errno.EAGAIN, "a process that is there cannot be looked at now", f"/proc/{pid}/stat")
    if fields is None or fields[0] in "ZX" or fields[START_FIELD] != process.get("start"):
        return None
    return pid


def _session_of(job: object) -> str:
    """The session of processes that a job leads; none if another process has the job's number now."""
    if not isinstance(job, dict) or job.get("boot") != boot() or not isinstance(job.get("pid"), int):
        return ""
    fields = stat_of(job["pid"])
    return str(job["pid"]) if fields is None or fields[START_FIELD] == job.get("start") else ""


def _signal(pid: int, folder: JobFolder, *numbers: signal.Signals) -> None:
    """Tells a supervisor, and nobody else who got its number meanwhile: it is looked at again once it is held."""
    try:
        if not hasattr(os, "pidfd_open"):
            for number in numbers:
                os.kill(pid, number)
            return
        held = os.pidfd_open(pid)
        try:
            if folder.supervisor() == pid:
                for number in numbers:
                    signal.pidfd_send_signal(held, number)
        finally:
            os.close(held)
    except OSError:
        return


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []
