"""What one session's model is told first, and where the session works: the log kept true to the agent and the folder.

Requests carry the recorded text and no other, so what is rendered here is in the log before a model can see it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from windlass.events.calls import CallBody
from windlass.events.errors import Refused, StoreError
from windlass.events.sessions import InstructionsBody, InstructionsRendered, WorkspaceChanged

from .instructions import composed, parted
from .workspace import Folder, Place, may_change

if TYPE_CHECKING:
    from windlass.tools.context import ToolContext
    from windlass.tools.outcome import Outcome
    from windlass.tools.plane import Plane
    from windlass.tools.tool import AnyTool

    from .binding import Bound, Told
    from .owner import Owner

OWN = "own_chars"
"""The variable that says how much of the recorded instructions is the agent's own; the rest is that of the files."""


class Briefing:
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
            await self._record_workspace()
            await self._record_instructions()

    async def look(self, *, files: bool) -> None:
        """Looks at the folder again and records what is different: the branch, and with `files` the instructions."""
        if self.place is None:
            return
        async with self._lock:
            await self.place.look(files=files)
            await self._record_workspace()
            if files:
                await self._record_instructions()

    async def move(self, folder: Folder, *, files: bool) -> None:
        """Works in another folder from now on."""
        self.place = Place(folder)
        await self.look(files=files)

    async def _record_workspace(self) -> None:
        found = self.place.workspace if self.place is not None else None
        if found is not None and found != self._owner.state.workspace:
            await self._owner.take(WorkspaceChanged(workspace=found))

    async def _record_instructions(self) -> None:
        own = self._bound.agent.instructions
        files, sources = await self._files()
        told = self._bound.tell(composed(own, files))
        self._told = (*self._told[-1:], told)
        if told.digest != self._owner.state.instructions_digest:
            await self._owner.take(
                InstructionsRendered(
                    digest=told.digest,
                    tokens=told.tokens,
                    name=self._bound.agent.name,
                    sources=sources,
                    body=InstructionsBody(text=told.text, variables={OWN: str(len(own))} if sources else {}),
                )
            )

    async def _files(self) -> tuple[str, tuple[str, ...]]:
        """The files' part of the instructions: as they are in the folder, or as recorded where nobody named one."""
        if self.place is not None and self.place.files is not None:
            return self.place.files.text, self.place.files.sources
        state = self._owner.state
        if not state.instructions_seq or state.instructions_digest == self._bound.own.digest:
            return "", ()
        event = await self._owner.event(state.instructions_seq)
        if not isinstance(event, InstructionsRendered) or event.body is None or not event.sources:
            return "", ()
        return parted(event.body.text, int(event.body.variables.get(OWN, "0"))), event.sources


class Hands:
    """A plane as one session uses it: what a tool reports on the way joins its outcome, and after a tool that may have
    changed something the folder is looked at, before the outcome is recorded."""

    def __init__(self, plane: Plane, briefing: Briefing) -> None:
        self._plane = plane
        self._briefing = briefing

    async def run(self, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome:
        outcome = await self._plane.run(tool, call, context)
        if context.changes:
            outcome = msgspec.structs.replace(outcome, changes=(*outcome.changes, *context.changes))
        if self._briefing.place is not None and may_change(tool.spec):
            try:
                await self._briefing.look(files=False)
            except (Refused, StoreError):
                return outcome  # the outcome counts more; whoever records it learns what is wrong with the store
        return outcome

    async def close(self) -> None:
        await self._plane.close()
