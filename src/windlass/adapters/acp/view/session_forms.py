"""The life of a session as an editor is told of it: where it works, its mode, model, plan and commands, how its turns
end, and what it asks of people."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.events.base import Event
from windlass.events.changes import ModeChanged, ModelChanged, TitleChanged
from windlass.events.commands import CommandCompleted, CommandRefused
from windlass.events.live import UsageReported
from windlass.events.questions import AnswerReceived, QuestionRequested, QuestionWithdrawn
from windlass.events.runs import RunAsked, RunFailed, RunSlept, RunStarted, Terminal
from windlass.events.sessions import SessionStarted
from windlass.events.skills import SkillResolved
from windlass.events.tasks import TaskChanged
from windlass.events.tools.permissions import (
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
    PermissionWithdrawn,
)
from windlass.events.trees.children import ChildMoved
from windlass.events.values.blocks import JsonObject
from windlass.events.values.failures import StopReason
from windlass.events.values.setup import Todo
from windlass.events.workspace import WorkspaceChanged
from windlass.runtime.streams.record import Record

from .fold import Asked, AskedBelow, Closed, Fold, Form, Said, StopWord, TurnEnded, Update, update

ALWAYS = "acp:always"
"""Who refused, if it was for all later calls of the tool as well."""
STOPS: dict[StopReason, StopWord] = {
    "completed": "end_turn",
    "task_complete": "end_turn",
    "max_turns": "max_turn_requests",
    "call_budget": "max_turn_requests",
    "time_budget": "max_turn_requests",
    "money_budget": "max_turn_requests",
    "no_progress": "max_turn_requests",
    "token_budget": "max_tokens",
    "max_tokens": "max_tokens",
    "refused": "refusal",
    "content_filtered": "refusal",
    "hook_denied": "refusal",
    "user_abort": "cancelled",
    "superseded": "cancelled",
    "awaiting_people": "end_turn",
    "awaiting_time": "end_turn",
}
"""Our reasons in the protocol's words; a run that stopped for any other is an error."""
MODEL_OPTION = "model"
MODES = {
    "interactive": ("Interactive", "works, and asks about what its policy says"),
    "plan": ("Plan", "only reads, until its plan is approved"),
    "autopilot": ("Autopilot", "asks nobody, and continues by itself"),
}


def started(fold: Fold, record: Record, event: SessionStarted) -> Iterator[Said]:
    setup = event.setup
    fold.model, fold.window_tokens, fold.mode = setup.model.name, setup.model.window_tokens, setup.mode
    fold.title, fold.tools = event.title, {spec.name: spec for spec in setup.tools}
    if event.workspace is not None:
        fold.cwd = event.workspace.cwd
    yield from ()


def moved(fold: Fold, record: Record, event: WorkspaceChanged) -> Iterator[Said]:
    fold.cwd = event.workspace.cwd
    yield from ()


def another_mode(fold: Fold, record: Record, event: ModeChanged) -> Iterator[Said]:
    fold.mode = event.mode
    yield Update(body=update("current_mode_update", currentModeId=event.mode))


def modes_of(fold: Fold) -> JsonObject:
    """The modes that there are, and the one that a session is in."""
    modes = [{"id": name, "name": title, "description": words} for name, (title, words) in MODES.items()]
    return {"currentModeId": fold.mode, "availableModes": modes}


def another_model(fold: Fold, record: Record, event: ModelChanged) -> Iterator[Said]:
    fold.model, fold.window_tokens = event.model.name, event.model.window_tokens
    yield Update(body=update("config_option_update", configOptions=config_options(fold)))


def config_options(fold: Fold) -> list[JsonObject]:
    """What can be set: the model."""
    names = dict.fromkeys((*fold.models, fold.model))
    option = {
        "type": "select",
        "id": MODEL_OPTION,
        "name": "Model",
        "category": "model",
        "currentValue": fold.model,
        "options": [{"value": name, "name": name} for name in names],
    }
    return [option]


def titled(fold: Fold, record: Record, event: TitleChanged) -> Iterator[Said]:
    fold.title = event.title
    yield Update(body=update("session_info_update", title=event.title))


def resolved_skills(fold: Fold, record: Record, event: SkillResolved) -> Iterator[Said]:
    fold.skills = tuple(skill.key.skill_name for skill in event.skills)
    yield Update(body=commands_update(fold))


def commands_update(fold: Fold) -> JsonObject:
    """What can be written behind a slash."""
    compact = {"name": "compact", "description": "Summarise older exchanges now", "input": {"hint": "what to keep"}}
    skills = [
        {"name": name, "description": f"Use the skill {name}", "input": {"hint": "what to use it for"}}
        for name in fold.skills
    ]
    return update("available_commands_update", availableCommands=[compact, *skills])


def task_changed(fold: Fold, record: Record, event: TaskChanged) -> Iterator[Said]:
    if {"todos", "task"} & set(event.fields):
        yield Update(body=update("plan", entries=[_entry(todo) for todo in event.task.todos]))


