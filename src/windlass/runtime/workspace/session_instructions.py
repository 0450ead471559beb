"""What one session's model is told first, and where the session works: the log kept true to the agent and the folder.

Requests carry the recorded text and no other, so what is rendered here is in the log before a model can see it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from windlass.events.workspace import InstructionsBody, InstructionsRendered, WorkspaceChanged

from .folder import Folder, Place
from .instruction_files import composed, parted

if TYPE_CHECKING:
    from windlass.runtime.bind.bound_agent import Bound, Told
    from windlass.runtime.owner.owner import Owner

OWN = "own_chars"
"""The variable that says how much of the recorded instructions is the agent's own; the rest is that of the files."""


class SessionInstructions:
    """The instructions and the folder of one session that is driven here."""

    def __init__(self, owner: Owner, bound: Bound, place: Place | None) -> None:
        self.place = place
        self._owner = owner
        self._bound = bound
        self._told: tuple[Told, ...] = ()
        """The last two texts, held so that requests find them: the agent keeps a text only as long as one of its
        sessions does, and nobody knows which of two is on record while an append is under way."""
        self._lock = asyncio.Lock()

    async def begin(self) -> None:
        """Records what differs from the log, once the session is ours. The folder was looked at before."""
        async with self._lock:
            if self.place is not None and self._owner.state.gate.policy.exclude:
                await self._look(self.place, files=True)
            await self._record_workspace()
            await self._look_for_skills()
            await self._record_instructions()

    async def look(self, *, files: bool) -> None:
        """Looks at the folder again and records what is different: the branch, and with `files` the instructions."""
        if self.place is None:
            if files and self._bound.skills is not None:
                async with self._lock:
                    await self._look_for_skills()
                    await self._record_instructions()
            return
        async with self._lock:
            await self._look(self.place, files=files)
            await self._record_workspace()
            if files:
                await self._look_for_skills()
                await self._record_instructions()

    async def _look(self, place: Place, *, files: bool) -> None:
        place.exclude = tuple(self._owner.state.gate.policy.exclude)
        await place.look(files=files)

    async def move(self, folder: Folder, *, files: bool) -> None:
        """Works in another folder from now on."""
        self.place = Place(folder)
        await self.look(files=files)

    async def _record_workspace(self) -> None:
        workspace = self.place.workspace if self.place is not None else None
        if workspace is not None and workspace != self._owner.state.workspace.folder:
            await self._owner.take(WorkspaceChanged(workspace=workspace))

    async def _look_for_skills(self) -> None:
        """Those of the workspace are looked for only if somebody named it in this process and trusts it."""
        if self._bound.skills is not None:
            folder = self.place.folder if self.place is not None else None
            path = folder.path if folder is not None else None
            await self._bound.skills.look(path, trusted=folder is not None and folder.trusted)

    async def _record_instructions(self) -> None:
        own = self._bound.agent.instructions
        if self._bound.skills is not None:
            own = composed(own, self._bound.skills.text)
        files, sources = await self._files()
        told = self._bound.tell(composed(own, files))
        self._told = (*self._told[-1:], told)
        if told.digest != self._owner.state.workspace.instructions_digest:
            await self._owner.take(rendered(self._bound, told, own, sources))

    async def _files(self) -> tuple[str, tuple[str, ...]]:
        """The files' part of the instructions: as they are in the folder, or as recorded if nobody named one."""
        if self.place is not None and self.place.files is not None:
            return self.place.files.text, self.place.files.sources
        state = self._owner.state
        if not state.workspace.instructions_seq or state.workspace.instructions_digest == self._bound.own.digest:
            return "", ()
        event = await self._owner.event(state.workspace.instructions_seq)
        if not isinstance(event, InstructionsRendered) or event.body is None or not event.sources:
            return "", ()
        return parted(event.body.text, int(event.body.variables.get(OWN, "0"))), event.sources


def first_rendered(bound: Bound, place: Place | None) -> InstructionsRendered | None:
    """What a session is told that begins, whose folder was looked at; None if that is nothing."""
    instruction_files = place.files if place is not None else None
    files, sources = (instruction_files.text, instruction_files.sources) if instruction_files is not None else ("", ())
    own = bound.agent.instructions
    told = bound.tell(composed(own, files))
    return rendered(bound, told, own, sources) if told.digest else None


def rendered(bound: Bound, told: Told, own: str, sources: tuple[str, ...]) -> InstructionsRendered:
    """What goes on record of instructions, of which `own` is the agent's part."""
    return InstructionsRendered(
        digest=told.digest,
        tokens=told.tokens,
        name=bound.agent.name,
        sources=sources,
        body=InstructionsBody(text=told.text, variables={OWN: str(len(own))} if sources else {}),
    )
