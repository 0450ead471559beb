"""What a runtime was opened with, as far as more than one of its parts needs to know it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from windlass.runtime.api.approvals import Approver
from windlass.runtime.drive.children import Children
from windlass.store.base import Key
from windlass.tools.tool import AnyTool


class HostSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who drives here and by which rules."""

    tenant: str
    runner: str
    lease_ms: int
    poll_ms: int
    snapshot_every: int
    drain_ms: int
    """How long what has begun may take to come to its end when the process is asked to stop."""
    take_up: bool
    """Whether sessions that are owed work are resumed unasked; otherwise only those asked for by name are."""
    approver: Approver | None = None
    children: Children | None = None
    """What starts the child sessions that calls wait for."""
    library: tuple[AnyTool, ...] = ()
    """The code of tools that sessions may have mounted before."""
    on_kept: Callable[[Key, int], None] | None = None
    """Told of each session that something was added to, and from where on."""
    sandbox: str | None = None
    """The name of the sandbox that was given: sessions that are opened here have it from now on."""
