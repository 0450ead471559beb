"""The folder that a session works in: where it is, its instruction files, and what tools changed in it."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.values.blocks import BlobRef, Value
from windlass.events.values.setup import Workspace

from .base import Category, Decision, Fact, Nat


class WorkspaceChanged(Fact, frozen=True, kw_only=True, tag="workspace.changed"):
    """The host saw that the work happens elsewhere now, or on another branch."""

    workspace: Workspace


class FileChange(Value, frozen=True, kw_only=True):
    """One file that a tool changed."""

    path: str
    operation: Literal["create", "update", "delete"]
    lines_added: Nat = 0
    lines_removed: Nat = 0
    before: str | None = None
    """The digest of what it held; absent if it was not there, or if the tool does not say."""
    after: str | None = None
    """The digest of what it holds now."""


class LeftFile(Value, frozen=True, kw_only=True):
    """A file that was not put back, and why."""

    path: str
    why: str


class KeptFile(Value, frozen=True, kw_only=True):
    """What a file holds and is about to hold, kept beside the log; absent if there is no file, or `left_out` says
    why."""

    path: str
    before: BlobRef | None = None
    after: BlobRef | None = None
    left_out: str = ""


class KeptFiles(Value, frozen=True, kw_only=True):
    """The files that a call is about to change."""

    files: tuple[KeptFile, ...]


class FilesKept(Fact, frozen=True, kw_only=True, tag="files.kept"):
    """A running tool is about to change files: what they hold is kept first, so that it can be restored."""

    call_id: str
    body: KeptFiles | None = None


class FilesRestoring(Fact, frozen=True, kw_only=True, tag="files.restoring"):
    """The intent of a rewind to put files back, before the first of them is touched; `rewind.received` with the same
    command says what came of it. Whoever owns the session next after a crash does it."""

    command_id: str
    to_seq: Nat
    actor: str = ""
    given_up: bool = False
    """Whether it was begun and nobody will do it: the rewind was refused."""


class FilesChanged(Decision, frozen=True, kw_only=True, tag="files.changed"):
    """A tool changed files."""

    call_id: str
    changes: tuple[FileChange, ...]


class InstructionsBody(Value, frozen=True, kw_only=True):
    """The instructions as rendered."""

    text: str
    variables: dict[str, str] = {}


class InstructionsRendered(Fact, frozen=True, kw_only=True, tag="instructions.rendered"):
    """The instructions a model gets from here on; recorded once per change."""

    CATEGORY: ClassVar[Category] = "mm"
    name: str = ""
    digest: str
    tokens: Nat = 0
    sources: tuple[str, ...] = ()
    body: InstructionsBody | None = None
