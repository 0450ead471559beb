"""Find, sed, awk and git: commands whose words are small languages, and the sentences of them that only read."""

from __future__ import annotations

import re

from windlass.tools.shell.hidden_code import AWK_RUNS, SED_PLAIN
from windlass.tools.shell.shell_text import listed

from .option_table import Forms, Words, parsed

FIND_TESTS = listed(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -size -mtime -atime -ctime "
    "-mmin -amin -cmin -newer -anewer -cnewer -maxdepth -mindepth -perm -user -group -uid -gid -links -inum "
    "-samefile -lname -ilname -fstype -regextype -newermt -printf"
)
"""Words of find that take one word."""
FIND_FLAGS = listed(
    "-print -print0 -ls -prune -depth -d -mount -xdev -empty -readable -writable -executable -true -false -not -a "
    "-and -o -or -follow -noleaf -nouser -nogroup -daystart -quit -L -H -P ! ( ) ,"
)
AWK_PLAIN = re.compile(r"[\w\s${}()/,;:.\"'+*%=!<~?^\[\]\\#&-]*")
AWK_FORMS = Forms(values="Fv")


def find_reads(words: Words) -> bool:
    """A search that prints names. Everything that is not listed may delete, run or write."""
    rest, tests = list(words), False
    while rest:
        word = rest.pop(0)
        if word in FIND_TESTS:
            tests = True
            if not rest:
                return False
            rest.pop(0)
        elif word in FIND_FLAGS:
            tests = tests or word not in ("-L", "-H", "-P")
        elif word.startswith("-") or tests:
            return False
    return True


def sed_reads(words: Words) -> bool:
    """A script that prints, deletes lines from what it prints, or substitutes in it, without in-place editing."""
    arguments = parsed(words, Forms(flags="nErsuz", values="e", long="quiet silent regexp-extended posix"))
    if arguments is None:
        return False
    scripts = [value for name, value in arguments.options if name == "-e"] or list(arguments.operands[:1])
    pieces = [piece.strip() for script in scripts for piece in re.split(r"[;\n]", script)]
    return bool(scripts) and all(SED_PLAIN.fullmatch(piece) for piece in pieces if piece)


def awk_reads(words: Words) -> bool:
    """A program without pipes, redirections, system() and getline."""
    arguments = parsed(words, AWK_FORMS)
    if arguments is None or not arguments.operands:
        return False
    program = arguments.operands[0]
    dangerous = AWK_RUNS.search(program) or "ARGV" in program or "close" in program
    return not dangerous and AWK_PLAIN.fullmatch(program) is not None
