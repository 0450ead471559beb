"""The repeat fuse: a model that makes the very same call again and again is warned, denied, and stopped.

count of the same tool and arguments in this run:  repeat_warn ──▶ repeat.warned
                                                   repeat_deny ──▶ tool.denied
                                                   repeat_stop ──▶ tool.denied, and the run ends
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.runs import RunStarted
from windlass.events.tools.calls import RepeatWarned
from windlass.events.values.setup import ItemRef
from windlass.kernel.part import Part, bounded
from windlass.kernel.parts import runs
from windlass.kernel.parts.context import history

if TYPE_CHECKING:
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State


REPEATS_MAX = 256
UNCOUNTED = ("select_state",)
"""Tools whose calls may well be the same: a machine counts its circles itself."""


class Repeats(msgspec.Struct, kw_only=True, gc=False):
    """How often each call was made in the run, by tool and digest of its arguments."""

    counts: dict[str, int] = {}


def count(state: State, tool: str, digest: str) -> None:
    """Counts a call of the model."""
    counts, key = state.repeats.counts, f"{tool}:{digest}"
    counts[key] = counts.pop(key, 0) + 1
    if len(counts) > REPEATS_MAX:
        bounded(counts, REPEATS_MAX)


def of_call(state: State, call: Call) -> int:
    """How often this very call was made in this run, this one included."""
    if call.by_person or not call.digest or call.tool in UNCOUNTED:
        return 0
    return state.repeats.counts.get(f"{call.tool}:{call.digest}", 0)


def repeat_warned(state: State, event: RepeatWarned) -> None:
    history.note(state, ItemRef(seq=state.seq, kind="note", tokens=40, part="repeat"))


def run_started(state: State, event: RunStarted) -> None:
    if runs.counted_anew(event):
        state.repeats.counts = {}


PART = Part(name="repeats", decisions={RepeatWarned: repeat_warned}, hears={RunStarted: run_started})
