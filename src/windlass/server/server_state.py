"""What the requests of one server share: its runtimes, tokens, bounds and figures, and whether it is being stopped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .access.limits import Limits
from .access.token_file import TokenFile
from .kept_keys import KeptKeys
from .metrics import Metrics
from .request_order import Turnstiles
from .slash_desk import SlashDesk
from .store_door import StoreDoor
from .tenants import Tenants

if TYPE_CHECKING:
    from .mount import Mount


class ServerState:
    """One server, as its requests see it."""

    def __init__(self, tenants: Tenants, tokens: TokenFile | None, limits: Limits) -> None:
        """Without tokens for whoever is known otherwise: the program at the other end of this process's own pipes."""
        self.tenants = tenants
        self._tokens = tokens
        self.limits = limits
        self.door = StoreDoor(tenants.place)
        self.metrics = Metrics()
        self.turnstiles = Turnstiles()
        self.slash_desk = SlashDesk()
        self.kept_keys = KeptKeys()
        self.draining = False
        """Whether it takes nothing more on: asked to stop, it brings to an end what has begun."""
        self.mounts: tuple[Mount, ...] = ()
        """What adapters have added to it."""
        self.stopped = asyncio.Event()
        """Set once streams are to end."""
        self.streams: dict[str, int] = {}
        """The event streams that are open, by the name of the token."""

    @property
    def tokens(self) -> TokenFile:
        """The tokens, which every request over HTTP presents one of."""
        assert self._tokens is not None, "nothing is asked over HTTP here"
        return self._tokens
