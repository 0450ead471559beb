"""Options that several verbs share, and what they mean by themselves. Imports nothing that takes time."""

from __future__ import annotations

import argparse
import os
import pathlib

STORE_VARIABLE = "WINDLASS_STORE"
DEFAULT_STORE = "windlass.db"
TENANT = "default"
NEWEST = "-"
"""Stands for the session that changed last."""
WAIT_S = 2.0
"""How long a command waits to see whether somebody takes it."""
POLICIES = ("standard", "allow-all", "read-only")

NEXT = """
The command is kept in the session's inbox. A process that drives the session takes it within a moment; where none
does, it waits there until one opens the store with the session's agent.
exit codes: 0 kept (and taken, where it says so), 1 the session refused it, 2 it does not fit
"""


def verb_of(parser: argparse.ArgumentParser) -> str:
    """The verb that a parser is for."""
    return parser.prog.rpartition(" ")[2]


def add_store(parser: argparse.ArgumentParser) -> None:
    """The options that every verb on a store has."""
    parser.add_argument(
        "--store", metavar="PATH", help=f"the store (else ${STORE_VARIABLE}, else {DEFAULT_STORE} in this folder)"
    )
    parser.add_argument("--tenant", default=TENANT, help=argparse.SUPPRESS)


def add_session(parser: argparse.ArgumentParser) -> None:
    """The session that a verb is about."""
    parser.add_argument("session", metavar="SESSION", help=f"its id, the beginning of it, or {NEWEST} for the newest")
    add_store(parser)


def add_wait(parser: argparse.ArgumentParser) -> None:
    """How long to watch for somebody to take the command."""
    parser.add_argument("--wait", type=float, default=WAIT_S, metavar="S", help=f"how long to watch it ({WAIT_S:g} s)")


def add_agent(parser: argparse.ArgumentParser) -> None:
    """The options that say which agent."""
    group = parser.add_argument_group("the agent")
    group.add_argument("--agent", metavar="FILE.py:NAME", help="an Agent of a file; the options below then change it")
    group.add_argument("--model", metavar="NAME", help="which model; 'windlass models' lists them")
    group.add_argument("--instructions", metavar="TEXT", help="what the agent is told first; @FILE reads a file")
    group.add_argument(
        "--tool", metavar="NAME", action="append", default=[], help="a built-in tool, or FILE.py:NAME (repeatable)"
    )
    group.add_argument(
        "--policy", metavar="POLICY", help=f"{', '.join(POLICIES)} or FILE.py:NAME: what may run without asking"
    )
    group.add_argument("--budget-usd", type=float, metavar="USD", help="a hard limit on what the run may cost")
    group.add_argument("--budget-turns", type=int, metavar="N", help="a hard limit on its turns")
    group.add_argument("--output-schema", metavar="FILE", help="a JSON Schema that the answer must fit")


def add_workspace(parser: argparse.ArgumentParser) -> None:
    """What the agent may take from the current folder."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="have the agent follow the AGENTS.md files of this folder and of those above it in its git repository",
    )


def place_of(args: argparse.Namespace) -> str:
    """Where the store is."""
    return args.store or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE


def is_there(place: str) -> bool:
    """Whether something is at the place of a store."""
    return pathlib.Path(place.removeprefix("sqlite:").removeprefix("jsonl:")).exists()
