"""Options that several verbs share, and what they mean by themselves. Imports nothing that takes time."""

from __future__ import annotations

import argparse
import os
import pathlib
from typing import TYPE_CHECKING

from windlass.events.user_folders import expanded

if TYPE_CHECKING:
    from windlass.events.values.setup import SessionOptions

STORE_VARIABLE = "WINDLASS_STORE"
URL_VARIABLE = "WINDLASS_URL"
WORKSPACE_STORE = "the store of this workspace"
TENANT = "default"
NEWEST = "-"
"""Stands for the session that changed last."""
WAIT_S = 2.0
"""How long a command waits to see whether somebody takes it."""
DRAIN_S = 10.0
DRAIN_S_MAX = 3600
DRAINING = "(asked to stop: what runs is brought to its end first; a second SIGTERM leaves at once)"
SANDBOXES = ("auto", "local", "bubblewrap", "landlock", "container")
POLICIES = ("standard", "allow-all", "read-only", "workspace-write", "sandboxed")

NEXT = """
The command is kept in the session's inbox. A process that drives the session takes it within a moment; if none
does, it waits there until one opens the store with the session's agent.
exit codes: 0 kept (and taken, if it says so), 1 the session refused it, 2 it does not fit
"""


def add_store(parser: argparse.ArgumentParser) -> None:
    """The options that every verb on a store has."""
    parser.add_argument("--store", metavar="PATH", help=f"the store (else ${STORE_VARIABLE}, else {WORKSPACE_STORE})")
    parser.add_argument(
        "--url", metavar="URL", help=f"a server instead: http://HOST:PORT or unix:PATH (else ${URL_VARIABLE})"
    )
    parser.add_argument("--tenant", default=TENANT, help=argparse.SUPPRESS)


def add_session(parser: argparse.ArgumentParser) -> None:
    """The session that a verb is about."""
    parser.add_argument("session", metavar="SESSION", help=f"its id, the beginning of it, or {NEWEST} for the newest")
    add_store(parser)


def add_wait(parser: argparse.ArgumentParser) -> None:
    """How long to watch for somebody to take the command."""
    parser.add_argument(
        "--wait",
        type=float,
        default=WAIT_S,
        metavar="S",
        help=f"how many seconds to wait for it to be taken ({WAIT_S:g})",
    )


def add_agent(parser: argparse.ArgumentParser) -> None:
    """The options that say which agent."""
    group = parser.add_argument_group("the agent")
    group.add_argument("--agent", metavar="FILE.py:NAME", help="an Agent of a file; the options below override it")
    group.add_argument("--model", metavar="NAME", help="which model; 'windlass models' lists them")
    group.add_argument("--instructions", metavar="TEXT", help="instructions for the agent; @FILE reads a file")
    group.add_argument(
        "--tool", metavar="NAME", action="append", default=[], help="a built-in tool, or FILE.py:NAME (repeatable)"
    )
    group.add_argument(
        "--tools",
        choices=("coding",),
        help="a set of tools: 'coding' reads, edits and runs commands in this folder, in a sandbox if one works here",
    )
    group.add_argument(
        "--mcp", metavar="FILE", action="append", default=[], help="MCP servers of a file, JSON or TOML (repeatable)"
    )
    group.add_argument(
        "--policy",
        metavar="POLICY",
        help=f"{', '.join(POLICIES)}, a policy file (.toml, .yaml) or FILE.py:NAME: what may run without asking",
    )
    group.add_argument("--budget-usd", type=float, metavar="USD", help="a hard limit on what the run may cost")
    group.add_argument("--budget-turns", type=int, metavar="N", help="a hard limit on its turns")
    group.add_argument(
        "--quarantine", action="store_true", help="only reading is allowed, for good; what it says is untrusted"
    )
    group.add_argument("--output-schema", metavar="FILE", help="a JSON Schema that the answer must fit")


