"""Child sessions as the driver sees them: a port that begins one. Its end comes as a message of its own."""

from __future__ import annotations

import asyncio
from typing import Protocol

from windlass.events.base import Command
from windlass.events.trees.children import ChildBody, ChildFinished, ChildStatus, Used
from windlass.events.values.blocks import Text
from windlass.events.values.ids import child_end_id
from windlass.kernel.effects import StartChild

from .effect_outcome import Done

NO_CHILDREN = "not run: child sessions cannot be started here"


class Children(Protocol):
    """Whoever can start child sessions."""

    async def ended(self, effect: StartChild) -> Done | Command | None:
        """Begins the child unless it has begun, and has it driven. Reports that it was opened if nobody waits for its
        end, or its end if it cannot begin; otherwise it goes on until it is cancelled, when nobody needs it any more.
        Called again after a crash, with the same ids."""
        ...


class NoChildren:
    """A runtime that has no way to start children: the call fails, and says why."""

    async def ended(self, effect: StartChild) -> Done | Command | None:
        if effect.settles:
            await asyncio.get_running_loop().create_future()  # it is heard of if somebody else drives it
        return finished(effect, ChildBody(content=(Text(text=NO_CHILDREN),)), status="error", tokens=16)


def finished(
    effect: StartChild,
    body: ChildBody,
    *,
    status: ChildStatus = "completed",
    tokens: int = 0,
    labels: tuple[str, ...] = (),
) -> ChildFinished:
    """The end of a child that used nothing, under the id that is derived from the child's. `labels` are what the child
    had seen."""
    return ChildFinished(
        command_id=child_end_id(effect.child_id),
        child_id=effect.child_id,
        call_id=effect.call_id,
        ok=status == "completed",
        tokens=tokens,
        labels=labels,
        status=status,
        used=Used(),
        body=body,
    )
