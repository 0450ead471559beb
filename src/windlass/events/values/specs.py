"""What a session is set up with, as data: models, tools, settings, policy, limits.

Code never enters the log; what stands here are names, digests and numbers that the kernel decides by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from windlass.events.base import Fraction, Nat
from windlass.events.values.blocks import INT_MAX

from .access import Access
from .attention import Attention
from .blocks import JsonObject, Value
from .graphs import FlowGraph
from .isolation import Isolation
from .items import ModelSettings
from .machines import MachineSpec
from .plans import SchedulePlan
from .usage import Price

if TYPE_CHECKING:
    from collections.abc import Sequence

Contract = Literal["pure", "idempotent", "at_most_once"]
"""What may happen after a crash left the outcome unknown: run again, run again with the same key, never silently."""

Runs = Literal["host", "client", "kernel", "child"]
"""Who performs a tool: the runtime, an attached client, the kernel itself (todos, questions, plans), or a child
session."""

PermissionKind = Literal["shell", "write", "read", "mcp", "url", "memory", "tool"]
Trait = Literal["read", "write", "execute", "egress"]
WorkMode = Literal["interactive", "plan", "autopilot"]
Routing = Literal["agent", "auto", "explicit"]
Behavior = Literal["steer", "follow_up"]
OnBusy = Literal["enqueue", "steer", "interrupt", "reject"]

Positive = Annotated[int, msgspec.Meta(gt=0, le=INT_MAX)]


ChildMode = Literal["foreground", "background", "detached"]
"""Whether a call waits for the end of its child session, the session is told of it later, or nobody waits for it."""
ChildContext = Literal["fresh", "forked"]
"""What a child session begins with: its task alone, or the history of its parent before it."""


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
    """A tool as the kernel knows it. `digest` covers everything that models are told and that runs; the schema itself
    is content. Approvals rest on what a tool does and takes, `code` and `schema`, which hold no prose."""

    name: str
    digest: str = ""
    code: str = ""
    """The digest of what runs, without its docstrings; empty in logs that are older than it."""
    schema: str = ""
    """The digest of what it takes, without descriptions."""
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


class Rate(Value, frozen=True, kw_only=True):
    """So many calls in so much time."""

    calls: Positive
    per_ms: Positive


class Rule(Value, frozen=True, kw_only=True):
    """One line of a policy: which calls it speaks of, and what becomes of them. It holds for a call if everything that
    it says does. What it says about paths, hosts, commands and traits must fit all of them if it allows; a denial or a
    question holds if one of them fits. The host judges `when`, paths, hosts and commands; the kernel learns which rules
    held, and judges what depends on the session."""

    action: Literal["allow", "ask", "deny"]
    """What becomes of a call that it matches."""
    tool: str = "*"
    """A glob of `*` and `?` over the tools' own names; a denial and a question also reach the names that models see."""
    kinds: tuple[PermissionKind, ...] = ()
    """Only calls that need one of these kinds of permission; any if empty."""
    when: str | None = None
    """A CEL expression over `args`, `call` and `session`; what it cannot judge is asked about."""
    reason: str = ""
    """Why, for the model and for people."""
    name: str = ""
    """What the log calls it."""
    missing_ok: bool = False
    """Whether the tool that it names may be missing when the agent is made: it is mounted later, or the policy is
    shared by several agents. Otherwise such a denial or question is an error."""
    paths: tuple[str, ...] = ()
    """Globs over what a call reads or writes: `/etc/**` from the root of the file system, `src/**` from the session's
    folder, a name without a slash such as `*.pem` at any depth."""
    writes: tuple[str, ...] = ()
    """The same over what it writes, makes, moves or removes."""
    hosts: tuple[str, ...] = ()
    """Names of hosts: exact ones, `*.example.org` for all beneath a name, `*` for any."""
    commands: tuple[str, ...] = ()
    """The first words of commands: `git status`; each word may be a glob, `npm run *`."""
    traits: tuple[Trait, ...] = ()
    """What a call does: read, write, execute, egress. One of which nobody said what it does fits no permission."""
    modes: tuple[WorkMode, ...] = ()
    """Only in these work modes."""
    sources: tuple[str, ...] = ()
    """Only tools that come from there, as globs: `author`, `builtin`, or whatever mounted them."""
    labels: tuple[str, ...] = ()
    """Only if what the session has seen, or the call itself, carries one of these labels."""
    rate: Rate | None = None
    """A permission holds for so many calls in so much time; a denial or a question begins after them."""
    quota: Positive | None = None
    """The same for so many calls in all."""
    quota_per: Literal["session", "run"] = "session"
    """What the quota is counted in."""
    known_only: bool = False
    """Whether a denial or a question holds by what is known of a call alone. Otherwise one that speaks of paths, hosts
    or commands is asked about if not all of them are known."""
    confined: bool = False
    """Only calls that run in a sandbox which confines files and network."""


