"""What a call of the shell tool is about: its commands, paths and hosts, and whether that is all of it."""

from __future__ import annotations

import posixpath
import shlex

import msgspec

from windlass.events.tools.permissions import ShellCommand, ShellDetail
from windlass.events.user_folders import expanded
from windlass.events.values.access import Access
from windlass.events.values.blocks import JsonObject
from windlass.tools.description import LISTED_MAX, CallPlace, Description
from windlass.tools.files.exclusion import exclusion_of
from windlass.tools.link_targets import with_targets

from .command_lines import line_of, lines_of
from .hidden_code import ELSEWHERE
from .named_paths import Named, named
from .parse import calls_git, parse
from .read_only.git_forms import QUIET_ENVIRONMENT, READING_ENVIRONMENT
from .read_only.git_settings import names_programs
from .read_only.judgement import command_reads, is_known_to_read, only_reads
from .shell_text import TEXT_CHARS_MAX, ShellText
from .warnings_shown import warning_of

NAME_SHOWN_MAX = 200
ANY_NAME = "-"
"""Stands for what lies in a folder: a command that names a folder may show all of it."""


def shell_description(args: JsonObject, place: CallPlace) -> Description:
    """Describes a call by its arguments `command` and, if given, `intention` (or `description`), `cwd`, `background`.

    `commands` are the lines of `lines_of`: a rule that allows must fit each of them, a rule that denies any of them.
    Nothing stands for a text with more than one line, so that no pattern for one command lets two of them pass; and
    nothing for one that runs in another folder or in the background, since a line says neither.
    """
    return _description(parse(str(args.get("command", ""))), args, place)


def program_description(args: JsonObject, place: CallPlace) -> Description:
    """Describes a program that is started without a shell, by its argument `argv`. A name with a `=` in it would be an
    assignment to a shell, so that nothing is said of such a call but its words."""
    argv = tuple(map(str, args.get("argv", ())))
    text = parse(shlex.join(argv))
    if text.exact and (len(text.commands) == 0 or text.commands[0].argv != argv):
        text = msgspec.structs.replace(text, exact=False, unclear="its name is not one of a program")
    return _description(text, args, place)


def environment_of(text: str, cwd: str = ".") -> dict[str, str]:
    """What a text is run with: one that only reads gets an environment in which git runs nothing that a repository
    names. The judgement that it only reads holds with this and not without it."""
    reads = only_reads(parse(text), moved=cwd != ".")
    return dict(READING_ENVIRONMENT if reads else QUIET_ENVIRONMENT)


def _description(text: ShellText, args: JsonObject, place: CallPlace) -> Description:
    cwd = str(args.get("cwd") or ".")
    names = _with_targets(named(text, posixpath.normpath(posixpath.join(place.folder or "", cwd))), place)
    lines = lines_of(text)
    if cwd != "." and calls_git(text.commands):
        names = msgspec.structs.replace(names, doubt=names.doubt or ELSEWHERE)
    exact = text.exact and names.doubt is None
    unclear = None if text.readable else text.unclear
    if any(len(listed) > LISTED_MAX for listed in (lines, names.paths, names.writes, names.hosts)):
        unclear = unclear or f"it names more than {LISTED_MAX} commands, paths or hosts"
        exact = False
    asks = _asks(args, place)
    known = exact and unclear is None and asks == Access()
    reads = known and only_reads(text, moved=cwd != ".") and _git_reads(text, place)
    return Description(
        subject=_subject(text, lines, names) if exact and cwd == "." and not _background(args) else "",
        asks=asks,
        excluded=_excluded(names, place),
        detail=_detail(args, text, names, exact=exact),
        paths=_listed(asks.writable, asks.readable, names.paths),
        writes=_listed(asks.writable, names.writes),
        hosts=_listed(tuple(map(_bare_host, asks.hosts)), names.hosts),
        commands=_by_name_first(lines)[:LISTED_MAX],
        traits=("read",) if reads else None,
        exact=exact,
        unclear=unclear,
    )


