"""Asks people: puts a request or a question before hooks first, then before the approver, and says what they said."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.base import Command
from windlass.events.errors import Refused, UsageError
from windlass.events.questions import AnswerReceived
from windlass.events.sessions import NoticeGiven
from windlass.kernel.effects import AskPerson
from windlass.runtime.api.approvals import Approve, Deny, PermissionAsk, QuestionAsk, asked_of, command_for
from windlass.runtime.commands.admission import check_size
from windlass.runtime.commands.fitting_answers import check_fits
from windlass.runtime.operate.label_sources import sources_of
from windlass.tools.planes.task_stops import Foreign

if TYPE_CHECKING:
    from windlass.runtime.api.approvals import Approver
    from windlass.runtime.hooks.session_hooks import SessionHooks
    from windlass.runtime.owner.owner import Owner

NOTICE_CHARS_MAX = 500
"""How much of what an approver raised is put on record."""


class People:
    """Those in this process who may answer what one session asks."""

    def __init__(self, owner: Owner, approver: Approver | None, hooks: SessionHooks) -> None:
        self._owner = owner
        self._approver = approver
        self._hooks = hooks

    def may_answer(self, effect: AskPerson) -> bool:
        """Whether there is anybody here who might answer."""
        return self._approver is not None or (effect.kind == "permission" and self._hooks.current.rule_at("permission"))

    async def ask(self, effect: AskPerson) -> Command | None:
        """Asks whoever may answer, hooks before people; None if nobody is there."""
        state = self._owner.state
        open_ask = state.asks.open.get(effect.ask_id)
        if open_ask is None:
            return None
        asked = asked_of(state.session_id, await self._owner.event(open_ask.seq))
        if asked is None:
            return None
        if isinstance(asked, PermissionAsk) and asked.joins:
            legs = await sources_of(state, asked.joins, self._owner.event)
            asked = msgspec.structs.replace(asked, sources=tuple((one.found, one.subject) for one in legs))
        if effect.also and isinstance(asked, PermissionAsk):
            asked = msgspec.structs.replace(asked, also=await self._further(effect.also))
        ruled = await self._permission(asked) if isinstance(asked, PermissionAsk) else None
        if ruled is not None or self._approver is None:
            return ruled
        try:
            async with Foreign():
                said: Any = self._approver(asked)
                verdict = await said if inspect.isawaitable(said) else said
            command = command_for(asked, verdict, command_id=f"approver:{self._owner.ports.fresh_id()}")
            if command is not None:
                check_size(command)
            if isinstance(command, AnswerReceived) and isinstance(asked, QuestionAsk):
                check_fits(command, asked.body)
            return command
        except (Exception, SystemExit) as error:  # whoever asks people may break; the request stays open for others
            told = f"the approver raised {type(error).__name__}: {error}"[:NOTICE_CHARS_MAX]
            if isinstance(error, UsageError | Refused):
                told = str(error)
            await self._owner.take(NoticeGiven(level="error", code="approver_failed", message=told))
            return None

    async def _further(self, names: tuple[str, ...]) -> tuple[PermissionAsk, ...]:
        """The requests that are put before people together with another one."""
        state = self._owner.state
        events = [await self._owner.event(state.asks.open[name].seq) for name in names if name in state.asks.open]
        asks = [asked_of(state.session_id, event) for event in events]
        return tuple(ask for ask in asks if isinstance(ask, PermissionAsk))

    async def _permission(self, asked: PermissionAsk) -> Command | None:
        """What hooks say to a call that needs somebody's word; None if they leave it to people."""
        if not self._hooks.current.rule_at("permission", asked.tool):
            return None
        shown = msgspec.to_builtins(asked)
        moment = self._hooks.moment("permission", shown, call_id=asked.call_id, tool=asked.tool)
        ruled = await self._hooks.current.run(moment, tell=False)
        ruling = ruled.denied or ruled.allowed
        if ruling is None:
            return None
        no = Deny(feedback=ruling.message or f"denied by {ruling.hook_id}", stop=ruling.fatal)
        verdict = Approve() if ruled.denied is None else no
        name = f"hook:{self._owner.ports.fresh_id()}"
        return command_for(asked, verdict, command_id=name, actor=f"hook:{ruling.hook_id}")
