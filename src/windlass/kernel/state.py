"""The state of one session: what its log adds up to. Changed by `evolve` alone; everything here has a bound.

Contents are not here, only where they are in the log and what they weigh.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from windlass.events.blocks import Value
from windlass.events.failures import Failure
from windlass.events.questions import QuestionKind
from windlass.events.specs import (
    AgentRef,
    Grant,
    ItemRef,
    Limits,
    ModelRef,
    PermissionKind,
    Policy,
    Routing,
    RunOptions,
    Settings,
    Task,
    Terms,
    ToolSpec,
    WorkMode,
    Workspace,
)
from windlass.events.turns import RetryPlan
from windlass.events.usage import Lane, Price, Usage

STATE_VERSION = 4
"""Raised whenever the shape or meaning of the state changes; older snapshots are then ignored."""

ANSWERED_MAX = 64
SEEN_SIGNALS_MAX = 256
SIGNALS_MAX = 64
REPEATS_MAX = 256
GRANTS_MAX = 256
PINS_MAX = 256
TOTALS_MAX = 64
FILES_MAX = 1_000
TIMERS_MAX = 64
TOOLS_MAX = 2_048
METADATA_MAX = 128
STAGED_MAX = 64
ASIDES_MAX = 64
PAGED_MAX = 64
COMPACTIONS_KEPT_MAX = 5
TASK_BYTES_MAX = 128 * 1024
METADATA_CHARS_MAX = 4_096


class Phase(Value, frozen=True, kw_only=True, tag_field="phase"):
    """Base of the phases. A phase holds only what is true in it and nowhere else."""


class New(Phase, frozen=True, kw_only=True, tag="new"):
    """There is no session yet."""


class Idle(Phase, frozen=True, kw_only=True, tag="idle"):
    """Nothing runs and nobody is waited for."""


class Asked(Phase, frozen=True, kw_only=True, tag="asked"):
    """No run is active; people or clients owe an answer."""


class Asleep(Phase, frozen=True, kw_only=True, tag="asleep"):
    """No run is active; a timer is set."""


class Between(Phase, frozen=True, kw_only=True, tag="between"):
    """A run is active and no turn is open. Passing: an append never ends here."""


class AwaitingModel(Phase, frozen=True, kw_only=True, tag="awaiting_model"):
    """The turn's model request is out."""

    request_id: str


class BackingOff(Phase, frozen=True, kw_only=True, tag="backing_off"):
    """A request failed and will be made again when the timer fires."""

    timer_id: str


class AwaitingTools(Phase, frozen=True, kw_only=True, tag="awaiting_tools"):
    """The reply is in; some of its calls have no result yet."""


class Compacting(Phase, frozen=True, kw_only=True, tag="compacting"):
    """A summary of older exchanges is being written."""

    request_id: str


AnyPhase = New | Idle | Asked | Asleep | Between | AwaitingModel | BackingOff | AwaitingTools | Compacting

ACTIVE = frozenset({Between, AwaitingModel, BackingOff, AwaitingTools, Compacting})
"""The phases in which a run is going on."""

CallStatus = Literal[
    "requested", "prepared", "asked", "allowed", "started", "delegated", "suspended", "unknown", "answering", "closed"
]


class Call(msgspec.Struct, kw_only=True, gc=False):
    """One tool call on its way to its one result."""

    call_id: str
    tool: str
    ordinal: int
    source_seq: int
    status: CallStatus = "requested"
    by_person: bool = False
    changed_seq: int | None = None
    """Where hooks changed the arguments."""
    digest: str = ""
    epoch: int = 0
    attempt: int = 0
    ask_id: str | None = None
    missed: bool = False
    closed_seq: int | None = None
    tokens: int = 0
    bytes: int = 0


class Ask(msgspec.Struct, kw_only=True, gc=False):
    """A question to a person that is open."""

    ask_id: str
    call_id: str
    seq: int
    kind: Literal["permission", "question"]
    tool: str = ""
    permission_kind: PermissionKind = "tool"
    question_kind: QuestionKind = "choice"
    digest: str = ""
    inside: bool = False
    missed: bool = False


class OpenRequest(msgspec.Struct, kw_only=True, gc=False):
    """A model request whose outcome is not in the log yet."""

    request_id: str
    lane: Lane
    attempt: int
    epoch: int
    model: str
    input_tokens: int
    output_tokens: int
    reserved_nanos: int
    price: Price | None = None
    """Of the model that was asked, whichever model the session has when the reply comes."""
    asked_seq: int | None = None
    call_id: str | None = None


