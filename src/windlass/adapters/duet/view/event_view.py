"""The view: records and live events of a session, one by one, as events of the protocol. A turn is one or more runs
that follow one another by themselves; it ends with one terminal, which tells the whole turn state."""

from __future__ import annotations

from windlass.adapters.duet.definitions import definition_form
from windlass.adapters.duet.model_names import model_form
from windlass.adapters.duet.question_forms import put
from windlass.events.base import Event
from windlass.events.live import AttemptSuperseded, Live, ReasoningDelta, StorePaused, TextDelta
from windlass.events.runs import (
    RunAsked,
    RunCancelled,
    RunFailed,
    RunInterrupted,
    RunSlept,
    RunStarted,
    Terminal,
)
from windlass.events.sessions import SessionForked, SessionStarted
from windlass.events.values.blocks import JsonObject
from windlass.events.values.usage import NANOS_PER_USD
from windlass.kernel import parts
from windlass.kernel.owed import opens
from windlass.kernel.parts import retries
from windlass.kernel.parts.budgets import Spent
from windlass.kernel.phases import Asleep, Idle
from windlass.protocol.view import Told, UnknownRecord
from windlass.runtime.machines.turn_state import turn_state_of
from windlass.runtime.streams.cursors import BEGINNING

from . import tool_forms, turn_forms
from .fold import Fold, Form, step, system

FORMS: dict[type[Event], Form] = {**turn_forms.FORMS, **tool_forms.FORMS}
"""What becomes of each kind of record; the others are nothing to a caller."""
TERMINALS = frozenset({"complete", "ask", "interrupted", "sleep"})
"""The events that end a turn."""


class DuetView:
    """A fold from what is told about a session to the events of its turns."""

    def __init__(self, session_id: str) -> None:
        self.fold = Fold(session_id)

    @property
    def seq(self) -> int:
        """The last record that it was fed."""
        return self.fold.state.seq

    def feed(self, told: Told) -> list[JsonObject]:
        """The events of one record or live event."""
        if isinstance(told, Live):
            return live_events(told)
        if isinstance(told, UnknownRecord):
            self.fold.state.seq = told.seq
            return []
        self.fold.take(told)
        event = told.event
        form = FORMS.get(type(event))
        made = list(form(self.fold, told, event)) if form is not None else []
        if isinstance(event, SessionStarted | SessionForked):
            made.append(self.started())
        elif isinstance(event, RunStarted) and not self.fold.open:
            self._begin_turn()
        elif isinstance(event, Terminal) and not goes_on(self.fold, event):
            self.fold.open = False
            made.append(self.terminal())
        return made

    def _begin_turn(self) -> None:
        budget = self.fold.state.budget
        self.fold.open, self.fold.said = True, ""
        self.fold.spent = budget.before_here.since(Spent())

    @property
    def sleeps(self) -> bool:
        """Whether the session waits for a time."""
        state = self.fold.state
        return not state.active and (isinstance(state.phase, Asleep) or bool(state.timers.open))

    @property
    def waits(self) -> bool:
        """Whether it rests and waits for something at all."""
        return not self.fold.state.active and any(opens(self.fold.state))

    def reopen(self) -> None:
        """The turn whose terminal was made last goes on: something came meanwhile that is part of it."""
        self.fold.open = True

    def state(self) -> JsonObject:
        """The turn state now. `agent.session` is how a later process finds the session again."""
        fold, state = self.fold, self.fold.state
        turn_state = turn_state_of(state, fold.records)
        options = turn_state["options"]
        turn_state["options"] = {**options, "model": model_form(options["model"])}
        turn_state["agent"]["session"] = {
            "id": fold.session_id,
            "cursor": fold.records[-1].cursor if fold.records else BEGINNING,
        }
        if state.setup.routing == "explicit" and state.machine.given is not None:
            turn_state["mode"] = definition_form(state.machine.given)
        if "stateMachine" in turn_state and (spec := state.machine.spec or state.machine.given) is not None:
            turn_state["stateMachine"]["definition"] = definition_form(spec)
        return turn_state

    def started(self) -> JsonObject:
        """That the session is set up."""
        return {"type": "turn_started", "state": self.state()}

    def terminal(self) -> JsonObject:
        """How the last run ended, and with it the turn."""
        last = self.fold.ended
        if isinstance(last, RunAsked):
            end: JsonObject = {"type": "ask", "questions": [one.form for one in put(self.fold.asks.values()).values()]}
        elif isinstance(last, RunSlept):
            end = {"type": "sleep", "wakeAt": last.wake_at_ms}
        elif isinstance(last, RunInterrupted):
            end = {"type": "interrupted"}
        elif isinstance(last, RunFailed):
            end = {"type": "complete", "status": "failed", "error": last.failure.message}
        elif isinstance(last, RunCancelled):
            end = {"type": "complete", "status": "cancelled"}
        else:
            return self.complete("completed", self.fold.said)
        return {**end, **self._sums()}

    def complete(self, status: str, result: str = "", error: str = "") -> JsonObject:
        """A terminal without waiting for anything."""
        told: JsonObject = {"type": "complete", "status": status}
        if result:
            told["result"] = result
        if error:
            told["error"] = error
        return {**told, **self._sums()}

    def idle(self, status: str, error: str = "") -> JsonObject:
        """The terminal of a turn that did nothing."""
        self.fold.spent = self.fold.state.budget.spent.since(Spent())
        return self.complete(status, error=error)

    def _sums(self) -> JsonObject:
        """The state, and what was used since the turn began: by the agent, its children and whatever else asks."""
        used = self.fold.state.budget.spent.since(self.fold.spent)
        tokens = used.usage
        usage: JsonObject = {"inputTokens": tokens.input_tokens, "outputTokens": tokens.output_tokens}
        if tokens.cache_read_tokens:
            usage["cachedInputTokens"] = tokens.cache_read_tokens
        if used.cost_nanos:
            usage["costUsd"] = used.cost_nanos / NANOS_PER_USD
        return {"state": self.state(), "usage": usage}


def goes_on(fold: Fold, event: Terminal) -> bool:
    """Whether another run follows by itself: one that takes this one's place, or one for a prompt that waits."""
    state = fold.state
    if event.stop == "superseded":
        return True
    waits = bool(state.queue.waiting) and not state.queue.held and type(state.phase) in (Idle, Asleep)
    return waits and retries.waited_for(state) is None and not parts.awaits_somebody(state)


def live_events(live: Live) -> list[JsonObject]:
    """What is being written; the whole of it is told by a record."""
    match live:
        case TextDelta():
            return [step(type="text_delta", delta=live.text)]
        case ReasoningDelta():
            return [step(type="reasoning_delta", delta=live.text)]
        case AttemptSuperseded():
            return [system("debug", "what was written so far will not become an answer: it is written anew")]
        case StorePaused():
            return [system("warn", live.message)]
        case _:
            return []
