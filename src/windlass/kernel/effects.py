"""What the world owes a session: effects, as values. The runtime performs them; the kernel only names them."""

from __future__ import annotations

from typing import Literal

from windlass.events.values.blocks import Value
from windlass.events.values.isolation import Isolation, Worktree
from windlass.events.values.setup import ChildContext, ChildMode, Limits
from windlass.events.values.usage import Lane


class Effect(Value, frozen=True, kw_only=True, tag_field="effect"):
    """Base of every effect. Two effects with the same `effect_id` are the same effect."""

    effect_id: str


class CallModel(Effect, frozen=True, kw_only=True, gc=False):
    """Send a model request and report its reply or its failure."""

    request_id: str
    lane: Lane
    attempt: int
    model: str
    output_tokens: int
    timeout_ms: int | None = None
    """What the time budgets leave, if there are any."""
    asked_seq: int | None = None
    """Where it was asked for, in the lanes aside."""


class PrepareCall(Effect, frozen=True, kw_only=True, gc=False):
    """Run the hooks on a call and look up what the gate needs."""

    call_id: str
    tool: str


class RunTool(Effect, frozen=True, kw_only=True, gc=False):
    """Run a tool under its idempotency key and report what it gave."""

    call_id: str
    tool: str
    attempt: int
    key: str
    timeout_ms: int


class AskPerson(Effect, frozen=True, kw_only=True, gc=False):
    """Put a request before whoever may answer it, or report that nobody is there."""

    ask_id: str
    kind: Literal["permission", "question"]
    call_id: str
    also: tuple[str, ...] = ()
    """Further requests that are put before them together with it."""


class AwaitClient(Effect, frozen=True, kw_only=True, gc=False):
    """Hand a call to an attached client, or report that none is there."""

    call_id: str
    tool: str


class StartChild(Effect, frozen=True, kw_only=True, gc=False):
    """Begin the log of the child session unless it has begun, and have it driven; its end comes as a message of its
    own. It begins with its parent's labels, in quarantine if its parent is."""

    child_id: str
    call_id: str
    tool: str
    labels: tuple[str, ...] = ()
    quarantine: bool = False
    agent: str = ""
    mode: ChildMode = "foreground"
    context: ChildContext = "fresh"
    scope: str = ""
    depth: int = 0
    slice: Limits = Limits()
    opened: bool = False
    """Whether the parent's call has its result, so that nothing is to be reported."""
    settles: bool = False
    """Whether it has ended, and is to be driven until those below it have ended too."""
    isolation: Isolation | None = None


class MergeWorktree(Effect, frozen=True, kw_only=True, gc=False):
    """Bring what a child changed in its worktree to where its parent works, unless it is there, and report what came of
    it."""

    worktree: Worktree


class RemoveWorktree(Effect, frozen=True, kw_only=True, gc=False):
    """Remove the worktree of a child that has ended, if it is still there. What it holds stays on its branch if it
    `keeps`."""

    worktree: Worktree
    keeps: bool


class WatchJob(Effect, frozen=True, kw_only=True, gc=False):
    """Find a background job again, or see that it is lost; report its end. `stop` = it is to end, and why."""

    job_id: str
    call_id: str
    since_ms: int
    stop: str = ""


class PageOut(Effect, frozen=True, kw_only=True, gc=False):
    """Hand what left the history to the archive, and report that it has it."""

    paged_seq: int


class PutFilesBack(Effect, frozen=True, kw_only=True, gc=False):
    """Finish a rewind that puts files back: it was begun, and what came of it is not on record."""

    command_id: str
    to_seq: int


class SetTimer(Effect, frozen=True, kw_only=True, gc=False):
    """Report when this time has come."""

    timer_id: str
    at_ms: int
    kind: Literal["wait", "retry", "schedule", "node", "machine"]


class ComputeTimes(Effect, frozen=True, kw_only=True, gc=False):
    """Work out which times of a schedule have come since a moment, and which is the next."""

    since_ms: int


class BeginOccurrence(Effect, frozen=True, kw_only=True, gc=False):
    """Begin what a schedule is to begin at a time, unless that was done, and report what became of it."""

    occurrence_id: str
    at_ms: int


class ComputeNode(Effect, frozen=True, kw_only=True, gc=False):
    """Work out what comes next for a node of a workflow, from its needs and from what its calls gave."""

    node: str
    attempt: int
    round: int


class ComputeState(Effect, frozen=True, kw_only=True, gc=False):
    """Work out what a state of a machine does with its input."""

    state: str
    visit: int
    attempt: int


AnyEffect = (
    CallModel
    | PrepareCall
    | RunTool
    | AskPerson
    | AwaitClient
    | StartChild
    | MergeWorktree
    | RemoveWorktree
    | WatchJob
    | PageOut
    | PutFilesBack
    | SetTimer
    | ComputeTimes
    | BeginOccurrence
    | ComputeNode
    | ComputeState
)
