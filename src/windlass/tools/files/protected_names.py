"""Names that tools may not write, or only if a person says so for that very call: what decides what an agent may do,
and what other programs run or obey of their own accord. Data, in one place, for the file tools and for sandboxes.

A name is protected whether or not something is there. Names are compared as the most careless file system would:
without regard to case, to marks that cannot be seen, and to dots and blanks at their end.
"""

from __future__ import annotations

import fnmatch
import os
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal

from windlass.events.values.blocks import Value

Action = Literal["deny", "ask"]


class ProtectedName(Value, frozen=True, kw_only=True):
    """Names of one kind. A pattern is one or more names with a slash between; it covers all that lies beneath."""

    action: Action
    why: str
    patterns: tuple[str, ...]


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PROTECTED = (
    ProtectedName(
        action="deny",
        why="it belongs to windlass: its settings, rules or stored sessions",
        patterns=_names(
            ".windlass* windlass.toml windlass.yaml windlass.yml windlass.json windlass.db* *.jsonl.d "
            ".config/windlass .local/state/windlass windlass.policy.*"
        ),
    ),
    ProtectedName(
        action="deny",
        why="version control keeps its own files there: hooks and settings that run commands",
        patterns=_names(".git git~1 .hg .svn .jj .gitconfig .config/git"),
    ),
    ProtectedName(
        action="deny",
        why="it says which tools and servers an agent has and what it may do unasked",
        patterns=_names(
            ".mcp.json mcp.json .mcp .claude/settings*.json .claude/hooks .cursor/mcp.json .cursor/permissions* "
            ".codex .gemini/settings.json .vscode/mcp.json .vscode/settings.json .copilot .continue .aider.conf.yml "
            ".zed/settings.json .amazonq .roo/mcp.json"
        ),
    ),
    ProtectedName(
        action="deny",
        why="keys and the settings of a person's shell are kept there",
        patterns=_names(
            ".ssh .gnupg .aws .kube .docker/config.json .netrc .pypirc .bashrc .bash_profile .bash_login .bash_logout "
            ".profile .zshrc .zshenv .zprofile .zlogin .config/fish .config/systemd .config/autostart "
            ".local/share/systemd .pam_environment .inputrc"
        ),
    ),
    ProtectedName(
        action="ask",
        why="it tells agents what to do",
        patterns=_names(
            "AGENTS.md AGENTS.override.md CLAUDE.md CLAUDE.local.md GEMINI.md QWEN.md .claude .cursor .cursorrules "
            ".windsurf .windsurfrules .clinerules .roo .junie .gemini .github/copilot-instructions.md "
            ".github/instructions .github/prompts .github/agents SKILL.md"
        ),
    ),
    ProtectedName(
        action="ask",
        why="other programs run what stands there, or take their settings from it, without asking",
        patterns=_names(
            ".envrc .env .env.* .vscode .idea .zed .fleet *.code-workspace .devcontainer .devcontainer.json "
            ".github/workflows .github/actions .gitlab-ci.yml .gitlab .circleci .buildkite "
            "Jenkinsfile azure-pipelines.yml .travis.yml .drone.yml .husky .pre-commit-config.yaml "
            ".pre-commit-hooks.yaml lefthook.yml lefthook.yaml .gitattributes .gitmodules .npmrc .yarnrc .yarnrc.yml "
            ".pnpmfile.cjs pip.conf .cargo/config* .mise.toml mise.toml .tool-versions .direnv .nvimrc .exrc .vimrc "
            ".gdbinit .lldbinit sitecustomize.py usercustomize.py *.pth .dir-locals.el"
        ),
    ),
)
"""What is protected, the strictest first."""

PLACES_MAX = 256


class Found(Value, frozen=True, kw_only=True):
    """Why a path is protected."""

    action: Action
    why: str
    name: str
    """The name that is meant."""


class Places:
    """Files and folders of this process that no tool may write, wherever they lie: its stores, its policy files."""

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = {}
        self._why: dict[str, str] = {}
        self._lock = threading.Lock()

    def add(self, path: str | os.PathLike[str], why: str = "this process keeps its own state there") -> None:
        """Protects a place from now on, with what is beneath it and what stands beside it under a longer name."""
        with self._lock:
            whole = os.path.realpath(path)
            self._why[whole] = why
            self._places = dict([*self._places.items(), (whole, _plain_path(whole))][-PLACES_MAX:])

    def why(self, place: str) -> str:
        """What a place is."""
        return self._why[place]

    def all(self) -> tuple[str, ...]:
        """The places, as whole paths."""
        return tuple(self._places)

    def covering(self, path: str) -> str | None:
        """The place that a whole path belongs to, or that lies beneath it."""
        plain = _plain_path(path)
        for place, known in self._places.items():
            beside = len(plain) == len(known) and plain[:-1] == known[:-1] and _belongs(plain[-1], known[-1])
            if beside or plain[: len(known)] == known or known[: len(plain)] == plain:
                return place
        return None


PLACES = Places()
"""Those of this process."""


def protected(path: str, *, folder: bool = False) -> Found | None:
    """Why a whole path may not be written, or not unasked; None for any other. With `folder`, what is beneath it
    moves or goes with it, so that names count too which could lie there."""
    names = _plain_path(path)
    for entry in PROTECTED:
        for pattern in entry.patterns:
            parts = [part.casefold() for part in pattern.split("/")]
            if _stands_in(parts, names) or (folder and _begins_at_end(parts, names)):
                return Found(action=entry.action, why=entry.why, name=pattern)
    return None


def _stands_in(parts: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a pattern covers a path: all its names follow one another somewhere in it."""
    most = len(names) - len(parts) + 1
    return any(all(_fits(n, p) for n, p in zip(names[at:], parts, strict=False)) for at in range(max(0, most)))


def _begins_at_end(parts: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a path ends with the first names of a pattern that has more."""
    return any(
        len(names) >= count and all(_fits(n, p) for n, p in zip(names[-count:], parts[:count], strict=True))
        for count in range(1, len(parts))
    )


def _belongs(name: str, to: str) -> bool:
    """Whether a file beside another one is part of it, such as its journal."""
    return name.startswith(to) and name[len(to) : len(to) + 1] in ("", "-", ".", "~")


def _fits(name: str, pattern: str) -> bool:
    return name == pattern or ("*" in pattern and fnmatch.fnmatchcase(name, pattern))


def _plain_path(path: str) -> list[str]:
    return list(_plain_names(path))


def _plain_names(path: str) -> Iterator[str]:
    for name in path.split("/"):
        if name in ("", "."):
            continue
        seen = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
        plain = seen.casefold().rstrip(". ")
        yield plain.partition(":")[0] if ":" in plain and plain.partition(":")[0] else plain or name
