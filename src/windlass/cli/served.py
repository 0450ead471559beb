"""The sessions of a server, as verbs reach them: by address and token, with the agents that are served there."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from windlass.cli import options
from windlass.events.errors import UsageError

if TYPE_CHECKING:
    from windlass.runtime.api.runtime import Runtime
    from windlass.runtime.api.session import Session

OF_THIS_MACHINE = (
    *("model", "instructions", "tool", "tools", "mcp", "policy", "budget_usd", "budget_turns", "quarantine"),
    *("output_schema", "sandbox", "trust"),
)
"""Options that describe an agent, or a folder, of this machine."""


def token() -> str:
    """The token for a server: that of the environment, else the first one of a server of this user on this machine.
    Raises `UsageError` if there is neither."""
    from windlass.runtime.api.connect import TOKEN_VARIABLE

    given = os.environ.get(TOKEN_VARIABLE, "")
    if given:
        return given
    from windlass.cli.store_place import state_room
    from windlass.cli.tokens import FILE

    first = (state_room() / FILE).with_suffix(".first")
    try:
        return first.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        raise UsageError(
            f"a server wants a token: set {TOKEN_VARIABLE}, such as {TOKEN_VARIABLE}=$(cat tokens.first)"
        ) from None


def connected(args: argparse.Namespace) -> Runtime:
    """The server that is named. Raises `UsageError` for options that only mean something on this machine."""
    import windlass

    for name in OF_THIS_MACHINE:
        if getattr(args, name, None):
            said = name.replace("_", "-")
            raise UsageError(f"--{said} is for agents of this machine: those of a server are set up where they are")
    tell_of_pauses()
    return windlass.connect(options.url_of(args), token=token())


def tell_of_pauses() -> None:
    """Has it told on standard error that a server does not answer while it is asked again: a person would see
    nothing for half a minute."""
    import logging
    import sys

    from windlass.cli.terminal.text import put

    class Pauses(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            put(f"({record.getMessage()})", sys.stderr)

    logging.getLogger("windlass.store.server").handlers = [Pauses(logging.WARNING)]


async def served_session(runtime: Runtime, args: argparse.Namespace, *, title: str = "") -> Session:
    """The session that is named if it is there, else a new one of the agent that is named, or of the only one that is
    served. Raises `UsageError` if nobody can tell which."""
    from windlass.store.base import Key

    name = args.session
    if name and await runtime.store.log.head(Key(args.tenant, name)) is not None:
        return await runtime.get(name)
    return await runtime.session(args.agent or await _only_agent(runtime), name, title=title)


async def _only_agent(runtime: Runtime) -> str:
    assert runtime.host.elsewhere is not None
    served = await runtime.host.elsewhere.agents(runtime.tenant)
    if len(served) == 1:
        return served[0]
    there = ", ".join(served) or "none"
    raise UsageError(f"say which agent, with --agent NAME: there are {there}")
