"""What is said in a session as chunks of messages: prompts, thoughts and answers, early while they are written, and the
rest of them with the record that holds them whole."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.events.base import Event
from windlass.events.commands import PromptReceived, QueueChanged
from windlass.events.live import AttemptSuperseded, Live, ReasoningDelta, StreamTruncated, TextDelta
from windlass.events.turns import ModelReplied, TurnStarted
from windlass.events.values.blocks import JsonObject, Reasoning, Refusal, Text
from windlass.events.values.ids import prompt_id
from windlass.runtime.streams.record import Record

from .content_forms import attachment_form, content_form, text_form
from .fold import Fold, Form, Said, TurnEnded, Update, update

USER, AGENT, THOUGHT = "user_message_chunk", "agent_message_chunk", "agent_thought_chunk"


def chunk(kind: str, content: JsonObject, message_id: str) -> JsonObject:
    """A piece of a message."""
    return update(kind, content=content, messageId=message_id)


# --- prompts ------------------------------------------------------------------------------------------------------


def prompted(fold: Fold, record: Record, event: PromptReceived) -> Iterator[Said]:
    fold.prompts[record.seq] = event
    yield from ()


def queue_changed(fold: Fold, record: Record, event: QueueChanged) -> Iterator[Said]:
    by_id = {prompt_id(seq): seq for seq in fold.prompts}
    for name in event.prompt_ids:
        if name in by_id and event.operation == "absorbed":
            yield from user_message(fold, by_id[name])
        elif name in by_id and event.operation == "dropped":
            prompt = fold.prompts.pop(by_id[name])
            yield TurnEnded(commands=frozenset({prompt.command_id}), stop="cancelled")


def turn_started(fold: Fold, record: Record, event: TurnStarted) -> Iterator[Said]:
    for seq in event.absorbs:
        if seq in fold.prompts:
            yield from user_message(fold, seq)


def user_message(fold: Fold, seq: int) -> Iterator[Said]:
    """A prompt that the model is shown now."""
    prompt = fold.prompts.pop(seq)
    body = prompt.body
    if body is None or prompt.origin.hidden:
        return
    blocks = [content_form(block) for block in body.content]
    if body.displayed is not None:
        blocks = [text_form(body.displayed)]
    for form in (*blocks, *map(attachment_form, body.attachments)):
        if form is not None:
            yield Update(body=chunk(USER, form, prompt_id(seq)), command_id=prompt.command_id)


# --- answers ------------------------------------------------------------------------------------------------------


def replied(fold: Fold, record: Record, event: ModelReplied) -> Iterator[Said]:
    if event.lane != "main":
        return
    name = event.request_id
    blocks = event.body.blocks if event.body is not None else ()
    thought = "\n".join(block.text for block in blocks if isinstance(block, Reasoning) and block.text)
    said = "".join(block.text for block in blocks if isinstance(block, Text | Refusal))
    fold.torn.discard(name)
    for kind, whole, told in ((THOUGHT, thought, fold.thought), (AGENT, said, fold.written)):
        rest = _rest(whole, told.pop(name, ""))
        if rest:
            yield Update(body=chunk(kind, text_form(rest), name))


def _rest(whole: str, told: str) -> str:
    """What is still to be told of a text. One that was begun otherwise, before the model was asked again, is told whole
    behind that."""
    if not told or whole.startswith(told):
        return whole[len(told) :]
    return f"\n\n{whole}" if whole and whole != told else ""


def live_text(fold: Fold, live: Live) -> Iterator[Said]:
    """More of what is being written."""
    match live:
        case TextDelta():
            told, kind = fold.written, AGENT
        case ReasoningDelta():
            told, kind = fold.thought, THOUGHT
        case AttemptSuperseded():
            fold.torn.add(live.request_id)
            return
        case StreamTruncated():
            fold.torn |= {*fold.written, *fold.thought}
            return
        case _:
            return
    name = live.request_id
    if name in fold.torn or (live.index and name not in told):
        fold.torn.add(name)  # the record has the rest
        return
    told[name] = told.get(name, "") + live.text
    yield Update(body=chunk(kind, text_form(live.text), live.request_id), live=True)


FORMS: dict[type[Event], Form] = {
    PromptReceived: prompted,
    QueueChanged: queue_changed,
    TurnStarted: turn_started,
    ModelReplied: replied,
}
