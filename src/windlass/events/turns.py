"""Turns and their model requests: intents, replies, failures, retries, and structured output."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from windlass.events.tools.permissions import AnyDetail
from windlass.events.values.access import SandboxTerms
from windlass.events.values.blocks import JsonObject, ReplyBlock, Value
from windlass.events.values.failures import Failure, FinishReason
from windlass.events.values.items import ProposedCall
from windlass.events.values.models import ModelRef
from windlass.events.values.policy import Trait
from windlass.events.values.setup import Spawning
from windlass.events.values.usage import Initiator, Lane, Price, Quota, Usage

from .base import Category, Decision, Fact, Fraction, Nat
from .hooks import HookRuling

AsideLane = Literal["judge", "tool"]
"""The lanes of requests that something else than the conversation makes: they change no turn and no history."""


class AskBody(Value, frozen=True, kw_only=True):
    """What a model is asked aside from the conversation."""

    prompt: str
    instructions: str = ""
    output_schema: JsonObject | None = None


class ModelAsked(Fact, frozen=True, kw_only=True, tag="model.asked"):
    """A running tool or a judge wants something from a model. It is paid from the session's budget."""

    CATEGORY: ClassVar[Category] = "syscall"
    lane: AsideLane = "tool"
    call_id: str | None = None
    """The call that it is for; its end is the end of the request."""
    model: ModelRef
    tokens: Nat = 0
    max_output_tokens: Nat | None = None
    attempt: Nat = 1
    body: AskBody | None = None


class ModelRequested(Decision, frozen=True, kw_only=True, tag="model.requested"):
    """The intent to call a model. The reservation holds until the reply settles it."""

    CATEGORY: ClassVar[Category] = "syscall"
    request_id: str
    lane: Lane = "main"
    attempt: Nat = 1
    model: str
    epoch: Nat
    input_tokens: Nat = 0
    output_tokens: Nat = 0
    reserved_nanos: Nat = 0
    initiator: Initiator = "user"
    asked_seq: Nat | None = None
    """Where it was asked for, outside of the conversation."""
    call_id: str | None = None
    price: Price | None = None
    """Of a model that is not the session's own."""


class Touched(Value, frozen=True, kw_only=True):
    """What a call would touch, as its tool says: what policies judge it by, then and later."""

    paths: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class Prepared(Value, frozen=True, kw_only=True):
    """What the host found out about a call before the gate: whether its arguments fit the schema, their digest in
    canonical form, which conditions of the policy hold, what a person would be shown."""

    digest: str
    errors: tuple[str, ...] = ()
    matched: tuple[Nat, ...] = ()
    unjudged: tuple[Nat, ...] = ()
    excluded: str | None = None
    subject: str | None = None
    detail: AnyDetail | None = None
    labels: tuple[str, ...] = ()
    traits: tuple[Trait, ...] | None = None
    """What this very call does, if that is less than its tool can do."""
    exact: bool = True
    """Whether the host knows all that the call touches; a pattern may stand for it only then."""
    touched: Touched | None = None
    """What the call would touch; None if nothing was said of it."""
    confined: bool = False
    """Whether it runs in a sandbox that confines files and network."""
    sandbox: SandboxTerms | None = None
    """The sandbox that it would run in, and what it would be given there; None if it runs in none, or nobody asked."""
    unclear: str | None = None
    """Why the host cannot say what the call is about, so that somebody is asked."""
    sensitive: str | None = None
    """Why somebody is asked about the call whatever stands for it."""
    spawning: Spawning | None = None
    """What it says about the child session that it starts, if it starts one."""
    basis: str = ""
    """What the host saw that the call would change, as its tool writes it down; an approval holds for this alone."""


class ReplyCall(Value, frozen=True, kw_only=True):
    """A call of a reply with what the host found out about it. Without `prepared` the host still owes that."""

    call: ProposedCall
    prepared: Prepared | None = None


class OutputCheck(Value, frozen=True, kw_only=True):
    """Whether a final answer fits the output schema; the host validates, the kernel decides what follows."""

    valid: bool
    errors: tuple[str, ...] = ()
    value: Any = None
    warnings: tuple[str, ...] = ()


