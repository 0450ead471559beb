"""The process above a process: a small script that starts it, and that leaves nothing of it behind.

It is run by its path with `python -I -S`, not imported by the runtime; it must import little, and of ours only what
such programs share. It is the one to whom everything is handed that a process leaves behind (a daemon that forked twice
and made a session of its own included), so at the end it kills and reaps until there is nobody left. It does so when
the process ends, when it is told, and when whoever started it is gone, killed with SIGKILL included: then the other end
of the lifeline closes.

    process_supervisor.py [status=FD] [lifeline=FD] [wear=N] [pty=1] [pass=1] [only=limits] [hold=PATH] [mark=PATH]
                  [limit=NAME:N]... [root=PATH] [absent=NAME]... [watch=NAME]... [after=WORD]... -- PROGRAM ARGUMENT...

Without a status descriptor it ends as the program did, and says the rest on its standard error; `only=limits` sets the
limits and becomes the program; `hold` keeps a scratch place from being removed, as `mark` did until then. All that it
starts wears the mark N, by which whoever started us ends it if somebody kills us first.

What it says on the status descriptor, a line each: `failed ERRNO` (the program was not started), `aside PATH`
(something appeared under a name that nothing may appear under, and was given another), `restored PATH` (something that
nobody may change was changed, and is again as it was), `unwatched PATH`, `left` (somebody would not die), `exit CODE`.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module itself takes too long to be loaded
    from typing import Any
if TYPE_CHECKING or __package__:
    from windlass.tools.processes import process_tree
else:
    shared = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "processes")
    sys.path.insert(0, shared)
    import process_tree

    sys.path.remove(shared)

END_WAIT_S = 4.0
"""How long the end of those who were killed is waited for."""
IN_WORDS = {
    "aside": "a protected name appeared and was given another one: ",
    "restored": "a protected name was changed; it is as it was again: ",
    "unwatched": "whether a protected name was changed is not known: ",
    "left": "a process that this one started could not be killed",
}
AFTER_S = 5.0
GRACE_S = 1.5
"""How long a program may take that was asked to end."""
PAUSE_S = 0.002
LOOK_S = 1.0
"""How often names that nothing may appear under are looked at while the program runs, if it may run for long."""
SAID_MAX = 100
ASIDE = ".refused"
WATCHED_FILES_MAX = 2_000
WATCHED_BYTES_MAX = 16 * 1024 * 1024
LIMITS = {"processes": "NPROC", "file_bytes": "FSIZE", "address_bytes": "AS", "open_files": "NOFILE", "core": "CORE"}


def main(words: list[str]) -> int:
    """Starts the program, sees it through, and cleans up."""
    end = words.index("--")
    options = [word.partition("=")[::2] for word in words[:end]]
    given = dict(options)
    status, lifeline = int(given.get("status", -1)), int(given.get("lifeline", -1))
    limits = [value for name, value in options if name == "limit"]
    if given.get("only") == "limits":
        become(words[end + 1 :], limits, status, on_terminal=False, apart=False)
    held = hold(given["hold"], given.get("mark")) if "hold" in given else -1
    process_tree.adopt_orphans()
    absent, watch = ([value for name, value in options if name == wanted] for wanted in ("absent", "watch"))
    names = Names(given.get("root", ""), absent, watch)
    woken = wake_at_signals()
    if "wear" in given:
        process_tree.wear(int(given["wear"]), "command")
    above = os.getpid()
    program = os.fork()
    if program == 0:
        process_tree.die_with_parent()
        if os.getppid() != above:
            os._exit(127)
        for fd in filter(lambda fd: fd >= 0, (status, lifeline)):
            os.set_inheritable(fd, fd == status and "pass" in given)
        become(words[end + 1 :], limits, status, on_terminal="pty" in given)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2) if status >= 0 else (0, 1):
        os.dup2(nowhere, stream)
    code = watched(program, lifeline, woken, names if held >= 0 else None)
    if not process_tree.end_descendants(END_WAIT_S):
        names.said.append("left")
    names.look()
    clean_up([value for name, value in options if name == "after"])
    if status >= 0:
        tell(status, *names.said, f"exit {code}")
        return 0
    said = (line.partition(" ") for line in names.said)
    tell(2, *(f"windlass: {IN_WORDS[word]}{rest}" for word, _, rest in said))
    if held >= 0:
        os.close(held)
    return code if code >= 0 else die_of(-code)


def clean_up(words: list[str]) -> None:
    """Runs the command that ends what is no descendant of ours, such as a container; it may fail, and not take long."""
    if not words:
        return
    child = os.fork()
    if child == 0:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        become(words, [], -1, on_terminal=False)
    deadline = time.monotonic() + AFTER_S
    while time.monotonic() < deadline and os.waitpid(child, os.WNOHANG)[0] == 0:
        time.sleep(PAUSE_S)
    process_tree.end_descendants(END_WAIT_S)


def hold(path: str, mark: str | None) -> int:
    """Says that a folder is in use, as long as this process lives; the mark that said so before is taken away."""
    import fcntl

    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(fd, fcntl.LOCK_SH)
    if mark is not None:
        try:
            os.unlink(mark)
        except FileNotFoundError:
            pass
    return fd


def die_of(number: int) -> int:
    """Ends by a signal, as the program did."""
    signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), number)
    return 128 + number


def wake_at_signals() -> int:
    """A descriptor that becomes readable when a child ends or somebody asks us to stop."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    process_tree.hear_signals()
    return woken


