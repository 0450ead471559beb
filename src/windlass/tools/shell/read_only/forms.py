"""The commands that can only read, and the forms in which they do.

No command only reads by its name. Each line was written with the question what somebody could do with the options that
it leaves out: `sort -o`, `uniq IN OUT`, `tree -o`, `date -s`, `hostname NAME`, `file -C`, `rg --pre`. A program that
reads its options in a way of its own (`xxd -ps`, `tree -Lo 1 OUT`) is not here, or only with options that stand apart.
"""

from __future__ import annotations

import re

from windlass.tools.shell.shell_text import listed

from .option_table import Check, Forms, Parsed

FORMS: dict[str, Forms] = {
    "ls": Forms(
        flags="aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
        values="IwT",
        long="all almost-all author escape directory classify color human-readable si inode full-time group- "
        "directories-first no-group numeric-uid-gid literal recursive reverse size sort time time-style "
        "dereference indicator-style file-type width hide ignore format",
    ),
    "cat": Forms(flags="AbeEnstTuv", long="show-all number-nonblank show-ends number squeeze-blank show-tabs"),
    "tac": Forms(flags="br", values="s"),
    "rev": Forms(),
    "nl": Forms(values="bdfhilnsvw", flags="p"),
    "head": Forms(flags="qvz", values="nc", long="quiet silent verbose", long_values="lines bytes", numeric=True),
    "tail": Forms(flags="qvz", values="ncs", long="quiet silent verbose", long_values="lines bytes", numeric=True),
    "wc": Forms(flags="clmLw", long="bytes chars lines words max-line-length"),
    "cut": Forms(flags="snz", values="bcdf", long="complement only-delimited", long_values="delimiter fields"),
    "tr": Forms(flags="cCdst", long="delete squeeze-repeats complement", operands_max=2),
    "uniq": Forms(flags="cdDiuz", values="fsw", long="count repeated unique ignore-case", operands_max=1),
    "sort": Forms(
        flags="bcCdfghiMnRrsuVz",
        values="kt",
        long="numeric-sort reverse unique human-numeric-sort version-sort ignore-case check stable",
        long_values="key field-separator",
    ),
    "comm": Forms(flags="123z", operands_max=2),
    "paste": Forms(flags="sz", values="d"),
    "fold": Forms(flags="bs", values="w"),
    "expand": Forms(flags="i", values="t"),
    "diff": Forms(
        flags="abBcdeEfHinNpqrsStuwyTZ",
        values="UCxW",
        long="brief unified context ignore-all-space ignore-blank-lines recursive new-file side-by-side suppress- "
        "common-lines color ignore-case text",
        long_values="exclude width label",
        operands_max=2,
    ),
    "cmp": Forms(flags="bls", values="n", operands_max=2),
    "stat": Forms(flags="Lft", values="c", long="dereference terse", long_values="format printf"),
    "file": Forms(flags="bhikLnN", long="brief mime mime-type mime-encoding dereference"),
    "du": Forms(
        flags="abcDhHklLmsSx0",
        values="dB",
        long="all apparent-size bytes total human-readable summarize si",
        long_values="max-depth exclude block-size threshold",
    ),
    "df": Forms(flags="ahHiklPT", values="Bt", long="human-readable inodes local portability print-type total"),
    "pwd": Forms(flags="LP", operands_max=0),
    "basename": Forms(flags="az", values="s"),
    "dirname": Forms(flags="z"),
    "realpath": Forms(
        flags="eLmPqsz", long="canonicalize-existing no-symlinks", long_values="relative-to relative-base"
    ),
    "readlink": Forms(flags="efmnqsvz", long="canonicalize"),
    "echo": Forms(),
    "printf": Forms(),
    "true": Forms(),
    "false": Forms(),
    ":": Forms(),
    "test": Forms(),
    "[": Forms(),
    "date": Forms(
        flags="uR", values="d", long="utc universal rfc-email iso-8601", long_values="date rfc-3339 reference"
    ),
    "id": Forms(flags="ugGnrz"),
    "whoami": Forms(operands_max=0),
    "groups": Forms(operands_max=1),
    "uname": Forms(flags="asnrvmpio", operands_max=0),
    "hostname": Forms(operands_max=0),
    "arch": Forms(operands_max=0),
    "nproc": Forms(long="all", operands_max=0),
    "uptime": Forms(flags="ps", operands_max=0),
    "free": Forms(flags="bkmghtw", operands_max=0),
    "tty": Forms(flags="s", operands_max=0),
    "ps": Forms(flags="AaCdeFfHjlLMNTtuvwxyZ", values="opU"),
    "which": Forms(flags="a"),
    "type": Forms(flags="afptP"),
    "command": Forms(flags="vV"),
    "cd": Forms(flags="LPe", operands_max=1),
    "set": Forms(flags="eu", values="o", operands_max=0),
    "exit": Forms(operands_max=1),
    "sleep": Forms(operands_max=1),
    "seq": Forms(flags="w", values="sf", long="equal-width"),
    "md5sum": Forms(flags="bct", long="check tag quiet status"),
    "sha1sum": Forms(flags="bct", long="check tag quiet status"),
    "sha256sum": Forms(flags="bct", long="check tag quiet status"),
    "sha512sum": Forms(flags="bct", long="check tag quiet status"),
    "b2sum": Forms(flags="bct", long="check tag quiet status"),
    "cksum": Forms(),
    "sum": Forms(flags="rs"),
    "od": Forms(flags="abcdfiloOsvxX", values="AjNtw"),
    "hexdump": Forms(flags="bcCdovx", values="ns"),
    "strings": Forms(flags="af", values="nte"),
    "base64": Forms(flags="di", values="w", long="decode", operands_max=1),
    "tree": Forms(flags="adfhilpsugDFCnNqvtrxS", values="LPI", long="dirsfirst noreport du gitignore", apart=True),
    "column": Forms(flags="tnx", values="sco"),
    "jq": Forms(
        flags="rcensSMCaj",
        long="raw-output compact-output exit-status null-input slurp sort-keys tab join-output raw-input",
        long_values="indent",
    ),
    "grep": Forms(
        flags="abcEFGhHiIlLnoPqrRsTUvVwxyZz",
        values="ABCefmdD",
        long="extended-regexp fixed-strings perl-regexp ignore-case invert-match word-regexp line-regexp count "
        "color files-with-matches files-without-match only-matching quiet silent no-messages byte-offset "
        "with-filename no-filename line-number recursive dereference-recursive text null null-data",
        long_values="after-context before-context context max-count include exclude exclude-dir regexp file "
        "binary-files",
    ),
    "rg": Forms(
        flags="aciFHhIlLnNopPqsSuUvVwx0",
        values="ABCefgmMtTjdrE",
        long="files count count-matches files-with-matches files-without-match fixed-strings hidden ignore-case "
        "invert-match line-number no-line-number no-heading heading no-ignore no-ignore-vcs only-matching "
        "pcre2 quiet smart-case case-sensitive text unrestricted with-filename no-filename word-regexp line- "
        "regexp multiline json stats null vimgrep trim sort sortr color no-config no-messages follow type- "
        "list",
        long_values="after-context before-context context max-count glob iglob type type-not regexp max-depth replace "
        "max-filesize max-columns threads encoding",
    ),
}
for _alias in ("egrep", "fgrep"):
    FORMS[_alias] = FORMS["grep"]

