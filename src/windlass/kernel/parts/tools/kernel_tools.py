"""Tools that the kernel performs itself: they change only the session's own state, so they need no effect.

Each is offered by name in the tool set with `runs="kernel"`; the host tells models about them and checks arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from windlass.events import known_types
from windlass.events.commands import PromptBody
from windlass.events.questions import Plan, Question, QuestionBody, QuestionRequested
from windlass.events.tasks import PlanChanged, TaskChanged, TaskCompleted
from windlass.events.timers import TimerSet
from windlass.events.tools.calls import ToolDenied, ToolResolved
from windlass.events.tools.toolset import ToolsetChanged
from windlass.events.trees.children import ChildTold
from windlass.events.values.blocks import JsonObject, Text, Value
from windlass.events.values.ids import question_id, timer_id
from windlass.events.values.setup import Todo
from windlass.kernel.part import Decisions
from windlass.kernel.parts import timers
from windlass.kernel.parts.machines import machine_tools
from windlass.kernel.parts.trees import grants

if TYPE_CHECKING:
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State


TEXT_CHARS_MAX = 20_000
TODOS_MAX = 200
TODO_CHARS_MAX = 2_000
QUESTIONS_MAX = 8
WAIT_MS_MAX = 366 * 24 * 3600 * 1000


class AskArgs(Value, frozen=True, kw_only=True):
    """`ask_user`: one or more questions, or a form."""

    questions: tuple[Question, ...] = ()
    question: str | None = None
    options: tuple[str, ...] = ()
    multi_select: bool = False
    message: str = ""
    form: JsonObject | None = None


class TodoArgs(Value, frozen=True, kw_only=True):
    """`todo`: the whole list as it should be now."""

    todos: tuple[Todo, ...]


class PlanArgs(Value, frozen=True, kw_only=True):
    """`plan`: the plan, to be shown for approval in plan mode."""

    summary: str
    content: str
    actions: tuple[str, ...] = ("approve", "reject")
    recommended: str | None = None


class TaskArgs(Value, frozen=True, kw_only=True):
    """`task`: the parts of the task state to set; what is not named stays."""

    goal: str | None = None
    criteria: tuple[str, ...] | None = None
    current_step: str | None = None
    progress: str | None = None
    scratchpad: str | None = None
    blocked_on: str | None = None


class CompleteArgs(Value, frozen=True, kw_only=True):
    """`complete_task`: the task is done, or cannot be."""

    summary: str = ""
    success: bool = True


class WaitArgs(Value, frozen=True, kw_only=True):
    """`wait`: until a time, or for a while."""

    for_ms: int | None = None
    until_ms: int | None = None
    note: str = ""


class TellChildArgs(Value, frozen=True, kw_only=True):
    """`tell_child`: something for a child session that is at work."""

    child: str
    text: str


class LoadArgs(Value, frozen=True, kw_only=True):
    """`load_tools`: offer these deferred tools from the next turn on."""

    names: tuple[str, ...]


def resolved(call: Call, text: str, *, ok: bool = True) -> ToolResolved:
    return ToolResolved(call_id=call.call_id, text=text, ok=ok, tokens=len(text) // 4 + 8)


def tell_child(state: State, call: Call, args: TellChildArgs) -> Decisions:
    child = next((child for child in state.children.open.values() if child.child_id == args.child), None)
    if child is None or child.stopping:
        there = ", ".join(child.child_id for child in state.children.open.values()) or "none"
        yield resolved(call, f"there is no child session {args.child!r} at work: there are {there}", ok=False)
        return
    body = PromptBody(content=(Text(text=args.text[:TEXT_CHARS_MAX]),))
    yield ChildTold(child_id=child.child_id, body=body)
    yield resolved(call, "told")


def ask_user(state: State, call: Call, args: AskArgs) -> Decisions:
    if state.unattended:
        detail = "nobody answers questions in autopilot; decide yourself and go on"
        yield ToolDenied(call_id=call.call_id, reason="no_approver", detail=detail, tokens=24)
        return
    asked = args.questions[:QUESTIONS_MAX]
    if args.question is not None:
        options = tuple({"label": label} for label in args.options)
        single = {"question": args.question, "options": options, "multi_select": args.multi_select}
        asked = (known_types.convert(single, Question), *asked)
    if not asked and args.form is None:
        yield resolved(call, "give at least one question, or a form", ok=False)
        return
    kind: Literal["choice", "form"] = "form" if args.form is not None else "choice"
    yield QuestionRequested(
        question_id=question_id(state.seq + 1),
        call_id=call.call_id,
        kind=kind,
        body=QuestionBody(message=args.message, questions=asked, form=args.form),
    )


def todo(state: State, call: Call, args: TodoArgs) -> Decisions:
    if len(args.todos) > TODOS_MAX:
        yield resolved(call, f"at most {TODOS_MAX} todos", ok=False)
        return
    if any(len(item.content) > TODO_CHARS_MAX for item in args.todos):
        yield resolved(call, f"at most {TODO_CHARS_MAX} characters in each todo", ok=False)
        return
    yield TaskChanged(task=msgspec.structs.replace(state.task.current, todos=args.todos), fields=("todos",))
    done = sum(item.status == "completed" for item in args.todos)
    yield resolved(call, f"saved: {done} of {len(args.todos)} done")


def plan(state: State, call: Call, args: PlanArgs) -> Decisions:
    operation: Literal["create", "update", "delete"] = "update" if state.task.current.plan else "create"
    if not args.content:
        operation = "delete"
    yield PlanChanged(operation=operation)
    text = args.content[:TEXT_CHARS_MAX]
    yield TaskChanged(task=msgspec.structs.replace(state.task.current, plan=text), fields=("plan",))
    if state.setup.mode != "plan" or not args.content:
        yield resolved(call, "the plan is saved")
        return
    if state.unattended:
        yield resolved(call, "the plan is saved; nobody is there to approve it, so end with it as your answer")
        return
    shown = Plan(summary=args.summary, content=text, actions=args.actions, recommended=args.recommended)
    yield QuestionRequested(
        question_id=question_id(state.seq + 1),
        call_id=call.call_id,
        kind="plan",
        body=QuestionBody(message=args.summary, plan=shown),
    )


def task(state: State, call: Call, args: TaskArgs) -> Decisions:
    given = {name: value for name, value in msgspec.structs.asdict(args).items() if value is not None}
    if any(isinstance(value, str) and len(value) > TEXT_CHARS_MAX for value in given.values()):
        yield resolved(call, f"at most {TEXT_CHARS_MAX} characters in each field", ok=False)
        return
    yield TaskChanged(task=msgspec.structs.replace(state.task.current, **given), fields=tuple(given))
    yield resolved(call, "saved: " + ", ".join(given))


def complete_task(state: State, call: Call, args: CompleteArgs) -> Decisions:
    yield TaskCompleted(summary=args.summary[:TEXT_CHARS_MAX], success=args.success)
    yield resolved(call, "the task is recorded as complete")


def wait(state: State, call: Call, args: WaitArgs) -> Decisions:
    if (args.for_ms is None) == (args.until_ms is None):
        yield resolved(call, "give either for_ms or until_ms", ok=False)
        return
    at_ms = args.until_ms if args.until_ms is not None else state.now_ms + (args.for_ms or 0)
    if not state.now_ms <= at_ms <= state.now_ms + WAIT_MS_MAX or len(state.timers.open) >= timers.TIMERS_MAX:
        yield resolved(call, "that time is past, too far away, or too many timers are set", ok=False)
        return
    yield TimerSet(timer_id=timer_id(state.seq + 1), at_ms=at_ms, kind="wait", note=args.note[:TEXT_CHARS_MAX])
    yield resolved(call, "the timer is set; end your turn to wait for it")


def load_tools(state: State, call: Call, args: LoadArgs) -> Decisions:
    known = tuple(
        n
        for n in args.names
        if n in state.toolset.tools and state.toolset.tools[n].deferred and n not in state.toolset.loaded
    )
    missing = [n for n in args.names if n not in state.toolset.tools]
    if known:
        yield ToolsetChanged(
            operation="load", phase="applied", target="catalogue", names=known, revision=state.toolset.revision + 1
        )
    text = f"loaded: {', '.join(known) or 'nothing new'}"
    yield resolved(call, text + (f"; unknown: {', '.join(missing)}" if missing else ""), ok=not missing)


KERNEL_TOOLS: dict[str, tuple[type[Value], Callable[..., Decisions]]] = {
    "ask_user": (AskArgs, ask_user),
    "todo": (TodoArgs, todo),
    "plan": (PlanArgs, plan),
    "task": (TaskArgs, task),
    "complete_task": (CompleteArgs, complete_task),
    "wait": (WaitArgs, wait),
    "load_tools": (LoadArgs, load_tools),
    "tell_child": (TellChildArgs, tell_child),
    "grant_child": (grants.GrantArgs, grants.grant_child),
}


def perform(state: State, call: Call, args: JsonObject) -> Decisions:
    """Carries out a call of the kernel's own tools, or says why not."""
    known = KERNEL_TOOLS.get(call.tool) or machine_tools.MACHINE_TOOLS.get(call.tool)
    if known is None:
        detail = f"{call.tool!r} is not a tool of the kernel"
        yield ToolDenied(call_id=call.call_id, reason="unknown_tool", detail=detail, tokens=16)
        return
    shape, performer = known
    try:
        given = known_types.convert(args, shape)
    except msgspec.ValidationError as error:
        yield ToolDenied(call_id=call.call_id, reason="invalid_arguments", detail=str(error)[:500], tokens=32)
        return
    yield from performer(state, call, given)