def become(argv: list[str], limits: list[str], status: int, *, on_terminal: bool, apart: bool = True) -> None:
    """Turns this process into the program, `apart` in a session of its own; says why if that cannot be."""
    try:
        if apart:
            os.setsid()
        if on_terminal:
            import fcntl
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for limit in limits:
            lower(*limit.split(":"))
        signal.set_wakeup_fd(-1)
        process_tree.default_signals()
        os.execvp(argv[0], argv)
    except OSError as error:
        told = f"failed {error.errno}" if status >= 0 else f"windlass: {argv[0]} cannot be run: {error.strerror}"
        tell(status if status >= 0 else 2, told)
    finally:
        os._exit(127)


def lower(name: str, value: str) -> None:
    """Sets a limit, or the one that holds already if that is lower."""
    import resource

    which = getattr(resource, "RLIMIT_" + LIMITS[name], None)
    if which is None:
        return
    _, most = resource.getrlimit(which)
    bound = int(value) if most == resource.RLIM_INFINITY else min(int(value), most)
    resource.setrlimit(which, (bound, bound))


def watched(program: int, lifeline: int, woken: int, names: Names | None = None) -> int:
    """Waits for the end of the program, or ends it when somebody says so; its exit code. Looks at names meanwhile."""
    stopped, deadline = False, None
    while True:
        heard = [woken, *((lifeline,) if lifeline >= 0 and not stopped else ())]
        ready, _, _ = select.select(heard, [], [], pause(deadline, LOOK_S if names is not None else None))
        if names is not None:
            names.look_meanwhile()
        if woken in ready and set(os.read(woken, 4096)) - {signal.SIGCHLD} and deadline is None:
            deadline = time.monotonic() + GRACE_S
            process_tree.send(-program, signal.SIGTERM)
        if lifeline in ready or (deadline is not None and time.monotonic() >= deadline):
            stopped = True
        if stopped:
            process_tree.send(program, signal.SIGKILL)
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == program:
                process_tree.send(
                    -program, signal.SIGKILL
                )  # its group, before it is reaped: the number is its own until then
                return os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
            os.waitpid(ended.si_pid, 0)


def pause(deadline: float | None, most: float | None) -> float | None:
    """How long to wait for the next thing; None = until it comes."""
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    return left if most is None else most if left is None else min(left, most)


# --- names that nobody may write ---