class ReplyBody(Value, frozen=True, kw_only=True):
    """What the model wrote."""

    blocks: tuple[ReplyBlock, ...] = ()
    calls: tuple[ReplyCall, ...] = ()
    output: OutputCheck | None = None
    quotas: tuple[Quota, ...] = ()
    provider_data: JsonObject | None = None


class ModelReplied(Fact, frozen=True, kw_only=True, tag="model.replied"):
    """A complete answer. It is never paid for again."""

    CATEGORY: ClassVar[Category] = "syscall"
    request_id: str
    lane: Lane = "main"
    finish: FinishReason
    usage: Usage
    model: str = ""
    provider: str = ""
    provider_request_id: str | None = None
    response_id: str | None = None
    calls: Nat = 0
    empty: bool = False
    tokens: Nat = 0
    bytes: Nat = 0
    duration_ms: Nat = 0
    first_output_ms: Nat | None = None
    cost_nanos: Nat | None = None
    hooks: tuple[HookRuling, ...] = ()
    body: ReplyBody | None = None


class ModelFailed(Fact, frozen=True, kw_only=True, tag="model.failed"):
    """A request did not give a complete answer. `sample` is the host's draw from [0, 1) for the jitter."""

    CATEGORY: ClassVar[Category] = "syscall"
    request_id: str
    lane: Lane = "main"
    attempt: Nat = 1
    failure: Failure
    usage: Usage | None = None
    duration_ms: Nat = 0
    visible: bool = False
    """Whether text of this attempt was already shown to somebody."""
    sample: Fraction = 0.5
    hooks: tuple[HookRuling, ...] = ()


class ModelDropped(Decision, frozen=True, kw_only=True, tag="model.dropped"):
    """A request that was under way is cut off, and its answer is not waited for. What it may have cost is booked in
    full, as an estimate."""

    CATEGORY: ClassVar[Category] = "syscall"
    request_id: str
    lane: Lane = "main"
    reason: Literal["signal"] = "signal"
    usage: Usage = Usage()
    cost_nanos: Nat = 0


class RetryPlan(Value, frozen=True, kw_only=True):
    """How long to wait before the next attempt, and why exactly so long."""

    attempt: Nat
    attempts_max: Nat
    computed_ms: Nat
    chosen_ms: Nat
    hint_ms: Nat | None = None
    floor_applied: bool = False
    capped_by_budget: bool = False


class RetryPlanned(Decision, frozen=True, kw_only=True, tag="retry.planned"):
    """The request will be made again at `at_ms`: by the session, or in the lanes aside by whoever asked."""

    request_id: str
    lane: Lane = "main"
    at_ms: Nat
    plan: RetryPlan


PrefixReason = Literal[
    "model", "tools", "instructions", "compaction", "rewind", "output", "elision", "erasure", "skills"
]


class PrefixChanged(Decision, frozen=True, kw_only=True, tag="prefix.changed"):
    """The bytes that the next request begins with differ from the last one's, so the provider's cache is lost."""

    CATEGORY: ClassVar[Category] = "mm"
    reasons: tuple[PrefixReason, ...]


class OutputExtracted(Decision, frozen=True, kw_only=True, tag="output.extracted"):
    """The final answer fits the output schema. The value is in the reply at `reply_seq`."""

    reply_seq: Nat
    attempts: Nat
    warnings: tuple[str, ...] = ()


class OutputRejected(Decision, frozen=True, kw_only=True, tag="output.rejected"):
    """The answer does not fit the schema; the model is asked again with the errors."""

    reply_seq: Nat
    attempt: Nat
    errors: tuple[str, ...]


class OutputFailed(Decision, frozen=True, kw_only=True, tag="output.failed"):
    """No answer fitted the schema within the attempts allowed. The last text stays in the log."""

    reply_seq: Nat
    attempts: Nat
    errors: tuple[str, ...]


class TurnStarted(Decision, frozen=True, kw_only=True, tag="turn.started"):
    """One model call and the tool calls it will ask for begin. `absorbs` are the prompts that enter the history now."""

    turn_id: str
    number: Nat
    absorbs: tuple[Nat, ...] = ()
    notes: tuple[str, ...] = ()
    wrap_up: bool = False


class TurnFinished(Decision, frozen=True, kw_only=True, tag="turn.finished"):
    """The turn's reply is in and each of its calls has its one result."""

    finish: FinishReason | None = None
    calls: Nat = 0
