"""The hard places: what a sweep of seeds must have reached to prove anything, and how each is recognised."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from windlass.events import calls as ce
from windlass.events import context as xe
from windlass.events import permissions as pe
from windlass.events import questions as qe
from windlass.events import runs as re_
from windlass.events import sessions as se
from windlass.events import turns as te
from windlass.events.base import Event
from windlass.events.codec import Appended

from .loop import Actor

if TYPE_CHECKING:
    from .watch import Log
    from .world import World

CRASHES = (
    "crash_in_append_lost",
    "crash_in_append_kept",
    "crash_model_open",
    "crash_tool_open",
    "crash_mid_batch",
    "crash_while_asked",
    "crash_in_back_off",
    "crash_while_compacting",
    "crash_at_before_append",
    "crash_at_after_append",
    "crash_at_before_model",
    "crash_at_after_model",
    "crash_at_before_tool",
    "crash_at_after_tool",
)
WORLD = (
    "append_failed",
    "lost_acknowledgement",
    "cancelled_after_append",
    "late_append",
    "second_append_refused",
    "storage_full",
    "store_poisoned",
    "read_error",
    "snapshot_used",
    "snapshot_lost",
    "lease_held",
    "two_owners",
    "stale_append_refused",
    "stale_keep_refused",
    "stalled_past_lease",
    "closed_while_running",
    "clock_jump_over_timer",
    "clock_jump_back",
    "model_hangs",
    "tool_hangs",
    "fork_while_running",
    "command_sent_twice",
    "command_by_inbox",
    "person_gave_up",
    "follower_saw_the_end",
)
LOG = (
    "outcome_unknown",
    "settled",
    "started_again",
    "approved_after_crash",
    "denied",
    "answered",
    "asked_inside_a_tool",
    "suspended",
    "client_result",
    "tool_timed_out",
    "compacted",
    "compaction_failed",
    "retry",
    "slept",
    "timer_fired",
    "woken",
    "steered",
    "queued",
    "held",
    "queue_edited",
    "signalled",
    "refused_on_record",
    "rewound",
    "person_called",
    "task_completed",
    "audit_note",
    "consulted",
    "consulted_again",
    "judged",
    "archived",
)
PHASES = ("idle", "asked", "asleep", "awaiting_model", "backing_off", "awaiting_tools", "compacting")
STOPS = tuple(f"{what}_{phase}" for what in ("interrupt", "cancel") for phase in PHASES)

HARD_PLACES: tuple[str, ...] = (*CRASHES, *WORLD, *LOG, *STOPS)
"""Each must be reached somewhere in a sweep."""

_SIMPLE: dict[type[Event], str] = {
    ce.ToolOutcomeUnknown: "outcome_unknown",
    ce.ToolSettled: "settled",
    ce.ToolSuspended: "suspended",
    ce.ResultReceived: "client_result",
    ce.ToolTimedOut: "tool_timed_out",
    ce.ToolAsked: "asked_inside_a_tool",
    ce.CallReceived: "person_called",
    pe.PermissionDenied: "denied",
    qe.AnswerReceived: "answered",
    te.RetryPlanned: "retry",
    re_.RunSlept: "slept",
    re_.TimerFired: "timer_fired",
    re_.QueueEdited: "queue_edited",
    re_.SignalReceived: "signalled",
    re_.CommandRefused: "refused_on_record",
    se.SessionRewound: "rewound",
    se.TaskCompleted: "task_completed",
    se.NoticeGiven: "audit_note",
    xe.CompactionFailed: "compaction_failed",
    xe.CompactionFinished: "compacted",
    xe.ContextArchived: "archived",
}
_QUEUE = {"steering": "steered", "queued": "queued", "held": "held"}


def count_append(world: World, actor: Actor, found: Log, append: Appended) -> None:
    """Notes what an append says about where the world has been; `found` is the log before it."""
    fact = append.events[0]
    phase = str(found.state.phase.__struct_config__.tag)
    if isinstance(fact, re_.InterruptReceived):
        world.reached(f"interrupt_{phase}")
    elif isinstance(fact, re_.CancelReceived):
        world.reached(f"cancel_{phase}")
    for event in append.events:
        assert isinstance(event, Event)
        simple = _SIMPLE.get(type(event))
        if simple is not None:
            world.reached(simple)
            continue
        watcher = _SPECIAL.get(type(event))
        if watcher is not None:
            watcher(world, found, event)


def _started(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, ce.ToolStarted)
    if event.attempt > 1:
        world.reached("started_again")


def _run_started(world: World, found: Log, event: Event) -> None:
    world.runs += 1


def _requested(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, pe.PermissionRequested)
    found.asked_epoch[event.request_id] = found.state.epoch


def _approved(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, pe.PermissionApproved)
    if found.asked_epoch.get(event.request_id, found.state.epoch) < found.state.epoch:
        world.reached("approved_after_crash")


def _queue_changed(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, re_.QueueChanged)
    name = _QUEUE.get(event.operation)
    if name is not None:
        world.reached(name)


def _cancelled(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, re_.TimerCancelled)
    if event.reason == "woken":
        world.reached("woken")


def _asked_aside(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, te.ModelAsked)
    if event.lane == "judge":
        world.reached("judged")
    else:
        world.reached("consulted" if event.attempt == 1 else "consulted_again")


_SPECIAL: dict[type, Callable[[World, Log, Event], None]] = {
    te.ModelAsked: _asked_aside,
    ce.ToolStarted: _started,
    re_.RunStarted: _run_started,
    pe.PermissionRequested: _requested,
    pe.PermissionApproved: _approved,
    re_.QueueChanged: _queue_changed,
    re_.TimerCancelled: _cancelled,
}
