"""The hard places: what a sweep of seeds must have reached to prove anything, and how each is recognised."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from windlass.events.base import Event
from windlass.events.budgets import BudgetStopped
from windlass.events.changes import LimitsChanged, ModeChanged, ModelChanged, PolicyChanged, SettingsChanged
from windlass.events.commands import CommandRefused, QueueChanged, QueueEdited
from windlass.events.context import (
    CompactionFailed,
    CompactionFinished,
    CompactionUndone,
    ContextArchived,
    ContextPagedIn,
    PinsChanged,
)
from windlass.events.hooks import HookRuled
from windlass.events.questions import AnswerReceived
from windlass.events.runs import CancelReceived, InterruptReceived, RunInterrupted, RunSlept, RunStarted
from windlass.events.sessions import AgentChanged, NoticeGiven, SessionRewound, SessionTotalled
from windlass.events.signals import SignalReceived
from windlass.events.stored.codec import Appended
from windlass.events.tasks import TaskCompleted
from windlass.events.timers import TimerCancelled, TimerFired
from windlass.events.tools.calls import (
    CallReceived,
    ResultReceived,
    ToolAllowed,
    ToolAsked,
    ToolDenied,
    ToolOutcomeUnknown,
    ToolReconsidered,
    ToolSettled,
    ToolStarted,
    ToolSuspended,
    ToolTimedOut,
)
from windlass.events.tools.jobs import JobDropped, JobFinished, JobStarted, JobStopping
from windlass.events.tools.labels import LabelsDeclassified, LabelsJoined
from windlass.events.tools.permissions import GrantsChanged, PermissionApproved, PermissionDenied, PermissionRequested
from windlass.events.tools.toolset import ToolsetChanged
from windlass.events.turns import (
    ModelAsked,
    ModelDropped,
    OutputExtracted,
    OutputFailed,
    OutputRejected,
    RetryPlanned,
    TurnStarted,
)

from .loop import Actor

if TYPE_CHECKING:
    from .disk_watch import Log
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
    "tool_cancels_itself",
    "driver_dies",
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
    "job_lost",
    "job_swept",
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
    "job_started",
    "job_ended",
    "job_stopped",
    "job_woke",
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
    "cut_off_by_a_signal",
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
    "marked",
    "declassified",
    "legs_asked_about",
    "legs_agreed_to",
    "legs_met_before_the_start",
    "approved_for_the_session",
    "approved_by_pattern",
    "allowed_by_a_standing_approval",
    "standing_approval_revoked",
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
    "judged_again",
    "denied_when_judged_again",
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
    ToolOutcomeUnknown: "outcome_unknown",
    ToolSettled: "settled",
    ToolSuspended: "suspended",
    JobStarted: "job_started",
    JobFinished: "job_ended",
    JobStopping: "job_stopped",
    JobDropped: "job_dropped",
    ResultReceived: "client_result",
    ToolTimedOut: "tool_timed_out",
    ToolAsked: "asked_inside_a_tool",
    CallReceived: "person_called",
    AnswerReceived: "answered",
    RetryPlanned: "retry",
    RunSlept: "slept",
    TimerFired: "timer_fired",
    QueueEdited: "queue_edited",
    SignalReceived: "signalled",
    ModelDropped: "cut_off_by_a_signal",
    SessionRewound: "rewound",
    TaskCompleted: "task_completed",
    NoticeGiven: "audit_note",
    CompactionFailed: "compaction_failed",
    CompactionUndone: "compaction_undone",
    ContextPagedIn: "paged_in",
    SessionTotalled: "shut_down",
    PinsChanged: "pinned",
    AgentChanged: "code_changed_agent",
    PolicyChanged: "code_changed_policy",
    LimitsChanged: "code_changed_limits",
    OutputExtracted: "output_extracted",
    OutputRejected: "output_rejected",
    OutputFailed: "output_failed",
    LabelsJoined: "marked",
    LabelsDeclassified: "declassified",
}
_QUEUE = {"steering": "steered", "queued": "queued", "held": "held"}


def count_append(world: World, actor: Actor, log: Log, append: Appended) -> None:
    """Notes what an append says about where the world has been; `log` is the log before it."""
    fact = append.events[0]
    phase = str(log.state.phase.__struct_config__.tag)
    if isinstance(fact, InterruptReceived):
        world.reached(f"interrupt_{phase}")
    elif isinstance(fact, CancelReceived):
        world.reached(f"cancel_{phase}")
    for event in append.events:
        assert isinstance(event, Event)
        simple = _SIMPLE.get(type(event))
        if simple is not None:
            world.reached(simple)
            continue
        watcher = _SPECIAL.get(type(event))
        if watcher is not None:
            watcher(world, log, event)


def _started(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, ToolStarted)
    if event.attempt > 1:
        world.reached("started_again")


def _run_started(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, RunStarted)
    world.runs += 1
    if event.trigger == "job":
        world.reached("job_woke")
    if event.options is not None:
        world.reached("run_with_options")


def _ruled(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, HookRuled)
    ruling = event.ruling
    if ruling.outcome in ("denied", "changed"):
        world.reached(f"hook_{ruling.outcome}_{ruling.point}")
    elif ruling.outcome != "allowed":
        world.reached(f"hook_{ruling.outcome}")
    if ruling.denies and ruling.fatal:
        world.reached("hook_stopped_a_run")


def _toolset(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, ToolsetChanged)
    if event.phase == "draining":
        world.reached("unmount_drains")
    elif event.phase == "forced":
        world.reached("unmount_forced")
    elif event.phase == "applied":
        world.reached({"add": "mounted", "reload": "mounted_anew"}.get(event.operation, "unmounted"))


def _code(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, ModelChanged | SettingsChanged | ModeChanged)
    if event.reason == "resume":
        world.reached(f"code_changed_{_CODE[type(event)]}")


_CODE: dict[type, str] = {ModelChanged: "model", SettingsChanged: "settings", ModeChanged: "mode"}


def _not_run(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, ToolDenied)
    call = log.state.calls.by_id.get(event.call_id)
    if call is not None and call.outdated and event.reason in ("rules", "mode", "no_approver"):
        world.reached("denied_when_judged_again")
    world.reached("taken_away_before_it_ran" if event.reason == "unavailable_tool" else f"denied_by_{event.reason}")


def _stopped(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, BudgetStopped)
    world.reached(f"stopped_by_{event.limit}")


def _refused(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, CommandRefused)
    world.reached("refused_on_record")
    if event.code == "busy":
        world.reached("rejected_while_busy")


def _archived(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, ContextArchived)
    world.reached("archived" if event.failure is None else "archive_failed")


def _compacted(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, CompactionFinished)
    world.reached("compacted")
    if any(seq in log.state.history.pinned for seq in event.kept):
        world.reached("pinned_item_kept")


def _turn(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, TurnStarted)
    if "nudge" in event.notes:
        world.reached("nudged")


def _interrupted(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, RunInterrupted)
    if event.stop == "superseded":
        world.reached("superseded")


def _not_approved(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, PermissionDenied)
    world.reached("hook_refused_permission" if event.actor.startswith("hook:") else "denied")


def _requested(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, PermissionRequested)
    if event.changed:
        world.reached("asked_again")
    if event.joins:
        world.reached("legs_asked_about")
    log.asked_epoch[event.request_id] = log.state.epoch


def _approved(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, PermissionApproved)
    ask = log.state.asks.open.get(event.request_id)
    call = log.state.calls.by_id.get(ask.call_id) if ask is not None else None
    if call is not None and call.joins:
        world.reached("legs_agreed_to")
    if event.scope != "once":
        world.reached("approved_by_pattern" if event.scope == "pattern" else "approved_for_the_session")
    if event.actor.startswith("hook:"):
        world.reached("hook_approved")
    if log.asked_epoch.get(event.request_id, log.state.epoch) < log.state.epoch:
        world.reached("approved_after_crash")


def _queue_changed(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, QueueChanged)
    name = _QUEUE.get(event.operation)
    if name is not None:
        world.reached(name)


def _cancelled(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, TimerCancelled)
    if event.reason == "woken":
        world.reached("woken")


def _asked_aside(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, ModelAsked)
    if event.lane == "judge":
        world.reached("judged")
    else:
        world.reached("consulted" if event.attempt == 1 else "consulted_again")


def _reconsidered(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, ToolReconsidered)
    world.reached("judged_again")
    if "labels" in event.changed:
        world.reached("legs_met_before_the_start")
    if "grant" in event.changed:
        world.reached("standing_approval_ended_before_the_start")


def _let_pass(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, ToolAllowed)
    if event.by == "grant":
        world.reached("allowed_by_a_standing_approval")


def _grants(world: World, log: Log, event: Event) -> None:
    assert isinstance(event, GrantsChanged)
    if event.revoked:
        world.reached("standing_approval_revoked")


_SPECIAL: dict[type, Callable[[World, Log, Event], None]] = {
    ToolReconsidered: _reconsidered,
    ToolAllowed: _let_pass,
    GrantsChanged: _grants,
    ModelAsked: _asked_aside,
    ToolStarted: _started,
    RunStarted: _run_started,
    PermissionRequested: _requested,
    PermissionApproved: _approved,
    QueueChanged: _queue_changed,
    TimerCancelled: _cancelled,
    HookRuled: _ruled,
    ToolsetChanged: _toolset,
    ToolDenied: _not_run,
    ModelChanged: _code,
    SettingsChanged: _code,
    ModeChanged: _code,
    BudgetStopped: _stopped,
    CommandRefused: _refused,
    TurnStarted: _turn,
    RunInterrupted: _interrupted,
    ContextArchived: _archived,
    CompactionFinished: _compacted,
    PermissionDenied: _not_approved,
}
