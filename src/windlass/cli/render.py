"""The log for people: each record as a line of a timeline. Every text passes through `visible` here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from windlass.events import calls as ce
from windlass.events import context as xe
from windlass.events import permissions as pe
from windlass.events import questions as qe
from windlass.events import runs as re_
from windlass.events import sessions as se
from windlass.events import turns as te
from windlass.events.base import Event, name_of
from windlass.events.blocks import AnyBlock, Text, plain_text
from windlass.events.codec import Unknown

from . import words
from .render_changes import CHANGES
from .text import BESIDE_MIN, Paint, cells, fold_lines, one_line, padded, visible

TEXT_MAX = 400
"""How much of a text a timeline shows; `--full` shows all."""
LABEL_WIDTH = 20
SEQ_WIDTH = 5
BENEATH = " " * (SEQ_WIDTH + 2)
"""What a text stands behind where there is no room for it beside its label."""

BOOKKEEPING = (
    re_.TurnStarted,
    re_.TurnFinished,
    re_.CommandCompleted,
    re_.TimerFired,
    te.ModelRequested,
    te.PrefixChanged,
    ce.ToolRequested,
    ce.ToolPrepared,
    ce.ToolAllowed,
    ce.ToolStarted,
    pe.ApproverMissed,
    se.InstructionsRendered,
    xe.ContextPagedOut,
)
"""Records that follow from the ones beside them; shown with `--all`."""


UNTOLD = ("type", "body", "erased", "command_id")
"""Fields that a record without words of its own does not show."""


class Timeline:
    """Turns records into lines for a screen of some width."""

    def __init__(self, *, width: int, paint: Paint, full: bool = False, all_records: bool = False) -> None:
        self._width = width
        self._paint = paint
        self.full = full
        self._most = None if full else TEXT_MAX
        self._all = all_records
        self._tools: dict[str, str] = {}
        self._shown_day = ""

    def learn(self, event: Event | Unknown) -> None:
        """Takes note of a record that is not shown: later ones may speak of its tool."""
        if isinstance(event, ce.ToolRequested):
            self._tools[event.call_id] = event.tool

    def _day(self, at_ms: int) -> Iterator[str]:
        """The day, where it is another one than that of the record before: a session may wait for weeks."""
        day = words.day(at_ms)
        if day != self._shown_day:
            self._shown_day = day
            yield self._paint(f"{'':{SEQ_WIDTH}}  {day}", "dim")

    def lines(self, seq: int, at_ms: int, event: Event | Unknown) -> Iterator[str]:
        """The lines of one record; none for bookkeeping."""
        self.learn(event)
        if not self._all and isinstance(event, BOOKKEEPING):
            return
        yield from self._day(at_ms)
        label, said, colour = self.told(event)
        head = f"{seq:>{SEQ_WIDTH}}  {words.clock(at_ms)}  "
        margin = " " * (cells(head) + LABEL_WIDTH)
        painted = self._paint(padded(label, LABEL_WIDTH), colour)
        if self._width - len(margin) < BESIDE_MIN:
            yield (self._paint(head, "dim") + painted).rstrip()
            yield from (f"{BENEATH}{line}" for line in fold_lines(said, self._width - len(BENEATH)) if line)
            return
        body = fold_lines(said, self._width - len(margin)) or [""]
        yield (self._paint(head, "dim") + painted + body[0]).rstrip()
        for line in body[1:]:
            yield (margin + line).rstrip()

    def told(self, event: Event | Unknown) -> tuple[str, str, str]:
        """A record as a label, what it says, and a colour."""
        if isinstance(event, Unknown):
            return "(unknown)", visible(event.tag), "dim"
        if event.erased is not None:
            erased = event.erased
            return name_of(event), f"content erased by {visible(erased.by)}: {visible(erased.why)}", "dim"
        teller = TELLERS.get(type(event))
        if teller is None:
            return name_of(event).replace(".", " "), self.cut(_fields(event)), "dim"
        label, say, colour = teller
        return label, say(self, event), colour

    def cut(self, text: str) -> str:
        """A text as far as it is to be shown."""
        return visible(text) if self._most is None else one_line(text, self._most)

    def tool(self, call_id: str) -> str:
        """A call by its tool's name and its id."""
        name = self._tools.get(call_id)
        return f"{visible(name)} [{call_id}]" if name else call_id

    def blocks(self, blocks: tuple[Any, ...]) -> str:
        return self.cut(in_words(blocks))


