"""Commands whose words hold code: what such a command does is not said by its words as words.

A text with one of them is never exact: a rule about commands would speak of less than what runs.
"""

from __future__ import annotations

import itertools
import re
from posixpath import basename

BUILTINS = {
    "eval": "it uses eval",
    "source": "it runs another file in this shell",
    ".": "it runs another file in this shell",
    "alias": "it changes what names mean",
    "unalias": "it changes what names mean",
    "shopt": "it changes how the shell reads",
    "enable": "it changes what names mean",
    "hash": "it changes what names mean",
    "bind": "it binds commands to keys",
    "complete": "it registers commands",
    "compgen": "it may run commands",
    "compopt": "it registers commands",
    "trap": "it uses trap",
    "let": "it uses arithmetic",
    "declare": "it declares variables",
    "typeset": "it declares variables",
    "local": "it declares variables",
    "readonly": "it declares variables",
    "export": "it declares variables",
    "unset": "it unsets variables",
    "read": "it reads into variables",
    "mapfile": "it reads into variables",
    "readarray": "it reads into variables",
    "getopts": "it reads into variables",
    "fc": "it runs commands again",
    "history": "it runs commands again",
    "coproc": "it uses coproc",
    "select": "it uses select",
    "function": "it defines a function",
    "suspend": "it stops the shell",
}
"""Builtins of bash that evaluate their words, or change what later words mean."""
INLINE = {
    "python": ("-c",),
    "pypy": ("-c",),
    "perl": ("-e", "-E", "-n", "-p", "-i"),
    "ruby": ("-e", "-n", "-p"),
    "node": ("-e", "-p", "--eval", "--print", "-r", "--require", "--import"),
    "deno": ("eval",),
    "bun": ("-e", "--eval", "-p"),
    "php": ("-r", "-R", "-B", "-E"),
    "lua": ("-e",),
    "R": ("-e",),
    "Rscript": ("-e",),
    "julia": ("-e", "-E"),
    "ghc": ("-e",),
    "vim": ("-c", "+", "--cmd", "-S", "-s"),
    "vi": ("-c", "+", "--cmd", "-S", "-s"),
    "nvim": ("-c", "+", "--cmd", "-S", "-s"),
    "ex": ("",),
    "ed": ("",),
    "emacs": ("--eval", "-f", "--batch", "-l", "--load"),
    "gdb": ("-ex", "-x", "--eval"),
    "psql": ("-c", "--command"),
    "sqlite3": ("",),
    "mysql": ("-e",),
}
"""Programs whose options hold code of theirs. An empty option means that any word may."""
EXECUTING = {
    "rg": ("--pre", "--hostname-bin"),
    "tar": (
        *("--checkpoint-action", "--to-command", "--use-compress-program", "--rmt-command", "--rsh-command"),
        *("--info-script", "--new-volume-script", "-I", "-F"),
    ),
    "bsdtar": ("--use-compress-program",),
    "sort": ("--compress-program",),
    "split": ("--filter",),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "scp": ("-S", "-o", "-F"),
    "sftp": ("-S", "-o", "-F", "-b"),
    "git": (
        *("--config-env", "--exec-path", "--ext-diff", "--exec", "--extcmd", "--upload-pack"),
        *("--receive-pack", "--open-files-in-pager", "--textconv", "--template"),
    ),
    "man": ("-P", "--pager", "-H", "--html"),
    "less": ("+", "-k", "--lesskey"),
    "zip": ("-TT", "--unzip-command", "-T"),
    "make": ("--eval", "-f", "--file", "--makefile"),
    "gcc": ("-wrapper", "--wrapper", "-fplugin"),
    "tcpdump": ("-z",),
    "curl": ("-K", "--config"),
    "wget": ("--use-askpass", "--config", "-e", "--execute"),
    "ag": ("--pager",),
    "ack": ("--pager", "--pre"),
    "bat": ("--pager",),
    "delta": ("--pager",),
    "svn": ("--editor-cmd", "--diff-cmd", "--config-option"),
    "hg": ("--config",),
    "cpio": ("--rsh-command",),
    "dpkg": ("--pre-invoke", "--post-invoke"),
    "apt": ("-o", "--option"),
    "apt-get": ("-o", "--option"),
    "pip": ("--config-settings",),
    "npm": ("--script-shell", "--node-options"),
    "go": ("-exec", "-toolexec"),
    "cargo": ("--config",),
    "ld": ("--wrapper",),
    "date": ("-s", "--set"),
    "logrotate": ("",),
    "dialog": ("--prgbox", "--programbox"),
    "pg_dump": ("--",),
    "socat": ("",),
    "nc": ("-e", "-c", "--exec", "--sh-exec"),
    "ncat": ("-e", "-c", "--exec", "--sh-exec", "--lua-exec"),
}
"""Options by which a program runs another one."""
GIT_RUNNERS = (
    ("bisect", "run"),
    ("submodule", "foreach"),
    ("filter-branch",),
    ("difftool",),
    ("mergetool",),
    ("alias",),
)
GIT_PLAIN = frozenset(
    {
        *("--version", "-v", "--help", "-h", "--no-pager", "-P", "--paginate", "-p", "--no-replace-objects"),
        *("--no-optional-locks", "--literal-pathspecs", "--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs"),
    }
)
"""Options of git itself that leave it in the repository that it would work in without them."""
ELSEWHERE = "git obeys the settings of whatever repository it is led to"
AWKS = frozenset({"awk", "gawk", "mawk", "nawk", "original-awk"})
AWK_RUNS = re.compile(r"system|getline|[|>@]|^/inet")
"""What a program of awk runs commands or writes by, and names of files to which some of them connect."""
BRACKETS = r"\[\^?+\]?+(?:\[:\w+:\]|%s[^\\\n;\[\]])*\]"
"""Brackets in a pattern of sed without what ends the pattern: whether that ends it there as well, or is only one more
of the characters, is different from sed to sed."""
ADDRESS = r"/(?:[^/\\\n\[]|" + BRACKETS % "(?!/)" + r")*/"
SED_PLAIN = re.compile(
    rf"(?:(?:[0-9]+|\$|{ADDRESS})(?:,(?:\+?[0-9]+|\$|{ADDRESS}))?!?)?(?:[pdq=]|"
    r"s([/|#,:@])(?:(?!\1)[^\\\n;\[]|\\[^\n;]|" + BRACKETS % r"(?!\1)" + r")*\1"
    r"(?:(?!\1)[^\\\n;]|\\[^\n;])*\1[gpiI0-9]*)"
)
"""A script of sed that neither writes a file nor runs anything."""
VERSIONED = re.compile(r"[0-9.]+$")
NUMBER_TAKERS = frozenset({"echo", "printf", "exit", "return", ""})
"""Commands to which a number that only the shell knows makes no difference."""


