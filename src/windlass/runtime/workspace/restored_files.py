"""Files put back as they were at an earlier point of a session, on demand.

Only what the tools of this session changed is touched, only beneath the directories that its tools may write, and
only if nobody else has changed it since: each file must hold what the last of those calls left in it. Doing it again
does nothing more, so that whoever finds a rewind that was cut off in the middle does all of it again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import NotFound
from windlass.events.sessions import RewindReceived
from windlass.events.workspace import FileChange, LeftFile
from windlass.kernel.phases import RESTING
from windlass.tools.context import ToolError
from windlass.tools.files.exclusion import screened
from windlass.tools.files.root import Root
from windlass.tools.files.write.change_plan import Change, current, digest
from windlass.tools.files.write.commit import commit, lock_of
from windlass.tools.files.write.diffs import line_counts
from windlass.tools.files.write.places import Place
from windlass.tools.files.write.tool_definitions import WriteTools

from .file_history import SOMEBODY_ELSE, FileHistory, Past

if TYPE_CHECKING:
    from collections.abc import Iterable

    from windlass.runtime.owner.owner import Owner
    from windlass.tools.tool import AnyTool

FILES_MAX = 500
"""Files that one rewind puts back."""


async def with_files(command: RewindReceived, owner: Owner, tools: Iterable[AnyTool]) -> RewindReceived:
    """The command with what became of the files, which are put back now if that is asked for."""
    bare = msgspec.structs.replace(command, changes=(), left=())
    state = owner.state
    if not command.files or not isinstance(state.phase, RESTING) or command.to_seq > state.seq:
        return bare
    history = await _history(owner, command.to_seq)
    pasts, left_out = history.newest_first(), history.left_out
    blobs = {past.before: await _blob(owner, past.before) for past in pasts if past.before is not None}
    folder = state.workspace.folder.cwd if state.workspace.folder is not None else None
    roots = [screened(root, tuple(state.gate.policy.exclude)) for root in writable_roots(tools, folder)]
    changes, left = await asyncio.to_thread(_restored, pasts, blobs, left_out, roots)
    return msgspec.structs.replace(bare, changes=tuple(changes), left=tuple(left))


def writable_roots(tools: Iterable[AnyTool], folder: str | None) -> list[Root]:
    """The directories that the tools of an agent may write in a session that works in a folder, or in none."""
    roots: dict[str, Root] = {}
    for tool in tools:
        made = getattr(tool.function, "__self__", None)
        if isinstance(made, WriteTools):
            root = made.roots.of(folder)
            roots[root.path] = root
    return list(roots.values())


async def _history(owner: Owner, to_seq: int) -> FileHistory:
    """What became of files since a point."""
    history = FileHistory()
    async for record in owner.log.records(owner.key, after=to_seq):
        history.add(record.event)
    return history


async def _blob(owner: Owner, name: str) -> bytes | None:
    try:
        return await owner.store.blobs.get(owner.key.tenant, name)
    except NotFound:
        return None


def _restored(
    pasts: list[Past], blobs: Mapping[str, bytes | None], left_out: Mapping[str, str], roots: list[Root]
) -> tuple[list[FileChange], list[LeftFile]]:
    """Puts back what can be; says what was and what was not."""
    changes: list[FileChange] = []
    left: list[LeftFile] = []
    for count, past in enumerate(pasts):
        try:
            if count >= FILES_MAX:
                raise ToolError(f"more than {FILES_MAX} files have changed")
            changes += _put_back(past, blobs, left_out, roots)
        except ToolError as error:
            left.append(LeftFile(path=past.path, why=error.message))
    return changes, left


def _put_back(
    past: Past, blobs: Mapping[str, bytes | None], left_out: Mapping[str, str], roots: list[Root]
) -> list[FileChange]:
    """One file; nothing if no call has left it otherwise than it was."""
    if past.why_not:
        raise ToolError(past.why_not)
    if past.before == past.after:
        return []
    content = blobs.get(past.before) if past.before is not None else None
    if past.before is not None and content is None:
        raise ToolError(left_out.get(past.path) or "what it held is not kept any more")
    root = next((root for root in roots if _is_beneath(past.path, root)), None)
    if root is None:
        raise ToolError("no tool of this agent writes there")
    with lock_of(root):
        place = Place(root, os.path.relpath(past.path, root.path))
        now, about = current(place)
        if digest(now) not in (past.before, past.after):
            raise ToolError(SOMEBODY_ELSE)
        if digest(now) == past.after:
            commit([Change(place, now, content, about)])
            added, removed = line_counts(now, content)
        else:
            added = removed = 0  # done by an attempt that was cut off, or by a person
    operation = "create" if past.after is None else "delete" if past.before is None else "update"
    return [
        FileChange(
            path=past.path,
            operation=operation,  # type: ignore[arg-type]
            lines_added=added,
            lines_removed=removed,
            before=past.after,
            after=past.before,
        )
    ]


def _is_beneath(path: str, root: Root) -> bool:
    return os.path.isabs(path) and os.path.normpath(path).startswith(os.path.join(root.path, ""))
