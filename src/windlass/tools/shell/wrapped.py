"""Commands inside commands: what `sudo`, `env`, `xargs`, `find -exec`, `bash -c` and their like would run.

Words that cannot be told apart from options are guessed at, so that denials see what might run; then nothing is sure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from posixpath import basename

from windlass.events.values.blocks import Value

from .shell_text import listed

GUESSES_MAX = 8
Argv = tuple[str, ...]


class Wrapped(Value, frozen=True, kw_only=True):
    """What a command would run beside itself, and why that may not be all."""

    commands: tuple[Argv, ...] = ()
    texts: tuple[str, ...] = ()
    """Texts for another shell."""
    doubt: str | None = None


class Prefix(Value, frozen=True, kw_only=True):
    """A command that runs the rest of its words, and which of its options take a value."""

    flags: str = ""
    values: str = ""
    long_flags: tuple[str, ...] = ()
    long_values: tuple[str, ...] = ()
    operands: int = 0
    """How many words stand before the command, options aside."""
    assigns: bool = False
    """Whether `NAME=value` may stand before the command."""


PREFIXES: dict[str, Prefix] = {
    "env": Prefix(
        flags="iv0",
        values="uC",
        long_flags=("ignore-environment", "null", "debug"),
        long_values=("unset", "chdir"),
        assigns=True,
    ),
    "sudo": Prefix(
        flags="AbEHKknPSsiB",
        values="ugpCDRrtTUh",
        long_flags=("preserve-env", "login", "shell", "non-interactive", "background", "set-home"),
        long_values=("user", "group", "prompt", "chdir", "host"),
        assigns=True,
    ),
    "doas": Prefix(flags="nsL", values="uC"),
    "nohup": Prefix(),
    "setsid": Prefix(flags="cfw", long_flags=("ctty", "fork", "wait")),
    "time": Prefix(flags="p", assigns=True),
    "nice": Prefix(flags="0123456789", values="n", long_values=("adjustment",)),
    "ionice": Prefix(flags="t", values="cnp", long_flags=("ignore",), long_values=("class", "classdata")),
    "chrt": Prefix(flags="abfior", values="TPD", operands=1),
    "taskset": Prefix(flags="ac", operands=1),
    "timeout": Prefix(
        flags="v",
        values="ks",
        long_flags=("foreground", "preserve-status", "verbose"),
        long_values=("kill-after", "signal"),
        operands=1,
    ),
    "stdbuf": Prefix(values="ioe", long_values=("input", "output", "error")),
    "chroot": Prefix(long_values=("userspec", "groups"), long_flags=("skip-chdir",), operands=1),
    "unbuffer": Prefix(flags="p"),
    "fakeroot": Prefix(),
    "caffeinate": Prefix(flags="dimsu", values="tw"),
    "strace": Prefix(flags="cCdfFhikqrtTvVxXyY", values="aebEIoOpPsSuU"),
    "ltrace": Prefix(flags="cCfhirtTVS", values="aelnopsux"),
    "valgrind": Prefix(),
    "busybox": Prefix(),
    "toybox": Prefix(),
    "command": Prefix(flags="p"),
    "builtin": Prefix(),
    "exec": Prefix(flags="cl", values="a"),
    "flock": Prefix(flags="senxouF", values="wE", long_flags=("shared", "exclusive", "nonblock", "close"), operands=1),
}
RUNNERS = frozenset(
    {"uv run", "poetry run", "pipenv run", "pdm run", "hatch run", "bundle exec", "npm exec", "pnpm exec", "yarn exec"}
)
"""Programs that run the rest of their words after a word of their own."""
LOOSE = listed(
    "adb apptainer asdf at autossh aws-vault batch bwrap byobu capsh catchsegv ccache cgexec chamber choom chpst "
    "chronic cmd.exe concurrently conda coverage cpulimit crontab daemonize dbus-launch dbus-run-session direnv "
    "distcc distrobox docker doppler dotenv dumb-init eatmydata entr envdir envuidgid expect faketime firejail "
    "flatpak-spawn foreman gdb genv gnice gosu gtimeout heaptrack hyperfine i386 ifne incus kubectl ld.so linux32 "
    "linux64 logsave lxc lxc-execute machinectl mise mosh mpirun mprof newgrp nix nix-shell nocache nodemon npx "
    "nsenter numactl op open osascript parallel pee perf pkexec pnpm podman powershell prlimit proot proxychains "
    "proxychains4 pwsh pyenv rbenv rlwrap rr run-parts runcon runit runuser rush rustup s6-setuidgid screen "
    "script sem setarch setpriv setuidgid sg singularity softlimit srun ssh-agent sshpass start-stop-daemon "
    "startx su-exec supervise sv systemd-run tini tmux toolbox torsocks trickle tsocks tsp uclampset unshare uvx "
    "vagrant with-contenv wsl x86_64 xdg-open xinit xvfb-run yarn"
)
"""Programs that may run what they are given in ways that are not followed here."""
ASSIGNS = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
EQUALS = re.compile(r"[^=]*=", re.DOTALL)
"""What `env` and its like take for an assignment."""
LOADER = re.compile(r"ld(?:64|-linux[\w-]*|-musl[\w-]*)?\.so")
"""The program that starts programs."""
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish", "csh", "tcsh"})
SHELL_PLAIN = re.compile(r"[-+][ceuxofnvpB]+|--(?:norc|noprofile|posix)|[-+]O")
"""Options of a shell that make it read nothing else."""
JOINED = frozenset({"watch", "ssh", "rsh", "su", "eval"})


def wrapped(argv: Argv) -> Wrapped:
    """What a command runs beside itself."""
    if not argv:
        return Wrapped()
    name = basename(argv[0])
    if name in SHELLS:
        return _shell(argv)
    if name in SPECIAL:
        return SPECIAL[name](argv)
    if name in PREFIXES:
        return _prefix(argv, PREFIXES[name])
    if " ".join(argv[:2]) in RUNNERS:
        return _runner(argv)
    if (name in LOOSE or LOADER.match(name)) and len(argv) > 1:
        return _guessed(argv, f"{name} may run what it is given")
    return Wrapped()


def _prefix(argv: Argv, prefix: Prefix) -> Wrapped:
    name = basename(argv[0])
    if name == "command" and any(w.startswith("-") and set(w) & set("vV") for w in argv[1:2]):
        return Wrapped()
    if name == "env" and any(w.startswith(("-S", "--split", "-vS", "-iS")) for w in argv[1:]):
        return _guessed(argv, "env splits a text into words")
    at = _after_options(argv, prefix)
    if at is None:
        return _guessed(argv, f"an option of {name} is not known")
    at += prefix.operands
    begins = at
    while prefix.assigns and at < len(argv) and (ASSIGNS if name == "time" else EQUALS).match(argv[at]):
        at += 1
    if name == "flock" and argv[at : at + 1] in (("-c",), ("--command",)):
        return Wrapped(texts=argv[at + 1 :])
    if name == "time" and at > begins:  # a name to bash if any of it is quoted, and an assignment otherwise
        return Wrapped(commands=tuple(filter(None, (argv[begins:], argv[at:]))))
    if at >= len(argv):
        return Wrapped(doubt="sudo opens a shell" if name == "sudo" else None)
    if name == "sudo" and any(w.startswith("-") and not w.startswith("--") and set(w) & set("si") for w in argv[1:at]):
        return Wrapped(commands=(argv[at:],), doubt="sudo opens a shell")
    return Wrapped(commands=(argv[at:],))


def _after_options(argv: Argv, prefix: Prefix) -> int | None:
    """Where the options end; None if one of them is not known."""
    at = 1
    while at < len(argv):
        word = argv[at]
        if word == "--":
            return at + 1
        if not word.startswith("-") or word == "-":
            return at
        if word.startswith("--"):
            key, sign, _ = word[2:].partition("=")
            if key in prefix.long_values:
                at += 1 if sign else 2
            elif key in prefix.long_flags:
                at += 1
            else:
                return None
            continue
        taken = _cluster(word[1:], prefix)
        if taken is None:
            return None
        at += taken
    return at


def _cluster(letters: str, prefix: Prefix) -> int | None:
    """How many words a cluster of short options takes."""
    for place, letter in enumerate(letters):
        if letter in prefix.values:
            return 1 if place + 1 < len(letters) else 2
        if letter not in prefix.flags:
            return None
    return 1


def _guessed(argv: Argv, doubt: str) -> Wrapped:
    """Every rest of the words that might be a command."""
    starts = [at for at in range(1, len(argv)) if not argv[at].startswith("-")]
    texts = tuple(argv[at] for at in starts if " " in argv[at])[:GUESSES_MAX]
    return Wrapped(commands=tuple(argv[at:] for at in starts[:GUESSES_MAX]), texts=texts, doubt=doubt)


def _runner(argv: Argv) -> Wrapped:
    rest = argv[3:] if argv[2:3] == ("--",) else argv[2:]
    if rest and rest[0].startswith("-"):
        return _guessed(argv, f"an option of {argv[0]} is not known")
    return Wrapped(commands=(rest,) if rest else ())


def _shell(argv: Argv) -> Wrapped:
    """A shell: the text after -c, or a script, or whatever it reads."""
    at, given, doubt = 1, False, None
    while at < len(argv) and argv[at].startswith(("-", "+")) and argv[at] not in ("-", "--"):
        word = argv[at]
        given |= not word.startswith("--") and "c" in word
        if not SHELL_PLAIN.fullmatch(word):
            doubt = "a shell reads files before its text"
        at += 2 if word in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file") else 1
    if argv[at : at + 1] in (("-",), ("--",)):
        at += 1
    if argv[1:] in (("--version",), ("--help",)):
        return Wrapped()
    if not given:
        return Wrapped(doubt=doubt if at < len(argv) else "a shell reads its commands from elsewhere")
    if at >= len(argv):
        return Wrapped(doubt="a shell is given no text")
    if at + 1 < len(argv):
        doubt = doubt or "a shell is given words that its text may use"
    return Wrapped(texts=(argv[at],), doubt=doubt)


def _joined(argv: Argv) -> Wrapped:
    """Words that are joined and given to a shell."""
    at = 1
    values = {"watch": "nqe", "ssh": "BbcDEeFIiJLlmOopQRSWw", "rsh": "l", "su": "sgGw"}.get(basename(argv[0]), "")
    while at < len(argv) and argv[at].startswith("-") and argv[at] != "--":
        if basename(argv[0]) == "su" and argv[at] in ("-c", "--command"):
            return Wrapped(texts=argv[at + 1 : at + 2], doubt="su runs it as somebody else")
        at += 2 if len(argv[at]) == 2 and argv[at][1] in values else 1
    rest = argv[at:]
    if basename(argv[0]) in ("ssh", "rsh"):
        rest = rest[1:]
        options = any(w.startswith(("-o", "-F")) for w in argv[1:at])
        text = (" ".join(rest),) if rest else ()
        return Wrapped(texts=text, doubt="an option of ssh may run a command" if options else "it runs elsewhere")
    if basename(argv[0]) == "su":
        texts = [argv[i + 1] for i, w in enumerate(argv[:-1]) if w in ("-c", "--command")]
        return Wrapped(texts=tuple(texts), doubt="su runs it as somebody else")
    return Wrapped(texts=(" ".join(rest),) if rest else (), doubt="it uses eval" if argv[0] == "eval" else None)


def _xargs(argv: Argv) -> Wrapped:
    prefix = Prefix(
        flags="0rtpxo",
        values="InPLdEsa",
        long_flags=("null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty", "show-limits"),
        long_values=("replace", "max-args", "max-procs", "max-lines", "delimiter", "eof", "max-chars", "arg-file"),
    )
    at = _after_options(argv, prefix)
    if at is None:
        return _guessed(argv, "an option of xargs is not known")
    return Wrapped(commands=(argv[at:],) if argv[at:] else (), doubt="xargs adds words that nobody knows yet")


def _find(argv: Argv) -> Wrapped:
    commands: list[Argv] = []
    for at, word in enumerate(argv):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            rest = argv[at + 1 :]
            end = next((i for i, w in enumerate(rest) if w == ";" or (w == "+" and rest[i - 1] == "{}")), len(rest))
            commands.append(rest[:end])
    return Wrapped(commands=tuple(commands), doubt="find adds words that nobody knows yet" if commands else None)


def _fd(argv: Argv) -> Wrapped:
    marks = [at for at, w in enumerate(argv) if w.startswith(("-x", "-X", "--exec"))]
    if not marks:
        return Wrapped()
    return _guessed(argv[marks[0] :], "fd adds words that nobody knows yet")


def _trap(argv: Argv) -> Wrapped:
    words = [w for w in argv[1:] if not w.startswith("-")]
    return Wrapped(texts=tuple(words[:1]), doubt="it uses trap")


SPECIAL: dict[str, Callable[[Argv], Wrapped]] = {
    **dict.fromkeys(JOINED, _joined),
    "xargs": _xargs,
    "gxargs": _xargs,
    "find": _find,
    "gfind": _find,
    "fd": _fd,
    "fdfind": _fd,
    "trap": _trap,
}