def doubt_of(argv: tuple[str, ...]) -> str | None:
    """Why a command may do more than its words say."""
    if not argv:
        return None
    name = basename(argv[0])
    rest = argv[1:]
    if argv[0] in BUILTINS:
        return BUILTINS[argv[0]]
    if argv[0] in ("printf", "wait") and any(w.startswith(("-v", "-p")) for w in rest):
        return "it writes to a variable"
    if argv[0] == "printf" and any("%n" in w or "%(" in w for w in rest):
        return "it writes to a variable"
    if argv[0] in ("test", "[") and any(w in ("-v", "-R") for w in rest):
        return "it evaluates the name of a variable"
    if argv[0] == "set" and not all(w in SET_PLAIN for w in rest):
        return "it changes how the shell reads"
    if name in AWKS:
        return _awk(rest)
    if name in ("sed", "gsed"):
        return _sed(rest)
    if name == "git" and _git_runs(rest):
        return "git runs other commands"
    if name == "git" and any(word not in GIT_PLAIN for word in itertools.takewhile(_is_dashed, rest)):
        return ELSEWHERE
    if name == "tar" and rest and not rest[0].startswith("-"):
        rest = (f"-{rest[0]}", *rest[1:])
    return _by_option(name, rest)


SET_PLAIN = frozenset({"-e", "-u", "-eu", "-ue", "+e", "+u", "-o", "pipefail", "errexit", "nounset", "-euo", "-eo"})


def _is_dashed(word: str) -> bool:
    return word.startswith("-")


def _git_runs(words: tuple[str, ...]) -> bool:
    """Whether git is given configuration, or a form of it that runs what it is given."""
    command = next((at for at, word in enumerate(words) if not word.startswith("-")), len(words))
    if any(word.startswith("-c") for word in words[:command]):
        return True
    name, rest = words[command : command + 1], words[command:]
    if any(rest[at : at + len(run)] == run for run in GIT_RUNNERS for at in range(len(rest))):
        return True
    letters = {"clone": "cu", "rebase": "x", "grep": "O", "init": "c", "difftool": "x"}.get("".join(name), "")
    return any(_is_option(word, f"-{letter}") for word in rest for letter in letters)


def _by_option(name: str, rest: tuple[str, ...]) -> str | None:
    inline = INLINE.get(VERSIONED.sub("", name)) or INLINE.get(name)
    if inline is not None and _names(rest, inline):
        return f"{name} is given code"
    if name in EXECUTING and _names(rest, EXECUTING[name]):
        return f"an option of {name} runs a command"
    return None


def _names(words: tuple[str, ...], options: tuple[str, ...]) -> bool:
    """Whether one of the words is one of the options, also shortened, joined with others or with its value."""
    return any(_is_option(word, option) for word in words for option in options)


def _is_option(word: str, option: str) -> bool:
    if not option:
        return True
    if option.startswith("--"):
        key = word.split("=", 1)[0]
        return len(key) > 2 and key.startswith("--") and option.startswith(key)
    if len(option) == 2 and option.startswith("-"):
        return word.startswith("-") and not word.startswith("--") and option[1] in word[1:]
    return word.startswith(option)


def _awk(words: tuple[str, ...]) -> str | None:
    if any(w.startswith("-") and not w.startswith(("-F", "-v")) for w in words):
        return "an option of awk may run code"
    return "a program of awk may run commands or write files" if any(map(AWK_RUNS.search, words)) else None


def _sed(words: tuple[str, ...]) -> str | None:
    """Every word of sed that might be its script must be plain; names of files are no scripts."""
    scripts, rest = list[str](), list(words)
    while rest:
        word = rest.pop(0)
        if word in ("-e", "--expression"):
            scripts.append(rest.pop(0) if rest else "w")
        elif word in ("-n", "-E", "-r", "-s", "-i", "-u", "-ne", "-nE", "-nr", "-i.bak", "-z", "--quiet", "--silent"):
            if word.endswith("e"):
                scripts.append(rest.pop(0) if rest else "w")
        elif word.startswith("-"):
            return "an option of sed is not known"
        elif not scripts:
            scripts.append(word)
    pieces = [piece.strip() for script in scripts for piece in script.split(";")]
    plain = all(SED_PLAIN.fullmatch(piece) for piece in pieces if piece)
    return None if plain else "a script of sed may run commands or write files"
