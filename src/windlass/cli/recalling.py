"""The agent that options described before: a session gone on with keeps what is not said otherwise.

Only sessions of `windlass run` and `chat` without `--agent` are recalled so; those of a file need their file.
"""

from __future__ import annotations

import argparse
from typing import Any

from windlass.events.errors import UsageError
from windlass.events.sessions import InstructionsRendered, SessionStarted
from windlass.events.specs import Limits
from windlass.events.usage import NANOS_PER_USD
from windlass.kernel.state import State
from windlass.runtime.agent import Agent, Budget
from windlass.runtime.briefing import OWN
from windlass.runtime.builtin import BY_NAME
from windlass.store.base import Key

from . import options, stores
from .agents import NAME
from .commands import file_of


async def recalled(args: argparse.Namespace) -> Agent | None:
    """The agent that a session's options described, where the session is there and no file is named. Raises
    `UsageError` where it is an agent of a file."""
    if args.agent is not None or not args.session or not options.is_there(options.place_of(args)):
        return None
    async with stores.opened(args) as store:
        key = Key(args.tenant, args.session)
        head = await store.head(key)
        if head is None or head.seq == 0:
            return None
        found = await stores.folded(store, key)
    return described(found)


def described(found: stores.Folded) -> Agent:
    """The agent as the log has it. Tools of files are in no log, so they must be named again. Raises `UsageError` where
    it is an agent of a file."""
    state = found.state
    if state.agent.name != NAME:
        name = state.agent.name
        raise UsageError(f"session {found.key.session!r} is one of agent {name!r}: add --agent {file_of(name)}")
    started = found.events.get(state.setup_seq)
    output: Any = started.body.output_schema if isinstance(started, SessionStarted) and started.body else None
    return Agent(
        NAME,
        model=model_of(state),
        instructions=own_instructions(found),
        tools=[name for name in state.tools if name in BY_NAME],
        policy=state.terms.policy if state.terms is not None else state.policy,
        budget=budget_of(state.run_limits),
        output=output,
    )


def model_of(state: State) -> str:
    return state.terms.model.name if state.terms is not None else state.model.name


def own_instructions(found: stores.Folded) -> str:
    """What the agent was told, without what files of its folder added."""
    event = found.events.get(found.state.instructions_seq)
    if not isinstance(event, InstructionsRendered) or event.body is None:
        return ""
    text = event.body.text
    return text[: int(event.body.variables.get(OWN, "0"))] if event.sources else text


def budget_of(limits: Limits) -> Budget:
    usd = None if limits.cost_nanos is None else limits.cost_nanos / NANOS_PER_USD
    return Budget(usd=usd, turns=limits.turns)
