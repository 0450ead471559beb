"""State machines as people read them: their states in a table, and where one of a session stands. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.cli.screen import number_words
from windlass.cli.terminal.text import one_line
from windlass.cli.terminal.visible_text import spelt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.events.values.machines import MachineSpec
    from windlass.runtime.machines.machine_view import MachineView, Step

TEXT_CHARS_MAX = 80
STEPS_SHOWN_MAX = 30
FREE = "(the agent chooses)"
WAITS = {
    "computing": "its work is being worked out",
    "calling": "its work is under way",
    "told": "the agent works on it",
    "sleeping": "it sleeps",
    "choosing": "the agent is to choose what follows",
    "interrupted": "it was stopped there",
}
"""What a machine does in its state, by how it stands."""


def state_rows(spec: MachineSpec) -> list[list[str]]:
    """The states of a definition, one row each."""
    from windlass.runtime.machines.diagrams import described

    rows = [["STATE", "WHAT", "THEN"]]
    for one in spec.states:
        follow = " ".join(one.next) or ("" if one.kind == "terminal" else FREE)
        failed = f" (failed: {one.on_failure})" if one.on_failure else ""
        rows.append([spelt(one.name), spelt(described(one)), spelt(f"{follow}{failed}".strip())])
    return rows


def stands(view: MachineView, waits: Sequence[str] = ()) -> str:
    """Where a machine stands, and what it waits for, in one line. `waits` is what people owe."""
    name = spelt(view.name)
    if view.status == "none":
        return f"{name}: not begun"
    if view.status == "ended":
        why = f": {one_line(view.reason, TEXT_CHARS_MAX)}" if view.reason else ""
        return f"{name}: {view.outcome}{why}"
    here = next(one for one in view.definition.states if one.name == view.state)
    progress = view.progress.get(view.state)
    tried = f", attempt {progress.attempts}" if progress is not None and here.kind == "poll" else ""
    if view.wake_at_ms is not None:
        doing = f"until {number_words.moment(view.wake_at_ms)}"
    elif here.kind == "park" and waits:
        doing = f"waits for {', '.join(map(spelt, waits))}"
    else:
        doing = WAITS.get(view.status, "its work is done")
    return f"{name}: in {spelt(view.state)} ({here.kind}{tried}): {doing}"


def progress_line(view: MachineView) -> str:
    """The states that it has been in, with how often."""
    named = [f"{spelt(name)} {one.visits}×" for name, one in view.progress.items()]
    return ", ".join(named)


def step_rows(view: MachineView) -> list[list[str]]:
    """The last steps of a machine, one row each: every state that it entered, and what came of it."""
    rows = [["TIME", "STATE", "BY", "CAME TO"]]
    left = {step.visit: step for step in view.history if step.kind in ("left", "interrupted", "ended")}
    entered = [step for step in view.history if step.kind == "moved"]
    for step in entered[-STEPS_SHOWN_MAX:]:
        rows.append([number_words.moment(step.at_ms), spelt(step.state), step.by, _came_to(left.get(step.visit))])
    return rows


def _came_to(step: Step | None) -> str:
    if step is None:
        return "(it is there)"
    word = "stopped" if step.kind == "interrupted" else step.outcome
    said = step.reason or (_text(step.output) if step.output is not None else "")
    return f"{word}: {one_line(said, TEXT_CHARS_MAX)}" if said else word


def _text(value: object) -> str:
    from windlass.runtime.flows.references import text_of

    return text_of(value)
