"""Where a session works: its folder, the instructions that hold there, and what tools changed in its files.

workspace.changed       another folder
instructions.rendered   what holds from here on; other bytes change how requests begin
files.changed           what a tool reported, however its call ended
files.restoring         a rewind is about to put files back ──▶ rewind.received: it has; owed until then
                                                            └─▶ given up: it cannot, or a run began first
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import Refused
from windlass.events.runs import RunStarted
from windlass.events.sessions import RewindReceived, SessionForked, SessionImported, SessionResumed, SessionStarted
from windlass.events.tools.calls import ResultReceived, ToolFinished, ToolSuspended, ToolTimedOut
from windlass.events.tools.jobs import JobStarted
from windlass.events.values.setup import Workspace
from windlass.events.workspace import FilesChanged, FilesRestoring, InstructionsRendered, WorkspaceChanged
from windlass.kernel.effects import PutFilesBack
from windlass.kernel.part import Decisions, Part, Row, bounded
from windlass.kernel.parts.context import prefix
from windlass.kernel.phases import RESTING, STARTED

if TYPE_CHECKING:
    from windlass.kernel.state import State


FILES_MAX = 1_000


class Code(msgspec.Struct, kw_only=True, gc=False):
    """What tools reported to have changed in files."""

    lines_added: int = 0
    lines_removed: int = 0
    files: dict[str, bool] = {}


class Restoring(msgspec.Struct, kw_only=True, gc=False):
    """A rewind that was begun and is to put files back."""

    command_id: str
    to_seq: int
    actor: str = ""


class WorkPlace(msgspec.Struct, kw_only=True, gc=False):
    """Where the session works, the instructions that hold there, and what tools changed in its files."""

    folder: Workspace | None = None
    instructions_seq: int = 0
    instructions_digest: str = ""
    instructions_tokens: int = 0
    code: Code = msgspec.field(default_factory=Code)
    restoring: Restoring | None = None


def session_started(state: State, event: SessionStarted) -> None:
    state.workspace.folder = event.workspace


def session_resumed(state: State, event: SessionResumed) -> None:
    if event.workspace is not None:
        state.workspace.folder = event.workspace


def session_imported(state: State, event: SessionImported) -> None:
    here = state.workspace
    here.restoring = None
    here.folder = None  # a folder of another machine, or one that whoever made the file has chosen
    here.instructions_seq, here.instructions_digest, here.instructions_tokens = 0, "", 0  # and what was trusted there


def workspace_changed(state: State, event: WorkspaceChanged) -> None:
    state.workspace.folder = event.workspace


def instructions_rendered(state: State, event: InstructionsRendered) -> None:
    here = state.workspace
    if here.instructions_digest and event.digest != here.instructions_digest:
        prefix.differs(state, "instructions")
    here.instructions_seq = state.seq
    here.instructions_digest = event.digest
    here.instructions_tokens = event.tokens


def files_changed(state: State, event: FilesChanged) -> None:
    code = state.workspace.code
    for change in event.changes:
        code.lines_added += change.lines_added
        code.lines_removed += change.lines_removed
        code.files[change.path] = True
    bounded(code.files, FILES_MAX)


def files_restoring(state: State, event: FilesRestoring) -> None:
    begun = Restoring(command_id=event.command_id, to_seq=event.to_seq, actor=event.actor)
    state.workspace.restoring = None if event.given_up else begun


def rewound(state: State, event: RewindReceived) -> None:
    restoring = state.workspace.restoring
    if restoring is not None and restoring.command_id == event.command_id:
        state.workspace.restoring = None


def moved_on(state: State, event: RunStarted | SessionForked) -> None:
    """A run began first, or the files are those of another session: what was begun is not done any more."""
    state.workspace.restoring = None


def check_restoring(state: State, fact: FilesRestoring) -> None:
    begun = state.workspace.restoring
    if fact.given_up and (begun is None or begun.command_id != fact.command_id):
        raise Refused("stale", f"no rewind {fact.command_id} is under way")
    if not fact.given_up and begun is not None:
        raise Refused("busy", f"the rewind {begun.command_id} is under way")
    if fact.to_seq > state.seq:
        raise Refused("not_there", f"the log ends at {state.seq}")


def owes(state: State) -> tuple[PutFilesBack, ...]:
    begun = state.workspace.restoring
    if begun is None:
        return ()
    return (PutFilesBack(effect_id=f"restore/{begun.command_id}", command_id=begun.command_id, to_seq=begun.to_seq),)


def changed_files(fact: ToolFinished | ResultReceived | ToolTimedOut | ToolSuspended | JobStarted) -> Decisions:
    """What a tool reported to have changed holds however its call ended."""
    if fact.changes:
        yield FilesChanged(call_id=fact.call_id, changes=fact.changes)


def needs(state: State) -> tuple[int, ...]:
    return (state.workspace.instructions_seq,)


PART = Part(
    name="workspace",
    facts={
        WorkspaceChanged: Row(when=STARTED, fold=workspace_changed),
        InstructionsRendered: Row(when=STARTED, fold=instructions_rendered),
        FilesRestoring: Row(when=RESTING, check=check_restoring, fold=files_restoring),
    },
    decisions={FilesChanged: files_changed},
    hears={
        SessionStarted: session_started,
        SessionResumed: session_resumed,
        SessionImported: session_imported,
        SessionForked: moved_on,
        RunStarted: moved_on,
        RewindReceived: rewound,
    },
    keeps=lambda state: state.workspace.restoring,
    owes=owes,
    needs=needs,
)
