"""The life of a session: started, resumed, changed, rewound, forked, shut down."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.values.blocks import JsonObject, Value
from windlass.events.values.isolation import Worktree
from windlass.events.values.items import HistoryItem
from windlass.events.values.setup import AgentRef, ItemRef, SessionOptions, Setup, Terms, Workspace
from windlass.events.values.tools import ToolSpec, ToolText
from windlass.events.values.usage import Usage

from .base import Category, Command, Decision, Fact, Nat
from .workspace import FileChange, LeftFile


class SetupBody(Value, frozen=True, kw_only=True):
    """The content of a setup: what models are told of the tools, and an imported history."""

    tools: tuple[ToolText, ...] = ()
    imported: tuple[HistoryItem, ...] = ()
    knowledge: tuple[str, ...] = ()
    output_schema: JsonObject | None = None
    options: SessionOptions = SessionOptions()
    """What the session has otherwise than its agent's code says, whole."""


class SessionStarted(Command, frozen=True, kw_only=True, tag="session.started"):
    """A session exists. This is setup, not a run; the effective agent is recorded by digest."""

    CATEGORY: ClassVar[Category] = "proc"
    session_id: str
    epoch: Nat
    setup: Setup
    title: str = ""
    metadata: dict[str, str] = {}
    workspace: Workspace | None = None
    parent_id: str | None = None
    parent_call_id: str | None = None
    root_id: str | None = None
    scope: str = "primary"
    depth: Nat = 0
    imported: tuple[ItemRef, ...] = ()
    labels: tuple[str, ...] = ()
    """What it begins with is marked with these: its history, or what its parent had seen."""
    knowledge_tokens: Nat = 0
    producer: str = ""
    worktree: Worktree | None = None
    """The git worktree that was made for it, if it is a child that works in one."""
    body: SetupBody | None = None


class SessionResumed(Fact, frozen=True, kw_only=True, tag="session.resumed"):
    """A new owner took the session. Intents of earlier epochs are closed by their contracts after this."""

    CATEGORY: ClassVar[Category] = "proc"
    epoch: Nat
    runner: str = ""
    workspace: Workspace | None = None
    agent: AgentRef | None = None
    """The agent bound now, if it differs from the recorded one."""
    tools: tuple[ToolSpec, ...] | None = None
    """The tools bound now, if they differ from the recorded ones."""
    terms: Terms | None = None
    """What the agent's code says now, where it said something else when the session was last bound to it."""
    options: SessionOptions | None = None
    """What the session has otherwise than its agent's code says from now on, without content, if that has changed."""
    knowledge_tokens: Nat | None = None
    recovered: str | None = None
    """What the store had to cut off or set aside on opening."""
    lost: str | None = None
    """How the owner before was lost, if it did not give the session back: its process died, or its driver broke."""
    body: SetupBody | None = None


class AgentChanged(Decision, frozen=True, kw_only=True, tag="agent.changed"):
    """The bound code is not the recorded one; the session goes on with it."""

    CATEGORY: ClassVar[Category] = "proc"
    previous: AgentRef
    agent: AgentRef
    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


class ModelTotals(Value, frozen=True, kw_only=True):
    """What one model was used for in a session."""

    model: str
    requests: Nat = 0
    usage: Usage = Usage()
    cost_nanos: Nat = 0
    duration_ms: Nat = 0


class CodeTotals(Value, frozen=True, kw_only=True):
    """Files and lines that tools reported as changed."""

    lines_added: Nat = 0
    lines_removed: Nat = 0
    files: tuple[str, ...] = ()


class SessionShutDown(Fact, frozen=True, kw_only=True, tag="session.shut_down"):
    """The host closed the session; it may be resumed later."""

    CATEGORY: ClassVar[Category] = "proc"
    kind: Literal["routine", "error"] = "routine"
    reason: str = ""


class SessionTotalled(Decision, frozen=True, kw_only=True, tag="session.totalled"):
    """The sums of a session at its shutdown."""

    CATEGORY: ClassVar[Category] = "proc"
    models: tuple[ModelTotals, ...] = ()
    code: CodeTotals = CodeTotals()
    current_model: str = ""
    started_ms: Nat = 0


class SessionForked(Fact, frozen=True, kw_only=True, tag="session.forked"):
    """This log continues another one from its record `at_seq`. What was open there is closed after this, but for
    requests to people if they are to stay open."""

    CATEGORY: ClassVar[Category] = "proc"
    session_id: str
    origin_id: str
    at_seq: Nat
    origin_hash: str
    epoch: Nat
    by: str = ""
    keeps_open: bool = False
    """Whether what people were asked there, and had not answered, is open here too."""
    unsent: bool = False
    """Whether requests to models that were under way there cost nothing here: this log never sent them."""
    held: SessionOptions | None = None
    """What the origin came to be held to after that record (a quarantine, plan mode, a policy, a sandbox, files that
    are only read), which holds here too: a fork is no way around it."""


class SessionImported(Fact, frozen=True, kw_only=True, tag="session.imported"):
    """This log came from elsewhere, as a copy. It brings no authority along: what was open there is closed after this,
    and no standing approval holds any more."""

    CATEGORY: ClassVar[Category] = "proc"
    session_id: str
    epoch: Nat
    by: str = ""
    source: str = ""
    """Where it came from, as far as is known."""
    moved: bool = False
    """Whether it was handed over and is no copy: what people were asked is open here too, and what restrains the
    session goes on to. Standing approvals hold no more, as in a copy."""


class HandoffReceived(Command, frozen=True, kw_only=True, tag="handoff.received"):
    """The session goes on in another store, and never again in this one. Only its acknowledgement comes behind it."""

    CATEGORY: ClassVar[Category] = "proc"
    to: str
    """The store or the server where it goes on."""
    session: str
    """Its id there."""


class RewindReceived(Command, frozen=True, kw_only=True, tag="rewind.received"):
    """Make the history what it was at `to_seq` (0 clears it). `restored` is what the host found visible there."""

    to_seq: Nat
    restored: tuple[ItemRef, ...] = ()
    files: bool = False
    """Whether the files that tools changed since then are to hold again what they held."""
    changes: tuple[FileChange, ...] = ()
    """The files that the host has put back."""
    left: tuple[LeftFile, ...] = ()
    """Those that it has not, and why."""


class SessionRewound(Decision, frozen=True, kw_only=True, tag="session.rewound"):
    """The visible history is an earlier one. What was spent, approved or done stays spent, approved and done."""

    CATEGORY: ClassVar[Category] = "mm"
    to_seq: Nat
    items_before: Nat
    items_after: Nat
    history: tuple[ItemRef, ...] = ()


class NoticeGiven(Fact, frozen=True, kw_only=True, tag="notice.given?"):
    """The host has something to say that changes nothing: for people and for the record."""

    level: Literal["info", "warning", "error"] = "info"
    code: str
    message: str
    call_id: str | None = None
    data: JsonObject = {}
    """What belongs to it, as a tool's audit note gave it."""


class ContentErased(Fact, frozen=True, kw_only=True, tag="content.erased"):
    """The body of an earlier event was erased from the store."""

    CATEGORY: ClassVar[Category] = "mm"
    seq: Nat
    by: str
    why: str
