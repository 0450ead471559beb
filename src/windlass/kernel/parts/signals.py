"""Signals: what happens outside and may matter to the agent. Each is disposed of at once, by the session's attention:
a table of urgencies and of what the session is busy with.

signal.received ──▶ signal.disposed: duplicate | dropped | observed (shown with the task)
                                   | queued (enters with the next turn) | steer (brings one) | run (begins a run)
                                   | interrupt ──▶ model.dropped ──▶ model.requested, with the signal   (an answer)
                                               └─▶ the calls are stopped, what was asked is withdrawn   (tools, people)
queued, steer ──▶ signal.disposed: dropped      (too many wait, and a more urgent one came)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.signals import Disposition, SignalDisposed, SignalReceived
from windlass.events.timers import TimerCancelled
from windlass.events.values.attention import URGENCIES, Busy, Urgency
from windlass.events.values.ids import signal_id
from windlass.events.values.setup import ItemRef
from windlass.kernel.part import Decisions, Part, Row, bounded
from windlass.kernel.parts import budgets, queue, requests, retries, runs
from windlass.kernel.parts.context import context_size, history
from windlass.kernel.parts.tools import labels
from windlass.kernel.parts.trees import listening_grants
from windlass.kernel.phases import STARTED, Asked, Asleep, AwaitingModel, AwaitingTools, BackingOff

if TYPE_CHECKING:
    from windlass.kernel.state import State


SEEN_MAX = 256
SHOWN_MAX = 64
RANKS = {urgency: rank for rank, urgency in enumerate(URGENCIES)}


class Signal(msgspec.Struct, kw_only=True, gc=False):
    """A signal that is being disposed of, or is only shown."""

    signal_id: str
    seq: int
    kind: str
    urgency: Urgency
    tokens: int = 0
    duplicate: bool = False


class Signals(msgspec.Struct, kw_only=True, gc=False):
    """The signals that are shown, those that wait for a turn, and the keys of those that came."""

    shown: list[Signal] = []
    seen: dict[str, bool] = {}
    waiting: dict[int, Urgency] = {}
    """Those that wait in the queue, by their record."""
    cut_turn: str = ""
    """The last turn whose answer was cut off."""
    cuts: int = 0
    """How often it was."""


# --- fold ---------------------------------------------------------------------------------------------------------


def signal_received(state: State, event: SignalReceived) -> None:
    if event.labels:
        labels.meet(state, event.labels, signal_id(state.seq))
    signals, key = state.signals, event.dedupe_key
    duplicate = key is not None and key in signals.seen
    if key is not None:
        signals.seen[key] = True
        bounded(signals.seen, SEEN_MAX)
    signals.shown.append(
        Signal(
            signal_id=signal_id(state.seq),
            seq=state.seq,
            kind=event.kind,
            urgency=event.urgency,
            tokens=event.tokens,
            duplicate=duplicate,
        )
    )


def signal_disposed(state: State, event: SignalDisposed) -> None:
    shown = state.signals.shown
    signal = next((signal for signal in shown if signal.signal_id == event.signal_id), None)
    if signal is None:  # it waited, and was let go for a more urgent one
        let_go(state, int(event.signal_id[1:]))
        return
    if event.disposition == "interrupt" and cuts_off_the_model(state):
        enters_now(state, signal)
    elif event.disposition in ("interrupt", "run", "steer", "queued"):
        waits(state, signal, brings_a_turn=event.disposition != "queued")
    if event.disposition != "observed":
        shown.remove(signal)
    del shown[: max(0, len(shown) - SHOWN_MAX)]


def enters_now(state: State, signal: Signal) -> None:
    """Puts a signal before the model with the request that is made instead of the one under way."""
    here = state.signals
    here.cuts = here.cuts + 1 if here.cut_turn == state.turn.turn_id else 1
    here.cut_turn = state.turn.turn_id
    history.note(state, ItemRef(seq=signal.seq, kind="note", tokens=signal.tokens, part="signal"))


def waits(state: State, signal: Signal, *, brings_a_turn: bool) -> None:
    """Puts a signal before the model with the next turn: the most urgent ones first, then in the order they came."""
    given = queue.Input(seq=signal.seq, kind="note", tokens=signal.tokens, part="signal", waits=not brings_a_turn)
    known = waiting(state)
    before = next((seq for seq in state.queue.steering if less_urgent(known, seq, signal.urgency)), None)
    queue.steer(state, given, before=before)
    state.signals.waiting = known | {signal.seq: signal.urgency}


def let_go(state: State, seq: int) -> None:
    queue.drop(state.queue, seq)
    state.signals.waiting = waiting(state)


# --- when, and what follows ---------------------------------------------------------------------------------------


def on_signal(state: State, fact: SignalReceived) -> Decisions:
    signal, busy = state.signals.shown[-1], busy_with(state)
    disposition = disposition_of(state, signal, busy)
    if disposition in ("run", "steer", "queued") or (disposition == "interrupt" and not cuts_off_the_model(state)):
        for seq in overfull(state):
            yield SignalDisposed(signal_id=signal_id(seq), disposition="dropped", busy=busy)
    yield SignalDisposed(signal_id=signal.signal_id, disposition=disposition, busy=busy)
    if disposition == "run":
        yield from retries.drop(state)
        continues = isinstance(state.phase, Asleep)
        yield from runs.begin(state, "signal", (fact.command_id,), continues=continues, trace=fact.trace)
        return
    if disposition == "interrupt":
        yield from cut_off(state)
    yield queue.done(fact.command_id)


def cut_off(state: State) -> Decisions:
    """Ends what is under way, so that the model is asked again with the signal."""
    match state.phase:
        case AwaitingModel(request_id=name):
            yield requests.drop(state, name)
            yield from retries.try_again(state)
        case BackingOff(timer_id=name):
            yield TimerCancelled(timer_id=name, reason="superseded")
            yield from retries.try_again(state)
        case Asked():
            yield from runs.begin(state, "signal", continues=True)
            yield from runs.stop_all(state, "superseded")
        case _:
            yield from runs.stop_all(state, "superseded")


def disposition_of(state: State, signal: Signal, busy: Busy) -> Disposition:
    """What becomes of a signal: what the table says, unless it has come before or nothing more may wait."""
    if signal.duplicate:
        return "duplicate"
    row = getattr(state.setup.settings.attention, signal.urgency)
    match getattr(row, busy):
        case "drop":
            return "dropped"
        case "observe":
            return "observed"
        case "interrupt" if cuts_off_the_model(state) and may_cut_off(state, signal):
            return "interrupt"
        case "interrupt" if busy in ("tools", "people"):
            disposition: Disposition = "interrupt"
        case "queue":
            disposition = "queued"
        case _:
            disposition = "run" if busy in ("resting", "sleeping") else "steer"
    return disposition if has_room(state, signal) else "dropped"


def busy_with(state: State) -> Busy:
    """What the session is busy with, in the words of the table."""
    if isinstance(state.phase, AwaitingTools):
        return "tools"
    if state.active:
        return "model"
    if isinstance(state.phase, Asked):
        return "people"
    return "sleeping" if isinstance(state.phase, Asleep) else "resting"


def cuts_off_the_model(state: State) -> bool:
    """Whether the conversation's own answer is under way, or waits to be asked for again."""
    return isinstance(state.phase, AwaitingModel | BackingOff) and state.compaction.attempt == 0


