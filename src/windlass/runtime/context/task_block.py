"""The task state as a model sees it: rendered after the history, bounded, and never kept in it."""

from __future__ import annotations

from windlass.events.values.setup import Task
from windlass.kernel.state import State

from .archive_page import RECALL

FIELD_CHARS_MAX = 2_000
TODOS_SHOWN_MAX = 50
NO_TASK = Task()
MARKS = {"pending": " ", "in_progress": "~", "completed": "x", "failed": "!"}


def task_state(state: State) -> str:
    """What the agent is doing, in a few lines; empty if there is nothing to say."""
    task = state.task.current
    if task == NO_TASK and not state.signals.shown and not state.compaction.count and state.setup.mode != "plan":
        return ""
    lines: list[str] = []
    fields = (
        ("goal", task.goal),
        ("criteria", "; ".join(task.criteria)),
        ("plan", task.plan),
        ("current step", task.current_step),
        ("progress", task.progress),
        ("notes", task.scratchpad),
        ("blocked on", task.blocked_on),
    )
    for name, value in fields:
        if value:
            shown = value if len(value) <= FIELD_CHARS_MAX else value[:FIELD_CHARS_MAX] + " …"
            lines.append(f"{name}: {shown}")
    for todo in task.todos[:TODOS_SHOWN_MAX]:
        lines.append(f"[{MARKS[todo.status]}] {todo.content[:200]}")
    if len(task.todos) > TODOS_SHOWN_MAX:
        lines.append(f"… and {len(task.todos) - TODOS_SHOWN_MAX} more")
    for signal in state.signals.shown:
        lines.append(f"signal: {signal.kind} ({signal.urgency})")
    if state.setup.mode == "plan":
        lines.append("mode: plan (reading only, until the plan is approved)")
    if state.compaction.count:
        hint = f"; {RECALL} finds what left" if RECALL in state.toolset.tools else ""
        lines.append(f"compactions: {state.compaction.count} (earlier exchanges are summarised or cut off{hint})")
    for done in state.compaction.log:
        weights = f"{done.tokens_before} tokens became {done.tokens_after}"
        lines.append(f"- at record {done.seq}: {done.items} items {done.how}, {weights}")
    return "[task state]\n" + "\n".join(lines) if lines else ""
