"""Commands for a person to copy: quoted for a shell, with the store and the agent that they need. Imports nothing of
the runtime."""

from __future__ import annotations

import argparse
import shlex

from windlass.cli import options
from windlass.cli.terminal.visible_text import spelt

UNNAMED = "assistant"
"""What an agent is called that options describe; no file has it."""


def word(text: str) -> str:
    """A word as a shell takes it, nothing in it that a terminal would obey."""
    return shlex.quote(spelt(text))


def at(args: argparse.Namespace) -> str:
    """The option that names the store or the server, if it is not the one that is taken by itself."""
    if url := getattr(args, "url", None):
        return f" --url {word(url)}"
    return f" --store {word(args.store)}" if args.store else ""


def file_of(agent: str) -> str:
    """Stands for the file of an agent that only its name is known of."""
    return word(f"FILE.py:{agent}")


def run_of(agent: str, session: str, args: argparse.Namespace) -> str:
    """The command that resumes a session of an agent. Its log has the options."""
    named = "" if agent == UNNAMED or options.url_of(args) else f" --agent {file_of(agent)}"
    return f"windlass run{named} --session {word(session)}{at(args)}"


def flow_of(session: str, args: argparse.Namespace, file: str = "FILE") -> str:
    """The command that goes on with a workflow. Its log has the input."""
    return f"windlass flow run {word(file)} --id {word(session)}{at(args)}"


def serve_of(agent: str, session: str, args: argparse.Namespace) -> str:
    """The command that drives the schedules of an agent."""
    named = "" if agent == UNNAMED else f" --agent {file_of(agent)}"
    return f"windlass schedule serve{named}{at(args)}"


def jobs_left(count: int, session: str, args: argparse.Namespace) -> str:
    """What is said at the end about background jobs that go on, and how to see them."""
    said = "1 background job goes on" if count == 1 else f"{count} background jobs go on"
    return f"{said}: windlass jobs {word(session)}{at(args)}"


def children_left(count: int, session: str, args: argparse.Namespace) -> str:
    """What is said at the end about children in the background that have not ended, and how to see what each awaits."""
    said = "1 child session has not ended" if count == 1 else f"{count} child sessions have not ended"
    return f"{said}: windlass show {word(session)}{at(args)}"


def again(verb: str, session: str, args: argparse.Namespace) -> str:
    """The command that resumes a session as `args` began it. Its log has the options; the code of tools out of files it
    has not."""
    said = f" --agent {word(args.agent)}" if args.agent else ""
    said += "".join(f" --tool {word(tool)}" for tool in args.tool if ":" in tool)
    return f"windlass {verb}{said} --session {word(session)}{at(args)}"