def in_words(blocks: tuple[AnyBlock, ...]) -> str:
    """Blocks as text; what is no text is named."""
    parts = [plain_text((block,)) or f"[{type(block).__name__.lower()}]" for block in blocks]
    return "\n".join(parts)


def _fields(event: Event) -> str:
    """The fields of an event that say something."""
    plain = msgspec.to_builtins(event)
    return ", ".join(f"{name} {_brief(value)}" for name, value in plain.items() if name not in UNTOLD and value)


def _brief(value: Any) -> str:
    """A value in few words: what has a name, by that."""
    if isinstance(value, dict):
        return (
            str(value["name"]) if "name" in value else ", ".join(f"{key} {_brief(one)}" for key, one in value.items())
        )
    return ", ".join(map(_brief, value)) if isinstance(value, list | tuple) else str(value)


def _started(view: Timeline, event: se.SessionStarted) -> str:
    setup = event.setup
    tools = ", ".join(spec.name for spec in setup.tools) or "none"
    title = f"“{event.title}”; " if event.title else ""
    return view.cut(f"{title}agent {setup.agent.name}, model {setup.model.name}, tools: {tools}")


def _prompt(view: Timeline, event: re_.PromptReceived) -> str:
    who = f"{event.actor}: " if event.actor and event.actor != "user" else ""
    return view.cut(who + (in_words(event.body.content) if event.body is not None else ""))


def _replied(view: Timeline, event: te.ModelReplied) -> str:
    body = event.body
    said = "".join(block.text for block in body.blocks if isinstance(block, Text)) if body is not None else ""
    lines = [view.cut(said)] if said else []
    for found in body.calls if body is not None else ():
        call = found.call
        given = call.args if call.args is not None else call.text or call.malformed
        lines.append("→ " + view.cut(words.called(call.tool, given)))
    lines.append(f"({words.tokens(event.usage)}, {words.seconds(event.duration_ms)})")
    return "\n".join(lines)


def _finished(view: Timeline, event: ce.ToolFinished | ce.ResultReceived) -> str:
    content = event.body.content if event.body is not None else ()
    said = view.blocks(content) or ("done" if event.ok else "failed")
    return f"{view.tool(event.call_id)}: {said}"


def _asked(view: Timeline, event: pe.PermissionRequested) -> str:
    return f"{event.request_id}: may {view.tool(event.call_id)} run? {visible(event.rule)}".rstrip()


def _question(view: Timeline, event: qe.QuestionRequested) -> str:
    body = event.body
    asked = "; ".join(question.question for question in body.questions) if body is not None else ""
    plan = body.plan.summary if body is not None and body.plan is not None else ""
    return f"{event.question_id}: {view.cut((body.message if body else '') or asked or plan or event.kind)}"


def _answered(view: Timeline, event: qe.AnswerReceived) -> str:
    said = ""
    if event.body is not None:
        answers = [", ".join(answer.selected) or answer.text or "" for answer in event.body.answers]
        said = "; ".join(answers) or event.body.feedback
    return f"{event.question_id}: {event.outcome} {view.cut(said)}".rstrip()


def _ended(view: Timeline, event: re_.Terminal) -> str:
    said = f"{event.stop.replace('_', ' ')}; {words.plural(event.turns, 'turn')}, {words.tokens(event.usage)}"
    said += f", {words.dollars(event.cost_nanos)}"
    if isinstance(event, re_.RunFailed):
        said += f"\n{view.cut(event.failure.message)}"
    if isinstance(event, re_.RunAsked):
        said += "\nwaits for " + ", ".join(map(visible, event.waiting_for))
    if isinstance(event, re_.RunSlept):
        said += f"\nuntil {words.moment(event.wake_at_ms)}"
    return said


def _by(actor: str, why: str) -> str:
    return f"by {actor}: {why}" if why else f"by {actor}"


def _runner(view: Timeline, name: str) -> str:
    """Who drove it: a process of some machine by its number, where its name says so."""
    found = None if view.full else re.search(r":(\d+):\d+$", name)
    return f"process {found[1]}" if found else visible(name)


Teller = tuple[str, Callable[[Timeline, Any], str], str]

