"""Git commands in a repository, run so that nothing of the repository runs with them: no hook, no filter, no merge
driver, no monitor. Those of one repository run one after the other, also across processes and crashes."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

LOCK_NAME = "windlass.lock"
LOCK_S = 60.0
COMMAND_S = 300.0
POLL_S = 0.02
DETAIL_CHARS_MAX = 500
NOT_PASSED_ON = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE", "GIT_PREFIX")
FIXED = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "advice.detachedHead": "false",
}
PROGRAMS = r"^(filter\..*\.(clean|smudge|process|required)|merge\..*\.driver)$"
"""The settings by which a repository names programs that a checkout or a merge would run."""
HIDES = r"^(include\.path|includeif\..*\.path|extensions\.(worktreeconfig|partialclone)|remote\..*\.promisor|core\.worktree)$"  # noqa: E501
"""The settings of a repository that may hold others which show themselves in a worktree only, have git fetch what is
missing, or put its files elsewhere: where there is one of them, nobody can say what a worktree would run or write."""
NOBODY = {
    "GIT_AUTHOR_NAME": "windlass",
    "GIT_AUTHOR_EMAIL": "windlass@localhost",
    "GIT_COMMITTER_NAME": "windlass",
    "GIT_COMMITTER_EMAIL": "windlass@localhost",
}
"""Who commits if git knows no name for the user."""


class GitFailed(Exception):
    """A git command did not do what it was to do; the message says what it said."""


class Repository:
    """Git in one repository, while its lock is held: a command that outlives this process keeps it."""

    def __init__(self, lock: int, settings: dict[str, str], *, nameless: bool) -> None:
        self._lock = lock
        self._settings = settings
        self._nameless = nameless

    def git(self, folder: str, *args: str) -> str:
        """What a command says. Raises `GitFailed` if it fails."""
        done = self.tried(folder, *args)
        if done.returncode != 0:
            raise GitFailed(f"git {args[0]}: {said(done)}")
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def tried(self, folder: str, *args: str) -> subprocess.CompletedProcess[bytes]:
        """How a command ended."""
        return _run(folder, args, {**FIXED, **self._settings}, NOBODY if self._nameless else {}, self._lock)

    def holds(self, folder: str, *args: str) -> bool:
        """Whether a command that asks something says yes."""
        return self.tried(folder, *args).returncode == 0


@contextmanager
def repository(folder: str) -> Iterator[Repository]:
    """The repository of a folder, for this caller alone. Raises `GitFailed` if there is none, or others do not let go
    of it."""
    common = _answer(folder, "rev-parse", "--path-format=absolute", "--git-common-dir")
    _require_plain(folder)
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(os.path.join(common, LOCK_NAME), flags, 0o600)
    except OSError as error:
        raise GitFailed(f"its lock {LOCK_NAME} cannot be taken: {error.strerror}") from error
    try:
        _wait_for(lock)
        yield Repository(lock, _without_programs(folder), nameless=_is_nameless(folder))
    finally:
        os.close(lock)


def main_of(folder: str) -> str:
    """The folder of the repository that a worktree belongs to. Raises `GitFailed` if it belongs to none."""
    return _answer(folder, "worktree", "list", "--porcelain").splitlines()[0].removeprefix("worktree ")


def _require_plain(folder: str) -> None:
    """Raises `GitFailed` for a repository of which nobody can say what a worktree would run or write."""
    listed = _run(folder, ("config", "--local", "--no-includes", "--name-only", "-z", "--get-regexp", HIDES), FIXED)
    names = [name for name in listed.stdout.decode("utf-8", "replace").split("\0") if name]
    if names:
        raise GitFailed(f"the repository's own configuration has {names[0]}: remove it, or work without a worktree")
    if os.path.islink(os.path.join(folder, ".git")):
        raise GitFailed("its .git is a link: no worktree is made of the repository that it leads to")


def _wait_for(lock: int) -> None:
    until = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise GitFailed("another process works on this repository and does not come to its end") from None
            time.sleep(POLL_S)


def _without_programs(folder: str) -> dict[str, str]:
    """Settings that take the place of those by which the repository itself names programs."""
    listed = _run(folder, ("config", "--local", "--includes", "--name-only", "-z", "--get-regexp", PROGRAMS), FIXED)
    names = listed.stdout.decode("utf-8", "surrogateescape").split("\0")
    return {name: _nothing(name) for name in names if name}


def _nothing(name: str) -> str:
    """The value by which a setting means no program. A merge driver that fails leaves a conflict, and that is asked
    about."""
    ending = name.rpartition(".")[2].lower()
    return "false" if ending in ("required", "driver") else ""


def _is_nameless(folder: str) -> bool:
    return _run(folder, ("var", "GIT_COMMITTER_IDENT"), FIXED).returncode != 0


def _answer(folder: str, *args: str) -> str:
    done = _run(folder, args, FIXED)
    if done.returncode != 0:
        raise GitFailed(f"git {args[0]}: {said(done)}")
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    """What a command that failed said, in one line."""
    text = (done.stderr or done.stdout).decode("utf-8", "replace")
    return " ".join(text.split())[:DETAIL_CHARS_MAX] or f"it ended with {done.returncode}"


def _run(
    folder: str,
    args: tuple[str, ...],
    settings: dict[str, str],
    more: dict[str, str] | None = None,
    lock: int | None = None,
) -> subprocess.CompletedProcess[bytes]:
    env = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    env |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", **(more or {})}
    env["GIT_CONFIG_COUNT"] = str(len(settings))
    for index, (name, value) in enumerate(settings.items()):
        env |= {f"GIT_CONFIG_KEY_{index}": name, f"GIT_CONFIG_VALUE_{index}": value}
    try:
        return subprocess.run(
            ["git", *args],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_S,
            pass_fds=() if lock is None else (lock,),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitFailed(f"git {args[0]} cannot be run here: {error}") from error
