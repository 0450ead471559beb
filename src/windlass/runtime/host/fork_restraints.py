"""What a fork is held to beyond what the record says that it continues from.

A session is narrowed because of what happened in it: it is quarantined, put into plan mode, given a stricter policy or
a sandbox. A fork that begins earlier has the same past but for the last steps, often the very ones that were the
reason; it must not be the way to do without the narrowing.
"""

from __future__ import annotations

import logging

from windlass.events.errors import CodecError, KernelError
from windlass.events.values.specs import Policy, SessionOptions, WorkMode
from windlass.kernel.state import State
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.trees.specialists import narrowed
from windlass.store.base import Key, Store

LOGGER = logging.getLogger("windlass.store")
NOTHING = SessionOptions()


async def held_since(store: Store, origin: Key, branch: State) -> SessionOptions | None:
    """What a session came to be held to since the record that a branch of it continues from. A log that cannot be read
    to its end says no more than the branch knows: forking off what is sound of it must remain possible."""
    try:
        now = (await LogReader(store).fold(origin)).state
    except (KernelError, CodecError) as error:
        LOGGER.warning("what session %r is held to now is not known to its fork: %s", origin.session, error)
        return None
    return restraints(branch, now)


def restraints(then: State, now: State) -> SessionOptions | None:
    """What holds of a session now and did not at an earlier point of it; None if it is held to nothing more."""
    sandbox = now.setup.options.sandbox if then.setup.options.sandbox is None else None
    held = SessionOptions(
        policy=_policy(then, now),
        mode=_mode(then, now),
        quarantine=now.labels.quarantined and not then.labels.quarantined,
        sandbox=sandbox,
    )
    return held if held != NOTHING else None


def _mode(then: State, now: State) -> WorkMode | None:
    return "plan" if now.setup.mode == "plan" != then.setup.mode else None


def _policy(then: State, now: State) -> Policy | None:
    """A policy that the session itself was given since, with whatever was denied or asked about before as well. The
    agent's own comes with the code that is bound."""
    given = now.setup.options.policy
    if given is None or given == then.setup.options.policy:
        return None
    return narrowed(given, then.gate.policy)
