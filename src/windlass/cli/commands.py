"""Commands for a person to copy: quoted for a shell, with the store and the agent that they need. Imports nothing of
the runtime."""

from __future__ import annotations

import argparse
import shlex

from .text import visible

UNNAMED = "assistant"
"""What an agent is called that options describe; no file has it."""
DESCRIBING = ("model", "instructions", "policy", "budget_usd", "budget_turns", "output_schema")
"""The options that describe an agent, but for its tools, as `argparse` names them."""


def word(text: str) -> str:
    """A word as a shell takes it, nothing in it that a terminal would obey."""
    return shlex.quote(visible(text))


def at(args: argparse.Namespace) -> str:
    """The option that names the store, where it is not the one that is taken by itself."""
    return f" --store {word(args.store)}" if args.store else ""


def file_of(agent: str) -> str:
    """Stands for the file of an agent that only its name is known of."""
    return word(f"FILE.py:{agent}")


def run_of(agent: str, session: str, args: argparse.Namespace) -> str:
    """The command that goes on with a session of an agent. What options described is recalled from the log."""
    named = "" if agent == UNNAMED else f" --agent {file_of(agent)}"
    return f"windlass run{named} --session {word(session)}{at(args)}"


def again(verb: str, session: str, args: argparse.Namespace) -> str:
    """The command that goes on with a session as `args` began it: the same agent, changed in the same way."""
    said = f" --agent {word(args.agent)}" if args.agent else ""
    if args.agent:
        for name in DESCRIBING:
            if (value := getattr(args, name)) is not None:
                said += f" --{name.replace('_', '-')} {word(f'{value:g}' if isinstance(value, float) else str(value))}"
    # Tools out of files are in no log; built-in ones are recalled, but not where a file says which there are.
    said += "".join(f" --tool {word(tool)}" for tool in args.tool if args.agent or ":" in tool)
    return f"windlass {verb}{said} --session {word(session)}{at(args)}"
