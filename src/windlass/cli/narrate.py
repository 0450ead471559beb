"""Tells a person what a run is doing while it does it: text as it streams, calls with their arguments, results, waits.

The model's words go to one stream, what the runtime says about them to another, so that a pipe gets the words alone.
"""

from __future__ import annotations

from typing import Any, TextIO

from windlass.events.blocks import Text, plain_text
from windlass.events.calls import (
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
from windlass.events.context import CompactionFinished, CompactionStarted, ContextTruncated
from windlass.events.live import AttemptSuperseded, ReasoningDelta, StreamTruncated, TextDelta, ToolProgressed
from windlass.events.runs import BudgetStopped, BudgetWarned, QueueChanged, RunAsked, RunFailed, RunSlept, Terminal
from windlass.events.sessions import AgentChanged, NoticeGiven
from windlass.events.turns import ModelFailed, ModelReplied, OutputRejected, RetryPlanned

from . import words
from .text import Flow, Paint, fold_lines, is_terminal, one_line, rows_of, visible, width_of

RESULT_CHARS_MAX = 400
TROUBLE_CHARS_MAX = 300
MARGIN = "  "


class Narrator:
    """Prints the events of one session as they come."""

    def __init__(self, out: TextIO, err: TextIO, *, quiet: bool = False) -> None:
        self._err = err
        self._paint = Paint(err)
        self._quiet = quiet
        screen = is_terminal(out)
        self._flow = Flow(out, margin=MARGIN if screen else "", width=width_of(out) if screen else None)
        self._thoughts = Flow(err, margin="  · ", width=width_of(err))
        self._streamed: set[str] = set()
        self._seen_text = False
        self._trouble = self._told_trouble = ""

    def note(self, line: str, colour: str = "dim", *, always: bool = False) -> None:
        """A line of the runtime's own, `always` also where only the model's words are wanted; the text must be visible
        text."""
        self._flow.end_line()
        self._thoughts.end_line()
        if self._quiet and not always:
            return
        lines = rows_of(line, width_of(self._err) - 1) if is_terminal(self._err) else [line]
        for piece in lines:
            print(self._paint(piece, colour), file=self._err, flush=True)

    def after_key(self) -> None:
        """Begins a fresh line behind the key that the terminal has just echoed (^C), where none begins anyway."""
        if not (self._flow.open_line or self._thoughts.open_line) and is_terminal(self._err):
            print(file=self._err, flush=True)

    def rest(self) -> None:
        """Ends what is half written."""
        self._flow.end_line()
        self._thoughts.end_line()

    def tell(self, event: Any) -> None:
        """Prints one event; those that nobody needs to watch are passed over."""
        teller = TELLERS.get(type(event))
        if teller is not None:
            teller(self, event)
        elif isinstance(event, Terminal):
            self._ended(event)

    # --- the model ---

    def _text(self, event: TextDelta) -> None:
        self._thoughts.end_line()
        self._streamed.add(event.request_id)
        self._flow.write(event.text)

    def _reasoning(self, event: ReasoningDelta) -> None:
        if not self._quiet:
            self._flow.end_line()
            self._thoughts.write(event.text)

    def _superseded(self, event: AttemptSuperseded) -> None:
        self._streamed.discard(event.request_id)
        self.note(f"({event.reason}: what was written above does not count)", "yellow")

    def _replied(self, event: ModelReplied) -> None:
        if event.body is None:
            return
        if event.request_id not in self._streamed:
            self._flow.write("".join(block.text for block in event.body.blocks if isinstance(block, Text)))
        self._streamed.clear()
        self.rest()
        for call in event.body.calls:
            proposed = call.call
            given = proposed.args if proposed.args is not None else proposed.text or proposed.malformed
            self._marked("→", words.called(proposed.tool, given), "cyan")

    def _failed(self, event: ModelFailed) -> None:
        self._trouble = one_line(event.failure.message, TROUBLE_CHARS_MAX)

    def _retry(self, event: RetryPlanned) -> None:
        """Says why once, and not again for as long as the reason stays the same."""
        if self._trouble and self._trouble != self._told_trouble:
            self.note(f"({self._trouble})", "yellow")
        self._told_trouble, self._trouble = self._trouble, ""
        plan = event.plan
        self.note(f"(waiting {words.wait(plan.chosen_ms)}, then attempt {plan.attempt} of {plan.attempts_max})")

    def _rejected(self, event: OutputRejected) -> None:
        self.note(f"(the answer does not fit the schema: {one_line('; '.join(event.errors), RESULT_CHARS_MAX)})")

    # --- tools ---

    def _finished(self, event: ToolFinished) -> None:
        body = event.body
        content = (body.display or body.content) if body is not None else ()
        shown = one_line(plain_text(content), RESULT_CHARS_MAX) or ("done" if event.ok else "failed")
        self._marked("←" if event.ok else "✗", shown, "green" if event.ok else "red")

    def _other(self, event: Any) -> None:
        said = OUTCOMES[type(event)](event)
        self._marked("✗" if not isinstance(event, ToolResolved) else "←", said, "yellow")

    def _progress(self, event: ToolProgressed) -> None:
        share = f"{event.fraction:.0%} " if event.fraction is not None else ""
        if event.message or share:
            self._marked("·", share + one_line(event.message, RESULT_CHARS_MAX), "dim")

    def _marked(self, mark: str, shown: str, colour: str) -> None:
        """A line with a mark before it, wrapped behind that mark."""
        if self._quiet:
            return
        self.rest()
        lines = fold_lines(shown, width_of(self._err) - 3)
        print(self._paint(f"{mark} ", colour) + f"\n{MARGIN}".join(lines), file=self._err, flush=True)

    # --- the run ---

    def _asides(self, event: Any) -> None:
        self.note(ASIDES[type(event)](event), "yellow")

    def _queue(self, event: QueueChanged) -> None:
        if event.prompt_ids and event.operation in ("queued", "steering", "held", "dropped"):
            self.note(f"({event.operation}: {words.plural(len(event.prompt_ids), 'prompt')})")

    def _ended(self, event: Terminal) -> None:
        self.rest()
        if isinstance(event, RunFailed):
            self.note(f"failed: {one_line(event.failure.message, 2_000)}", "red", always=True)
        elif isinstance(event, RunSlept):
            why = f" ({one_line(event.failure.message, 300)})" if event.failure is not None else ""
            self.note(f"asleep until {words.moment(event.wake_at_ms)}{why}", "yellow")
        elif isinstance(event, RunAsked):
            if event.failure is not None:
                self.note(f"it cannot go on: {one_line(event.failure.message, 2_000)}", "red", always=True)
        elif event.stop not in ("completed", "task_complete", "user_abort"):
            self.note(f"stopped: {event.stop.replace('_', ' ')}", "yellow")


def _denied(event: ToolDenied) -> str:
    return f"not run ({event.reason.replace('_', ' ')}){': ' + one_line(event.detail, 300) if event.detail else ''}"


OUTCOMES: dict[type, Any] = {
    ToolDenied: _denied,
    ToolTimedOut: lambda event: f"timed out after {words.seconds(event.timeout_ms)}",
    ToolCancelled: lambda event: f"given up ({event.reason})",
    ToolOutcomeUnknown: lambda event: "outcome unknown: it was cut off while it ran",
    ToolSuspended: lambda event: f"suspended {visible(event.note)}".rstrip(),
    ToolDelegated: lambda event: "waits for a client to run it",
    ToolResolved: lambda event: one_line(event.text, RESULT_CHARS_MAX),
    RepeatWarned: lambda event: f"the same call for the {event.count}. time",
}

ASIDES: dict[type, Any] = {
    BudgetWarned: lambda event: f"({event.fraction:.0%} of the {event.limit} of this {event.scope} is used)",
    BudgetStopped: lambda event: f"(the {event.limit} limit of this {event.scope} is reached)",
    CompactionStarted: lambda event: f"(summarising {words.plural(event.items, 'item')} of the conversation)",
    CompactionFinished: lambda event: f"(summarised: {event.tokens_before:,} to {event.tokens_after:,} tokens)",
    ContextTruncated: lambda event: f"(older exchanges cut: {event.items_before} to {event.items_after} items)",
    AgentChanged: lambda event: "(the agent's code is not the recorded one; going on with it)",
    NoticeGiven: lambda event: f"({one_line(event.message, 300)})",
    StreamTruncated: lambda event: "(some of the live text was skipped; the log has it all)",
}

TELLERS: dict[type, Any] = {
    TextDelta: Narrator._text,
    ReasoningDelta: Narrator._reasoning,
    AttemptSuperseded: Narrator._superseded,
    ModelReplied: Narrator._replied,
    ModelFailed: Narrator._failed,
    RetryPlanned: Narrator._retry,
    OutputRejected: Narrator._rejected,
    ToolFinished: Narrator._finished,
    ToolProgressed: Narrator._progress,
    QueueChanged: Narrator._queue,
    **dict.fromkeys(OUTCOMES, Narrator._other),
    **dict.fromkeys(ASIDES, Narrator._asides),
}
