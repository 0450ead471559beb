"""Whether a command only reads. Everything that is not known to is not."""

from __future__ import annotations

from collections.abc import Callable

from windlass.tools.shell.hidden_code import AWKS, doubt_of
from windlass.tools.shell.shell_text import NETWORK, Redirect, ShellText, SimpleCommand
from windlass.tools.shell.wrapped import wrapped

from .forms import ANYTHING, CHECKS, FORMS, VERSIONS
from .git_forms import git_reads
from .option_table import Words, parsed
from .scripts import awk_reads, find_reads, sed_reads

SCRIPTS: dict[str, Callable[[Words], bool]] = {
    "find": find_reads,
    "sed": sed_reads,
    **dict.fromkeys(AWKS, awk_reads),
}
PLAIN_VARIABLES = frozenset({"LC_ALL", "LANG", "LC_CTYPE", "LC_COLLATE", "TZ", "COLUMNS", "NO_COLOR", "LINES"})
"""Variables that may stand before a command that only reads."""

TRANSPARENT = frozenset({"time", "timeout", "nice"})
"""Commands that change nothing but when and how fast another one runs."""
DEVICES = frozenset({"/dev/null", "/dev/zero", "/dev/stdin", "/dev/urandom", "/dev/random", "/dev/full"})


def only_reads(text: ShellText, *, moved: bool = False) -> bool:
    """Whether a whole text changes nothing: it is exact, and every command and redirection only reads. `moved` says
    that it runs elsewhere than in the session's own folder."""
    moved = moved or any(command.name in ("cd", "pushd", "popd") for command in text.commands)
    return (
        text.exact
        and not text.background
        and bool(text.commands)
        and all(command_reads(command, moved=moved) for command in text.commands)
        and all(map(_redirect_reads, text.redirects))
    )


def command_reads(command: SimpleCommand, *, moved: bool = False) -> bool:
    """Whether one simple command changes nothing, as far as its own words say. After `cd` git does not."""
    if not command.words or not command.literal:
        return False
    if any(a.name not in PLAIN_VARIABLES for a in command.assignments):
        return False
    name, words = command.name, command.argv[1:]
    if doubt_of(command.argv) is not None:
        return False
    if words == ("--version",) and name in VERSIONS:
        return True
    if any(map(_is_device, words)):
        return False
    if name in TRANSPARENT or argv_is_text(command.argv):
        return _passes_on(command.argv)
    if name == "git":
        return not moved and git_reads(words)
    if name in SCRIPTS:
        return SCRIPTS[name](words)
    return _form_reads(name, words)


def is_known_to_read(name: str) -> bool:
    """Whether a command has forms in which it only reads."""
    return name == "git" or name in SCRIPTS or name in FORMS


def argv_is_text(argv: Words) -> bool:
    """Whether a shell is given a text and nothing else: the commands of the text are judged by themselves."""
    return len(argv) == 3 and argv[0] in ("bash", "sh") and argv[1] == "-c"


def _passes_on(argv: Words) -> bool:
    """Whether a command only runs another one, which is judged by itself."""
    payload = wrapped(argv)
    if payload.doubt is not None or not (payload.commands or payload.texts):
        return False
    return argv[0] != "time" or set(argv[1 : len(argv) - len(payload.commands[0])]) <= {"-p"}


def _is_device(word: str) -> bool:
    """Whether a word names a device: to open one may be to do something."""
    return "/dev/" in word and word not in DEVICES


def _form_reads(name: str, words: Words) -> bool:
    forms = FORMS.get(name)
    if forms is None:
        return False
    if name in ANYTHING:
        return True
    arguments = parsed(words, forms)
    return arguments is not None and (name not in CHECKS or CHECKS[name](arguments))


def _redirect_reads(redirect: Redirect) -> bool:
    if not redirect.target.literal or any(part in redirect.target.text for part in NETWORK):
        return False
    if redirect.writes:
        return redirect.harmless
    return not _is_device(redirect.target.text)
