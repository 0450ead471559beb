"""Structured output: the final answer must fit a schema.

reply without calls ─┬─▶ output.extracted   the run ends
                     ├─▶ output.rejected    the model is told the errors and asked again
                     └─▶ output.failed      asked too often, or nothing could check it: the run fails
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.runs import RunStarted
from windlass.events.turns import ModelReplied, OutputExtracted, OutputFailed, OutputRejected
from windlass.events.values.setup import ItemRef
from windlass.kernel.part import Decisions, Part
from windlass.kernel.parts import runs, turns
from windlass.kernel.parts.context import history

if TYPE_CHECKING:
    from windlass.kernel.state import State


FINAL = ("stop", "length", "stop_sequence", "other")
"""The ways to finish after which a reply is an answer."""


class Output(msgspec.Struct, kw_only=True, gc=False):
    """How often the run's answer was rejected."""

    attempts: int = 0


def output_extracted(state: State, event: OutputExtracted) -> None:
    if state.run.stop != "budget":  # a limit that was met is what ended the run, whatever its last turn gave
        runs.must_end(state, "completed")


def output_rejected(state: State, event: OutputRejected) -> None:
    state.output.attempts += 1
    turns.owe(state)
    history.note(state, ItemRef(seq=state.seq, kind="note", tokens=64, part="output"))


def output_failed(state: State, event: OutputFailed) -> None:
    runs.must_end(state, "output_invalid")


def run_started(state: State, event: RunStarted) -> None:
    if runs.counted_anew(event):
        state.output.attempts = 0


def check_output(state: State, fact: ModelReplied, seq: int) -> Decisions:
    """If an answer must fit a schema: take it, ask again with the errors, or fail honestly."""
    if not state.output_required() or fact.finish not in FINAL:
        return
    checked = fact.body.output if fact.body is not None else None
    attempts = state.output.attempts + 1
    if checked is None:
        errors: tuple[str, ...] = ("nothing here could check the answer",)
        yield OutputFailed(reply_seq=seq, attempts=attempts, errors=errors)
    elif checked.valid:
        yield OutputExtracted(reply_seq=seq, attempts=attempts, warnings=checked.warnings)
    elif attempts <= state.setup.settings.output_reasks_max and not state.turn.wrapping_up:
        yield OutputRejected(reply_seq=seq, attempt=attempts, errors=checked.errors)
    else:
        yield OutputFailed(reply_seq=seq, attempts=attempts, errors=checked.errors)


PART = Part(
    name="output",
    decisions={
        OutputExtracted: output_extracted,
        OutputRejected: output_rejected,
        OutputFailed: output_failed,
    },
    hears={RunStarted: run_started},
)
