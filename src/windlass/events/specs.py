"""What a session is set up with, as data: models, tools, settings, policy, limits.

Code never enters the log; what stands here are names, digests and numbers that the kernel decides by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from .base import Fraction, Nat
from .blocks import JsonObject, Value
from .items import ModelSettings
from .usage import Price

if TYPE_CHECKING:
    from collections.abc import Sequence

Contract = Literal["pure", "idempotent", "at_most_once"]
"""What may happen after a crash left the outcome unknown: run again, run again with the same key, never silently."""

Runs = Literal["host", "client", "kernel"]
"""Who performs a tool: the runtime, an attached client, or the kernel itself (todos, questions, plans)."""

PermissionKind = Literal["shell", "write", "read", "mcp", "url", "memory", "tool"]
Trait = Literal["read", "write", "execute", "egress"]
WorkMode = Literal["interactive", "plan", "autopilot"]
Routing = Literal["agent", "auto", "machine"]
Behavior = Literal["steer", "follow_up"]
OnBusy = Literal["enqueue", "steer", "interrupt", "reject"]

Positive = Annotated[int, msgspec.Meta(gt=0)]


class ModelRef(Value, frozen=True, kw_only=True):
    """The model a session uses, with what the kernel must know of it. No price = the price is unknown."""

    name: str
    provider: str = ""
    model: str = ""
    window_tokens: Positive = 128_000
    max_output_tokens: Positive = 16_384
    price: Price | None = None
    settings: ModelSettings | None = None
    """What was set on it: temperature, thinking and the like."""


class ToolSpec(Value, frozen=True, kw_only=True):
    """A tool as the kernel knows it. `digest` covers schema and implementation; the schema itself is content."""

    name: str
    digest: str = ""
    contract: Contract = "at_most_once"
    runs: Runs = "host"
    kind: PermissionKind = "tool"
    traits: tuple[Trait, ...] = ()
    source: str = "author"
    alias: str | None = None
    timeout_ms: Positive = 600_000
    exclusive: bool = False
    deferred: bool = False
    settle: bool = False
    """After an unknown outcome a person settles it, instead of telling the model that it is unknown."""
    labels: tuple[str, ...] = ()
    tokens: Nat = 0


class ToolText(Value, frozen=True, kw_only=True):
    """What a model is told about a tool."""

    name: str
    description: str = ""
    parameters: JsonObject = {}


class Rule(Value, frozen=True, kw_only=True):
    """One line of a policy. `tool` is a glob over canonical names; `kinds` narrows it; `when` is an expression over the
    arguments that the host evaluates (the kernel only learns which rules held)."""

    action: Literal["allow", "ask", "deny"]
    """What becomes of a call that it matches."""
    tool: str = "*"
    """A glob of `*` and `?` over the tools' own names."""
    kinds: tuple[PermissionKind, ...] = ()
    """Only calls that need one of these kinds of permission; any where empty."""
    when: str | None = None
    """A CEL expression over `args`; what it cannot judge is asked about."""
    reason: str = ""
    """Why, for the model and for people."""
    name: str = ""
    """What the log calls it."""


class Policy(Value, frozen=True, kw_only=False):
    """Rules as data. Deny beats ask beats allow; a rule that cannot be judged is asked about; where no rule matches,
    `default` holds. `standard` allows the author's own tools and reading, and asks about the rest."""

    if TYPE_CHECKING:
        rules: Sequence[Rule] = ()  # a list is taken as well, and kept as a tuple
    else:
        rules: tuple[Rule, ...] = ()
    """In any order: deny beats ask beats allow."""
    default: Literal["standard", "allow", "ask", "deny"] = "standard"
    """What becomes of a call that no rule matches."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "rules", tuple(self.rules))


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
    """Child sessions; there are none yet."""
    depth: Nat | None = None
    """How deep child sessions may go; there are none yet."""


class Settings(Value, frozen=True, kw_only=True):
    """The numbers a session runs by; each default is one of the stated defaults."""

    on_busy: OnBusy = "enqueue"
    """What a prompt does while a run is going, unless it says so itself."""
    tool_order: Literal["parallel", "sequential"] = "parallel"
    """Whether the calls of one reply run at the same time or one after the other."""
    turns_max: Positive = 50
    """Turns of a run where its budget names none."""
    parallel_tools_max: Positive = 8
    """Calls that run at the same time."""
    calls_per_turn_max: Positive = 64
    """Calls of one reply that are looked at; the others are denied."""
    retries_max: Nat = 5
    """How often a failed request is made again."""
    retry_base_ms: Positive = 500
    """The wait before the first retry."""
    retry_factor: Positive = 2
    """By how much each further wait is longer."""
    retry_cap_ms: Positive = 30_000
    """The longest wait that is computed; the provider's own hint may be longer."""
    retry_jitter: Fraction = 0.1
    """The share by which a wait may vary, so that many clients do not return at once."""
    rate_limit_floor_ms: Nat = 1_000
    """The least wait after a rate limit."""
    sleep_over_ms: Positive = 60_000
    """A longer wait ends the run sleeping, until its time."""
    argument_reasks_max: Nat = 2
    """How often malformed arguments are asked for again."""
    output_reasks_max: Nat = 2
    """How often an answer that does not fit the output is asked for again."""
    empty_replies_max: Nat = 2
    """How many empty replies a run bears."""
    repeat_warn: Positive = 3
    """The same call so often in a run: the model is told."""
    repeat_deny: Positive = 5
    """The same call so often in a run: it is denied."""
    repeat_stop: Positive = 8
    """The same call so often in a run: the run stops."""
    budget_warn: Fraction = 0.8
    """The share of a limit at which to warn."""
    compact_at: Fraction = 0.8
    """The share of the window at which the history is compacted."""
    compact_to: Fraction = 0.5
    """The share of the window to come down to."""
    compact_bytes: Positive = 16 * 1024 * 1024
    """The size of the history at which it is compacted, however large the window is."""
    compact_attempts_max: Nat = 2
    """How many summaries may fail before the history is cut by rule."""
    keep_exchanges: Positive = 4
    """How many of the last exchanges stay verbatim."""
    elide_over_tokens: Positive = 200
    """Older results above this are shown as one line when room is needed."""
    summary_tokens_max: Positive = 4_096
    """How long a summary may be."""
    summarise: bool = True
    """Whether a model writes summaries; else the history is cut by rule."""
    summary_instructions: str = ""
    """What the model is told that writes summaries; a text of our own where empty."""
    summary_model: ModelRef | None = None
    """The model that writes summaries, set by `Agent(summary_model=…)`; the session's own where absent."""
    archive: bool = False
    """Whether what leaves the history is offered to an archive."""
    queue_max: Positive = 64
    """Prompts that may wait."""
    nudges_max: Nat = 3
    """How often autopilot is told to go on."""
    continue_on_length: bool = False
    """Whether a reply that was cut by its length is continued."""
    output_required: bool = False
    """Whether the final answer must fit the output; set by `Agent(output=…)`."""


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


class Grant(Value, frozen=True, kw_only=True):
    """A standing approval: for one tool for the rest of the session, or for calls whose digest or subject matches."""

    grant_id: str
    tool: str
    pattern: str | None = None
    by: str = ""


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
