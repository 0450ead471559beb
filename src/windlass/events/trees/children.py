"""Child sessions: a call that another session carries out, how it gets on, and the end that comes back from it.

Commands here are messages: only sessions send them to each other, under ids that are derived, so that each is taken
once.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from windlass.events.base import Category, Command, Decision, Fact, Nat
from windlass.events.commands import PromptBody
from windlass.events.tools.calls import ResultBody
from windlass.events.values.blocks import Value
from windlass.events.values.failures import Failure
from windlass.events.values.isolation import Isolation
from windlass.events.values.setup import ChildContext, ChildMode, Limits
from windlass.events.values.usage import Usage

ChildStatus = Literal["completed", "aborted", "timeout", "error"]
"""How a child came to its end: of its own, stopped by somebody, at its limit of time, or otherwise."""


class Used(Value, frozen=True, kw_only=True):
    """What a session has used of its budgets, with all that its children have used. In older logs also with what they
    might still have used."""

    usage: Usage = Usage()
    cost_nanos: Nat = 0
    turns: Nat = 0
    calls: Nat = 0
    children: Nat = 0


class ChildBody(ResultBody, frozen=True, kw_only=True):
    """What came of a child: its answer as the model reads it, and as a value if its agent has a type for it."""

    output: Any = None


class ChildStarted(Decision, frozen=True, kw_only=True, tag="child.started"):
    """The intent to have a child session carry out a call. Its id is derived, so that it is made once; what it may use
    is set aside from here on."""

    CATEGORY: ClassVar[Category] = "proc"
    child_id: str
    call_id: str
    labels: tuple[str, ...] = ()
    """What the parent had seen: the child begins with it."""
    quarantine: bool = False
    """Whether the child may only read, as its parent may."""
    agent: str = ""
    """The specialist that it is run by; empty in older logs."""
    mode: ChildMode = "foreground"
    context: ChildContext = "fresh"
    """What it knows of its parent: its task alone, its history too, or what it looks up there."""
    scope: str = ""
    """Its place below the root: the calls that lead to it."""
    depth: Nat = 0
    slice: Limits = Limits()
    """What it may use over its whole life, with its own children."""
    isolation: Isolation | None = None
    """How it is to be kept apart, if more was asked for than its specialist says."""


class ChildOpened(Fact, frozen=True, kw_only=True, tag="child.opened"):
    """A child that nobody waits for has begun. This is the result of its call."""

    CATEGORY: ClassVar[Category] = "proc"
    child_id: str
    call_id: str
    tokens: Nat = 0


class ChildMoved(Command, frozen=True, kw_only=True, tag="child.moved"):
    """A child goes on, waits for people, or sleeps. The child says so itself; no client can."""

    CATEGORY: ClassVar[Category] = "proc"
    child_id: str
    call_id: str
    child_seq: Nat
    """Where in its log it says so."""
    status: Literal["working", "asked", "sleeping"]
    """What it does now."""
    waiting_for: tuple[str, ...] = ()
    wake_at_ms: Nat | None = None


class ChildFinished(Command, frozen=True, kw_only=True, tag="child.finished"):
    """A child came to its end, which is the result of the call. The child says so itself, under a derived command id;
    no client can."""

    CATEGORY: ClassVar[Category] = "proc"
    child_id: str
    call_id: str
    ok: bool = True
    tokens: Nat = 0
    bytes: Nat = 0
    labels: tuple[str, ...] = ()
    """What the child had seen at its end."""
    status: ChildStatus = "completed"
    """How it came to its end."""
    child_seq: Nat = 0
    """Where in its log it ended; 0 if it never began."""
    used: Used | None = None
    """What it used, with its own children; all that was set aside for it if nobody can say."""
    held: Used | None = None
    """What those below it that have not ended may still use: it stays set aside until `child.settled`. None if all of
    them have ended."""
    failure: Failure | None = None
    """Why it failed: the cause that lies deepest, its own or that of a session below it."""
    failed_in: str = ""
    """Where that was: the calls that lead from the root to the session that failed."""
    body: ChildBody | None = None


class ChildStopped(Decision, frozen=True, kw_only=True, tag="child.stopped"):
    """A child is to end: its parent was stopped. Its end still comes back, for what it used."""

    CATEGORY: ClassVar[Category] = "proc"
    child_id: str
    call_id: str
    how: Literal["interrupt", "cancel"]
    """Whether it may be looked at as interrupted, or is closed for good."""


class ChildTold(Decision, frozen=True, kw_only=True, tag="child.told"):
    """Something is said to a child that is at work."""

    CATEGORY: ClassVar[Category] = "ipc"
    child_id: str
    body: PromptBody | None = None
