"""What a fork is held to beyond what the record says that it continues from.

A session is narrowed because of what happened in it: it is quarantined, put into plan mode, given a stricter policy, a
sandbox or files that it may only read, or run by a specialist. A fork that begins earlier has the same past but for the
last steps, often the very ones that were the reason; it must not be the way to do without the narrowing.
"""

from __future__ import annotations

import logging

from windlass.events.errors import CodecError, KernelError
from windlass.events.values.policy import Policy
from windlass.events.values.setup import SessionOptions
from windlass.kernel.state import State
from windlass.runtime.bind.session_options import NO_OPTIONS, merged
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.trees.specialists import narrowed
from windlass.store.base import Key, Store

from .slot import Slot

LOGGER = logging.getLogger("windlass.store")


async def held_since(store: Store, origin: Key, branch: State, slot: Slot | None) -> SessionOptions | None:
    """What a session came to be held to since the record that a branch of it continues from; its slot has what it was
    given in this process and has no record of, since nothing has taken it up. A log that cannot be read to its end says
    no more than the branch knows: forking off what is sound of it must remain possible."""
    try:
        now = (await LogReader(store).fold(origin)).state
    except (KernelError, CodecError) as error:
        LOGGER.warning("what session %r is held to now is not known to its fork: %s", origin.session, error)
        now = branch
    return restraints(branch, now, slot.options if slot is not None else NO_OPTIONS)


def restraints(then: State, now: State, noted: SessionOptions) -> SessionOptions | None:
    """What holds of a session now and did not at an earlier point of it; None if it is held to nothing more."""
    before, given = then.setup.options, merged(now.setup.options, noted)
    held = SessionOptions(
        policy=_policy(given.policy, then),
        mode="plan" if "plan" in (now.setup.mode, noted.mode) and then.setup.mode != "plan" else None,
        quarantine=(now.labels.quarantined or noted.quarantine) and not then.labels.quarantined,
        sandbox=given.sandbox if before.sandbox is None else None,
        isolation="read_only" if given.isolation == "read_only" != before.isolation else None,
        specialist=given.specialist if given.specialist != before.specialist else None,
    )
    return held if held != NO_OPTIONS else None


def _policy(given: Policy | None, then: State) -> Policy | None:
    """A policy that the session itself was given since, with whatever was denied or asked about before as well. The
    agent's own comes with the code that is bound."""
    if given is None or given == then.setup.options.policy:
        return None
    return narrowed(given, then.gate.policy)
