"""From the log to what a model sees. The history says which events are visible; this turns them into items.

Each call gets exactly one result in call order, also when the log was cut in the middle of a turn. What is rendered
for an item never changes while the item stays visible, so a request begins with the bytes of the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import msgspec

from windlass.events.base import Event
from windlass.events.commands import PromptBody, PromptReceived, QueueEdited
from windlass.events.context import ContextPagedIn
from windlass.events.errors import KernelError
from windlass.events.questions import AnswerReceived
from windlass.events.runs import CancelReceived, InterruptReceived
from windlass.events.sessions import SessionStarted
from windlass.events.signals import SignalReceived
from windlass.events.skills import SkillReceived
from windlass.events.timers import TimerCancelled, TimerFired
from windlass.events.tools.calls import (
    RepeatWarned,
    ResultReceived,
    ToolCancelled,
    ToolDenied,
    ToolFinished,
    ToolOutcomeUnknown,
    ToolResolved,
    ToolSettled,
    ToolTimedOut,
)
from windlass.events.tools.jobs import JobDropped, JobFinished, JobStarted
from windlass.events.tools.permissions import PermissionDenied
from windlass.events.trees.children import ChildFinished, ChildOpened
from windlass.events.trees.machines import MachineComputed, MachineEnded, MachineInterrupted, MachineLeft
from windlass.events.turns import ModelReplied, OutputRejected, ReplyCall, TurnStarted
from windlass.events.values.blocks import CallSlot, GeneratedImage, InputBlock, ResultBlock, Terminal, Text
from windlass.events.values.ids import call_id as id_of_call
from windlass.events.values.items import (
    AssistantItem,
    AssistantPart,
    CallPart,
    HistoryItem,
    ImagePart,
    ResultItem,
    UserItem,
)
from windlass.events.values.setup import ItemRef

from .attachment_items import attached
from .parts.machines.states import GIVEN
from .state import State

Lookup = Callable[[int], Event]
"""Gives the event at a seq, content included."""

Names = dict[str, tuple[str, str | None]]
"""The tools of the calls seen so far, and what the provider called each call."""

ERASED = "[this content was erased]"
PENDING = "[this call has no result yet]"
ERASED_TOOL = "erased"

NOTES: dict[str, str] = {
    "nudge": "You ended your turn, but the task is not recorded as complete. Go on, or call complete_task.",
    "continue": "Continue.",
    "choose_state": "A state of the machine has ended, and you have chosen none that follows. Call select_state.",
    "wrap_up": "The limit of this run is reached. Answer now with what you have; no more tools can be called.",
}

CANCELLED: dict[str, str] = {
    "cancelled": "cancelled by the user",
    "interrupted": "interrupted by the user",
    "superseded": "not run: the user went on with something else",
    "not_carried_over": "not carried over into this fork of the session",
    "forced": "given up: the tool was taken away",
}


def render(state: State, lookup: Lookup, names: Names | None = None) -> list[HistoryItem]:
    """The items of the history as the next request would carry them, open calls closed by a placeholder."""
    items: list[HistoryItem] = []
    names = {} if names is None else names
    for ref in state.history.items:
        items.append(item(ref, lookup, names))
    if state.turn.open:
        items.extend(_of_open_turn(state, lookup, names))
    for ref in state.history.notes:
        items.append(item(ref, lookup, names))
    return items


def _of_open_turn(state: State, lookup: Lookup, names: Names) -> list[HistoryItem]:
    reply_seq = state.turn.reply_seq
    if reply_seq is None:
        return []
    reply = lookup(reply_seq)
    assert isinstance(reply, ModelReplied)
    items: list[HistoryItem] = []
    for ordinal in range(reply.calls):
        # A log that was cut inside of an append may end before the call was requested.
        name = id_of_call(reply_seq, ordinal)
        call = state.calls.by_id.get(name)
        if call is not None and call.closed_seq is not None:
            ref = ItemRef(seq=call.closed_seq, kind="result", part=name)
            items.append(item(ref, lookup, names))
        else:
            items.append(_placeholder(name, names))
    return items


def _placeholder(name: str, names: Names) -> ResultItem:
    tool, provider_call_id = names.get(name, ("unknown", None))
    return ResultItem(
        key=f"{name}/pending",
        call_id=name,
        tool=tool,
        content=(Text(text=PENDING),),
        is_error=True,
        provider_call_id=provider_call_id,
    )


def item(ref: ItemRef, lookup: Lookup, names: Names) -> HistoryItem:
    """One visible item. `names` carries the tools of the calls seen so far, which their results need."""
    event = lookup(ref.seq)
    match ref.kind:
        case "user":
            return user(ref, event)
        case "assistant":
            return assistant(ref, event, names)
        case "result":
            return result(ref, event, lookup, names)
        case "summary":
            return summary(ref, event)
        case "note":
            return note(ref, event)
        case "import":
            return imported(ref, event)
        case _:
            assert_never(ref.kind)


def user(ref: ItemRef, event: Event) -> UserItem:
    if isinstance(event, QueueEdited):
        rewritten = prompted(event.body.edits[ref.part]) if event.body is not None else _said(ERASED)
        return UserItem(key=f"{ref.seq}:{ref.part}", content=rewritten)
    if not isinstance(event, PromptReceived):
        raise KernelError(f"event {ref.seq} is not a prompt")
    content = prompted(event.body) if event.body is not None else _said(ERASED)
    origin = event.origin.kind if event.origin.kind != "person" or event.origin.hidden else "person"
    return UserItem(key=str(ref.seq), content=content, origin=origin)


def prompted(body: PromptBody) -> tuple[InputBlock, ...]:
    """What a model is given of a prompt: its words, then what is attached to them."""
    if not body.attachments:
        return body.content
    return (*body.content, *(block for attachment in body.attachments for block in attached(attachment)))


def assistant(ref: ItemRef, event: Event, names: Names) -> AssistantItem:
    if isinstance(event, InterruptReceived | CancelReceived):
        text = event.body.text if event.body is not None else ERASED
        return AssistantItem(key=str(ref.seq), content=(Text(text=text or "[interrupted]"),))
    if not isinstance(event, ModelReplied):
        raise KernelError(f"event {ref.seq} is not a reply")
    parts: list[AssistantPart] = []
    if event.body is None:
        parts.append(Text(text=ERASED))
        for ordinal in range(event.calls):
            name = id_of_call(ref.seq, ordinal)
            names[name] = (ERASED_TOOL, None)
            parts.append(CallPart(call_id=name, tool=ERASED_TOOL, args={}))
        return AssistantItem(key=f"{ref.seq}/erased", content=tuple(parts))
    slots = set()
    for block in event.body.blocks:
        if isinstance(block, CallSlot):
            slots.add(block.ordinal)
            parts.append(call_part(ref.seq, event.body.calls[block.ordinal], names))
        elif isinstance(block, GeneratedImage):
            size = f" {block.width}x{block.height}" if block.width and block.height else ""
            parts.append(ImagePart(media_type=block.blob.media_type, note=f"[generated image{size}]"))
        else:
            parts.append(block)
    for index, call in enumerate(event.body.calls):
        if index not in slots:
            parts.append(call_part(ref.seq, call, names))
    return AssistantItem(key=str(ref.seq), content=tuple(parts), provider=event.provider, model=event.model)


def call_part(seq: int, reply_call: ReplyCall, names: Names) -> CallPart:
    call = reply_call.call
    name = id_of_call(seq, call.ordinal)
    names[name] = (call.tool, call.provider_call_id)
    args = call.args if call.text is None else None
    return CallPart(
        call_id=name,
        tool=call.tool,
        args=args if args is not None or call.text is not None else {},
        text=call.text,
        provider_call_id=call.provider_call_id,
        malformed=call.malformed,
        provider_data=call.provider_data,
    )


def result(ref: ItemRef, event: Event, lookup: Lookup, names: Names) -> ResultItem:
    tool, provider_call_id = names.get(ref.part, ("unknown", None))
    content, is_error = outcome(event)
    if isinstance(event, ToolDenied) and (said := feedback(lookup, event)):
        content = (*content, Text(text=f"They said: {said}"))
    key = f"{ref.seq}:{ref.part}"
    if ref.elided:
        text = f"[the result of {tool} is left out here; read_result with call_id {ref.part!r} shows it]"
        content, key = (Text(text=text),), key + "/elided"
    return ResultItem(
        key=key,
        call_id=ref.part,
        tool=tool,
        content=content,
        is_error=is_error,
        provider_call_id=provider_call_id,
    )


def outcome(event: Event) -> tuple[tuple[ResultBlock, ...], bool]:
    """What a model is told about how a call ended, and whether that is an error."""
    match event:
        case ToolFinished() | ResultReceived() | ChildFinished():
            return (event.body.content if event.body is not None else _said(ERASED)), not event.ok
        case ChildOpened():
            return _said(f"{event.child_id} works in the background; you are told of its end"), False
        case JobStarted():
            return (event.body.content if event.body is not None else _said(ERASED)), False
        case ToolTimedOut():
            shown = event.body.content if event.body is not None else ()
            return (*_said(f"timed out after {event.timeout_ms} ms"), *shown), True
        case ToolResolved():
            return _said(event.text), not event.ok
        case ToolDenied():
            return _said(f"not run ({event.reason.replace('_', ' ')}): {event.detail}"), True
        case ToolCancelled():
            text = CANCELLED[event.reason]
            more = "; it had started, so it may have had effects" if event.started else ""
            return _said(text + more), True
        case ToolOutcomeUnknown():
            return _said("outcome unknown: it was cut off while running and may or may not have had its effect"), True
        case ToolSettled():
            if event.outcome == "did_not_happen":
                return _said("a person checked: it did not happen"), True
            return (event.body.content if event.body is not None else _said("a person checked: it happened")), False
        case AnswerReceived():
            return _said(answered(event)), event.outcome == "cancelled"
        case _:
            raise KernelError(f"{event.__struct_config__.tag} is not how a call ends")


def answered(event: AnswerReceived) -> str:
    """An answer in words."""
    if event.outcome == "cancelled":
        return "the question was closed without an answer"
    lines = ["declined"] if event.outcome == "declined" else []
    if event.action is not None:
        lines.append(f"the plan was answered with: {event.action}")
    body = event.body
    if body is None:
        return "\n".join(lines) or ERASED
    for answer in body.answers:
        said = ", ".join(answer.selected)
        if answer.text:
            said = f"{said}: {answer.text}" if said else answer.text
        lines.append(said if len(body.answers) == 1 else f"{answer.index + 1}. {said}")
    if body.content is not None:
        lines.append(msgspec.json.encode(body.content, order="deterministic").decode())
    if body.feedback:
        lines.append(body.feedback)
    if body.edited is not None:
        lines.append(f"the plan was changed to:\n{body.edited}")
    return "\n".join(lines) or "answered"


def summary(ref: ItemRef, event: Event) -> UserItem:
    if not isinstance(event, ModelReplied):
        raise KernelError(f"event {ref.seq} is not a summary")
    text = ERASED
    if event.body is not None:
        text = "\n".join(block.text for block in event.body.blocks if isinstance(block, Text))
    said = f"[Summary of the earlier conversation]\n{text}"
    return UserItem(key=f"{ref.seq}/summary", content=(Text(text=said),), origin="summary")


def note(ref: ItemRef, event: Event) -> UserItem:
    content = note_content(ref, event)
    return UserItem(key=f"{ref.seq}:{ref.part}", content=content, origin="runtime")


def note_content(ref: ItemRef, event: Event) -> tuple[InputBlock, ...]:
    """What the runtime tells the model on somebody's behalf."""
    match event:
        case TurnStarted():
            return _said(NOTES[ref.part])
        case TimerFired():
            return _said("The timer that you set has fired.")
        case TimerCancelled():
            return _said("You were woken before the time that you set.")
        case SignalReceived():
            text = event.body.text if event.body is not None else ""
            return _said(f"[signal {event.kind} from {event.source or 'outside'}] {text}".rstrip())
        case SkillReceived():
            return _said(event.body.text if event.body is not None else ERASED)
        case JobFinished():
            return job_ended(event)
        case ChildFinished():
            content, _ = outcome(event)
            shown = tuple(block for block in content if not isinstance(block, Terminal))
            return (*_said(f"[the child session {event.child_id} has ended: {event.status}]"), *shown)
        case JobDropped():
            return _said(f"Job {event.job_id} belongs to the session that this one was made from; it is not here.")
        case OutputRejected():
            errors = "\n".join(f"- {error}" for error in event.errors)
            return _said(f"Your answer does not fit the required schema:\n{errors}\nAnswer again.")
        case RepeatWarned():
            return _said(f"You have made the same call {event.count} times. Try something else.")
        case MachineComputed() | MachineLeft() | MachineInterrupted() | MachineEnded() if ref.part == "machine":
            return _said(of_machine(event))
        case ContextPagedIn():
            return _said("[recalled] " + (event.body.text if event.body is not None else ERASED))
        case _:
            content, _ = outcome(event)
            shown = tuple(block for block in content if not isinstance(block, Terminal))
            texts = tuple(Text(text=block.text) for block in content if isinstance(block, Terminal))
            state = ref.part.removeprefix(GIVEN) if ref.part.startswith(GIVEN) else ""
            told = f"[what the state {state} gave]" if state else f"[the user ran a tool, call {ref.part}]"
            return (*_said(told), *shown, *texts)


