"""What a run is doing, told as it does it: a view that turns records and live events into words, thoughts, marked lines
and notes. Prints nothing. The model's own text is given as it came; all else is visible text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from windlass.cli.terminal.text import one_line
from windlass.cli.terminal.visible_text import spelt
from windlass.events.budgets import BudgetStopped, BudgetWarned
from windlass.events.changes import AgentDeselected, AgentSelected
from windlass.events.commands import QueueChanged
from windlass.events.context import CompactionFinished, CompactionStarted, ContextTruncated
from windlass.events.live import (
    AttemptSuperseded,
    Live,
    ReasoningDelta,
    StorePaused,
    StreamTruncated,
    TextDelta,
    ToolProgressed,
)
from windlass.events.runs import RunAsked, RunFailed, RunSlept, Terminal
from windlass.events.sessions import AgentChanged, NoticeGiven
from windlass.events.skills import SkillFailed
from windlass.events.tools.calls import (
    RepeatWarned,
    ToolCancelled,
    ToolDelegated,
    ToolDenied,
    ToolFinished,
    ToolOutcomeUnknown,
    ToolResolved,
    ToolSuspended,
    ToolTimedOut,
)
from windlass.events.tools.jobs import JobFinished, JobStarted, JobStopping
from windlass.events.turns import ModelFailed, ModelReplied, OutputRejected, RetryPlanned
from windlass.events.values.blocks import Text
from windlass.protocol.view import Told
from windlass.runtime.operate.item_text import blocks_text
from windlass.runtime.streams.record import Record

from . import number_words

RESULT_CHARS_MAX = 400
TROUBLE_CHARS_MAX = 300


class Words(NamedTuple):
    """More of the model's answer."""

    text: str


class Thought(NamedTuple):
    """More of the model's reasoning."""

    text: str


class Marked(NamedTuple):
    """A line about a call, behind a mark."""

    mark: str
    text: str
    colour: str


class Note(NamedTuple):
    """A line of the runtime's own, `always` also if only the model's words are wanted."""

    text: str
    colour: str = "dim"
    always: bool = False


class Pause(NamedTuple):
    """What is half written ends here."""


Spoken = Words | Thought | Marked | Note | Pause
PAUSE = Pause()


class Narration:
    """A view of a session for a person who watches it."""

    def __init__(self, *, live: bool = True) -> None:
        """Without `live`, words are said once their answer is whole: what came before may have to be discarded."""
        self._live = live
        self._streamed: set[str] = set()
        self._trouble = self._told_trouble = ""
        self._chosen = False
        """Whether another agent was selected, whose code is not bound yet."""

    def feed(self, told: Told) -> Sequence[Spoken]:
        """What is said of one record or live event; nothing of those that nobody needs to watch."""
        if isinstance(told, Record):
            event: Any = told.event
        elif isinstance(told, Live):
            event = told
        else:
            return ()
        teller = TELLERS.get(type(event))
        if teller is not None:
            return teller(self, event)
        return self._ended(event) if isinstance(event, Terminal) else ()

    # --- the model ---

    def _text(self, event: TextDelta) -> Sequence[Spoken]:
        if not self._live:
            return ()
        self._streamed.add(event.request_id)
        return (Words(event.text),)

    def _reasoning(self, event: ReasoningDelta) -> Sequence[Spoken]:
        return (Thought(event.text),)

    def _superseded(self, event: AttemptSuperseded) -> Sequence[Spoken]:
        if event.request_id not in self._streamed:
            return ()
        self._streamed.discard(event.request_id)
        return (Note(f"({event.reason}: discard what was written above)", "yellow", always=True),)

    def _replied(self, event: ModelReplied) -> Sequence[Spoken]:
        if event.body is None:
            return ()
        spoken: list[Spoken] = []
        if event.request_id not in self._streamed:
            spoken.append(Words("".join(block.text for block in event.body.blocks if isinstance(block, Text))))
        self._streamed.clear()
        spoken.append(PAUSE)
        for call in event.body.calls:
            proposed = call.call
            given = proposed.args if proposed.args is not None else proposed.text or proposed.malformed
            spoken.append(Marked("→", number_words.called(proposed.tool, given), "cyan"))
        return spoken

    def _failed(self, event: ModelFailed) -> Sequence[Spoken]:
        self._trouble = one_line(event.failure.message, TROUBLE_CHARS_MAX)
        return ()

    def _retry(self, event: RetryPlanned) -> Sequence[Spoken]:
        """Says why once, and not again for as long as the reason stays the same."""
        why = [Note(f"({self._trouble})", "yellow")] if self._trouble not in ("", self._told_trouble) else []
        self._told_trouble, self._trouble = self._trouble, ""
        plan = event.plan
        wait = number_words.wait(plan.chosen_ms)
        return (*why, Note(f"(waiting {wait}, then attempt {plan.attempt} of {plan.attempts_max})"))

    def _rejected(self, event: OutputRejected) -> Sequence[Spoken]:
        errors = one_line("; ".join(event.errors), RESULT_CHARS_MAX)
        return (Note(f"(the answer does not fit the schema: {errors})"),)

    # --- tools ---

    def _finished(self, event: ToolFinished) -> Sequence[Spoken]:
        body = event.body
        content = (body.display or body.content) if body is not None else ()
        shown = one_line(blocks_text(content), RESULT_CHARS_MAX) or ("done" if event.ok else "failed")
        return (Marked("←", shown, "green") if event.ok else Marked("✗", shown, "red"),)

    def _other(self, event: Any) -> Sequence[Spoken]:
        said = OUTCOMES[type(event)](event)
        return (Marked("←" if isinstance(event, ToolResolved | JobStarted) else "✗", said, "yellow"),)

    def _progress(self, event: ToolProgressed) -> Sequence[Spoken]:
        share = f"{event.fraction:.0%} " if event.fraction is not None else ""
        if not event.message and not share:
            return ()
        return (Marked("·", share + one_line(event.message, RESULT_CHARS_MAX), "dim"),)

    # --- the run ---

    def _aside(self, event: Any) -> Sequence[Spoken]:
        return (Note(ASIDES[type(event)](event), "yellow"),)

    def _selected(self, event: AgentSelected | AgentDeselected) -> Sequence[Spoken]:
        self._chosen = True
        return self._aside(event)

    def _changed(self, event: AgentChanged) -> Sequence[Spoken]:
        """Other code is news, unless it is that of a specialist who was selected just now."""
        chosen, self._chosen = self._chosen, False
        return (
            () if chosen else (Note("(the agent's code is not the recorded one; it is used from here on)", "yellow"),)
        )

    def _queue(self, event: QueueChanged) -> Sequence[Spoken]:
        if not event.prompt_ids or event.operation not in ("queued", "steering", "held", "dropped"):
            return ()
        return (Note(f"({event.operation}: {number_words.plural(len(event.prompt_ids), 'prompt')})"),)

    def _ended(self, event: Terminal) -> Sequence[Spoken]:
        if isinstance(event, RunFailed):
            return PAUSE, Note(f"failed: {one_line(event.failure.message, 2_000)}", "red", always=True)
        if isinstance(event, RunSlept):
            why = f" ({one_line(event.failure.message, 300)})" if event.failure is not None else ""
            return PAUSE, Note(f"asleep until {number_words.moment(event.wake_at_ms)}{why}", "yellow")
        if isinstance(event, RunAsked):
            if event.failure is None:
                return (PAUSE,)
            return PAUSE, Note(f"it cannot continue: {one_line(event.failure.message, 2_000)}", "red", always=True)
        if event.stop in ("completed", "task_complete", "user_abort"):
            return (PAUSE,)
        return PAUSE, Note(f"stopped: {event.stop.replace('_', ' ')}", "yellow")