class Input(msgspec.Struct, kw_only=True, gc=False):
    """Something said to the agent that has not entered the history yet."""

    seq: int
    kind: Literal["user", "note"]
    tokens: int = 0
    bytes: int = 0
    part: str = ""
    waits: bool = False
    """Waits for a turn that something else brings; does not bring one itself."""
    edited_seq: int | None = None
    """Where its text was rewritten while it waited."""
    command_id: str | None = None
    options: RunOptions | None = None


class Timer(msgspec.Struct, kw_only=True, gc=False):
    """A time at which something is to happen."""

    timer_id: str
    at_ms: int
    kind: Literal["wait", "retry"]
    seq: int


class Tally(msgspec.Struct, kw_only=True, gc=False):
    """A sum of usages that is only added to, in place: cheaper than a new value for every reply."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False

    def add(self, usage: Usage) -> None:
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        if usage.cache_read_tokens or usage.cache_write_tokens or usage.reasoning_tokens or usage.estimated:
            self.cache_read_tokens += usage.cache_read_tokens
            self.cache_write_tokens += usage.cache_write_tokens
            self.reasoning_tokens += usage.reasoning_tokens
            self.estimated = self.estimated or usage.estimated

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def total(self) -> Usage:
        return Usage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cache_read_tokens=self.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens,
            estimated=self.estimated,
        )


class Spent(msgspec.Struct, kw_only=True, gc=False):
    """What was used of the budgets."""

    tally: Tally = msgspec.field(default_factory=Tally)
    cost_nanos: int = 0
    turns: int = 0
    calls: int = 0
    active_ms: int = 0

    @property
    def usage(self) -> Usage:
        """The tokens, as a value."""
        return self.tally.total()


class Run(msgspec.Struct, kw_only=True):
    """The current run, or the last one where it may be continued."""

    run_id: str
    first_run_id: str
    commands: list[str] = []
    options: RunOptions | None = None
    spent: Spent = msgspec.field(default_factory=Spent)
    turns_here: int = 0
    usage_here: Tally = msgspec.field(default_factory=Tally)
    cost_here: int = 0
    attempts: int = 0
    """How many requests failed in a row."""
    failure: Failure | None = None
    """Why the last request of the main lane failed, until the next one is made."""
    reasks: int = 0
    output_attempts: int = 0
    empty_replies: int = 0
    nudges: int = 0
    overflowed: bool = False
    wrapping_up: bool = False
    stop: str | None = None
    """Set where the run must end at the next boundary, and why."""
    stop_limit: str = ""
    repeats: dict[str, int] = {}
    task_done: bool = False
    task_was_done: bool = False
    """The task was complete before somebody said more."""
    turn_owed: bool = False
    """Whether the model must be called (again) before the run may end."""
    last_reply_seq: int | None = None
    last_finish: str | None = None


class Turn(msgspec.Struct, kw_only=True, gc=False):
    """The open turn."""

    turn_id: str
    number: int
    reply_seq: int | None = None
    finish: str | None = None
    calls: list[str] = []
    bad: bool = False
    """Some call could not be read; the model is asked again, a bounded number of times."""
    wrap_up: bool = False


class Totals(msgspec.Struct, kw_only=True):
    """Use of one model over the session's life."""

    requests: int = 0
    usage: Tally = msgspec.field(default_factory=Tally)
    cost_nanos: int = 0
    duration_ms: int = 0


class Code(msgspec.Struct, kw_only=True):
    """What tools reported to have changed in files."""

    lines_added: int = 0
    lines_removed: int = 0
    files: dict[str, bool] = {}


class Signal(msgspec.Struct, kw_only=True):
    """A signal that waits for the next turn, or is only shown."""

    signal_id: str
    seq: int
    kind: str
    urgency: str
    tokens: int = 0
    duplicate: bool = False


class Staged(msgspec.Struct, kw_only=True):
    """A change of the tool set that waits for a turn boundary."""

    operation: Literal["add", "remove", "reload"]
    tools: tuple[ToolSpec, ...] = ()
    names: tuple[str, ...] = ()
    force: bool = False
    target: str = ""
    draining: bool = False


class Shape(Value, frozen=True, kw_only=True):
    """What a run may change about how a request begins."""

    model: str
    tools: tuple[str, ...] | None = None
    wrap_up: bool = False
    output: bool = False
    output_tokens: int = 0


class Compacted(Value, frozen=True, kw_only=True):
    """What one compaction did to the history, for the model that works with what is left."""

    seq: int
    how: Literal["summarised", "cut"]
    items: int
    tokens_before: int
    tokens_after: int


class Compaction(msgspec.Struct, kw_only=True):
    """Where a compaction stands and how often it failed."""

    trigger: str = ""
    first: int = 0
    last: int = 0
    items: int = 0
    attempt: int = 0
    """Not 0 while a summary is being made."""
    failures: int = 0
    wanted: str = ""
    """Set where a compaction must happen before the next request: its trigger."""
    count: int = 0
    log: list[Compacted] = []
    """The newest of those that the history has seen."""


