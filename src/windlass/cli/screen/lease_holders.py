"""Whoever drives a session, for people and for programs."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.cli.terminal.text import one_line
from windlass.runtime.host import liveness
from windlass.store import runner_names
from windlass.store.base import Holder

DRIVER_CHARS_MAX = 40


def driver(holder: Holder) -> str:
    """Who drives a session, in words: a process of this machine by its number, one of another with its host."""
    return one_line(liveness.told(holder.runner), DRIVER_CHARS_MAX)


def plain_holder(holder: Holder | None) -> dict[str, Any] | None:
    """The same for programs."""
    if holder is None:
        return None
    place = runner_names.whereabouts(holder.runner)
    known = {"host": place.host or None, "pid": place.pid, "here": liveness.is_here(place)}
    return {**msgspec.to_builtins(holder), **known}
