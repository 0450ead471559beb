"""Programs that read an argument as code, and where behind them a value of the input may stand all the same.

A value is data. It may stand behind the text or the file that an interpreter runs, where it is an argument of that, and
nowhere before: not as the text, not as the file, and not where it would be read as an option. What is not in the tables
is no interpreter; an option that is not in them may be followed by anything, so that nothing behind it is let pass."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

VERSION = re.compile(r"[-.]?\d[\d.]*$")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
CLUSTER = re.compile(r"[-+][A-Za-z0-9]+")

IsValue = Callable[[str], bool]


@dataclass(frozen=True)
class Interpreter:
    """How the arguments of an interpreter are read: options, then its code or the file that has it, then arguments."""

    valued: frozenset[str] = frozenset()
    """Options with a value that is no code."""
    coded: frozenset[str] = frozenset()
    """Options whose value is code; more options may follow."""
    last: frozenset[str] = frozenset()
    """Options whose value is code, and behind which everything is an argument."""
    flags: frozenset[str] = frozenset()
    """Long options without a value."""
    permutes: bool = False
    """Whether options are read wherever they stand, unless `--` comes before."""


@dataclass(frozen=True)
class Wrapper:
    """A program that runs another one: its options and some words, then the command."""

    valued: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    """All options without a value, short ones by their letters."""
    words: int = 0
    """How many words stand before the command."""


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHELL = Interpreter(
    valued=_options("-o +o -O +O --rcfile --init-file --emulate"),
    flags=_options("--norc --noprofile --posix --login --restricted --verbose --no-rcs --private --no-config"),
)
AWK = Interpreter(valued=_options("-F -v --field-separator --assign"), coded=_options("-f -e -i -E"))
LIKE_PERL = Interpreter(valued=_options("-I"), coded=_options("-e -E"))
SHELLS = _options(
    "sh bash rbash dash ash hush zsh rzsh ksh rksh mksh lksh oksh pdksh posh yash fish csh tcsh bosh osh ysh rc es nu "
    "elvish xonsh ion"
)
INTERPRETERS: dict[str, Interpreter] = {
    **dict.fromkeys(SHELLS, SHELL),
    **dict.fromkeys(["python", "pypy"], Interpreter(valued=_options("-W -X -Q"), last=_options("-c -m"))),
    **dict.fromkeys(["perl", "raku", "ruby", "lua", "luajit", "Rscript"], LIKE_PERL),
    **dict.fromkeys(
        ["node", "nodejs", "bun", "qjs"],
        Interpreter(valued=_options("-r --require --import -C"), coded=_options("-e --eval -p --print -pe")),
    ),
    "php": Interpreter(valued=_options("-c -d -z -S -t"), coded=_options("-r -f -B -R -F -E")),
    "tclsh": Interpreter(),
    "wish": Interpreter(),
    **dict.fromkeys(["awk", "gawk", "mawk", "nawk", "original-awk"], AWK),
    **dict.fromkeys(
        ["sed", "gsed"],
        Interpreter(coded=_options("-e -f --expression --file"), flags=_options("--quiet --silent"), permutes=True),
    ),
    **dict.fromkeys(["jq", "yq", "gojq", "jaq"], Interpreter(coded=_options("-f --from-file"), permutes=True)),
}
WRAPPERS: dict[str, Wrapper] = {
    "env": Wrapper(valued=_options("-u -C --unset --chdir"), flags=_options("- -i -0 --ignore-environment")),
    "nice": Wrapper(valued=_options("-n")),
    "ionice": Wrapper(valued=_options("-c -n"), flags=_options("-t")),
    "nohup": Wrapper(),
    "setsid": Wrapper(flags=_options("-c -f -w --fork --wait")),
    "stdbuf": Wrapper(valued=_options("-i -o -e")),
    "time": Wrapper(valued=_options("-o -f"), flags=_options("-p -v -a")),
    "timeout": Wrapper(
        valued=_options("-k -s --kill-after --signal"), flags=_options("--preserve-status --foreground -v"), words=1
    ),
    "chroot": Wrapper(words=1),
    "flock": Wrapper(valued=_options("-w -E"), flags=_options("-n -x -s -u -o"), words=1),
    "taskset": Wrapper(flags=_options("-c -a"), words=1),
    "chrt": Wrapper(flags=_options("-b -f -i -o -r"), words=1),
    "sudo": Wrapper(valued=_options("-u -g -h -p -C -D -R -T"), flags=_options("-E -n -H -k -b -A -P -S")),
    "doas": Wrapper(valued=_options("-u -C"), flags=_options("-n")),
    "xargs": Wrapper(valued=_options("-I -n -P -L -d -E -s -a"), flags=_options("-0 -r -t -x -o")),
    "strace": Wrapper(valued=_options("-e -o -p -s -u"), flags=_options("-f -ff -q -v -y -c")),
    "unshare": Wrapper(flags=_options("-m -u -i -n -p -U -C -r -f")),
    "systemd-run": Wrapper(flags=_options("--user --scope --wait --pipe --collect -q")),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "command": Wrapper(flags=_options("-p")),
    "exec": Wrapper(flags=_options("-c -l")),
}
ALL_CODE = _options(
    "ssh mosh watch su runuser script parallel eval osascript at batch expect gdb lldb vi vim nvim ex ed emacs pwsh "
    "powershell cmd sqlite psql mysql mariadb deno ts-node tsx ghci irb erl elixir iex scala groovy jshell bc dc m4 "
    "tmux screen socat docker podman kubectl nsenter runcon crontab"
)
"""Programs that read code, or what they hand to a shell, wherever it stands."""
RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


def name_of(word: str) -> str:
    """The program that a word names, without its folder, its version and its ending."""
    name = posixpath.basename(word.replace("\\", "/"))
    name = name[:-4] if name.lower().endswith(".exe") else name
    return VERSION.sub("", name) or name


def reads_as_code(command: Sequence[str], number: int, is_value: IsValue) -> str:
    """The program that may read the word of that number, a value of the input, as code or as an option of its own;
    empty if none does."""
    program = name_of(command[0])
    rest, place = command[1:], number - 1
    if program in ALL_CODE:
        return program
    if program in INTERPRETERS:
        return "" if _behind_code(INTERPRETERS[program], rest[:place], is_value) else program
    if program in WRAPPERS:
        begin = _command_begins(program, rest, is_value)
        if begin is None or begin >= place:
            return program
        return reads_as_code(rest[begin:], place - begin, is_value)
    return _in_passing(command, number, is_value)


def is_argument_of_code(command: Sequence[str], number: int, is_value: IsValue) -> bool:
    """Whether a word stands behind the code of an interpreter, which reads no options there."""
    for at in range(number):
        reads = INTERPRETERS.get(name_of(command[at]))
        if reads is not None and _behind_code(reads, command[at + 1 : number], is_value):
            return True
    return False


def _behind_code(reads: Interpreter, before: Sequence[str], is_value: IsValue) -> bool:
    """Whether what follows these words is an argument of the code, whatever it is."""
    has_code, ended, at = False, False, 0
    while at < len(before):
        word = before[at]
        at += 1
        option = None if ended or not word.startswith(("-", "+")) or word in ("-", "+") else _option(reads, word)
        if word == "--" and not ended:
            ended = True
        elif option is not None:
            if option not in ("valued", "coded", "last", "flag") or is_value(word):
                return False
            if option != "flag":
                if at < len(before) and is_value(before[at]):
                    return False
                at += 1
            has_code = has_code or option in ("coded", "last")
            ended = ended or option == "last"
        else:
            if not has_code and is_value(word):
                return False
            has_code, ended = True, ended or not reads.permutes
    return has_code and ended and at == len(before)


def _option(reads: Interpreter, word: str) -> str:
    """What an option is: with a value, with code, a flag; empty if it is not known."""
    for kind, words in (("valued", reads.valued), ("coded", reads.coded), ("last", reads.last), ("flag", reads.flags)):
        if word in words:
            return kind
    if word.startswith("--"):
        return ""
    if not CLUSTER.fullmatch(word):
        return "flag" if any(word[:2] in words for words in (reads.valued, reads.coded, reads.last)) else ""
    for place, letter in enumerate(word[1:], start=1):
        for kind, words in (("valued", reads.valued), ("coded", reads.coded), ("last", reads.last)):
            if word[0] + letter in words:
                attached = place + 1 < len(word)
                return kind if not attached else ("flag" if kind == "valued" else "")
    return "flag"


def _command_begins(program: str, rest: Sequence[str], is_value: IsValue) -> int | None:
    """Where the command begins that a program runs; None if that cannot be said."""
    reads, at, words = WRAPPERS[program], 0, 0
    while at < len(rest):
        word = rest[at]
        if is_value(word):
            return None
        if word == "--":
            at += 1
            return at + reads.words - words
        if word in reads.valued:
            at += 2
        elif word.startswith("-"):
            if word not in reads.flags and not _clustered(reads, word):
                return None
            at += 1
        elif program == "env" and ASSIGNMENT.match(word):
            at += 1
        elif words < reads.words:
            words, at = words + 1, at + 1
        else:
            return at
    return None


def _clustered(reads: Wrapper, word: str) -> bool:
    """Whether a word is nothing but short options without a value, or one with its value."""
    if word.startswith("--"):
        return word.partition("=")[0] in reads.valued and "=" in word
    return word[:2] in reads.valued or all(f"-{letter}" in reads.flags for letter in word[1:])


def _in_passing(command: Sequence[str], number: int, is_value: IsValue) -> str:
    """Interpreters that a program of its own kind is told to run: behind `-exec`, or by name and with code."""
    for at in range(1, number):
        word = command[at]
        if word in RUNS and at + 1 < number:
            return reads_as_code(command[at + 1 :], number - at - 1, is_value)
        if word in RUNS:
            return name_of(command[0])
        name = name_of(word)
        options = [each for each in command[at + 1 : number] if each.startswith("-")]
        coded = name in INTERPRETERS and any(_runs_code(name, each) for each in options)
        if coded and not _behind_code(INTERPRETERS[name], command[at + 1 : number], is_value):
            return name
    return ""


def _runs_code(name: str, option: str) -> bool:
    """Whether an option of an interpreter says that code follows."""
    reads = INTERPRETERS[name]
    if reads is SHELL:
        return not option.startswith("--") and "c" in option
    return _option(reads, option) in ("coded", "last")
