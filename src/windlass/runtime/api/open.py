"""Opening a runtime. Light on purpose: what a runtime is made of is loaded when one is opened, not before."""

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


def open_runtime(
    store: str | os.PathLike[str] | Store | None = None,
    *,
    agents: Sequence[Agent | Flow] = (),
    **more: Unpack[RuntimeOptions],
) -> Runtime:
    """A runtime over a store: a SQLite file, a directory of JSON lines, memory if none is given, or a `Store` of
    one's own. Use it as `async with`. What else it may be opened with is listed under "Opening a runtime" of the
    settings."""
    from .runtime import Runtime

    if isinstance(store, os.PathLike):
        store = os.fspath(store)
    return Runtime(store if store is not None else ":memory:", agents=agents, **more)
