"""More budget for a child session, from the session that somebody speaks to down to the one that is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.commands import CommandRefused
from windlass.events.errors import Refused, UsageError
from windlass.events.tools.calls import ToolCancelled, ToolDenied, ToolResolved
from windlass.events.trees.accounts import ChildGranted
from windlass.events.values.ids import child_grant_id
from windlass.kernel.parts.budgets import SET_ASIDE
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key

from .tree_rows import key_at

if TYPE_CHECKING:
    from windlass.kernel.state import State
    from windlass.runtime.api.agent import Budget
    from windlass.runtime.api.session import Session

LOOK_MS = 20
TAKEN_MS = 60_000
"""How long each session on the way down has to take what is granted to it."""


async def granted_down(session: Session, child: str, budget: Budget, command_id: str, actor: str) -> None:
    """Has each session on the way to a child grant as much to the next one, so that no level gives what it has not got.
    Raises `Refused` with the reason if one does not; what those above it have set aside by then stays so."""
    origins = await _way_to(session, child)
    if not callable(getattr(budget, "limits", None)):
        raise UsageError(f"{budget!r} is no Budget: write grant(child, Budget(tokens=50_000))")
    more = budget.limits()
    wanted = {name: most for name in SET_ASIDE if (most := getattr(more, name)) is not None}
    above = session
    for depth, origin in enumerate(origins):
        below, name = f"{above.session_id}~{origin}", f"{command_id}:{depth}"
        state = await above.state()
        if "grant_child" not in state.toolset.tools:
            raise Refused(
                "not_granted",
                f"{above.session_id!r} grants nothing to its children: give a specialist Settings(budget_asked=True)",
            )
        given = wanted if depth == len(origins) - 1 else _limited(state, origin, wanted)
        if given:
            await above.call_tool("grant_child", {"child": below, **given}, command_id=name, actor=actor)
            seq = await _granted(above, name)
            await _taken(session, Key(session.key.tenant, below), child_grant_id(below, seq))
        above = type(session)(session.runtime, Key(session.key.tenant, below))


async def _way_to(session: Session, child: str) -> list[str]:
    """The calls that lead from a session to one below it, which is named by its id, by its place, or by the id of what
    it asks, as the session lists that (`c6.0~c7.0/q8`). Raises `UsageError` if it is not there."""
    top = f"{session.session_id}~"
    if child.startswith(top):
        return child.removeprefix(top).split("~")
    place = child.partition("/")[0]
    if not place or await session.runtime.store.log.head(key_at(session.key, place)) is None:
        raise UsageError(
            f"{child!r} is no session below {session.session_id!r}: name one that session.children() lists"
        )
    return place.split("~")


def _limited(state: State, origin: str, wanted: dict[str, int]) -> dict[str, int]:
    """What of a grant a child needs that only passes it on: nothing of what it may use without a limit. All of it if
    the child is not there any more, so that its parent says so."""
    child = state.children.open.get(origin)
    if child is None:
        return wanted
    return {name: most for name, most in wanted.items() if getattr(child.slice, name) is not None}


async def _granted(session: Session, command_id: str) -> int:
    """Where a session put on record that it grants more. Raises `Refused` with the reason if it does not."""
    for _ in range(TAKEN_MS // LOOK_MS):
        taken = await LogReader(session.runtime.store).taken_at(session.key, command_id)
        if taken is not None:
            call, granted = f"c{taken}.0", 0
            async for record in session.records(after=taken - 1):
                event = record.event
                if isinstance(event, ChildGranted) and not granted:
                    granted = record.seq
                elif isinstance(event, ToolResolved) and event.call_id == call:
                    if event.ok:
                        return granted
                    raise Refused("not_granted", event.text)
                elif isinstance(event, ToolDenied | ToolCancelled) and event.call_id == call:
                    raise Refused("not_granted", getattr(event, "detail", "") or "the call was given up")
                elif isinstance(event, CommandRefused) and event.command_id == command_id:
                    raise Refused(event.code, event.message)
        await session.runtime.ports.sleep_ms(LOOK_MS)
    raise _late(session.session_id)


async def _taken(session: Session, key: Key, command_id: str) -> None:
    """Waits until a session has taken what was granted to it."""
    for _ in range(TAKEN_MS // LOOK_MS):
        if await LogReader(session.runtime.store).taken_at(key, command_id) is not None:
            return
        await session.runtime.ports.sleep_ms(LOOK_MS)
    raise _late(key.session)


def _late(name: str) -> Refused:
    return Refused(
        "not_taken", f"session {name!r} has not taken what was granted: is the process that drives it at work?"
    )