def _entry(todo: Todo) -> JsonObject:
    """The protocol knows no entry that failed."""
    failed = todo.status == "failed"
    content = f"{todo.content} (failed)" if failed else todo.content
    return {"content": content, "priority": "medium", "status": "completed" if failed else todo.status}


def usage_reported(fold: Fold, live: UsageReported) -> Iterator[Said]:
    """How full the context is."""
    body = update("usage_update", used=live.context_tokens, size=live.window_tokens)
    yield Update(body=body, live=True)


# --- turns --------------------------------------------------------------------------------------------------------


def run_started(fold: Fold, record: Record, event: RunStarted) -> Iterator[Said]:
    fold.under_way |= set(event.commands)
    yield from ()


def ended(fold: Fold, record: Record, event: Terminal) -> Iterator[Said]:
    """A run that only waits for people has not ended its turn: what they say continues it."""
    fold.under_way |= set(event.commands)
    failure = event.failure if isinstance(event, RunAsked | RunFailed | RunSlept) else None
    if isinstance(event, RunAsked) and failure is None:
        return
    commands, fold.under_way = frozenset(fold.under_way), set()
    stop = STOPS.get(event.stop)
    if isinstance(event, RunFailed | RunAsked) and stop == "end_turn":
        stop = None
    error = "" if stop is not None else failure.message if failure is not None else f"the run stopped: {event.stop}"
    if isinstance(event, RunSlept):
        yield from _sleeps(fold, event)
    yield TurnEnded(commands=commands, stop=stop, error=error, usage=event.usage)


def _sleeps(fold: Fold, event: RunSlept) -> Iterator[Said]:
    why = f": {event.failure.message}" if event.failure is not None else ""
    words = f"This session sleeps and continues by itself later{why}"
    yield Update(body=update("agent_message_chunk", content={"type": "text", "text": words}))


def completed(fold: Fold, record: Record, event: CommandCompleted) -> Iterator[Said]:
    yield TurnEnded(commands=frozenset({event.command_id}), stop="end_turn")


def refused(fold: Fold, record: Record, event: CommandRefused) -> Iterator[Said]:
    yield TurnEnded(commands=frozenset({event.command_id}), error=event.message)


# --- what is asked ------------------------------------------------------------------------------------------------


def asked(fold: Fold, record: Record, event: PermissionRequested | QuestionRequested) -> Iterator[Said]:
    said = Asked(event=event)
    fold.asked[said.ask_id] = said
    yield said


def _closed(fold: Fold, *names: str) -> Iterator[Said]:
    for name in names:
        if fold.asked.pop(name, None) is not None:
            yield Closed(ask_id=name)


def child_moved(fold: Fold, record: Record, event: ChildMoved) -> Iterator[Said]:
    """What a child waits for, as often as that is other than before."""
    names = tuple(f"{event.call_id}/{name}" for name in event.waiting_for)
    before = fold.below.pop(event.call_id, ())
    if names:
        fold.below[event.call_id] = names
    for name in before:
        if name not in names:
            yield Closed(ask_id=name)
    if new := tuple(name for name in names if name not in before):
        yield AskedBelow(ask_ids=new)


def approved(fold: Fold, record: Record, event: PermissionApproved) -> Iterator[Said]:
    request = fold.asked.get(event.request_id)
    if request is not None and isinstance(request.event, PermissionRequested):
        fold.refused.discard(request.event.tool)  # whoever allows a call later takes back what was refused for good
    yield from _closed(fold, event.request_id, *(covered.request_id for covered in event.also))


def denied(fold: Fold, record: Record, event: PermissionDenied) -> Iterator[Said]:
    request = fold.asked.get(event.request_id)
    if event.actor == ALWAYS and request is not None and isinstance(request.event, PermissionRequested):
        fold.refused.add(request.event.tool)
    yield from _closed(fold, event.request_id, *event.also)


def withdrawn(fold: Fold, record: Record, event: PermissionWithdrawn) -> Iterator[Said]:
    yield from _closed(fold, event.request_id)


def answered(fold: Fold, record: Record, event: AnswerReceived | QuestionWithdrawn) -> Iterator[Said]:
    if isinstance(event, AnswerReceived):
        fold.under_way.add(event.command_id)  # what was said in a prompt: it ends with the run that it is for
    yield from _closed(fold, event.question_id)


FORMS: dict[type[Event], Form] = {
    SessionStarted: started,
    WorkspaceChanged: moved,
    ModeChanged: another_mode,
    ModelChanged: another_model,
    TitleChanged: titled,
    SkillResolved: resolved_skills,
    TaskChanged: task_changed,
    RunStarted: run_started,
    CommandCompleted: completed,
    CommandRefused: refused,
    PermissionRequested: asked,
    PermissionApproved: approved,
    PermissionDenied: denied,
    PermissionWithdrawn: withdrawn,
    QuestionRequested: asked,
    ChildMoved: child_moved,
    AnswerReceived: answered,
    QuestionWithdrawn: answered,
}
