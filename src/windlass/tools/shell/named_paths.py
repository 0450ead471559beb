"""The paths, addresses and hosts that a shell text names, and which of the paths it writes as far as its words say.

Only names: nothing is opened. What a program does beside what its words say is not known here; a sandbox holds it.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from urllib.parse import urlsplit

from windlass.events.values.blocks import Value

from .file_options import FETCHERS, GIVES_PATTERN, has_table, is_read, is_written, options_of
from .read_only.option_table import Parsed
from .shell_text import ShellText, SimpleCommand, listed

FOLDERS_MAX = 8
URL = re.compile(
    r"\b(?:https?|ftps?|sftp|ssh|git|rsync|wss?|file|scp|ldaps?|smb|s3|gs)(?:\+\w+)?://[^\s'\"<>|;]+", re.I
)
REMOTE = re.compile(r"(?:[\w.-]+@)?([A-Za-z0-9][A-Za-z0-9.-]*):(?!//)[^\s:]*")
"""`user@host:path`, as scp, rsync and git take it."""
ADDRESS = re.compile(
    r"(?:https?://)?(?:[\w.~%:-]+@)?(?!\d+(?::|/|$))[A-Za-z0-9][\w.-]*(?::\d+)?(?:/[^\s\\{}\[\]]*)?", re.I
)
"""An address that every program reads in the same way: one host, no lists of them."""
SOCKET = re.compile(r"^/dev/(?:tcp|udp)/([^/]+)/")
LOOKS = re.compile(r"[./~]|^[A-Za-z]:[\\/]")
EXTENSION = re.compile(r"[\w-]+\.[A-Za-z][\w-]{0,9}$")
OPERANDS = listed(
    "cat head tail wc nl tac less more ls stat file du cd pushd touch mkdir rmdir rm mv cp ln chmod chown chgrp "
    "tee truncate shred unlink install rsync readlink realpath diff cmp sort uniq md5sum sha1sum sha256sum "
    "sha512sum od xxd hexdump strings source . nano vim vi code tree basename dirname base64 fold paste cut rev comm "
    "expand column cksum sum b2sum"
)
"""Commands whose every operand is a path."""
NO_PATHS = frozenset({"echo", "printf", "true", "false", ":", "seq", "sleep", "exit", "set", "kill", "type", "which"})
"""Commands whose words are no paths."""
FIRST_IS_NONE = frozenset(
    {"grep", "egrep", "fgrep", "rg", "sed", "awk", "gawk", "mawk", "jq", "chmod", "chown", "chgrp", "ag"}
)
"""Commands whose first operand is a pattern, a script or an owner."""
WRITES_ALL = listed("rm rmdir touch mkdir tee truncate shred unlink chmod chown chgrp mv")
WRITES_LAST = frozenset({"cp", "ln", "install", "rsync", "scp"})
OUTPUTS = {
    "sort": ("-o", "--output"),
    "curl": ("-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar"),
    "wget": ("-O", "--output-document", "-o", "--output-file", "-P", "--directory-prefix"),
    "tree": ("-o",),
    **dict.fromkeys(("gcc", "cc", "g++", "clang", "rustc", "go", "ld"), ("-o",)),
    "git": ("--output",),
    "find": ("-fprint", "-fprint0", "-fprintf", "-fls"),
    "tar": ("-C", "--directory"),
    "unzip": ("-d",),
}
"""Options that name what is written."""
WALKS = frozenset({"ls", "du", "tree", "rg", "ag", "fd"})
"""Commands that take the folder itself if they are given none."""
GREPS = frozenset({"grep", "egrep", "fgrep"})
RECURSIVE = frozenset({"-r", "-R", "--recursive", "--dereference-recursive"})
EDITS = frozenset({"sed", "gsed", "perl"})
REMOTES = frozenset({"scp", "rsync", "git", "sftp"})
CALLS_HOST = frozenset(
    {"ssh", "ping", "nc", "ncat", "telnet", "nslookup", "dig", "host", "ftp", "sftp", "traceroute", "whois"}
)


class Named(Value, frozen=True, kw_only=True):
    """What a text names."""

    paths: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    doubt: str | None = None
    """Why a path may lead elsewhere than it says."""


def named(text: ShellText, folder: str | None) -> Named:
    """The paths of a text as whole paths from a folder, with its addresses and hosts."""
    return _Names(folder).of(text)


class _Names:
    """What has been found in one text so far, and where the shell may stand."""

    def __init__(self, folder: str | None) -> None:
        self._folders = [folder or ""]
        self._paths: dict[str, None] = {}
        self._writes: dict[str, None] = {}
        self._urls: dict[str, None] = {}
        self._hosts: dict[str, None] = {}
        self._doubt: str | None = None

    def of(self, text: ShellText) -> Named:
        self._move(text)
        for redirect in text.redirects:
            if redirect.duplicates or redirect.operator.startswith("<<"):
                continue
            socket = SOCKET.match(redirect.target.text)
            if socket:
                self._host(socket[1])
            else:
                self._path(redirect.target.text, writes=redirect.writes and not redirect.harmless)
        for command in text.commands:
            self._command(command)
        for url in URL.findall(text.text):
            self._url(url)
        return Named(
            paths=tuple(self._paths),
            writes=tuple(self._writes),
            urls=tuple(self._urls),
            hosts=tuple(self._hosts),
            doubt=self._doubt,
        )

    def _move(self, text: ShellText) -> None:
        """Every folder that the shell may stand in. Which of them a command stands in is not told apart: a path may
        be in any of them, and is listed in all."""
        for command in text.commands:
            if command.name in ("pushd", "popd") or (command.name == "cd" and len(command.words) != 2):
                self._doubt = self._doubt or "it goes to a folder that only the shell knows"
            elif command.name == "cd":
                target = command.words[1]
                if not target.literal or target.text.startswith(("-", "~")) or ".." in target.text.split("/"):
                    self._doubt = self._doubt or "it goes to a folder that only the shell knows"
                new = [posixpath.join(folder, target.text) for folder in self._folders]
                self._folders += [f for f in map(posixpath.normpath, new) if f not in self._folders]
                self._paths.update(dict.fromkeys(self._folders[1:]))
        if len(self._folders) > FOLDERS_MAX:
            self._doubt = self._doubt or "it goes to too many folders"
            del self._folders[FOLDERS_MAX:]

    def _path(self, name: str, *, writes: bool = False) -> None:
        if not name:
            return
        parts = name.split("/")
        upward = ".." in parts
        if upward and (len(self._folders) > 1 or ".." in parts[_leading(parts) :]):
            self._doubt = self._doubt or "a path goes up through a name that may be a link"
        if name.startswith("~"):
            self._doubt = self._doubt or "it uses the home folder"
            self._paths[name] = None
            return
        for folder in self._folders:
            whole = posixpath.normpath(posixpath.join(folder, name))
            whole = "/" + whole.lstrip("/") if whole.startswith("//") else whole
            self._paths[whole] = None
            if writes:
                self._writes[whole] = None

    def _command(self, command: SimpleCommand) -> None:
        for assignment in command.assignments:
            if LOOKS.search(assignment.value.text):
                self._path(assignment.value.text)
        if not command.words:
            return
        if "/" in command.name:
            self._path(command.name)
        name = posixpath.basename(command.name)
        if name in NO_PATHS or name == "cd":
            return
        operands = self._operands(name, command.argv[1:])
        given = self._options(name, command.argv[1:], operands)
        if name in FIRST_IS_NONE and GIVES_PATTERN.isdisjoint(given):
            operands = operands[1:]
        if name == "find":
            self._searched(command.argv[1:])
        elif not operands and (name in WALKS or (name in GREPS and not RECURSIVE.isdisjoint(given))):
            self._path(".")
        for place, word in enumerate(operands):
            if name in OPERANDS or name in FIRST_IS_NONE or _looks_like_path(word):
                self._path(word, writes=_writes(name, command.argv, place == len(operands) - 1))

    def _operands(self, name: str, words: tuple[str, ...]) -> list[str]:
        """The words that are no options; what an option holds is looked at here."""
        operands: list[str] = []
        self._outputs(name, words)
        ended, first = False, True
        for word in words:
            if word == "--" and not ended:
                ended = True
            elif word.startswith("-") and not ended and word != "-":
                self._value(word)
            elif self._remote(name, word, first=first) or URL.match(word) or word == "-":
                first = False
            elif "=" in word and name in ("dd", "make", "env", "sudo"):
                key, _, value = word.partition("=")
                self._path(value, writes=name == "dd" and key == "of")
            else:
                operands.append(word)
        return operands

    def _options(self, name: str, words: tuple[str, ...], operands: list[str]) -> set[str]:
        """The options of a command. Files that they name are taken; an unknown one may name anything."""
        if not has_table(name):
            return {word for word in words if word.startswith("-")}
        arguments = options_of(name, words)
        if arguments is None:
            self._doubt = self._doubt or f"an option of {name} may name another file or host"
            return {word for word in words if word.startswith("-")}
        for option, value in arguments.options:
            if is_written(name, option):
                self._path(value, writes=True)
                if name in WRITES_LAST or name == "mv":
                    for operand in operands:
                        self._path(posixpath.join(value, posixpath.basename(operand.rstrip("/"))), writes=True)
            elif is_read(name, option, value):
                self._path(value.removeprefix("@"))
        if name in FETCHERS:
            self._fetched(name, arguments)
        return {option for option, _ in arguments.options}

    def _fetched(self, name: str, arguments: Parsed) -> None:
        """Every operand is an address; one that programs may read in two ways is none that is known."""
        for word in arguments.operands:
            if ADDRESS.fullmatch(word) is None:
                self._doubt = self._doubt or f"{name} may take a word for another address"
            else:
                self._url(word if "://" in word else f"http://{word}")
        if name == "wget" and not any(is_written(name, option) for option, _ in arguments.options):
            self._path(".", writes=True)

    def _searched(self, words: tuple[str, ...]) -> None:
        """Where find begins: every word before its first test."""
        rest = list(itertools.dropwhile(lambda word: word in ("-L", "-H", "-P"), words))
        places = list(itertools.takewhile(lambda word: not word.startswith(("-", "(", "!")), rest))
        for place in places or ["."]:
            self._path(place, writes="-delete" in rest)

    def _value(self, option: str) -> None:
        value = option.partition("=")[2] if "=" in option else option[2:] if not option.startswith("--") else ""
        if value and _looks_like_path(value) and "/" in value + option:
            self._path(value)

    def _outputs(self, name: str, words: tuple[str, ...]) -> None:
        """The files that options name to be written."""
        for option in OUTPUTS.get(name, ()):
            for at, word in enumerate(words):
                if word == option and at + 1 < len(words):
                    self._path(words[at + 1], writes=True)
                elif word.startswith(f"{option}=" if option.startswith("--") else option) and word != option:
                    self._path(word.removeprefix(option).removeprefix("="), writes=True)

    def _remote(self, name: str, word: str, *, first: bool) -> bool:
        remote = REMOTE.fullmatch(word) if name in REMOTES and not word.startswith(("/", "./")) else None
        if remote:
            self._host(remote[1])
        elif name in CALLS_HOST:
            if first or name not in ("ssh", "sftp"):
                self._host(word.rpartition("@")[2].partition(":")[0])
            return True
        elif name in FETCHERS:
            return True
        return remote is not None

    def _url(self, url: str) -> None:
        self._urls[url] = None
        try:
            host = urlsplit(url).hostname
        except ValueError:
            host = None
        if host:
            self._host(host)
        elif not url.startswith("file:"):
            self._doubt = self._doubt or "an address names no host"

    def _host(self, name: str) -> None:
        if not name or name.isdecimal():
            return
        self._hosts[name.strip("[]").rstrip(".").lower()] = None


def _leading(parts: list[str]) -> int:
    """How many parts at the front are `..` or nothing."""
    return next((at for at, part in enumerate(parts) if part not in ("..", ".", "")), len(parts))


def _looks_like_path(word: str) -> bool:
    return (
        bool(word)
        and "\n" not in word
        and ("/" in word or word.startswith((".", "~")) or EXTENSION.match(word) is not None)
    )


def _writes(name: str, argv: tuple[str, ...], last: bool) -> bool:
    if name in WRITES_ALL:
        return True
    if name == "uniq":
        return last and sum(not word.startswith("-") for word in argv) > 2
    if name in WRITES_LAST:
        return last or any(w.startswith(("-t", "--target")) for w in argv)
    return name in EDITS and any(w.startswith(("-i", "--in-place")) or re.match(r"-[a-zA-Z]*i", w) for w in argv)
