"""Asking a person whether something may be done, and what they said."""

from __future__ import annotations

from typing import ClassVar, Literal

from .base import Category, Command, Decision, Fact
from .blocks import JsonObject, Value
from .specs import Grant, PermissionKind

Scope = Literal["once", "session", "pattern"]


class Detail(Value, frozen=True, kw_only=True, tag_field="kind"):
    """Base of what a person is shown before they decide."""


class ShellCommand(Value, frozen=True, kw_only=True):
    """One simple command inside a shell text."""

    identifier: str
    read_only: bool = False


class ShellDetail(Detail, frozen=True, kw_only=True, tag="shell"):
    """A shell text, whole, with what was found in it."""

    command: str
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
    description: str = ""
    args: JsonObject | None = None
    text: str | None = None


AnyDetail = ShellDetail | WriteDetail | ReadDetail | McpDetail | UrlDetail | MemoryDetail | ToolDetail


class PermissionBody(Value, frozen=True, kw_only=True):
    """Everything that was shown."""

    detail: AnyDetail
    why: str = ""


class FeedbackBody(Value, frozen=True, kw_only=True):
    """What a person said with a denial; the model reads it."""

    feedback: str = ""


class PermissionRequested(Decision, frozen=True, kw_only=True, tag="permission.requested"):
    """A call needs a person's word. `digest` is what an approval will be bound to."""

    CATEGORY: ClassVar[Category] = "syscall"
    request_id: str
    call_id: str
    tool: str
    kind: PermissionKind
    digest: str
    rule: str = ""
    body: PermissionBody | None = None


class PermissionApproved(Command, frozen=True, kw_only=True, tag="permission.approved"):
    """A person allowed a call: once, for the session, or for a pattern. A digest, where given, must be the one asked
    about, so that nobody approves what they did not see."""

    request_id: str
    scope: Scope = "once"
    pattern: str | None = None
    digest: str | None = None


class PermissionDenied(Command, frozen=True, kw_only=True, tag="permission.denied"):
    """A person refused a call. `stop` ends the run as well."""

    request_id: str
    stop: bool = False
    body: FeedbackBody | None = None


class PermissionWithdrawn(Decision, frozen=True, kw_only=True, tag="permission.withdrawn"):
    """A request is no longer open, since its call will not run."""

    CATEGORY: ClassVar[Category] = "syscall"
    request_id: str
    reason: Literal["cancelled", "interrupted", "superseded", "rewound", "not_carried_over", "unmounted"]


class ApproverMissed(Fact, frozen=True, kw_only=True, tag="approver.missed"):
    """The host found nobody to answer these requests now. They stay open; the run need not stay."""

    request_ids: tuple[str, ...]


class GrantsChanged(Decision, frozen=True, kw_only=True, tag="grants.changed"):
    """Standing approvals were added or revoked."""

    CATEGORY: ClassVar[Category] = "syscall"
    added: tuple[Grant, ...] = ()
    revoked: tuple[str, ...] = ()
