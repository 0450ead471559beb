"""Asking a person whether something may be done, and what they said."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.base import Category, Command, Decision, Fact, Nat
from windlass.events.values.access import SandboxTerms
from windlass.events.values.blocks import JsonObject, Value
from windlass.events.values.policy import Grant, PermissionKind

RequestKind = Literal[PermissionKind, "hook"]
"""What a request is about: what its call does, or that a hook wants a person asked."""

Scope = Literal["once", "session", "pattern"]

Changed = Literal[
    "code",
    "schema",
    "contract",
    "traits",
    "rules",
    "mode",
    "grant",
    "labels",
    "sandbox",
]
"""What a verdict rested on that is another one now."""


class Detail(Value, frozen=True, kw_only=True, tag_field="kind"):
    """Base of what a person is shown before they decide."""


class ShellCommand(Value, frozen=True, kw_only=True):
    """One simple command inside a shell text."""

    identifier: str
    read_only: bool = False


class ShellDetail(Detail, frozen=True, kw_only=True, tag="shell"):
    """A shell text, whole, with what was found in it."""

    command: str
    cwd: str = "."
    """Where it would run, relative to the workspace."""
    background: str = ""
    """`background` or `detached` if it is not waited for."""
    intention: str = ""
    commands: tuple[ShellCommand, ...] = ()
    paths: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    writes_by_redirect: bool = False
    session_approval_offered: bool = True
    warning: str | None = None


class WriteDetail(Detail, frozen=True, kw_only=True, tag="write"):
    """A change to a file, as a diff or as the new content."""

    path: str
    intention: str = ""
    diff: str = ""
    new_content: str | None = None
    session_approval_offered: bool = True


class ReadDetail(Detail, frozen=True, kw_only=True, tag="read"):
    """Reading a path."""

    path: str
    intention: str = ""


class McpDetail(Detail, frozen=True, kw_only=True, tag="mcp"):
    """A tool of an MCP server."""

    server: str
    tool: str
    title: str = ""
    args: JsonObject | None = None
    read_only: bool = False


class UrlDetail(Detail, frozen=True, kw_only=True, tag="url"):
    """A request to an address."""

    url: str
    intention: str = ""


class MemoryDetail(Detail, frozen=True, kw_only=True, tag="memory"):
    """Remembering a fact beyond this session."""

    subject: str
    fact: str
    citations: str = ""


class ToolDetail(Detail, frozen=True, kw_only=True, tag="tool"):
    """Any other tool, with its full arguments."""

    tool: str
    args: JsonObject | None = None
    text: str | None = None


class HookDetail(Detail, frozen=True, kw_only=True, tag="hook"):
    """Any other tool, with its full arguments, which a hook wants a person asked about."""

    tool: str
    hook_id: str
    message: str = ""
    args: JsonObject | None = None
    text: str | None = None


AnyDetail = ShellDetail | WriteDetail | ReadDetail | McpDetail | UrlDetail | MemoryDetail | ToolDetail | HookDetail


class PermissionBody(Value, frozen=True, kw_only=True):
    """Everything that was shown. `subject` is what an approval by pattern is matched against; if there is none, only
    this very call can be approved for later."""

    detail: AnyDetail
    why: str = ""
    subject: str | None = None


class FeedbackBody(Value, frozen=True, kw_only=True):
    """What a person said with a denial; the model reads it."""

    feedback: str = ""


class PermissionRequested(Decision, frozen=True, kw_only=True, tag="permission.requested"):
    """A call needs a person's word. `digest` is what an approval will be bound to."""

    CATEGORY: ClassVar[Category] = "syscall"
    request_id: str
    call_id: str
    tool: str
    kind: RequestKind
    digest: str
    rule: str = ""
    changed: tuple[Changed, ...] = ()
    """Why it is asked again: what has changed since it was judged before."""
    replaces: str | None = None
    """The request that was withdrawn for this one."""
    counts: tuple[str, ...] = ()
    """The rules with a rate or a quota that will count it, by their digests."""
    group: str = ""
    """The first open request of the same reply that is like this one: same tool, kind and rule. Those of a group are
    put before a person together; each has its own digest, and may be answered apart."""
    by_pattern: bool = True
    """Whether it can be approved by a pattern: all that it touches is known, and a line of text stands for it."""
    session_offered: bool = True
    """Whether it can be approved for the whole session: it is known and shown whole, and not asked about each time."""
    joins: tuple[str, ...] = ()
    """The labels that the call would join with a way out, if it would; whoever approves it agrees to that."""
    sandbox: SandboxTerms | None = None
    """The sandbox that the call would run in, and what it would be given beyond that; an approval is bound to it."""
    body: PermissionBody | None = None


class Covered(Value, frozen=True, kw_only=True):
    """A further request that an approval is for, with the digest that was shown."""

    request_id: str
    digest: str


class PermissionApproved(Command, frozen=True, kw_only=True, tag="permission.approved"):
    """A person allowed a call: once, for the session, or for a pattern. The digest must be the one asked about, so that
    nobody approves what they did not see."""

    request_id: str
    scope: Scope = "once"
    pattern: str | None = None
    digest: str | None = None
    for_ms: Nat | None = None
    """How long an approval for the session or a pattern holds; `Settings.grant_ms` if it does not say."""
    also: tuple[Covered, ...] = ()
    """Further requests that were shown with it and are approved with it, once each: all of them or none."""


class PermissionDenied(Command, frozen=True, kw_only=True, tag="permission.denied"):
    """A person refused a call. `stop` ends the run as well."""

    request_id: str
    stop: bool = False
    also: tuple[str, ...] = ()
    """Further requests that are denied with it."""
    body: FeedbackBody | None = None


class PermissionWithdrawn(Decision, frozen=True, kw_only=True, tag="permission.withdrawn"):
    """A request is no longer open, since its call will not run, or is judged again because something changed."""

    CATEGORY: ClassVar[Category] = "syscall"
    request_id: str
    reason: Literal["cancelled", "interrupted", "superseded", "not_carried_over", "unmounted", "changed"]


class ApproverMissed(Fact, frozen=True, kw_only=True, tag="approver.missed"):
    """The host found nobody to answer these requests now. They stay open; the run need not stay."""

    request_ids: tuple[str, ...]


class GrantsChanged(Decision, frozen=True, kw_only=True, tag="grants.changed"):
    """Standing approvals were added or revoked."""

    CATEGORY: ClassVar[Category] = "syscall"
    added: tuple[Grant, ...] = ()
    revoked: tuple[str, ...] = ()