def of_machine(event: MachineComputed | MachineLeft | MachineInterrupted | MachineEnded) -> str:
    """What the model is told of its machine."""
    match event:
        case MachineComputed():
            return event.body.text if event.body is not None else ERASED
        case MachineLeft():
            why = f": {event.reason}" if event.reason else ""
            choices = ", ".join(event.choices)
            return f"[machine] The state {event.state} is {event.outcome}{why}. Call select_state: {choices}."
        case MachineInterrupted():
            how = "call select_state if it is to go on, with the state that it is to go on with"
            return f"[machine] It was stopped in the state {event.state} ({event.reason.replace('_', ' ')}): {how}."
        case MachineEnded():
            why = f": {event.reason}" if event.reason else ""
            return f"[machine] It has ended in the state {event.state}, {event.outcome}{why}. Say what came of it."


def job_ended(event: JobFinished) -> tuple[InputBlock, ...]:
    """What the model is told of the end of a job."""
    code = f" with exit code {event.exit_code}" if event.exit_code is not None else ""
    title = f": {event.body.title}" if event.body is not None and event.body.title else ""
    shown = event.body.content if event.body is not None else _said(ERASED)
    texts = tuple(Text(text=block.text) for block in shown if isinstance(block, Text | Terminal) and block.text)
    seconds = event.duration_ms / 1000
    return (*_said(f"[background job {event.job_id} {event.status}{code} after {seconds:.1f} s{title}]"), *texts)


def imported(ref: ItemRef, event: Event) -> HistoryItem:
    if not isinstance(event, SessionStarted):
        raise KernelError(f"event {ref.seq} holds no imported history")
    index = int(ref.part.removesuffix("+"))
    if event.body is None:
        return UserItem(key=f"{ref.seq}:{ref.part}", content=(Text(text=ERASED),))
    return msgspec.structs.replace(event.body.imported[index], key=f"{ref.seq}:{ref.part}")


def _said(text: str) -> tuple[Text, ...]:
    return (Text(text=text),)


def feedback(lookup: Lookup, event: ToolDenied) -> str:
    """What a person said with a denial, where they said something."""
    if event.feedback_seq is None:
        return ""
    said = lookup(event.feedback_seq)
    return said.body.feedback if isinstance(said, PermissionDenied) and said.body is not None else ""