def _denied(event: ToolDenied) -> str:
    return f"not run: {one_line(event.detail, 300) or event.reason.replace('_', ' ')}"


def _job_ended(event: JobFinished) -> str:
    code = f", exit code {event.exit_code}" if event.exit_code is not None else ""
    title = one_line(event.body.title, 100) if event.body is not None else ""
    return f"(job {spelt(event.job_id)} {event.status}{code}{f': {title}' if title else ''})"


OUTCOMES: dict[type, Callable[[Any], str]] = {
    ToolDenied: _denied,
    ToolTimedOut: lambda event: f"timed out after {number_words.seconds(event.timeout_ms)}",
    ToolCancelled: lambda event: f"given up ({event.reason.replace('_', ' ')})",
    ToolOutcomeUnknown: lambda event: "outcome unknown: it was cut off while it ran",
    ToolSuspended: lambda event: f"suspended {spelt(event.note)}".rstrip(),
    ToolDelegated: lambda event: "waits for a client to run it",
    ToolResolved: lambda event: one_line(event.text, RESULT_CHARS_MAX),
    JobStarted: lambda event: f"goes on in the background as job {spelt(event.job_id)}",
    RepeatWarned: lambda event: f"the same call, {event.count} times now",
}

ASIDES: dict[type, Callable[[Any], str]] = {
    BudgetWarned: lambda event: f"({event.fraction:.0%} of the {event.limit} that this {event.scope} may use is used)",
    BudgetStopped: lambda event: f"(this {event.scope} has reached its limit of {event.limit})",
    CompactionStarted: lambda event: f"(summarising {number_words.plural(event.items, 'item')} of the conversation)",
    CompactionFinished: lambda event: f"(summarised: {event.tokens_before:,} to {event.tokens_after:,} tokens)",
    ContextTruncated: lambda event: f"(older exchanges cut: {event.items_before} to {event.items_after} items)",
    AgentSelected: lambda event: f"({spelt(event.display_name or event.agent)} runs this session from here on)",
    AgentDeselected: lambda event: f"({spelt(event.agent)} runs this session no more: its own agent does)",
    JobFinished: _job_ended,
    JobStopping: lambda event: f"(job {spelt(event.job_id)} is being ended)",
    SkillFailed: lambda event: f"(skill {spelt(event.reference)}: {one_line(event.error, TROUBLE_CHARS_MAX)})",
    NoticeGiven: lambda event: f"({one_line(event.message, 300)})",
    StorePaused: lambda event: (
        f"(waits for room in the store, and goes on when there is: {one_line(event.message, 300)})"
    ),
    StreamTruncated: lambda event: "(some of the live text was skipped; the log has it all)",
}

TELLERS: dict[type, Callable[[Narration, Any], Sequence[Spoken]]] = {
    TextDelta: Narration._text,
    ReasoningDelta: Narration._reasoning,
    AttemptSuperseded: Narration._superseded,
    ModelReplied: Narration._replied,
    ModelFailed: Narration._failed,
    RetryPlanned: Narration._retry,
    OutputRejected: Narration._rejected,
    ToolFinished: Narration._finished,
    ToolProgressed: Narration._progress,
    QueueChanged: Narration._queue,
    **dict.fromkeys(OUTCOMES, Narration._other),
    **dict.fromkeys(ASIDES, Narration._aside),
    AgentSelected: Narration._selected,
    AgentDeselected: Narration._selected,
    AgentChanged: Narration._changed,
}
