"""Standing grants by which a session of another tree may tell this one something: given, listed and taken back here.

Within a tree nobody needs one. A message from outside names its grant and is judged when it is taken, so that one that
was sent before its grant was taken back is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.errors import Refused
from windlass.events.signals import SignalReceived
from windlass.events.values.ids import ID_CHARS_MAX
from windlass.events.values.policy import Grant
from windlass.kernel.parts.trees import child_side

if TYPE_CHECKING:
    from windlass.kernel.state import State

TELL = "tell"


def standing(state: State) -> tuple[Grant, ...]:
    """The grants of sessions outside that are in force."""
    return tuple(grant for grant in state.gate.grants.values() if grant.session and _holds(state, grant))


def heard(state: State, session: str) -> Grant | None:
    """The grant by which a session of another tree may tell this one something."""
    return next((grant for grant in standing(state) if grant.session == session), None)


def _holds(state: State, grant: Grant) -> bool:
    return grant.expires_ms is None or state.now_ms < grant.expires_ms


def check_added(state: State, grant: Grant) -> None:
    """Raises `Refused` for a grant that means nothing."""
    if grant.tool != TELL or grant.pattern is not None:
        raise Refused("malformed", f"a session outside can be granted {TELL!r} alone, without a pattern")
    if grant.session == state.session_id or len(grant.session) > ID_CHARS_MAX:
        raise Refused("malformed", f"{grant.session[:ID_CHARS_MAX]!r} is no session that could tell this one something")
    if state.flow.graph is not None:
        raise Refused("not_heard", f"{state.session_id!r} carries out a workflow, and is told nothing")


def check_said(state: State, fact: SignalReceived) -> None:
    """Raises `Refused` for a signal to a child that has ended, and for one from outside whose grant does not hold."""
    child_side.check_going_on(state, fact)
    if not fact.grant:
        return
    grant = state.gate.grants.get(fact.grant)
    if grant is None or not _holds(state, grant) or fact.actor != f"session:{grant.session}":
        raise Refused("not_heard", f"{fact.actor} may tell this session nothing any more: its grant was taken back")
