"""Children: calls that a session of its own carries out. What each may use is set aside until its end arrives.

(call allowed) ──▶ child.started ──▶ open ──┬──▶ child.opened    the call is over; the end is told later
                                     │  ▲   ├──▶ child.stopped   it is to end; what it used still comes back
                                     ▼  │   └──▶ child.finished  the result of the call, or told later; booked once
                              child.moved: working, asked, sleeping; the call rests as the child does

child.finished while those below are open ──▶ unsettled ──▶ child.settled  what they used is booked; the rest is free

A child tells its parent itself: `tells` derives the messages of both sides from what was decided, ids included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from windlass.events.base import Command, Event
from windlass.events.commands import PromptReceived
from windlass.events.errors import Refused
from windlass.events.runs import (
    CancelReceived,
    InterruptReceived,
)
from windlass.events.sessions import SessionForked, SessionImported
from windlass.events.trees.accounts import ChildSettled
from windlass.events.trees.children import (
    ChildFinished,
    ChildMoved,
    ChildOpened,
    ChildStarted,
    ChildStopped,
    ChildTold,
    Used,
)
from windlass.events.values.ids import (
    below,
    child_end_id,
    child_id,
    child_settled_id,
    child_stop_id,
    child_task_id,
    child_told_id,
)
from windlass.events.values.isolation import Isolation
from windlass.events.values.setup import ChildContext, ChildMode, Limits, Origin
from windlass.kernel.effects import StartChild
from windlass.kernel.part import Decisions, Misfit, Open, Part, Row, Send, Why
from windlass.kernel.parts import budgets, queue, runs
from windlass.kernel.parts.flows import nodes
from windlass.kernel.parts.tools import calls, jobs, labels
from windlass.kernel.parts.trees import child_shares, child_side
from windlass.kernel.phases import STARTED

if TYPE_CHECKING:
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State

TOLD_TOKENS = 24
TOLD_BELOW = frozenset({ChildStarted, ChildStopped, ChildTold})
"""What the children of a session hear of."""


class Child(msgspec.Struct, kw_only=True, gc=False):
    """A child session whose end is not in the log yet."""

    child_id: str
    call_id: str
    tool: str
    seq: int
    labels: tuple[str, ...] = ()
    quarantine: bool = False
    agent: str = ""
    mode: ChildMode = "foreground"
    context: ChildContext = "fresh"
    scope: str = ""
    depth: int = 0
    slice: Limits = Limits()
    isolation: Isolation | None = None
    status: str = "working"
    waiting_for: tuple[str, ...] = ()
    wake_at_ms: int | None = None
    child_seq: int = 0
    opened: bool = False
    stopping: bool = False


class Unsettled(msgspec.Struct, kw_only=True, gc=False):
    """A child that has ended before those below it: what was booked for it, and what they may still use."""

    child: Child
    used: Used
    held: Used


class Children(msgspec.Struct, kw_only=True, gc=False):
    """The children whose ends are awaited, by call; those that ended before the ones below them; the one that ended
    last; why the last of those failed that did; and how many there were."""

    open: dict[str, Child] = {}
    unsettled: dict[str, Unsettled] = {}
    last: Child | None = None
    cause: child_side.Cause | None = None
    count: int = 0

    @property
    def kept(self) -> bool:
        """Whether anything is still to come from them."""
        return bool(self.open or self.unsettled)

    @property
    def ending(self) -> list[Child]:
        """The children that are to end, or have ended before those below them: they are heard of once more."""
        stopped = [child for child in self.open.values() if child.stopping]
        return stopped + [one.child for one in self.unsettled.values()]


# --- as a parent: verbs and questions -----------------------------------------------------------------------------


def call_closed(state: State, call: str) -> None:
    """The call got its result otherwise. In older logs nobody waits for the child then."""
    child = state.children.open.get(call)
    if child is not None and child.mode == "foreground" and not child.stopping:
        del state.children.open[call]


def rests(state: State, call: str) -> bool:
    """Whether the child of a call waits for people or a time."""
    child = state.children.open.get(call)
    return child is not None and child.status != "working"


def next_wake_ms(state: State) -> int | None:
    """When the first of the sleeping children that calls wait for goes on."""
    times = [child.wake_at_ms for child in waited_for(state) if child.status == "sleeping"]
    return min([at_ms for at_ms in times if at_ms is not None], default=None)


def waited_for(state: State) -> Iterator[Child]:
    """The children that calls wait for."""
    for child in state.children.open.values():
        if child.mode == "foreground" and not child.stopping:
            yield child


# --- fold ---------------------------------------------------------------------------------------------------------


def child_started(state: State, event: ChildStarted) -> None:
    call = calls.moved(state, event.call_id, ChildStarted)
    labels.begun(state, call)
    budgets.spend_child(state)
    if event.mode == "detached":
        budgets.spend_below(state, child_shares.full(event.slice))
    state.children.count += 1
    state.children.open[event.call_id] = Child(
        child_id=event.child_id,
        call_id=event.call_id,
        tool=call.tool,
        seq=state.seq,
        labels=event.labels,
        quarantine=event.quarantine,
        agent=event.agent,
        mode=event.mode,
        context=event.context,
        scope=event.scope,
        depth=event.depth,
        slice=event.slice,
        isolation=event.isolation,
    )


def child_opened(state: State, event: ChildOpened) -> None:
    state.children.open[event.call_id].opened = True
    if _call_waits(state, event.call_id):
        calls.close(state, event.call_id, event.tokens)


def _call_waits(state: State, call_id: str) -> bool:
    """Whether the start of a child is the result of its call; one that was stopped before has another."""
    call = state.calls.by_id.get(call_id)
    return call is not None and call.status == "child"


def child_moved(state: State, event: ChildMoved) -> None:
    child = state.children.open[event.call_id]
    child.status, child.child_seq = event.status, event.child_seq
    child.waiting_for, child.wake_at_ms = event.waiting_for, event.wake_at_ms


def child_finished(state: State, event: ChildFinished) -> None:
    child = state.children.open.pop(event.call_id)
    state.children.last = child
    if event.failure is not None:
        state.children.cause = child_side.Cause(failure=event.failure, scope=event.failed_in)
        nodes.failed_below(state, event.call_id, str(state.children.cause))
    if event.labels:
        labels.meet(state, event.labels, event.call_id, child.tool)
    if child.mode != "detached":
        used = event.used if event.used is not None else child_shares.full(child.slice)
        budgets.spend_below(state, used)
        if event.held is not None:
            state.children.unsettled[event.call_id] = Unsettled(child=child, used=used, held=event.held)
    call = state.calls.by_id.get(event.call_id)
    if call is not None and call.status == "child":
        calls.close(state, event.call_id, event.tokens, event.bytes, ok=event.ok)
    elif child.mode != "foreground":
        waits = child.stopping or child.mode == "detached" or not state.setup.settings.children_wake
        told = queue.Input(
            seq=state.seq,
            kind="note",
            tokens=event.tokens + TOLD_TOKENS,
            bytes=event.bytes,
            part="child",
            waits=waits,
        )
        queue.steer(state, told)


def set_aside_more(state: State, call: str, more: Limits) -> None:
    """A child may use more than was set aside for it when it was started."""
    child = state.children.open[call]
    child.slice = budgets.raised(child.slice, more)


def child_settled(state: State, event: ChildSettled) -> None:
    before = state.children.unsettled.pop(event.call_id)
    budgets.spend_below(state, budgets.used_since(event.used, before.used))


def child_stopped(state: State, event: ChildStopped) -> None:
    child = state.children.open[event.call_id]
    if child.stopping:
        raise Misfit(f"{event.child_id} is to end already")
    child.stopping = True


def carried_over(state: State, event: SessionForked | SessionImported) -> None:
    """The children of the origin are its own, and it pays for them: here nobody works, and nothing is set aside."""
    state.children.open, state.children.unsettled = {}, {}


# --- when, and what follows ---------------------------------------------------------------------------------------


def check_opened(state: State, fact: ChildOpened) -> None:
    child = state.children.open.get(fact.call_id)
    if child is None or child.opened or child.mode == "foreground":
        raise Refused("stale", f"no call waits for the start of the child {fact.child_id}")


def check_moved(state: State, fact: ChildMoved) -> None:
    child = state.children.open.get(fact.call_id)
    if child is None or child.child_id != fact.child_id or fact.child_seq <= child.child_seq:
        raise Refused("not_open", f"nobody waits for the child {fact.child_id}, or it has got further")


def check_finished(state: State, fact: ChildFinished) -> None:
    child = state.children.open.get(fact.call_id)
    if child is None or child.child_id != fact.child_id:
        raise Refused("not_open", f"nobody waits for the child {fact.child_id}")
    if fact.command_id != child_end_id(fact.child_id):
        raise Refused("malformed", "the end of a child comes under an id that is derived from the child's")


def check_settled(state: State, fact: ChildSettled) -> None:
    before = state.children.unsettled.get(fact.call_id)
    if before is None or before.child.child_id != fact.child_id:
        raise Refused("not_open", f"nothing is set aside any more for the child {fact.child_id}")
    if fact.command_id != child_settled_id(fact.child_id):
        raise Refused("malformed", "what a child used comes under an id that is derived from the child's")


def on_settled(state: State, fact: ChildSettled) -> Decisions:
    """A matter of accounts alone."""
    yield queue.done(fact.command_id)


def on_moved(state: State, fact: ChildMoved) -> Decisions:
    """A run that rested as the child did goes on with it, or rests otherwise."""
    yield queue.done(fact.command_id)
    child = state.children.open[fact.call_id]
    if not state.active and child in list(waited_for(state)):
        yield from runs.begin(state, "child", continues=True)


def on_finished(state: State, fact: ChildFinished) -> Decisions:
    """The command ends at once; what it brought is the result of the call, or told with the next turn."""
    yield queue.done(fact.command_id)
    child = state.children.last
    if child is None or state.active or child.stopping:
        return
    wakes = child.mode == "background" and state.setup.settings.children_wake and jobs.rests_freely(state)
    if child.mode == "foreground" or wakes:
        yield from runs.begin(state, "child", continues=True)


def start(state: State, call: Call) -> Decisions:
    """The intent to have a child carry out a call; or why none may be started."""
    spawning = call.spawning
    slice = child_shares.share_for(state, call)
    if why := child_shares.refusal(state, call, slice):
        yield calls.denied(call, "budget", why)
        return
    origin = "" if state.parent_id is None else f"{state.scope}~"
    yield ChildStarted(
        child_id=child_id(state.session_id, call.call_id),
        call_id=call.call_id,
        labels=labels.told(state),
        quarantine=state.labels.quarantined or nodes.quarantines(state, call),
        agent=spawning.agent if spawning is not None else "",
        mode=spawning.mode if spawning is not None else "foreground",
        context=spawning.context if spawning is not None else "fresh",
        scope=f"{origin}{call.call_id}" if spawning is not None else "",
        depth=state.depth + 1 if spawning is not None else 0,
        slice=slice,
        isolation=spawning.isolation if spawning is not None else None,
    )


def stop(state: State, why: Why) -> Decisions:
    """Children end with their parent's work, but for those that are detached; a prompt in place of what is open leaves
    those in the background."""
    if why == "not_carried_over":
        return
    for child in list(state.children.open.values()):
        spared = child.mode == "detached" or (why == "superseded" and child.mode == "background")
        if not child.stopping and not spared:
            how = "cancel" if why == "cancelled" else "interrupt"
            yield ChildStopped(child_id=child.child_id, call_id=child.call_id, how=how)  # type: ignore[arg-type]


def owes(state: State) -> Iterable[StartChild]:
    """Owed while a run waits for it, until it has begun if nobody waits, and until its end is there if it is to end,
    or it has settled: starting a child that is there changes nothing, but that somebody drives it."""
    here = state.children
    owed = [_start_of(child) for child in here.open.values() if _is_owed(state, child)]
    return owed + [_start_of(one.child, settles=True) for one in here.unsettled.values()]


def _is_owed(state: State, child: Child) -> bool:
    if child.stopping:
        return True
    return not child.opened if child.mode != "foreground" else state.active and child.status == "working"


def _start_of(child: Child, *, settles: bool = False) -> StartChild:
    return StartChild(
        effect_id=f"{child.call_id}/{'settle' if settles else 'stop' if child.stopping else 'child'}",
        child_id=child.child_id,
        call_id=child.call_id,
        tool=child.tool,
        labels=child.labels,
        quarantine=child.quarantine,
        agent=child.agent,
        mode=child.mode,
        context=child.context,
        scope=child.scope,
        depth=child.depth,
        slice=child.slice,
        opened=child.opened or child.stopping or settles,
        settles=settles,
        isolation=child.isolation,
    )


def opens(state: State) -> Iterator[Open]:
    for child in state.children.open.values():
        held_up = child.mode == "foreground" and not child.stopping
        if child.status == "asked" and not child.stopping:
            for name in child.waiting_for or ("answer",):
                yield Open(
                    kind="child",
                    open_id=below(child.call_id, name),
                    by="people" if held_up else "below",
                    seq=child.seq,
                    tool=child.tool,
                )
        else:
            by = "child" if held_up else "below"
            yield Open(kind="child", open_id=child.child_id, by=by, seq=child.seq, tool=child.tool)  # type: ignore[arg-type]


def behind(state: State) -> Iterator[str]:
    """A child goes on in this store, whatever it waits for and whoever waits for it."""
    for child in state.children.open.values():
        yield not_over(child.child_id, child.agent)
    for before in state.children.unsettled.values():
        yield f"below child session {before.child.child_id} some are not over: wait for them, or cancel them first"


def not_over(child: str, agent: str) -> str:
    """What is said of a child that keeps its session from going elsewhere."""
    named = f"{child} ({agent})" if agent else child
    return f"child session {named} is not over: answer what it asks, wait for its end, or cancel it first"


# --- messages -----------------------------------------------------------------------------------------------------


def tells(state: State, first_seq: int, events: list[Event]) -> Iterator[Send]:
    """What an append says to the session's children and to its parent."""
    for seq, event in enumerate(events, start=first_seq):
        if type(event) in TOLD_BELOW:
            yield from _to_child(state, seq, event)
    if state.parent_id is not None:
        yield from child_side.to_parent(state, first_seq, events)