class Names:
    """Guarded names beneath a folder. All is done by descriptors, and no link is followed: a link that was left behind
    must not lead us out of the folder, where we may write and the program might not."""

    def __init__(self, root: str, absent: list[str], watched: list[str]) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if root else -1
        self._opened: list[int] = []
        self._absent = absent
        """The last part may hold one `*`; what is there already under such a name may stay."""
        self._there = {name: set(self._fitting(name)) for name in absent}
        self._before = {name: self._content(name) for name in watched}
        self.said: list[str] = []
        self._let_go()

    def look_meanwhile(self) -> None:
        """Looks while the program runs, which may be writing there: what does not work is left for the end."""
        before = list(self.said)
        try:
            self.look()
        except OSError:
            pass
        finally:
            news = [line for line in self.said[len(before) :] if not line.startswith("unwatched")]
            self.said = [*before, *(line for line in dict.fromkeys(news) if line not in before)][:SAID_MAX]

    def _let_go(self) -> None:
        while self._opened:
            os.close(self._opened.pop())

    def look(self) -> None:
        """Gives what appeared another name, and puts back what was changed."""
        try:
            self._look()
        finally:
            self._let_go()

    def _look(self) -> None:
        for name in self._absent:
            for base in self._fitting(name):
                folder = self._above(name, make=False)
                if folder is not None and base not in self._there[name] and not base.endswith(ASIDE):
                    self._set_aside(folder, base, name)
        for name, before in self._before.items():
            try:
                self._put_back(name, before)
            except OSError:
                self.said.append(f"unwatched {name}")

    def _fitting(self, name: str) -> list[str]:
        """What is there under a name, or under those that it stands for."""
        folder, base = self._above(name, make=False), os.path.basename(name)
        if folder is None:
            return []
        if "*" not in base:
            return [base] if _is_there(folder, base) else []
        head, _, tail = base.partition("*")
        most = len(head) + len(tail)
        return [
            each for each in os.listdir(folder) if each.startswith(head) and each.endswith(tail) and len(each) >= most
        ]

    def _put_back(self, name: str, before: Any) -> None:
        if before is None:
            self.said.append(f"unwatched {name}")
        elif self._content(name) != before:
            folder = self._above(name, make=True)
            assert folder is not None
            if _is_there(folder, base := os.path.basename(name)):
                self._set_aside(folder, base, name)
            _make(folder, base, before)
            self.said.append(f"restored {name}")

    def _content(self, name: str) -> Any:
        """What is under a name; None if there is nothing, or too much."""
        folder = self._above(name, make=False)
        try:
            return None if folder is None else _tree(folder, os.path.basename(name), [0, 0])
        except OSError:
            return None

    def _above(self, name: str, *, make: bool) -> int | None:
        """The folder that a name is in. A link that took a folder's place is set aside; to make it, anything is."""
        folder = self._root
        for part in name.split("/")[:-1]:
            for _ in range(3):
                try:
                    folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                    self._opened.append(folder)
                    break
                except FileNotFoundError:
                    if not make:
                        return None
                    os.mkdir(part, dir_fd=folder)
                except OSError:
                    if not make and not _is_link(folder, part):
                        return None
                    self._set_aside(folder, part, name)
            else:
                raise OSError(part)
        return folder

    def _set_aside(self, folder: int, base: str, name: str) -> None:
        """Gives something another name; nothing is deleted, since it may be somebody else's."""
        for number in range(1, 1000):
            other = f"{base}{ASIDE}" if number == 1 else f"{base}{ASIDE}-{number}"
            if not _is_there(folder, other):
                os.rename(base, other, src_dir_fd=folder, dst_dir_fd=folder)
                self.said.append(f"aside {os.path.join(os.path.dirname(name), other)}")
                return


def _tree(folder: int, name: str, seen: list[int]) -> Any:
    """What is under a name: its mode, and what it holds. Raises `OSError` for too much."""
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    seen[0] += 1
    if stat.S_ISLNK(mode):
        return mode, os.fsencode(os.readlink(name, dir_fd=folder))
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return mode, b""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        if stat.S_ISDIR(mode):
            return mode, {each: _tree(fd, each, seen) for each in sorted(os.listdir(fd))}
        with open(fd, "rb", closefd=False) as file:
            held = file.read(WATCHED_BYTES_MAX + 1)
        seen[1] += len(held)
        if seen[0] > WATCHED_FILES_MAX or seen[1] > WATCHED_BYTES_MAX:
            raise OSError("too much to be watched")
        return mode, held
    finally:
        os.close(fd)


def _make(folder: int, name: str, tree: Any) -> None:
    """Makes what a tree says, under a name that is free."""
    mode, held = tree
    if stat.S_ISLNK(mode):
        os.symlink(os.fsdecode(held), name, dir_fd=folder)
    elif stat.S_ISDIR(mode):
        os.mkdir(name, 0o700, dir_fd=folder)
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        for each, inner in held.items():
            _make(fd, each, inner)
        os.fchmod(fd, stat.S_IMODE(mode))
        os.close(fd)
    elif stat.S_ISREG(mode):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(held)
            os.fchmod(file.fileno(), stat.S_IMODE(mode))


def _is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def tell(status: int, *lines: str) -> None:
    """Says something to whoever started us, who may be gone."""
    try:
        os.write(status, "".join(line.encode("unicode_escape").decode() + "\n" for line in lines).encode())
    except OSError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
