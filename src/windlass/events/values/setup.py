"""What a session is set up with, as data: agent, limits, options, workspace, task.

Code never enters the log; what stands here are names, digests and numbers that the kernel decides by.
"""

from __future__ import annotations

from typing import Literal

from .blocks import JsonObject, Nat, Value
from .graphs import FlowGraph
from .isolation import Isolation
from .machines import MachineSpec
from .models import ModelRef
from .plans import SchedulePlan
from .policy import Policy, WorkMode
from .settings import Settings
from .tools import ToolSpec

Routing = Literal["agent", "auto", "explicit"]

Behavior = Literal["steer", "follow_up"]

ChildMode = Literal["foreground", "background", "detached"]
"""Whether a call waits for the end of its child session, the session is told of it later, or nobody waits for it."""

ChildContext = Literal["fresh", "forked", "shared_read"]
"""What a child session knows of its parent: its task alone, a copy of the history before it, or nothing copied and a
tool that reads its conversation."""


class Spawning(Value, frozen=True, kw_only=True):
    """What the arguments of a call say about the child session that it starts."""

    agent: str
    """The specialist that it is run by."""
    mode: ChildMode = "foreground"
    context: ChildContext = "fresh"
    limits: Limits | None = None
    """What it may use at the most, if less is asked for than its share."""
    isolation: Isolation | None = None
    """How it is to be kept apart, if more than its specialist says."""


class Limits(Value, frozen=True, kw_only=True):
    """Hard limits of a run or a session. None = no limit of this kind."""

    tokens: Nat | None = None
    """Tokens, sent and written."""
    cost_nanos: Nat | None = None
    """Money, in billionths of a dollar."""
    turns: Nat | None = None
    """Calls of the model, with the tool calls that follow from each."""
    calls: Nat | None = None
    """Tool calls."""
    time_ms: Nat | None = None
    """Time at work; waiting for people or timers does not count."""
    children: Nat | None = None
    """Child sessions, with those that they start themselves."""
    depth: Nat | None = None
    """How deep child sessions may go."""


class RunOptions(Value, frozen=True, kw_only=True):
    """What one prompt may change for the run that it opens, and only for that run."""

    model: ModelRef | None = None
    limits: Limits | None = None
    tools: tuple[str, ...] | None = None
    output_required: bool | None = None


class AgentRef(Value, frozen=True, kw_only=True):
    """The agent that a session belongs to: its name, and a digest of everything that shapes its behaviour."""

    name: str
    digest: str = ""
    version: str = ""


class Chosen(Value, frozen=True, kw_only=True):
    """The specialist that a session is run by, in place of its agent."""

    name: str
    """Its name among the specialists of the session's agent."""
    only_reads: bool = False
    """Whether nothing but reading is allowed while it is selected: its role is to read, or it is kept read-only."""


class SessionOptions(Value, frozen=True, kw_only=True):
    """What a session has otherwise than its agent's code says. It stays so whoever resumes the session, until it is
    said otherwise."""

    model: str | None = None
    """A model by name."""
    policy: Policy | None = None
    """Which calls pass."""
    run_limits: Limits | None = None
    """Of each run, with the runs that continue it."""
    limits: Limits | None = None
    """Over the session's whole life."""
    mode: WorkMode | None = None
    """The work mode that it begins in."""
    tools: tuple[str, ...] = ()
    """Names of built-in tools, beside the agent's own."""
    instructions: str | None = None
    """What the model is told first. Content: kept with the content of the setup."""
    output_schema: JsonObject | None = None
    """What the final answer must fit. Content too."""
    quarantine: bool = False
    """Whether it may only read, for good; what it says is untrusted."""
    sandbox: str | None = None
    """The kind of sandbox that the processes of its tools run in, by name; None if none was ever named."""
    isolation: Isolation | None = None
    """How a child session is kept apart from its parent's work; None if nobody said so."""
    specialist: Chosen | None = None
    """The specialist that was selected as its own agent; None if it is run by its agent itself."""
    unattended: bool = False
    """Whether nobody is asked for a child session, since its parent was in autopilot when it began."""


class Setup(Value, frozen=True, kw_only=True):
    """The effective configuration of a session at its start."""

    agent: AgentRef
    model: ModelRef
    tools: tuple[ToolSpec, ...] = ()
    policy: Policy = Policy()
    limits: Limits = Limits()
    """Over the session's whole life."""
    run_limits: Limits = Limits()
    """Of each run, with the runs that continue it."""
    settings: Settings = Settings()
    mode: WorkMode = "interactive"
    routing: Routing = "agent"
    options: SessionOptions = SessionOptions()
    """What is otherwise than the agent's code says, without content."""
    quarantine: bool = False
    """Whether the session may only read, for good; what it says is untrusted."""
    schedule: SchedulePlan | None = None
    """The plan of a session that is a schedule: it begins others, and has no conversation."""
    flow: FlowGraph | None = None
    """The graph of a session that is a workflow: it has no conversation either."""
    machine: MachineSpec | None = None
    """The state machine that its agent may go through."""


class Terms(Value, frozen=True, kw_only=True):
    """What an agent's code says its sessions work by. A session keeps what a command changed; what the code changes,
    changes for it too, at the next resume."""

    model: ModelRef
    """The agent's own model."""
    policy: Policy = Policy()
    """Which calls pass."""
    limits: Limits = Limits()
    """Over the session's whole life."""
    run_limits: Limits = Limits()
    """Of each run, with the runs that continue it."""
    settings: Settings = Settings()
    """The numbers to run by."""
    mode: WorkMode = "interactive"
    """The work mode to begin in."""


class Workspace(Value, frozen=True, kw_only=True):
    """Where the work happens."""

    cwd: str
    git_root: str | None = None
    repository: str | None = None
    branch: str | None = None


class Todo(Value, frozen=True, kw_only=True):
    """One entry of the agent's own list."""

    todo_id: str
    content: str
    status: Literal["pending", "in_progress", "completed", "failed"] = "pending"


class Task(Value, frozen=True, kw_only=True):
    """The task state: what the agent is doing, kept by the kernel and shown to the model after the history."""

    goal: str = ""
    criteria: tuple[str, ...] = ()
    plan: str = ""
    current_step: str = ""
    progress: str = ""
    scratchpad: str = ""
    blocked_on: str = ""
    todos: tuple[Todo, ...] = ()


class Origin(Value, frozen=True, kw_only=True):
    """Who a prompt comes from. A hidden one is not shown as the person's own words."""

    kind: Literal["person", "skill", "schedule", "session", "client"] = "person"
    name: str = ""
    hidden: bool = False


class ItemRef(Value, frozen=True, kw_only=True, array_like=True, gc=False):
    """One visible item of the history: where it is in the log, what it is, what it weighs."""

    seq: Nat
    kind: Literal["user", "assistant", "result", "summary", "note", "import"]
    tokens: Nat = 0
    bytes: Nat = 0
    part: str = ""
    """A call id for results; a note's code; the index for imported items."""
    elided: bool = False