class Policy(Value, frozen=True, kw_only=False):
    """Rules as data. Deny beats ask beats allow; a rule that cannot be judged is asked about; if no rule matches,
    `default` holds. `standard` allows the author's own tools and reading, and asks about the rest."""

    if TYPE_CHECKING:
        rules: Sequence[Rule] = ()  # a list is taken as well, and kept as a tuple
    else:
        rules: tuple[Rule, ...] = ()
    """In any order: deny beats ask beats allow."""
    default: Literal["standard", "allow", "ask", "deny"] = "standard"
    """What becomes of a call that no rule matches."""
    if TYPE_CHECKING:
        exclude: Sequence[str] = ()
    else:
        exclude: tuple[str, ...] = ()
    """Globs of files that no model may see, whoever agrees: file tools and attachments are held to them, and whatever
    tool says that it touches one."""
    if TYPE_CHECKING:
        exclude_patterns: Sequence[str] = ()
    else:
        exclude_patterns: tuple[str, ...] = ()
    """Regular expressions, in RE2's syntax: what fits one is left out of every tool's result before anybody keeps it or
    a model sees it."""
    trifecta: Literal["ask", "deny", "allow"] = "ask"
    """What becomes of a call that joins untrusted input, private data and a way out, whatever a rule or a standing
    approval says of it."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "rules", tuple(self.rules))
        for name in ("exclude", "exclude_patterns"):
            given: Any = getattr(self, name)
            msgspec.structs.force_setattr(self, name, (given,) if isinstance(given, str) else tuple(given))


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


class Settings(Value, frozen=True, kw_only=True):
    """The numbers a session runs by; each default is one of the stated defaults."""

    on_busy: OnBusy = "enqueue"
    """What a prompt does while a run is going, unless it says so itself."""
    tool_order: Literal["parallel", "sequential"] = "parallel"
    """Whether the calls of one reply run at the same time or one after the other."""
    turns_max: Positive = 50
    """Turns of a run if its budget names none."""
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
    losses_max: Positive = 3
    """So many owners lost in a row without progress (their process died, or what drove them broke): it is parked."""
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
    """What the model is told that writes summaries; a text of our own if empty."""
    summary_model: ModelRef | None = None
    """The model that writes summaries, set by `Agent(summary_model=…)`; the session's own if absent."""
    archive: bool = False
    """Whether what leaves the history is offered to an archive."""
    queue_max: Positive = 64
    """Prompts that may wait."""
    grant_ms: Positive = 24 * 3_600_000
    """How long a standing approval holds, unless it says so itself."""
    denials_max: Nat = 3
    """So many requests denied by people in a row in one run: the run asks nothing more. 0 asks for ever."""
    nudges_max: Nat = 3
    """How often autopilot is told to go on."""
    continue_on_length: bool = False
    """Whether a reply that was cut by its length is continued."""
    jobs_wake: bool = True
    """Whether the end of a background job begins a run in a session that rests; else it is told with the next one."""
    children_depth_max: Nat = 3
    """How deep child sessions may go: those of the root are at depth 1."""
    children_open_max: Positive = 16
    """Child sessions of one session that may be open at the same time."""
    children_max: Positive = 256
    """Child sessions that one session may start in its life."""
    children_wake: bool = True
    """Whether the end of a child in the background begins a run in a session that rests; else it is told with the next
    one."""
    nodes_max: Positive = 1_000
    """Nodes that a workflow may grow to while it runs."""
    nodes_added_max: Positive = 64
    """Nodes that may be added to a workflow at once."""
    attention: Attention = Attention()
    """What becomes of a signal, by its urgency and by what the session is busy with."""
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


class Grant(Value, frozen=True, kw_only=True):
    """A standing approval of one tool, as it was then: for all its calls, or for those whose digest or subject matches.
    It lapses when the tool or the rules about it become others, at its time, and with a fork or an import."""

    grant_id: str
    tool: str
    pattern: str | None = None
    by: str = ""
    digest: str = ""
    """What the tool was: its code, schema, contract and traits. One without it covers nothing."""
    rules: str = ""
    """The digest of the rules about the tool that it was given under; it ends with them. Empty in older logs."""
    expires_ms: Nat | None = None
    """When it lapses by itself."""
    trifecta: bool = False
    """Whether it also holds for calls that join untrusted input, private data and a way out."""
    access: Access = Access()
    """What its calls may reach beyond what their sandbox gives to all. A call that asks for more is asked about."""


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
