"""The command that changes how a session is set up, and what follows: another model, mode, title, policy, limit."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.values.blocks import Value
from windlass.events.values.specs import (
    Grant,
    Limits,
    ModelRef,
    Policy,
    Settings,
    Task,
    WorkMode,
)

from .base import Category, Command, Decision, Nat


class ModelChanged(Decision, frozen=True, kw_only=True, tag="model.changed"):
    """The session's model is another one from the next request on."""

    previous: str
    model: ModelRef
    reason: Literal["command", "resume"] = "command"


class ModeChanged(Decision, frozen=True, kw_only=True, tag="mode.changed"):
    """The work mode is another one; the gate enforces it."""

    CATEGORY: ClassVar[Category] = "syscall"
    previous: WorkMode
    mode: WorkMode
    reason: Literal["command", "resume"] = "command"


class TitleChanged(Decision, frozen=True, kw_only=True, tag="title.changed"):
    """The session has another title."""

    title: str


class MetadataChanged(Decision, frozen=True, kw_only=True, tag="metadata.changed"):
    """Metadata were set; a key with None is removed."""

    metadata: dict[str, str | None]


class SettingsChanged(Decision, frozen=True, kw_only=True, tag="settings.changed"):
    """The session runs by other numbers from here on."""

    settings: Settings
    reason: Literal["command", "resume"] = "command"


class PolicyChanged(Decision, frozen=True, kw_only=True, tag="policy.changed"):
    """The agent's code has another policy now; calls are judged by it from here on."""

    CATEGORY: ClassVar[Category] = "syscall"
    policy: Policy


class LimitsChanged(Decision, frozen=True, kw_only=True, tag="limits.changed"):
    """The agent's code has other budgets now. What was spent stays spent."""

    CATEGORY: ClassVar[Category] = "sched"
    limits: Limits
    run_limits: Limits


class Change(Value, frozen=True, kw_only=True, tag_field="what"):
    """Base of what a `change` command may change."""


class ChangeModel(Change, frozen=True, kw_only=True, tag="model"):
    """Use another model."""

    model: ModelRef


class ChangeMode(Change, frozen=True, kw_only=True, tag="mode"):
    """Work in another mode."""

    mode: WorkMode


class ChangeTitle(Change, frozen=True, kw_only=True, tag="title"):
    """Give another title."""

    title: str


class ChangeMetadata(Change, frozen=True, kw_only=True, tag="metadata"):
    """Set or (None) remove metadata."""

    metadata: dict[str, str | None]


class ChangeTask(Change, frozen=True, kw_only=True, tag="task"):
    """Replace the task state."""

    task: Task


class ChangePins(Change, frozen=True, kw_only=True, tag="pins"):
    """Pin or unpin items by their seq."""

    pin: tuple[Nat, ...] = ()
    unpin: tuple[Nat, ...] = ()


class ChangeGrants(Change, frozen=True, kw_only=True, tag="grants"):
    """Add or revoke standing approvals."""

    add: tuple[Grant, ...] = ()
    revoke: tuple[str, ...] = ()


class ChangeSettings(Change, frozen=True, kw_only=True, tag="settings"):
    """Run by other numbers."""

    settings: Settings


AnyChange = (
    ChangeModel | ChangeMode | ChangeTitle | ChangeMetadata | ChangeTask | ChangePins | ChangeGrants | ChangeSettings
)


class ChangeReceived(Command, frozen=True, kw_only=True, tag="change.received"):
    """A client changes the session itself: model, mode, title, metadata, task state, pins, grants, settings."""

    change: AnyChange
