"""The command that changes how a session is set up, and what follows: another model, mode, title, policy, limit."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.values.blocks import Value
from windlass.events.values.models import ModelRef
from windlass.events.values.policy import Grant, Policy, WorkMode
from windlass.events.values.settings import Settings
from windlass.events.values.setup import Limits, Task

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


class AgentSelected(Decision, frozen=True, kw_only=True, tag="agent.selected"):
    """A specialist of the session's agent is selected to run the session in its place. Its history, budget, labels and
    mode stay; instructions and tools are the specialist's as soon as its code is bound, which is recorded next."""

    CATEGORY: ClassVar[Category] = "proc"
    agent: str
    """The specialist, by name."""
    display_name: str = ""
    """What people read in place of its name."""
    tools: tuple[str, ...] = ()
    """The tools that it brings, by name."""
    only_reads: bool = False
    """Whether nothing but reading is allowed while it is selected."""
    previous: str = ""
    """The specialist that ran the session before; empty if its agent did."""


class AgentDeselected(Decision, frozen=True, kw_only=True, tag="agent.deselected"):
    """The session is run by its own agent again."""

    CATEGORY: ClassVar[Category] = "proc"
    agent: str
    """The specialist that ran it."""


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


class ChangeAgent(Change, frozen=True, kw_only=True, tag="agent"):
    """Be run by a specialist of the session's agent, or by the agent itself again."""

    agent: str = ""
    """The specialist, by name; empty for the agent itself."""
    display_name: str = ""
    """As its code says. The host looks this and the rest up, whatever a client says."""
    tools: tuple[str, ...] = ()
    """The tools that it brings."""
    only_reads: bool = False
    """Whether nothing but reading is allowed while it is selected."""


AnyChange = (
    ChangeModel
    | ChangeMode
    | ChangeTitle
    | ChangeMetadata
    | ChangeTask
    | ChangePins
    | ChangeGrants
    | ChangeSettings
    | ChangeAgent
)


class ChangeReceived(Command, frozen=True, kw_only=True, tag="change.received"):
    """A client changes the session itself: model, mode, title, metadata, task state, pins, grants, settings, agent."""

    change: AnyChange
