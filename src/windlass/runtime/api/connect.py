"""Connecting to a server of sessions. Light on purpose, as opening a store is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

if TYPE_CHECKING:
    from windlass.runtime.flows.flow import Flow
    from windlass.store.base import Store

    from .agent import Agent
    from .runtime import Runtime
    from .runtime_options import RuntimeOptions

TOKEN_VARIABLE = "WINDLASS_TOKEN"
POLL_MS = 1_000
"""How often the log of a server is looked at while its stream is broken off."""


def connect(
    url: str, token: str | None = None, *, agents: Sequence[Agent | Flow] = (), **more: Unpack[RuntimeOptions]
) -> Runtime:
    """The sessions of a server, as if they were here: `http://…`, `https://…` or `unix:PATH`, with a token, else that
    in `WINDLASS_TOKEN`. Gives what `windlass.open` gives, with the same sessions; the server drives them. Use it as
    `async with`. `agents` are only looked at for the types of their outputs."""
    from windlass.events.errors import UsageError
    from windlass.store.remote.asker import Place

    from .runtime import Runtime

    place = Place(url)
    given = token if token is not None else os.environ.get(TOKEN_VARIABLE, "")
    if not given:
        raise UsageError(f"{place.url} wants a token: give token=..., or set {TOKEN_VARIABLE}")

    async def opened() -> Store:
        from windlass.store.remote.store import RemoteStore

        return await RemoteStore.connect(url, given)

    options: RuntimeOptions = {"poll_ms": POLL_MS, "take_up": False, **more}
    return Runtime(opened, agents=agents, **options)
