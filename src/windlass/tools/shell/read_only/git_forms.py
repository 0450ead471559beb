"""The forms of git that only read.

What a repository's own `.git/config` names (a file system monitor, filters, drivers for differences) is run by reading
forms as well: that file belongs to whoever made the repository. So git only reads in the session's own folder, never
after `cd` or with `-C`, only if `git_settings` finds nothing in that file, and a text that only reads is run with an
environment that turns off what can be turned off.
"""

from __future__ import annotations

import re

from .option_table import Forms, Words, parsed

SHOWN = (
    "oneline stat numstat shortstat name-only name-status summary no-color color patch no-patch graph decorate "
    "no-decorate all abbrev-commit no-merges merges first-parent reverse follow full-history no-renames find- "
    "renames no-ext-diff no-textconv cached staged ignore-all-space ignore-space-change word-diff minimal "
    "patience histogram raw check exit-code quiet unified abbrev date relative-date topo-order date-order left- "
    "right cherry-pick no-prefix pretty format max-count skip since until after before author grep committer "
    "dirstat compact-summary"
)
LOG = Forms(flags="psuqrtzwbiEFPacmM1234567890", values="nSGL", long=SHOWN, long_values="diff-filter", numeric=True)
DIFF = Forms(flags="pusqrzwbaRM", values="SG", long=SHOWN, long_values="diff-filter")
GIT: dict[str, Forms] = {
    "status": Forms(
        flags="sbuvz", long="short branch porcelain long show-stash untracked-files ignored no-renames ahead-behind"
    ),
    "log": LOG,
    "shortlog": Forms(flags="sne", long="summary numbered email no-merges all"),
    "show": LOG,
    "diff": DIFF,
    "diff-tree": DIFF,
    "rev-parse": Forms(
        flags="q",
        long="abbrev-ref show-toplevel verify short is-inside-work-tree git-dir show-prefix show-cdup symbolic- "
        "full-name is-bare-repository all branches tags remotes quiet",
    ),
    "rev-list": Forms(
        flags="n", long="count all max-count no-merges first-parent since until left-right reverse", numeric=True
    ),
    "ls-files": Forms(
        flags="cdmoiskutvz",
        values="x",
        long="cached deleted modified others ignored stage exclude-standard full-name unmerged",
    ),
    "ls-tree": Forms(flags="drtlz", long="name-only name-status full-name full-tree long"),
    "cat-file": Forms(flags="tsep"),
    "blame": Forms(
        flags="lswetfnpbM", values="L", long="porcelain line-porcelain show-email show-name date", operands_max=3
    ),
    "grep": Forms(
        flags="niIlLvwchHEFGPqaoW",
        values="eABCmf",
        long="line-number ignore-case name-only files-with-matches count word-regexp cached heading break "
        "untracked fixed-strings extended-regexp perl-regexp and or not all-match no-color color",
        long_values="max-depth",
    ),
    "branch": Forms(
        flags="arv",
        long="list all remotes verbose show-current no-color color merged no-merged contains no-contains format "
        "sort ignore-case column no-column",
    ),
    "tag": Forms(flags="l", values="", long="list sort format contains merged no-merged points-at column no-column"),
    "remote": Forms(flags="v", long="verbose"),
    "stash": Forms(),
    "describe": Forms(long="tags all always long abbrev dirty first-parent exact-match match"),
    "show-ref": Forms(flags="hdsq", long="head heads tags hash verify dereference quiet"),
    "merge-base": Forms(flags="a", long="all is-ancestor fork-point octopus"),
    "name-rev": Forms(long="name-only tags always"),
    "for-each-ref": Forms(long="format sort count merged no-merged contains points-at"),
    "count-objects": Forms(flags="vH", long="verbose human-readable"),
    "check-ignore": Forms(flags="qvnz", long="quiet verbose no-index"),
    "reflog": Forms(),
    "version": Forms(operands_max=0),
}
CONTEXT = re.compile(r"-U[0-9]+")
"""How many lines are shown around a change. Alone, `-U` takes no value, and what follows is an option."""
BEFORE = frozenset({"--no-pager", "--no-optional-locks", "-P", "--literal-pathspecs", "--no-replace-objects"})
"""Options of git itself that change nothing."""


def git_reads(words: Words) -> bool:
    """Whether a call of git only reads."""
    rest = words
    while rest and rest[0] in BEFORE:
        rest = rest[1:]
    if not rest or rest[0] not in GIT:
        return False
    command, given = rest[0], rest[1:]
    arguments = parsed(tuple(word for word in given if not CONTEXT.fullmatch(word)), GIT[command])
    if arguments is None or any("%G" in value for _, value in arguments.options):
        return False  # %G… in a format runs a program that verifies signatures
    match command:
        case "branch":
            listing = any(name in ("--list",) for name, _ in arguments.options)
            return listing or not arguments.operands
        case "tag":
            listing = any(name in ("-l", "--list") for name, _ in arguments.options)
            return listing or not arguments.operands
        case "remote":
            return not arguments.operands or arguments.operands[0] == "get-url"
        case "stash":
            return arguments.operands in (("list",), ("show",))
        case "reflog":
            return not arguments.operands or arguments.operands[0] == "show"
    return True


PLAIN_PROGRAMS = {
    "core.sshCommand": "ssh",
    "gpg.program": "gpg",
    "gpg.ssh.program": "ssh-keygen",
    "gpg.x509.program": "gpgsm",
}
"""What git runs to reach and to sign if nobody names anything else. A text that only reads runs none of them."""
TURNED_OFF = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.sshCommand": "false",
    "format.pretty": "medium",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "log.showSignature": "false",
    "safe.bareRepository": "explicit",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}
"""What a repository could name to be run when it is only read, and the bare repositories that anybody could write
into a folder without a `.git`."""


def settings_given(settings: dict[str, str]) -> dict[str, str]:
    """Settings of git as an environment: they hold before all that a repository says."""
    return {
        "GIT_CONFIG_COUNT": str(len(settings)),
        **{f"GIT_CONFIG_KEY_{at}": name for at, name in enumerate(settings)},
        **{f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(settings.values())},
    }


QUIET_ENVIRONMENT = {
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    **settings_given({**TURNED_OFF, **PLAIN_PROGRAMS}),
}
"""What every command gets: nothing waits for a key, and git runs no program that a repository names for what every
form of it does."""
READING_ENVIRONMENT = {
    **QUIET_ENVIRONMENT,
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    **settings_given(TURNED_OFF),
}
"""What a text that only reads is run with: it holds because of this. Nothing is fetched, by no protocol."""