def add_attach(parser: argparse.ArgumentParser, what: str) -> None:
    """What is given to the model with a prompt."""
    how = "a file (PATH:10-20 for lines), a directory, or the address of an issue (repeatable)"
    parser.add_argument("--attach", metavar="PATH", action="append", default=[], help=f"{what}: {how}")


def add_drain(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """How long a program that is asked to stop waits for what runs."""
    parser.add_argument(
        "--drain",
        type=float,
        default=DRAIN_S,
        metavar="S",
        help=f"how long SIGTERM waits for requests and tools under way ({DRAIN_S:g} s); a second one does not wait",
    )


def drain_ms(args: argparse.Namespace) -> int:
    """The same in milliseconds. Raises `UsageError` for a time that is none."""
    from windlass.events.errors import UsageError

    if not 0 <= args.drain <= DRAIN_S_MAX:
        raise UsageError(f"--drain {args.drain:g}: give a number of seconds from 0 to {DRAIN_S_MAX}")
    return int(args.drain * 1000)


def add_sandbox(parser: argparse.ArgumentParser) -> None:
    """Where the commands of tools run."""
    parser.add_argument(
        "--sandbox",
        choices=SANDBOXES,
        help="where commands of tools run, kept with the session: auto is the best here; local confines nothing",
    )


def sandbox_warning(args: argparse.Namespace, kept: SessionOptions) -> str | None:
    """What a person should know who asked for the best sandbox and gets none that confines, or whose session has one
    that does not work here. `kept` is what the session has."""
    from windlass.tools.sandboxes.choice import why_missing

    if kept.sandbox is not None and (problem := why_missing(kept.sandbox)) is not None:
        return f"the session's sandbox {kept.sandbox} cannot be used here, so no command runs: {problem}"
    if kept.sandbox != "local" or (args.sandbox or "auto") != "auto":
        return None
    return "no sandbox that confines works here, so commands of tools are not confined: 'windlass doctor' says why"


def add_workspace(parser: argparse.ArgumentParser) -> None:
    """What the agent may take from the current folder."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="have the agent follow the AGENTS.md files of this folder and of those above it in its git repository",
    )


def url_of(args: argparse.Namespace) -> str:
    """The server that is meant; empty if it is a store. Raises `UsageError` if both are named."""
    url: str | None = getattr(args, "url", None)
    if url and args.store:
        from windlass.events.errors import UsageError

        raise UsageError("--store and --url name two places: leave one of them out")
    return url or ("" if args.store else os.environ.get(URL_VARIABLE, ""))


def here_only(args: argparse.Namespace, what: str) -> None:
    """Raises `UsageError` for something that is only done where the store is, if a server is meant."""
    if url_of(args):
        from windlass.events.errors import UsageError

        raise UsageError(f"{what} is done where the store is, not over a server: use --store there")


def place_of(args: argparse.Namespace) -> str:
    """Where the store is, or the address of its server."""
    if named := named_place(args):
        return named
    from .store_place import default_place

    return str(default_place())


def place_to_write(args: argparse.Namespace) -> str:
    """Where the store is, or can be made. Raises `UsageError` if a server is named instead."""
    here_only(args, "that")
    if not _stored(args):
        from .store_place import make_room

        make_room()
        from .store_place import default_place

        return str(default_place())
    return _stored(args)


def named_place(args: argparse.Namespace) -> str:
    """The store or the server as the user named it; empty if it is the store of the workspace."""
    return url_of(args) or _stored(args)


def _stored(args: argparse.Namespace) -> str:
    return expanded(args.store or os.environ.get(STORE_VARIABLE) or "")


def told_place(args: argparse.Namespace) -> str:
    """How people are told which store it is."""
    return named_place(args) or WORKSPACE_STORE


def is_there(place: str) -> bool:
    """Whether something is at the place of a store."""
    return pathlib.Path(place.removeprefix("sqlite:").removeprefix("jsonl:")).exists()
