"""The settings of an agent: the numbers that a session runs by, each with its default and its sentence."""

from __future__ import annotations

from typing import Literal

from windlass.events.base import Fraction

from .attention import Attention
from .blocks import Nat, Positive, Value
from .models import ModelRef

OnBusy = Literal["enqueue", "steer", "interrupt", "reject"]


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
    budget_asked: bool = False
    """Whether a child session that has used what was set aside for it asks for more before it ends."""
    nodes_max: Positive = 1_000
    """Nodes that a workflow may grow to while it runs."""
    nodes_added_max: Positive = 64
    """Nodes that may be added to a workflow at once."""
    attention: Attention = Attention()
    """What becomes of a signal, by its urgency and by what the session is busy with."""
    output_required: bool = False
    """Whether the final answer must fit the output; set by `Agent(output=…)`."""
