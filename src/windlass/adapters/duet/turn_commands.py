"""The commands of the protocol, read out of lines of JSON. What is none is refused with the place and the fix."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from windlass.events.errors import UsageError
from windlass.protocol.wire_commands import WireError, read_object
from windlass.store.rules.ids import check_id

Behavior = Literal["steer", "follow_up"]


class TurnOptions(msgspec.Struct, frozen=True, rename="camel"):
    """What a session is run with; fixed when it starts."""

    model: str | None = None
    memory_model: str | None = None
    thinking_level: str | None = None


class QuestionOption(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer to pick."""

    label: str
    description: str = ""


class TurnQuestion(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One question to a person."""

    question: str
    options: tuple[QuestionOption, ...]
    header: str = ""
    multi_select: bool = False


class TurnCommand(msgspec.Struct, frozen=True, rename="camel", tag_field="type"):
    """Base of the commands. One that is sent again under its `requestId` is taken once."""

    request_id: str | None = None


class Start(TurnCommand, frozen=True, tag="start"):
    """Sets a session up, or resumes the one of a state. No turn."""

    mode: str | dict[str, Any] | None = None
    state: dict[str, Any] | None = None
    options: TurnOptions = TurnOptions()


class Prompt(TurnCommand, frozen=True, kw_only=True, tag="prompt"):
    """Says something to the agent."""

    message: str
    behavior: Behavior


class Answer(TurnCommand, frozen=True, kw_only=True, tag="answer"):
    """Answers questions, by their texts."""

    questions: tuple[TurnQuestion, ...]
    answers: dict[str, str]
    behavior: Behavior


class Wake(TurnCommand, frozen=True, tag="wake"):
    """Does the scheduled step of a session that sleeps."""


class Interrupt(TurnCommand, frozen=True, tag="interrupt"):
    """Stops the turn. No turn itself."""


class EditFollowUpQueue(TurnCommand, frozen=True, kw_only=True, tag="edit_follow_up_queue"):
    """What waits becomes this list. No turn itself."""

    prompts: tuple[str, ...]


AnyCommand = Start | Prompt | Answer | Wake | Interrupt | EditFollowUpQueue
NAMES = tuple(str(kind.__struct_config__.tag) for kind in (Start, Prompt, Answer, Wake, Interrupt, EditFollowUpQueue))


class BadCommand(UsageError):
    """A line that is no command."""


def read_command(line: bytes) -> AnyCommand:
    """The command in a line. Raises `BadCommand`."""
    try:
        plain = read_object(line)
    except WireError as error:
        raise BadCommand(f"this line is no JSON object: {error}") from None
    kind = plain.get("type")
    if kind not in NAMES:
        shown = "without a type" if kind is None else f"of type {str(kind)[:80]!r}"
        raise BadCommand(f"a command {shown}: there are {', '.join(NAMES)}")
    try:
        command: AnyCommand = msgspec.convert(
            {key: value for key, value in plain.items() if value is not None}, AnyCommand
        )
    except msgspec.ValidationError as error:
        raise BadCommand(f"{kind}: {error}") from None
    if isinstance(command, Prompt) and not command.message.strip():
        raise BadCommand("prompt: message: write a text that is not empty")
    if command.request_id is not None:
        try:
            check_id("requestId", command.request_id)
        except UsageError as error:
            raise BadCommand(f"{kind}: {error}") from None
    return command