def may_cut_off(state: State, signal: Signal) -> bool:
    """Whether an answer may be cut off once more. It is paid for, so that is done a few times in a turn, and only if
    the budgets leave room to ask again."""
    here = state.signals
    if here.cut_turn == state.turn.turn_id and here.cuts >= state.setup.settings.attention.interrupts_max:
        return False
    tokens = context_size.context_tokens(state) + signal.tokens
    return budgets.exhausted(state, tokens, None, budgets.WITHIN_A_TURN) is None


# --- what waits ---------------------------------------------------------------------------------------------------


def waiting(state: State) -> dict[int, Urgency]:
    """The signals that wait for a turn; what has entered the history since is not among them."""
    return {seq: urgency for seq, urgency in state.signals.waiting.items() if seq in state.queue.inputs}


def less_urgent(known: dict[int, Urgency], seq: int, than: Urgency) -> bool:
    return seq in known and RANKS[known[seq]] > RANKS[than]


def overfull(state: State) -> list[int]:
    """The signal that must go for one more to wait: the newest of the least urgent."""
    known = waiting(state)
    if len(known) < state.setup.settings.attention.queue_max:
        return []
    return [max(known, key=lambda seq: (RANKS[known[seq]], seq))]


def has_room(state: State, signal: Signal) -> bool:
    known = waiting(state)
    return all(less_urgent(known, seq, signal.urgency) for seq in overfull(state))


PART = Part(
    name="signals",
    facts={SignalReceived: Row(when=STARTED, check=listening_grants.check_said, fold=signal_received, then=on_signal)},
    decisions={SignalDisposed: signal_disposed},
)
