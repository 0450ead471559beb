"""Where a call of a command would run: what the session's sandbox holds it to, and what it would open for it."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.events.values.access import Access, SandboxTerms
from windlass.tools.description import Description
from windlass.tools.sandboxes.sandbox import Capabilities, Offer, Sandbox
from windlass.tools.sandboxes.unseen_files import unseen_in


async def unhidden(sandbox: Sandbox, folder: str | None, globs: tuple[str, ...]) -> str | None:
    """Why nobody can say that a command does not see what it must not: its sandbox cannot hide files of the folder, and
    there are some."""
    if not globs or folder is None:
        return None
    try:
        holds = await sandbox.capabilities()
    except (Exception, SystemExit):  # nothing runs in it
        return None
    if holds.hides:
        return None
    unseen = await asyncio.to_thread(unseen_in, folder, globs)
    if unseen.whole and not unseen.paths:
        return None
    named = repr(unseen.paths[0]) if unseen.paths else "some files"
    return f"the policy keeps {named} from the model, and the sandbox {holds.name!r} cannot hide it from a command"


async def terms_of(sandbox: Sandbox, about: Description) -> tuple[SandboxTerms | None, str | None]:
    """The terms of a call, and why it cannot have what it asks for, if it cannot. None for a sandbox that cannot be
    opened: it confines nothing, and nothing runs in it."""
    try:
        holds = await sandbox.capabilities()
        offer = await _offer(sandbox, holds, about)
    except (Exception, SystemExit):  # the sandbox is somebody else's code; what it cannot say is not so
        return None, None
    terms = SandboxTerms(
        name=holds.name,
        confines_files=holds.confines_files,
        confines_network=holds.confines_network,
        access=offer.access,
        asked=offer.asked,
    )
    return terms, offer.problem


async def _offer(sandbox: Any, holds: Capabilities, about: Description) -> Offer:
    """What would be opened. One that does not confine has nothing to open."""
    if not (holds.confines_files and holds.confines_network) or not hasattr(sandbox, "offer"):
        return Offer()
    asked_by_name = {host.rpartition(":")[0] or host for host in about.asks.hosts}
    named = Access(
        writable=tuple(path for path in about.writes if path not in about.asks.writable),
        readable=tuple(path for path in about.paths if path not in (*about.writes, *about.asks.readable)),
        hosts=tuple(host for host in about.hosts if host not in asked_by_name),
    )
    offer: Offer = await sandbox.offer(about.asks, Access() if about.unclear is not None else named)
    return offer
