"""Labels: what in a session is untrusted or private, what brought that, and who said that it is so no more."""

from __future__ import annotations

from typing import ClassVar

from windlass.events.base import Category, Command, Decision, Nat
from windlass.events.values.blocks import Value


class Provenance(Value, frozen=True, kw_only=True):
    """Where a label came from first: the call, prompt or other thing that brought it, and the record that says so."""

    label: str
    source: str
    """A call or prompt by its id, `start` for what the session began with, `import` for a log from elsewhere."""
    seq: Nat
    tool: str = ""
    """The tool of the call, if a call brought it."""


class LabelsJoined(Decision, frozen=True, kw_only=True, tag="labels.joined"):
    """What the session carries on from here: labels that it did not have before, each with what brought it."""

    CATEGORY: ClassVar[Category] = "syscall"
    labels: tuple[Provenance, ...]


class LabelsDeclassified(Command, frozen=True, kw_only=True, tag="labels.declassified"):
    """A person takes labels away, and says why. Nothing else does."""

    CATEGORY: ClassVar[Category] = "syscall"
    labels: tuple[str, ...]
    reason: str