TELLERS: dict[type[Event], Teller] = {
    se.SessionStarted: ("session started", _started, "bold"),
    se.SessionResumed: ("session resumed", lambda v, e: f"epoch {e.epoch}, by {_runner(v, e.runner)}", "blue"),
    se.SessionForked: ("session forked", lambda v, e: f"from {visible(e.origin_id)} at {e.at_seq}", "blue"),
    se.SessionRewound: (
        "session rewound",
        lambda v, e: f"to {e.to_seq}: {e.items_before} to {e.items_after} items",
        "blue",
    ),
    se.NoticeGiven: ("notice", lambda v, e: v.cut(e.message), "dim"),
    se.TitleChanged: ("title", lambda v, e: v.cut(e.title), "dim"),
    se.TaskCompleted: ("task completed", lambda v, e: v.cut(e.summary), "green"),
    re_.PromptReceived: ("prompt", _prompt, "bold"),
    re_.WakeReceived: ("wake", lambda v, e: f"by {visible(e.actor)}", "blue"),
    re_.InterruptReceived: ("interrupt", lambda v, e: v.cut(_by(e.actor, e.reason)), "yellow"),
    re_.CancelReceived: ("cancel", lambda v, e: v.cut(_by(e.actor, e.reason)), "yellow"),
    re_.CommandRefused: ("command refused", lambda v, e: v.cut(f"{e.code}: {e.message}"), "yellow"),
    re_.QueueChanged: ("queue", lambda v, e: f"{e.operation} {', '.join(map(visible, e.prompt_ids))}", "dim"),
    re_.RunStarted: (
        "run started",
        lambda v, e: f"{e.run_id} ({e.trigger}{f', continues {e.continues}' if e.continues else ''})",
        "blue",
    ),
    re_.TurnStarted: ("turn", lambda v, e: f"{e.number}", "dim"),
    te.ModelRequested: ("model requested", lambda v, e: f"{visible(e.model)}, attempt {e.attempt}", "dim"),
    te.ModelReplied: ("model replied", _replied, "green"),
    te.ModelFailed: ("model failed", lambda v, e: v.cut(f"{e.failure.kind}: {e.failure.message}"), "red"),
    te.RetryPlanned: ("retry planned", lambda v, e: f"in {words.wait(e.plan.chosen_ms)}", "yellow"),
    te.OutputRejected: ("output rejected", lambda v, e: v.cut("; ".join(e.errors)), "yellow"),
    ce.ToolRequested: ("tool requested", lambda v, e: v.tool(e.call_id), "dim"),
    ce.ToolAllowed: ("tool allowed", lambda v, e: f"{v.tool(e.call_id)} by {e.by} {visible(e.rule)}".rstrip(), "dim"),
    ce.ToolStarted: ("tool started", lambda v, e: f"{v.tool(e.call_id)}, attempt {e.attempt}", "dim"),
    ce.ToolFinished: ("tool finished", _finished, "cyan"),
    ce.ResultReceived: ("result received", _finished, "cyan"),
    ce.ToolResolved: ("tool resolved", lambda v, e: f"{v.tool(e.call_id)}: {v.cut(e.text)}", "cyan"),
    ce.ToolDenied: (
        "tool denied",
        lambda v, e: v.cut(f"{v.tool(e.call_id)}: {e.reason.replace('_', ' ')} {e.detail}".rstrip()),
        "yellow",
    ),
    ce.ToolTimedOut: ("tool timed out", lambda v, e: f"{v.tool(e.call_id)} after {e.timeout_ms} ms", "red"),
    ce.ToolCancelled: ("tool cancelled", lambda v, e: f"{v.tool(e.call_id)}: {e.reason}", "yellow"),
    ce.ToolOutcomeUnknown: ("outcome unknown", lambda v, e: v.tool(e.call_id), "red"),
    ce.ToolSettled: ("settled", lambda v, e: f"{v.tool(e.call_id)}: {e.outcome.replace('_', ' ')}", "blue"),
    pe.PermissionRequested: ("permission asked", _asked, "yellow"),
    pe.PermissionApproved: (
        "approved",
        lambda v, e: f"{e.request_id} by {visible(e.actor)} ({e.scope})",
        "green",
    ),
    pe.PermissionDenied: (
        "denied",
        lambda v, e: v.cut(f"{e.request_id} {_by(e.actor, e.body.feedback if e.body else '')}"),
        "yellow",
    ),
    qe.QuestionRequested: ("question", _question, "yellow"),
    qe.AnswerReceived: ("answer", _answered, "green"),
    re_.RunCompleted: ("run completed", _ended, "green"),
    re_.RunFailed: ("run failed", _ended, "red"),
    re_.RunCancelled: ("run cancelled", _ended, "yellow"),
    re_.RunInterrupted: ("run interrupted", _ended, "yellow"),
    re_.RunAsked: ("run asked", _ended, "yellow"),
    re_.RunSlept: ("run sleeps", _ended, "yellow"),
    **CHANGES,
}
"""How each kind of record is told: its label, its words, its colour. Those not listed show their fields."""
