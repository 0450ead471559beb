"""The hooks of one session: its agent's, those lent to single runs, and the moments that they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.events.hooks import HookPoint
from windlass.events.stored.known_secrets import SECRETS

from .hook import Moment
from .hook_runner import HookRunner

if TYPE_CHECKING:
    from windlass.runtime.bind.local_code import LocalCode
    from windlass.runtime.owner.owner import Owner


class SessionHooks:
    """Which hooks stand now, and for what."""

    def __init__(self, owner: Owner, local_code: LocalCode, own: HookRunner) -> None:
        self._owner = owner
        self._local_code = local_code
        self._own = own

    @property
    def current(self) -> HookRunner:
        """The agent's hooks, and those that were given for the current run."""
        lent = self._local_code.hooks
        return self._local_code.hooks_of(self._owner.state, self._own) if lent else self._own

    def for_command(self, command_id: str) -> HookRunner:
        """The agent's hooks, and those that a prompt brings along."""
        brought = self._local_code.hooks.get(command_id)
        return self._own.joined(brought) if brought else self._own

    def moment(self, point: HookPoint, value: Any, **more: Any) -> Moment:
        """What hooks at a point are told, with a mark for each known secret: what they do with it is their own."""
        state = self._owner.state
        run_id = state.run.run_id
        told = Moment(
            point=point, session=state.session_id, agent=state.setup.agent.name, run_id=run_id, value=value, **more
        )
        return SECRETS.hidden_value(told)

    @property
    def seq(self) -> int:
        """Where the session's log ends."""
        return self._owner.state.seq

    async def quiet(self) -> None:
        """Lets observers end what they were told, for a moment."""
        await self._own.observing.quiet()