def _to_child(state: State, seq: int, event: Event) -> Iterator[Send]:
    if isinstance(event, ChildStarted) and event.agent:
        call = state.calls.by_id[event.call_id]
        args_seq = call.source_seq if call.changed_seq is None else call.changed_seq
        yield Send(event.child_id, _task(state, event), args_seq, creates=True)
    elif isinstance(event, ChildStopped):
        yield Send(event.child_id, _stop(state, event, seq), creates=True)
    elif isinstance(event, ChildTold):
        said = _said(state, child_told_id(event.child_id, seq))
        steered = msgspec.structs.replace(said, behavior="steer", body=event.body)
        yield Send(event.child_id, steered)


def _said(state: State, command_id: str) -> PromptReceived:
    origin = Origin(kind="session", name=state.session_id)
    return PromptReceived(command_id=command_id, actor=f"session:{state.session_id}", auth="none", origin=origin)


def _task(state: State, event: ChildStarted) -> PromptReceived:
    said = _said(state, child_task_id(event.child_id))
    if not state.run.trace:
        return said  # its trace is that of the tree, which its own log names
    return msgspec.structs.replace(said, trace=runs.traced(state, event.call_id).traceparent)


def _stop(state: State, event: ChildStopped, seq: int) -> Command:
    kind = InterruptReceived if event.how == "interrupt" else CancelReceived
    name = child_stop_id(event.child_id, seq)
    return kind(command_id=name, actor=f"session:{state.session_id}", auth="none", reason="its parent was stopped")


PART = Part(
    name="children",
    facts={
        ChildOpened: Row(when=STARTED, check=check_opened, fold=child_opened),
        ChildMoved: Row(when=STARTED, check=check_moved, fold=child_moved, then=on_moved),
        ChildFinished: Row(when=STARTED, check=check_finished, fold=child_finished, then=on_finished),
        ChildSettled: Row(when=STARTED, check=check_settled, fold=child_settled, then=on_settled),
    },
    decisions={ChildStarted: child_started, ChildStopped: child_stopped, ChildTold: None},
    hears={SessionForked: carried_over, SessionImported: carried_over},
    stop=stop,
    keeps=lambda state: state.children.kept,
    owes=owes,
    opens=opens,
    reserves=child_shares.reserves,
    behind=behind,
    tells=tells,
)
