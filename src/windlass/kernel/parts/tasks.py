"""The task: goal, criteria, todos and plan, as the agent and people set them, and whether it is done.

task.changed     by a command, a tool of the kernel or an edited plan
plan.changed     for readers: the plan was made, changed or dropped
task.completed   the run may end; done until the next turn begins
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import Refused
from windlass.events.runs import RunStarted
from windlass.events.tasks import PlanChanged, TaskChanged, TaskCompleted
from windlass.events.values.setup import Task
from windlass.kernel.part import Part

if TYPE_CHECKING:
    from windlass.kernel.state import State


TASK_BYTES_MAX = 128 * 1024


class CurrentTask(msgspec.Struct, kw_only=True, gc=False):
    """The task as it stands, and whether the run has completed it."""

    current: Task = Task()
    done: bool = False
    was_done: bool = False
    """It was complete before somebody said more."""


def task_changed(state: State, event: TaskChanged) -> None:
    state.task.current = event.task


def task_completed(state: State, event: TaskCompleted) -> None:
    state.task.done = True


def run_started(state: State, event: RunStarted) -> None:
    state.task.done = state.task.was_done = False


def taken_up_again(state: State) -> None:
    """A turn begins after the task was done: somebody said more."""
    state.task.done, state.task.was_done = False, True


def check_task(task: Task) -> None:
    if len(msgspec.json.encode(task)) > TASK_BYTES_MAX:
        raise Refused("too_large", f"a task state is at most {TASK_BYTES_MAX} bytes")


PART = Part(
    name="tasks",
    decisions={TaskChanged: task_changed, PlanChanged: None, TaskCompleted: task_completed},
    hears={RunStarted: run_started},
)