def _with_targets(names: Named, place: CallPlace) -> Named:
    """The same with where the links of the folder lead. A file is written there as well; a link that is made, moved or
    removed is written by its own name, so that this may say too much."""
    paths, writes = with_targets(names.paths, place.folder), with_targets(names.writes, place.folder)
    return msgspec.structs.replace(names, paths=paths, writes=writes)


def _asks(args: JsonObject, place: CallPlace) -> Access:
    """What a call asks for in so many words, with whole paths."""

    def whole(name: str) -> tuple[str, ...]:
        paths = (expanded(str(path)) for path in args.get(name) or ())
        return tuple(posixpath.normpath(posixpath.join(place.folder or "/", path)) for path in paths)

    hosts = tuple(str(host).lower() for host in args.get("reach_hosts") or ())
    return Access(writable=whole("write_paths"), readable=whole("read_paths"), hosts=hosts)


def _bare_host(host: str) -> str:
    """A host without its port."""
    name, _, port = host.rpartition(":")
    return name.strip("[]") if name and port.isdigit() else host.strip("[]")


def _listed(*names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of several lists, each once; too many of them have been said to be unclear before."""
    return tuple(dict.fromkeys(name for some in names for name in some))[:LISTED_MAX]


def _background(args: JsonObject) -> str:
    """How a command is to go on in the background; empty if it is waited for."""
    given = args.get("background")
    return "" if not given else "background" if given is True else str(given)


def _git_reads(text: ShellText, place: CallPlace) -> bool:
    """Whether git runs nothing but itself, if it is called."""
    return all(command.name != "git" for command in text.commands) or not names_programs(place.folder)


def _excluded(names: Named, place: CallPlace) -> str | None:
    """Why no model may see what a named path holds."""
    exclusion = exclusion_of(place.exclude)
    if exclusion is None or place.folder is None:
        return None
    named_paths = [path for path in names.paths[:LISTED_MAX] if path.startswith("/")]
    folders = [f"{path}/{ANY_NAME}" for path in named_paths]
    patterns = (exclusion.covering(path, place.folder) for path in (*named_paths, *folders))
    pattern = next((candidate for candidate in patterns if candidate is not None), None)
    return None if pattern is None else f"the policy excludes {pattern!r}: no model may see what is there"


def _subject(text: ShellText, lines: tuple[str, ...], names: Named) -> str:
    """The one line of a text that is one simple command and nothing else. None stands for one that writes though others
    of its name only read: whoever agreed to `git log *` did not mean `git log --output=FILE`."""
    if len(lines) != 1 or len(text.commands) != 1 or text.heredocs:
        return ""
    return "" if names.writes and is_known_to_read(text.commands[0].name) else lines[0]


def _by_name_first(lines: tuple[str, ...]) -> tuple[str, ...]:
    """If there are too many, one line for each name comes first: a denial by name still sees it."""
    if len(lines) <= LISTED_MAX:
        return lines
    first = dict[str, str]()
    for line in lines:
        first.setdefault(line.split(" ", 1)[0], line)
    return tuple(dict.fromkeys((*first.values(), *lines)))


def _detail(args: JsonObject, text: ShellText, names: Named, *, exact: bool) -> ShellDetail:
    shown = tuple(
        ShellCommand(
            identifier=command.name[:NAME_SHOWN_MAX] or line_of(command)[:NAME_SHOWN_MAX],
            read_only=command_reads(command),
        )
        for command in text.commands[:LISTED_MAX]
    )
    doubt = f"may do more than is listed: {names.doubt}" if text.exact and names.doubt else None
    said = "; ".join(part for part in (doubt, warning_of(text)) if part)
    return ShellDetail(
        command=text.text[:TEXT_CHARS_MAX],
        cwd=str(args.get("cwd") or "."),
        background=_background(args),
        intention=str(args.get("intention") or args.get("description") or ""),
        commands=shown,
        paths=names.paths[:LISTED_MAX],
        urls=names.urls[:LISTED_MAX],
        writes_by_redirect=any(r.writes and not r.harmless for r in text.redirects),
        session_approval_offered=exact,
        warning=said or None,
    )
