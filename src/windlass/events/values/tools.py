"""A tool, as data: what the kernel knows of it, and what a model is told about it."""

from __future__ import annotations

from typing import Literal

from .blocks import JsonObject, Nat, Positive, Value
from .policy import PermissionKind, Trait

SKILL_TOOLS = ("skill", "skill_file")
"""What a model can call whatever skill is active: how else would it leave one?"""
RUN_WORKFLOW = "run_workflow"
"""The tool by which a model has a workflow of its own carried out in a child session."""

Contract = Literal["pure", "idempotent", "at_most_once"]
"""What may happen after a crash left the outcome unknown: run again, run again with the same key, never silently."""

Runs = Literal["host", "client", "kernel", "child"]
"""Who performs a tool: the runtime, an attached client, the kernel itself (todos, questions, plans), or a child
session."""


class ToolSpec(Value, frozen=True, kw_only=True):
    """A tool as the kernel knows it. `digest` covers everything that models are told and that runs; the schema itself
    is content. Approvals rest on what a tool does and takes, `code` and `schema`, which hold no prose."""

    name: str
    digest: str = ""
    code: str = ""
    """The digest of what runs, without its docstrings; empty in logs that are older than it."""
    schema: str = ""
    """The digest of what it takes, without descriptions."""
    contract: Contract = "at_most_once"
    runs: Runs = "host"
    kind: PermissionKind = "tool"
    traits: tuple[Trait, ...] = ()
    source: str = "author"
    alias: str | None = None
    timeout_ms: Positive = 600_000
    exclusive: bool = False
    deferred: bool = False
    settle: bool = False
    """After an unknown outcome a person settles it, instead of telling the model that it is unknown."""
    labels: tuple[str, ...] = ()
    tokens: Nat = 0


class ToolText(Value, frozen=True, kw_only=True):
    """What a model is told about a tool."""

    name: str
    description: str = ""
    parameters: JsonObject = {}
