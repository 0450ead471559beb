"""The task state: goals, todos and the plan that an agent keeps, and that it called its task complete."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.values.setup import Task

from .base import Category, Decision


class TaskChanged(Decision, frozen=True, kw_only=True, tag="task.changed"):
    """The task state (goal, plan, todos, …) is this now."""

    CATEGORY: ClassVar[Category] = "mm"
    task: Task
    fields: tuple[str, ...] = ()


class PlanChanged(Decision, frozen=True, kw_only=True, tag="plan.changed"):
    """The plan was written, rewritten or dropped."""

    operation: Literal["create", "update", "delete"]


class TaskCompleted(Decision, frozen=True, kw_only=True, tag="task.completed"):
    """The agent declared its task done."""

    summary: str = ""
    success: bool = True
