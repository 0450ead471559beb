"""What a fork is held to beyond what the record says that it continues from. Only computes.

A session is narrowed because of what happened in it: it is quarantined, put into plan mode, given a stricter policy or
a sandbox. A fork that begins earlier has the same past but for the last steps, often the very ones that were the
reason; it must not be the way to do without the narrowing.
"""

from __future__ import annotations

from windlass.events.values.specs import Policy, SessionOptions, WorkMode
from windlass.kernel.state import State
from windlass.runtime.trees.specialists import narrowed

NOTHING = SessionOptions()


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
