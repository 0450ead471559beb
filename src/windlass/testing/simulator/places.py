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
from windlass.events.hooks import HookRuled

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
    "crash_at_hook",
    "crash_at_archive",
    "crash_at_client.serves",
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
    "read_on_elsewhere",
    "read_on_after_crash",
    "hook_raised",
    "hooks_lent",
    "served",
    "served_again",
    "erased",
    "erased_is_shown",
    "paged_in_by_a_person",
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
    "archive_failed",
    "paged_in",
    "compaction_undone",
    "pinned",
    "pinned_item_kept",
    "output_extracted",
    "output_rejected",
    "output_failed",
    "shut_down",
    "superseded",
    "rejected_while_busy",
    "nudged",
    "run_with_options",
)
HOOKS = (
    "hook_denied_prompt",
    "hook_denied_before_model",
    "hook_denied_after_model",
    "hook_denied_before_tool",
    "hook_denied_after_tool",
    "hook_failed",
    "hook_timed_out",
    "hook_changed_prompt",
    "hook_changed_before_model",
    "hook_changed_before_tool",
    "hook_changed_after_tool",
    "hook_stopped_a_run",
    "hook_approved",
    "hook_refused_permission",
)
TOOLSETS = ("mounted", "mounted_anew", "unmounted", "unmount_drains", "unmount_forced", "taken_away_before_it_ran")
CODE = (
    "code_changed_agent",
    "code_changed_model",
    "code_changed_policy",
    "code_changed_limits",
    "code_changed_settings",
    "code_changed_mode",
)
DENIALS = ("denied_by_rules", "denied_by_mode", "denied_by_no_approver", "denied_by_unknown_tool", "denied_by_budget")
BUDGETS = tuple(f"stopped_by_{limit}" for limit in ("tokens", "money", "turns", "calls", "time"))
PHASES = ("idle", "asked", "asleep", "awaiting_model", "backing_off", "awaiting_tools", "compacting")
STOPS = tuple(f"{what}_{phase}" for what in ("interrupt", "cancel") for phase in PHASES)

HARD_PLACES: tuple[str, ...] = (
    *CRASHES,
    *WORLD,
    *LOG,
    *HOOKS,
    *TOOLSETS,
    *CODE,
    *DENIALS,
    *BUDGETS,
    *STOPS,
)
"""Each must be reached somewhere in a sweep."""

_SIMPLE: dict[type[Event], str] = {
    ce.ToolOutcomeUnknown: "outcome_unknown",
    ce.ToolSettled: "settled",
    ce.ToolSuspended: "suspended",
    ce.ResultReceived: "client_result",
    ce.ToolTimedOut: "tool_timed_out",
    ce.ToolAsked: "asked_inside_a_tool",
    ce.CallReceived: "person_called",
    qe.AnswerReceived: "answered",
    te.RetryPlanned: "retry",
    re_.RunSlept: "slept",
    re_.TimerFired: "timer_fired",
    re_.QueueEdited: "queue_edited",
    re_.SignalReceived: "signalled",
    se.SessionRewound: "rewound",
    se.TaskCompleted: "task_completed",
    se.NoticeGiven: "audit_note",
    xe.CompactionFailed: "compaction_failed",
    xe.CompactionUndone: "compaction_undone",
    xe.ContextPagedIn: "paged_in",
    se.SessionTotalled: "shut_down",
    se.PinsChanged: "pinned",
    se.AgentChanged: "code_changed_agent",
    se.PolicyChanged: "code_changed_policy",
    se.LimitsChanged: "code_changed_limits",
    te.OutputExtracted: "output_extracted",
    te.OutputRejected: "output_rejected",
    te.OutputFailed: "output_failed",
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
    assert isinstance(event, re_.RunStarted)
    world.runs += 1
    if event.options is not None:
        world.reached("run_with_options")


def _ruled(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, HookRuled)
    ruling = event.ruling
    if ruling.outcome in ("denied", "changed"):
        world.reached(f"hook_{ruling.outcome}_{ruling.point}")
    elif ruling.outcome != "allowed":
        world.reached(f"hook_{ruling.outcome}")
    if ruling.denies and ruling.fatal:
        world.reached("hook_stopped_a_run")


def _toolset(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, ce.ToolsetChanged)
    if event.phase == "draining":
        world.reached("unmount_drains")
    elif event.phase == "forced":
        world.reached("unmount_forced")
    elif event.phase == "applied":
        world.reached({"add": "mounted", "reload": "mounted_anew"}.get(event.operation, "unmounted"))


def _code(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, se.ModelChanged | se.SettingsChanged | se.ModeChanged)
    if event.reason == "resume":
        world.reached(f"code_changed_{_CODE[type(event)]}")


_CODE: dict[type, str] = {se.ModelChanged: "model", se.SettingsChanged: "settings", se.ModeChanged: "mode"}


def _not_run(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, ce.ToolDenied)
    world.reached("taken_away_before_it_ran" if event.reason == "unavailable_tool" else f"denied_by_{event.reason}")


def _stopped(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, re_.BudgetStopped)
    world.reached(f"stopped_by_{event.limit}")


def _refused(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, re_.CommandRefused)
    world.reached("refused_on_record")
    if event.code == "busy":
        world.reached("rejected_while_busy")


def _archived(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, xe.ContextArchived)
    world.reached("archived" if event.failure is None else "archive_failed")


def _compacted(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, xe.CompactionFinished)
    world.reached("compacted")
    if any(seq in found.state.pinned for seq in event.kept):
        world.reached("pinned_item_kept")


def _turn(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, re_.TurnStarted)
    if "nudge" in event.notes:
        world.reached("nudged")


def _interrupted(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, re_.RunInterrupted)
    if event.stop == "superseded":
        world.reached("superseded")


def _not_approved(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, pe.PermissionDenied)
    world.reached("hook_refused_permission" if event.actor.startswith("hook:") else "denied")


def _requested(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, pe.PermissionRequested)
    found.asked_epoch[event.request_id] = found.state.epoch


def _approved(world: World, found: Log, event: Event) -> None:
    assert isinstance(event, pe.PermissionApproved)
    if event.actor.startswith("hook:"):
        world.reached("hook_approved")
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
    HookRuled: _ruled,
    ce.ToolsetChanged: _toolset,
    ce.ToolDenied: _not_run,
    se.ModelChanged: _code,
    se.SettingsChanged: _code,
    se.ModeChanged: _code,
    re_.BudgetStopped: _stopped,
    re_.CommandRefused: _refused,
    re_.TurnStarted: _turn,
    re_.RunInterrupted: _interrupted,
    xe.ContextArchived: _archived,
    xe.CompactionFinished: _compacted,
    pe.PermissionDenied: _not_approved,
}
