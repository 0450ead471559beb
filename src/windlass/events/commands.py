"""Prompts and the queue in which they wait, and the ends of commands that need no run."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.values.blocks import AnyAttachment, InputBlock, Value
from windlass.events.values.setup import Behavior, Origin, RunOptions

from .base import Category, Command, Decision, Fact, Nat
from .hooks import HookRuling


class PromptBody(Value, frozen=True, kw_only=True):
    """A prompt as sent to the model, and as shown to people if that differs."""

    content: tuple[InputBlock, ...]
    displayed: str | None = None
    attachments: tuple[AnyAttachment, ...] = ()


class PromptReceived(Command, frozen=True, kw_only=True, tag="prompt.received"):
    """Someone said something to the agent."""

    behavior: Behavior | None = None
    origin: Origin = Origin()
    tokens: Nat = 0
    bytes: Nat = 0
    options: RunOptions | None = None
    labels: tuple[str, ...] = ()
    """What its words and attachments are marked with."""
    trace: str = ""
    """The caller's trace context, as a `traceparent`."""
    hooks: tuple[HookRuling, ...] = ()
    body: PromptBody | None = None


class QueueBody(Value, frozen=True, kw_only=True):
    """New texts for queued prompts, by prompt id."""

    edits: dict[str, PromptBody] = {}


class QueueEdited(Command, frozen=True, kw_only=True, tag="queue.edited"):
    """The queue becomes this order; prompts that are not named are dropped; some may have a new text."""

    order: tuple[str, ...]
    tokens: dict[str, Nat] = {}
    body: QueueBody | None = None


class QueueChanged(Decision, frozen=True, kw_only=True, tag="queue.changed"):
    """What became of prompts that wait: they joined the queue, steer the run, were taken by a run, entered the history
    of a run that stopped before the model saw them, were dropped; or the queue was put in order, held, released."""

    CATEGORY: ClassVar[Category] = "ipc"
    operation: Literal["queued", "steering", "taken", "absorbed", "edited", "held", "released", "dropped"]
    prompt_ids: tuple[str, ...] = ()


class CommandRefused(Fact, frozen=True, kw_only=True, tag="command.refused"):
    """A command was taken and not carried out. Nothing else changed."""

    CATEGORY: ClassVar[Category] = "ipc"
    command_id: str
    code: str
    message: str
    actor: str = ""


class CommandCompleted(Decision, frozen=True, kw_only=True, tag="command.completed"):
    """The terminal of a command that neither opened a run nor joined one."""

    CATEGORY: ClassVar[Category] = "ipc"
    command_id: str
    note: str = ""