class State(msgspec.Struct, kw_only=True):
    """What the log of one session adds up to."""

    session_id: str = ""
    seq: int = 0
    now_ms: int = 0
    epoch: int = 0
    started_ms: int = 0
    phase: AnyPhase = New()
    # the setup
    agent: AgentRef = AgentRef(name="")
    model: ModelRef = ModelRef(name="")
    tools: dict[str, ToolSpec] = {}
    loaded: dict[str, bool] = {}
    revision: int = 0
    staged: list[Staged] = []
    policy: Policy = Policy()
    limits: Limits = Limits()
    run_limits: Limits = Limits()
    settings: Settings = Settings()
    terms: Terms | None = None
    """What the agent's code said when the session was last bound to it."""
    mode: WorkMode = "interactive"
    routing: Routing = "agent"
    title: str = ""
    metadata: dict[str, str] = {}
    workspace: Workspace | None = None
    parent_id: str | None = None
    root_id: str | None = None
    scope: str = "primary"
    depth: int = 0
    setup_seq: int = 0
    # the work
    run: Run | None = None
    resumable: bool = False
    """Whether the last run may be gone on with by a wake."""
    turn: Turn | None = None
    turns: int = 0
    calls: dict[str, Call] = {}
    asks: dict[str, Ask] = {}
    answered: dict[str, str] = {}
    requests: dict[str, OpenRequest] = {}
    retry: RetryPlan | None = None
    inputs: dict[int, Input] = {}
    queue: list[int] = []
    steering: list[int] = []
    held: bool = False
    timers: dict[str, Timer] = {}
    signals: list[Signal] = []
    seen_signals: dict[str, bool] = {}
    grants: dict[str, Grant] = {}
    # the context
    history: list[ItemRef] = []
    history_tokens: int = 0
    history_bytes: int = 0
    notes: list[ItemRef] = []
    pinned: dict[int, bool] = {}
    instructions_seq: int = 0
    instructions_digest: str = ""
    instructions_tokens: int = 0
    knowledge_tokens: int = 0
    tool_tokens: int = 0
    measured_tokens: int = 0
    """What the provider counted for the last request of the main lane."""
    measured_at_tokens: int = 0
    """Our own estimate of the history at that moment."""
    prefix_reasons: list[str] = []
    requested_once: bool = False
    sent: Shape | None = None
    """How the last request of the main lane began."""
    compaction: Compaction = msgspec.field(default_factory=Compaction)
    paged: list[int] = []
    """Where items were paged out that the archive has not confirmed yet."""
    task: Task = Task()
    # the accounts
    spent: Spent = msgspec.field(default_factory=Spent)
    warned: dict[str, bool] = {}
    totals: dict[str, Totals] = {}
    code: Code = msgspec.field(default_factory=Code)

    @property
    def active(self) -> bool:
        """Whether a run is going on."""
        return type(self.phase) in ACTIVE

    @property
    def next_wake_ms(self) -> int | None:
        """When its first timer fires."""
        return min((timer.at_ms for timer in self.timers.values()), default=None) if self.timers else None

    @property
    def current_model(self) -> ModelRef:
        """The model of the current run."""
        if self.run is not None and self.run.options is not None and self.run.options.model is not None:
            return self.run.options.model
        return self.model

    @property
    def summary_model(self) -> ModelRef:
        """The model that writes summaries."""
        return self.settings.summary_model or self.current_model

    def limits_of_run(self) -> Limits:
        """The limits of the current run: its prompt's, else the session's for each run."""
        if self.run is not None and self.run.options is not None and self.run.options.limits is not None:
            return self.run.options.limits
        return self.run_limits

    def output_required(self) -> bool:
        """Whether the final answer must fit the output schema."""
        options = self.run.options if self.run is not None else None
        if options is not None and options.output_required is not None:
            return options.output_required
        return self.settings.output_required

    def shape(self, output_tokens: int, *, wrap_up: bool) -> Shape:
        """How a request of the main lane begins, as far as a run can change it."""
        options = self.run.options if self.run is not None else None
        offered = options.tools if options is not None else None
        return Shape(
            model=self.current_model.name,
            tools=offered,
            wrap_up=wrap_up,
            output=self.output_required(),
            output_tokens=output_tokens,
        )

    def open_calls(self) -> list[Call]:
        """The calls without a result, in call order."""
        return [call for call in self.calls.values() if call.status != "closed"]


def bounded(values: dict[str, bool] | dict[str, str] | dict[str, int], most: int) -> None:
    """Drops the oldest entries past the bound."""
    while len(values) > most:
        del values[next(iter(values))]
