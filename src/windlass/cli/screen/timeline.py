"""The log for people: a view that makes an entry of each record, and the page that lays entries out on a screen. Every
text passes through `visible` here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from windlass.cli.terminal.text import BESIDE_MIN, Paint, cells, fold_lines, one_line, padded
from windlass.cli.terminal.visible_text import spelt, visible
from windlass.events.base import Event, name_of
from windlass.events.changes import ChangeReceived, TitleChanged
from windlass.events.commands import CommandCompleted, CommandRefused, PromptReceived, QueueChanged
from windlass.events.context import ContextPagedOut
from windlass.events.live import Live
from windlass.events.questions import AnswerReceived, QuestionRequested
from windlass.events.runs import (
    CancelReceived,
    InterruptReceived,
    RunAsked,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunSlept,
    RunStarted,
    Terminal,
    WakeReceived,
)
from windlass.events.sessions import (
    HandoffReceived,
    NoticeGiven,
    SessionForked,
    SessionImported,
    SessionResumed,
    SessionRewound,
    SessionStarted,
)
from windlass.events.tasks import TaskCompleted
from windlass.events.timers import TimerFired
from windlass.events.tools.calls import (
    ResultReceived,
    ToolAllowed,
    ToolCancelled,
    ToolDenied,
    ToolFinished,
    ToolOutcomeUnknown,
    ToolPrepared,
    ToolReconsidered,
    ToolRequested,
    ToolResolved,
    ToolSettled,
    ToolStarted,
    ToolTimedOut,
)
from windlass.events.tools.jobs import JobDropped, JobFinished, JobStarted, JobStopping, KillReceived
from windlass.events.tools.labels import LabelsDeclassified, LabelsJoined
from windlass.events.tools.permissions import (
    ApproverMissed,
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
)
from windlass.events.trees.accounts import ChildGranted, ChildSettled, GrantReceived
from windlass.events.trees.children import (
    ChildFinished,
    ChildMoved,
    ChildOpened,
    ChildStarted,
    ChildStopped,
    ChildTold,
)
from windlass.events.turns import (
    ModelDropped,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    OutputRejected,
    PrefixChanged,
    RetryPlanned,
    TurnFinished,
    TurnStarted,
)
from windlass.events.values.blocks import Text
from windlass.events.values.setup import Limits
from windlass.events.workspace import InstructionsRendered
from windlass.protocol.permission_words import changes
from windlass.protocol.view import Told, UnknownRecord
from windlass.runtime.operate.item_text import blocks_text, prompt_text

from . import labels, number_words
from .changes import CHANGES

TEXT_MAX = 400
"""How much of a text a timeline shows; `--full` shows all."""
LABEL_WIDTH = 20
SEQ_WIDTH = 5
BENEATH = " " * (SEQ_WIDTH + 2)
"""What a text stands behind if there is no room for it beside its label."""

BOOKKEEPING = (
    TurnStarted,
    TurnFinished,
    CommandCompleted,
    TimerFired,
    ModelRequested,
    PrefixChanged,
    ToolRequested,
    ToolPrepared,
    ToolAllowed,
    ToolStarted,
    ApproverMissed,
    InstructionsRendered,
    ContextPagedOut,
)
"""Records that follow from the ones beside them; shown with `--all`."""


ALLOWED = {
    "rule": "by the rule",
    "default": "by the default of the policy",
    "grant": "by a standing approval",
    "person": "by a person's answer to",
    "kernel": "by the runtime itself",
}
"""Who let a call pass."""
UNTOLD = ("type", "body", "erased", "command_id")
"""Fields that a record without words of its own does not show."""


class Entry(NamedTuple):
    """A record as a timeline shows it: a label, what it says, and a colour."""

    seq: int
    at_ms: int
    label: str
    said: str
    colour: str


class Timeline:
    """A view of a session: an entry for each record, but for bookkeeping. Live events are passed over."""

    def __init__(self, *, full: bool = False, all_records: bool = False) -> None:
        self.full = full
        self._most = None if full else TEXT_MAX
        self._all = all_records
        self._tools: dict[str, str] = {}

    def feed(self, told: Told) -> list[Entry]:
        """The entry of one record; none for bookkeeping."""
        if isinstance(told, Live):
            return []
        if isinstance(told, UnknownRecord):
            return [Entry(told.seq, told.at_ms, "(unknown)", spelt(told.tag), "dim")]
        event = told.event
        if isinstance(event, ToolRequested):
            self._tools[event.call_id] = event.tool
        if not self._all and isinstance(event, BOOKKEEPING):
            return []
        label, said, colour = self.told(event)
        return [Entry(told.seq, told.at_ms, visible(label), visible(said), colour)]

    def told(self, event: Event) -> tuple[str, str, str]:
        """An event as a label, what it says, and a colour."""
        if event.erased is not None:
            erased = event.erased
            return name_of(event), f"content erased by {spelt(erased.by)}: {spelt(erased.why)}", "dim"
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
        return spelt(f"{name} [{call_id}]" if name else call_id)

    def blocks(self, blocks: tuple[Any, ...]) -> str:
        return self.cut(blocks_text(blocks))


class TimelinePage:
    """Lays entries out as lines for a screen of some width, each day named once: a session may wait for weeks."""

    def __init__(self, *, width: int, paint: Paint) -> None:
        self._width = width
        self._paint = paint
        self._shown_day = ""

    def lines(self, entry: Entry) -> Iterator[str]:
        """The lines of one entry."""
        yield from self._day(entry.at_ms)
        head = f"{entry.seq:>{SEQ_WIDTH}}  {number_words.clock(entry.at_ms)}  "
        margin = " " * (cells(head) + LABEL_WIDTH)
        painted = self._paint(padded(entry.label, LABEL_WIDTH), entry.colour)
        if self._width - len(margin) < BESIDE_MIN:
            yield (self._paint(head, "dim") + painted).rstrip()
            yield from (f"{BENEATH}{line}" for line in fold_lines(entry.said, self._width - len(BENEATH)) if line)
            return
        body = fold_lines(entry.said, self._width - len(margin)) or [""]
        if cells(entry.label) >= LABEL_WIDTH:  # it fills its column: what is said begins on the next line
            body.insert(0, "")
        yield (self._paint(head, "dim") + painted + body[0]).rstrip()
        for line in body[1:]:
            yield (margin + line).rstrip()

    def _day(self, at_ms: int) -> Iterator[str]:
        """The day, if it is another one than that of the entry before."""
        day = number_words.day(at_ms)
        if day != self._shown_day:
            self._shown_day = day
            yield self._paint(f"{'':{SEQ_WIDTH}}  {day}", "dim")


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


def _change(view: Timeline, event: ChangeReceived) -> str:
    asked = {name: value for name, value in msgspec.to_builtins(event.change).items() if value}
    what = asked.pop("what")
    return view.cut(f"{'' if what in asked else f'{what} '}{_brief(asked)} (by {spelt(event.actor)})")


def _started(view: Timeline, event: SessionStarted) -> str:
    setup = event.setup
    tools = ", ".join(spec.name for spec in setup.tools) or "none"
    title = f"“{event.title}”; " if event.title else ""
    return view.cut(f"{title}agent {setup.agent.name}, model {setup.model.name}, tools: {tools}")


def _prompt(view: Timeline, event: PromptReceived) -> str:
    who = f"{event.actor}: " if event.actor and event.actor != "user" else ""
    return view.cut(who + (prompt_text(event.body, whole=view.full) if event.body is not None else ""))


def _replied(view: Timeline, event: ModelReplied) -> str:
    body = event.body
    said = "".join(block.text for block in body.blocks if isinstance(block, Text)) if body is not None else ""
    lines = [view.cut(said)] if said else []
    for proposed in body.calls if body is not None else ():
        call = proposed.call
        given = call.args if call.args is not None else call.text or call.malformed
        lines.append("→ " + view.cut(number_words.called(call.tool, given)))
    lines.append(f"({number_words.tokens(event.usage)}, {number_words.seconds(event.duration_ms)})")
    return "\n".join(lines)


def _more(limits: Limits) -> str:
    """How much more a session may use."""
    given = {name: most for name, most in msgspec.structs.asdict(limits).items() if most is not None}
    return ", ".join(f"{most:,} {name}" for name, most in given.items())


def _finished(view: Timeline, event: ToolFinished | ResultReceived | ChildFinished) -> str:
    content = event.body.content if event.body is not None else ()
    said = view.blocks(content) or ("done" if event.ok else "failed")
    raised = event.body.private_error if event.body is not None and view.full else None
    return f"{view.tool(event.call_id)}: {said}" + (f"\n{visible(raised.rstrip())}" if raised else "")


def _job(view: Timeline, event: JobFinished) -> str:
    code = f", exit code {event.exit_code}" if event.exit_code is not None else ""
    said = view.blocks(event.body.content) if event.body is not None else ""
    return f"{spelt(event.job_id)} {event.status}{code}{f': {said}' if said else ''}"


def _asked(view: Timeline, event: PermissionRequested) -> str:
    rule = f" (rule: {spelt(event.rule)})" if event.rule else ""
    again = f"; asked again: {changes(event.changed)}" if event.changed else ""
    return f"{spelt(event.request_id)}: may {view.tool(event.call_id)} run?{rule}{again}"


def _allowed(view: Timeline, event: ToolAllowed) -> str:
    return f"{view.tool(event.call_id)}, {ALLOWED[event.by]} {spelt(event.rule)}".rstrip()


def _question(view: Timeline, event: QuestionRequested) -> str:
    body = event.body
    asked = "; ".join(question.question for question in body.questions) if body is not None else ""
    plan = body.plan.summary if body is not None and body.plan is not None else ""
    return f"{spelt(event.question_id)}: {view.cut((body.message if body else '') or asked or plan or event.kind)}"


def _answered(view: Timeline, event: AnswerReceived) -> str:
    said = ""
    if event.body is not None:
        answers = [", ".join(answer.selected) or answer.text or "" for answer in event.body.answers]
        said = "; ".join(answers) or event.body.feedback
    action = f" ({spelt(event.action)}) {_known(event, event.outcome)}" if event.action is not None else ""
    return f"{spelt(event.question_id)}: {event.outcome}{action} {view.cut(said)}".rstrip()


def _ended(view: Timeline, event: Terminal) -> str:
    turns, tokens = number_words.plural(event.turns, "turn"), number_words.tokens(event.usage)
    said = f"{event.stop.replace('_', ' ')}; {turns}, {tokens}"
    said += f", {number_words.dollars(event.cost_nanos)}"
    if isinstance(event, RunFailed):
        said += f"\n{view.cut(event.failure.message)}"
    if isinstance(event, RunAsked):
        said += "\nwaits for " + ", ".join(map(spelt, event.waiting_for))
    if isinstance(event, RunSlept):
        said += f"\nuntil {number_words.moment(event.wake_at_ms)}"
    return said


def _known(event: PermissionApproved | AnswerReceived, what: str) -> str:
    """Who said it, and behind that, where no name reaches, how it is known: a name alone is what its sender wrote."""
    return f"by {spelt(event.actor)} ({what}, auth {event.auth or 'none'})"


def _by(actor: str, why: str) -> str:
    return f"by {actor}: {why}" if why else f"by {actor}"


def _cut(event: SessionResumed) -> str:
    return f"; recovered: {visible(event.recovered)}" if event.recovered else ""


def _runner(view: Timeline, name: str) -> str:
    """Who drove it: a process of some machine by its number, if its name says so."""
    number = None if view.full else re.search(r":(\d+):\d+$", name)
    return f"process {number[1]}" if number else spelt(name)


def _resumed(view: Timeline, event: SessionResumed) -> str:
    """Who took it over, and how the owner before was lost, if it was."""
    lost = f"; the owner before was lost: {view.cut(event.lost)}" if event.lost else ""
    return f"epoch {event.epoch}, by {_runner(view, event.runner)}{_cut(event)}{lost}"


Teller = tuple[str, Callable[[Timeline, Any], str], str]

TELLERS: dict[type[Event], Teller] = {
    SessionStarted: ("session started", _started, "bold"),
    SessionResumed: ("session resumed", _resumed, "blue"),
    SessionForked: ("session forked", lambda v, e: f"from {spelt(e.origin_id)} at {e.at_seq}", "blue"),
    HandoffReceived: ("handed over", lambda v, e: f"it goes on as {spelt(e.session)} at {spelt(e.to)}", "blue"),
    SessionImported: ("session imported", lambda v, e: f"{spelt(e.source)} where it was written", "blue"),
    SessionRewound: (
        "session rewound",
        lambda v, e: f"to {e.to_seq}: {e.items_before} to {e.items_after} items",
        "blue",
    ),
    NoticeGiven: ("notice", lambda v, e: v.cut(e.message), "dim"),
    ChangeReceived: ("change asked for", _change, "dim"),
    TitleChanged: ("title", lambda v, e: v.cut(e.title), "dim"),
    TaskCompleted: ("task completed", lambda v, e: v.cut(e.summary), "green"),
    PromptReceived: ("prompt", _prompt, "bold"),
    WakeReceived: ("wake", lambda v, e: f"by {spelt(e.actor)}", "blue"),
    InterruptReceived: ("interrupt", lambda v, e: v.cut(_by(e.actor, e.reason)), "yellow"),
    CancelReceived: ("cancel", lambda v, e: v.cut(_by(e.actor, e.reason)), "yellow"),
    CommandRefused: ("command refused", lambda v, e: v.cut(f"{e.code}: {e.message}"), "yellow"),
    QueueChanged: ("queue", lambda v, e: f"{e.operation} {', '.join(map(spelt, e.prompt_ids))}", "dim"),
    RunStarted: (
        "run started",
        lambda v, e: f"{spelt(e.run_id)} ({e.trigger}{f', continues {spelt(e.continues)}' if e.continues else ''})",
        "blue",
    ),
    TurnStarted: ("turn", lambda v, e: f"{e.number}", "dim"),
    ModelRequested: ("model requested", lambda v, e: f"{spelt(e.model)}, attempt {e.attempt}", "dim"),
    ModelReplied: ("model replied", _replied, "green"),
    ModelDropped: ("model dropped", lambda v, e: f"cut off by a {e.reason}", "yellow"),
    ModelFailed: ("model failed", lambda v, e: v.cut(f"{e.failure.kind}: {e.failure.message}"), "red"),
    RetryPlanned: ("retry planned", lambda v, e: f"in {number_words.wait(e.plan.chosen_ms)}", "yellow"),
    OutputRejected: ("output rejected", lambda v, e: v.cut("; ".join(e.errors)), "yellow"),
    ToolRequested: ("tool requested", lambda v, e: v.tool(e.call_id), "dim"),
    ToolAllowed: ("tool allowed", _allowed, "dim"),
    ToolReconsidered: ("judged again", lambda v, e: f"{v.tool(e.call_id)}: {changes(e.changed)}", "dim"),
    ToolStarted: ("tool started", lambda v, e: f"{v.tool(e.call_id)}, attempt {e.attempt}", "dim"),
    ToolFinished: ("tool finished", _finished, "cyan"),
    ResultReceived: ("result received", _finished, "cyan"),
    ChildStarted: ("child started", lambda v, e: f"{v.tool(e.call_id)}: {spelt(e.child_id)}", "dim"),
    ChildFinished: ("child finished", _finished, "cyan"),
    ChildOpened: ("child opened", lambda v, e: spelt(e.child_id), "dim"),
    ChildMoved: ("child moved", lambda v, e: f"{spelt(e.child_id)}: {e.status}", "dim"),
    ChildGranted: ("child granted", lambda v, e: f"{spelt(e.child_id)}: {_more(e.more)}", "dim"),
    GrantReceived: ("granted", lambda v, e: _more(e.more), "dim"),
    ChildSettled: ("child settled", lambda v, e: spelt(e.child_id), "dim"),
    ChildStopped: ("child stopped", lambda v, e: spelt(e.child_id), "dim"),
    ChildTold: ("child told", lambda v, e: spelt(e.child_id), "dim"),
    JobStarted: ("job started", lambda v, e: f"{v.tool(e.call_id)}: {spelt(e.job_id)}", "dim"),
    JobFinished: ("job finished", _job, "cyan"),
    JobStopping: ("job stopping", lambda v, e: f"{spelt(e.job_id)}: {e.reason.replace('_', ' ')}", "yellow"),
    JobDropped: ("job dropped", lambda v, e: spelt(e.job_id), "dim"),
    KillReceived: ("kill", lambda v, e: f"{spelt(e.job_id)} by {spelt(e.actor)}", "yellow"),
    ToolResolved: ("tool resolved", lambda v, e: f"{v.tool(e.call_id)}: {v.cut(e.text)}", "cyan"),
    ToolDenied: (
        "tool denied",
        lambda v, e: v.cut(f"{v.tool(e.call_id)}: {e.detail or e.reason.replace('_', ' ')}"),
        "yellow",
    ),
    ToolTimedOut: (
        "tool timed out",
        lambda v, e: f"{v.tool(e.call_id)} after {number_words.seconds(e.timeout_ms)}",
        "red",
    ),
    ToolCancelled: ("tool cancelled", lambda v, e: f"{v.tool(e.call_id)}: {e.reason.replace('_', ' ')}", "yellow"),
    ToolOutcomeUnknown: ("outcome unknown", lambda v, e: v.tool(e.call_id), "red"),
    ToolSettled: ("settled", lambda v, e: f"{v.tool(e.call_id)}: {e.outcome.replace('_', ' ')}", "blue"),
    PermissionRequested: ("permission asked", _asked, "yellow"),
    PermissionApproved: (
        "approved",
        lambda v, e: f"{spelt(e.request_id)} {_known(e, e.scope)}",
        "green",
    ),
    PermissionDenied: (
        "denied",
        lambda v, e: v.cut(f"{spelt(e.request_id)} {_by(e.actor, e.body.feedback if e.body else '')}"),
        "yellow",
    ),
    LabelsJoined: ("labels joined", lambda v, e: v.cut(labels.joined(e)), "yellow"),
    LabelsDeclassified: ("declassified", lambda v, e: v.cut(labels.declassified(e)), "yellow"),
    QuestionRequested: ("question", _question, "yellow"),
    AnswerReceived: ("answer", _answered, "green"),
    RunCompleted: ("run completed", _ended, "green"),
    RunFailed: ("run failed", _ended, "red"),
    RunCancelled: ("run cancelled", _ended, "yellow"),
    RunInterrupted: ("run interrupted", _ended, "yellow"),
    RunAsked: ("run asked", _ended, "yellow"),
    RunSlept: ("run sleeps", _ended, "yellow"),
    **CHANGES,
}
"""How each kind of record is told: its label, its words, its colour. Those not listed show their fields."""