VERSIONS = listed("python python3 perl gcc tar sed awk grep bash make cmake git rg jq curl ls find sort")
"""Programs that say their version, and do nothing else, when the only word is --version. Those that
look for another program of their name in the folder first (cargo, node) are not among them."""
CONVERSIONS = re.compile(r"%[-+ #0]*[0-9]*(?:\.[0-9]+)?[sdiouxXcbqfeEgG%]")
DURATION = re.compile(r"[0-9]+(?:\.[0-9]+)?[smh]?")


def _printf(arguments: Parsed) -> bool:
    """A format with nothing in it that could assign to a variable."""
    if not arguments.operands:
        return False
    return "%" not in CONVERSIONS.sub("", arguments.operands[0])


def _date(arguments: Parsed) -> bool:
    """An operand of date sets the clock unless it is a format."""
    return all(word.startswith("+") for word in arguments.operands)


def _sleep(arguments: Parsed) -> bool:
    return bool(arguments.operands) and DURATION.fullmatch(arguments.operands[0]) is not None


def _command(arguments: Parsed) -> bool:
    """Only `command -v NAME` asks; everything else runs."""
    return bool(arguments.options)


def _set(arguments: Parsed) -> bool:
    return all(name != "-o" or value in ("pipefail", "errexit", "nounset") for name, value in arguments.options)


CHECKS: dict[str, Check] = {
    "printf": _printf,
    "date": _date,
    "sleep": _sleep,
    "command": _command,
    "set": _set,
}
ANYTHING = frozenset({"echo", "test", "[", "true", "false", ":"})
"""Commands that take every word as a text. The dangerous ones of test were told apart as hidden code."""
