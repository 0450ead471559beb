"""Git commands in a repository, run so that nothing of the repository runs with them: no hook, no filter, no merge
driver, no monitor. Those of one repository run one after the other, also across processes and crashes."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from windlass.runtime.workspace.git import POINTER_BYTES_MAX, git_folder, read

from .git_process import GitFailed, Patience, run

LOCK_NAME = "windlass.lock"
LOCK_S = 600.0
"""How long another process may work on a repository: longer than one of its commands may take."""
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


class Repository:
    """Git in one repository, while its lock is held: a command that outlives this process keeps it."""

    def __init__(self, common: str, lock: int, settings: dict[str, str], patience: Patience, *, nameless: bool) -> None:
        self.common = common
        """Where it keeps its objects and branches. What is no matter of one checkout is done there: a checkout may be
        gone, or on its way out."""
        self._lock = lock
        self._settings = settings
        self._patience = patience
        self._nameless = nameless
        self._known = {common}

    def git(self, folder: str, *args: str, finishes: bool = False) -> str:
        """What a command says. Raises `GitFailed` if it fails. `finishes`: it is not cut off because nobody waits."""
        done = self.tried(folder, *args, finishes=finishes)
        if done.returncode != 0:
            raise GitFailed(f"git {args[0]}: {said(done)}")
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def tried(self, folder: str, *args: str, finishes: bool = False) -> subprocess.CompletedProcess[bytes]:
        """How a command ended. Raises `GitFailed` if the folder is no checkout of this repository."""
        self.require_checkout(folder)
        settings = {**FIXED, **self._settings}
        patience = Patience() if finishes else self._patience
        return _run(folder, args, settings, patience, NOBODY if self._nameless else {}, self._lock)

    def require_checkout(self, folder: str) -> None:
        """Raises `GitFailed` if a folder is no checkout of this repository."""
        if folder not in self._known:
            require_checkout(folder, self.common)
            self._known.add(folder)

    def holds(self, folder: str, *args: str) -> bool:
        """Whether a command that asks something says yes. Raises `GitFailed` if it says neither yes nor no."""
        return _yes(args, self.tried(folder, *args))

    def found(self, folder: str, *args: str) -> str:
        """What a command that looks for something found; empty if it says that there is none. Raises `GitFailed` if it
        says neither."""
        done = self.tried(folder, *args)
        return done.stdout.decode("utf-8", "surrogateescape").strip() if _yes(args, done) else ""


@contextmanager
def repository(folder: str, common: str = "", patience: Patience | None = None) -> Iterator[Repository]:
    """The repository of a folder, for this caller alone. `common` is where it keeps its branches, if that is on record:
    the folder itself may be gone then. Raises `GitFailed` if there is none, or others do not let go of it."""
    patience = patience or Patience()
    common = common or _answer(folder, patience, "rev-parse", "--path-format=absolute", "--git-common-dir")
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(os.path.join(common, LOCK_NAME), flags, 0o600)
    except OSError as error:
        raise GitFailed(f"its lock {LOCK_NAME} cannot be taken: {error.strerror}") from error
    try:
        _wait_for(lock, patience)
        _require_plain(common, patience)
        settings, nameless = _without_programs(common, patience), _is_nameless(common, patience)
        yield Repository(common, lock, settings, patience, nameless=nameless)
    finally:
        os.close(lock)


def _require_plain(common: str, patience: Patience) -> None:
    """Raises `GitFailed` for a repository of which nobody can say what a worktree would run or write."""
    names = _set_names(common, patience, "--no-includes", HIDES)
    if names:
        raise GitFailed(f"the repository's own configuration has {names[0]}: remove it, or work without a worktree")


def require_checkout(folder: str, common: str) -> None:
    """Raises `GitFailed` unless a folder is a checkout of this very repository: its own, or a worktree that the
    repository knows to be there. Whoever may write a `.git` must not choose by it what git changes elsewhere. Asked
    while the lock is held, so that no worktree is on its way out."""
    own = os.path.join(folder, ".git")
    if os.path.islink(own):
        raise GitFailed("its .git is a link: no worktree is made of the repository that it leads to")
    if os.path.isdir(own):
        ours = os.path.realpath(own) == os.path.realpath(common)
    else:
        inside = git_folder(own)
        if inside is None:
            raise GitFailed(f"{folder} is no checkout of a repository any more")
        back = read(os.path.join(inside, "gitdir"), POINTER_BYTES_MAX)
        known = os.path.realpath(os.path.dirname(inside)) == os.path.join(os.path.realpath(common), "worktrees")
        ours = known and back is not None and _leads_to(os.path.join(inside, back.strip()), own)
    if not ours:
        raise GitFailed(f"the .git of {folder} leads to a repository that does not know it: work where that one lies")


def _leads_to(path: str, own: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(own)


def _set_names(common: str, patience: Patience, includes: str, pattern: str) -> list[str]:
    """The settings of a repository that a pattern fits. Raises `GitFailed` if git does not say: a command that was
    killed must not pass for one that found nothing."""
    args = ("config", "--local", includes, "--name-only", "-z", "--get-regexp", pattern)
    listed = _run(common, args, FIXED, patience)
    output = listed.stdout.decode("utf-8", "surrogateescape") if _yes(args, listed) else ""
    return [name for name in output.split("\0") if name]


def _yes(args: tuple[str, ...], done: subprocess.CompletedProcess[bytes]) -> bool:
    if done.returncode not in (0, 1):
        raise GitFailed(f"git {args[0]}: {said(done)}")
    return done.returncode == 0


def _wait_for(lock: int, patience: Patience) -> None:
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > patience.until(deadline):
                raise GitFailed(
                    f"another process holds {LOCK_NAME} of this repository and does not come to its end"
                ) from None
            time.sleep(POLL_S)


def _without_programs(common: str, patience: Patience) -> dict[str, str]:
    """Settings that take the place of those by which the repository itself names programs."""
    return {name: _nothing(name) for name in _set_names(common, patience, "--includes", PROGRAMS)}


def _nothing(name: str) -> str:
    """The value by which a setting means no program. A merge driver that fails leaves a conflict, and that is asked
    about."""
    ending = name.rpartition(".")[2].lower()
    return "false" if ending in ("required", "driver") else ""


def _is_nameless(folder: str, patience: Patience) -> bool:
    return _run(folder, ("var", "GIT_COMMITTER_IDENT"), FIXED, patience).returncode != 0


def _answer(folder: str, patience: Patience, *args: str) -> str:
    done = _run(folder, args, FIXED, patience)
    if done.returncode != 0:
        raise GitFailed(f"git {args[0]}: {said(done)}")
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    """What a command that failed said, in one line."""
    text = (done.stderr or done.stdout).decode("utf-8", "replace")
    return " ".join(text.split())[:DETAIL_CHARS_MAX] or _how_it_ended(done.returncode)


def _how_it_ended(code: int) -> str:
    return f"it was killed by signal {-code}" if code < 0 else f"it ended with {code}"


def _run(
    folder: str,
    args: tuple[str, ...],
    settings: dict[str, str],
    patience: Patience,
    more: dict[str, str] | None = None,
    lock: int | None = None,
) -> subprocess.CompletedProcess[bytes]:
    env = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    env |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", **(more or {})}
    env["GIT_CONFIG_COUNT"] = str(len(settings))
    for index, (name, value) in enumerate(settings.items()):
        env |= {f"GIT_CONFIG_KEY_{index}": name, f"GIT_CONFIG_VALUE_{index}": value}
    return run(args, folder=folder, env=env, patience=patience, lock=lock)
