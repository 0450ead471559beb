"""Slash commands of clients: which there are, how a prompt that names one is put to them, and their answers."""

from __future__ import annotations

import re

import msgspec

from windlass.events.base import Command
from windlass.events.commands import PromptReceived
from windlass.events.values.blocks import Text
from windlass.events.values.setup import Origin
from windlass.runtime.api.session import Session
from windlass.server.http_answer import Answer, told
from windlass.server.http_call import Call
from windlass.server.problems import Problem
from windlass.server.route import Route
from windlass.server.slash_desk import SlashAnswer, SlashClient, SlashCommand, SlashNotice

COMMANDS_MAX = 64
DESCRIPTION_MAX = 200
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z")
NAME_WORDS = "up to 64 letters, digits, '_', '-', '.' and ':', a letter or digit first"
_commands = msgspec.json.Decoder(tuple[SlashCommand, ...])


class SlashCommandList(msgspec.Struct, frozen=True, kw_only=True):
    """The commands that clients of a session have now, by name."""

    commands: tuple[SlashCommand, ...]


class HandledCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A slash command that a client has handled: nothing of it went on to the session."""

    command_id: str
    session_id: str
    handled_by: str
    """Whose token answered."""


def brought(call: Call) -> SlashClient | None:
    """Whoever follows a session and brings commands along, if the request says so. Raises `Problem`."""
    given = call.query.get("commands")
    if given is None:
        return None
    call.require("drive")
    try:
        commands = _commands.decode(given)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _wrong(f'write a list like [{{"name": "deploy", "description": "Ships it"}}]: {error}') from None
    names = [command.name for command in commands]
    if len(names) > COMMANDS_MAX:
        raise _wrong(f"there are {len(names)}, and a client brings up to {COMMANDS_MAX}")
    for command in commands:
        if not NAME.match(command.name):
            raise _wrong(f"the name {command.name[:80]!r}: a name has {NAME_WORDS}, and is written without its slash")
        if names.count(command.name) > 1:
            raise _wrong(f"the name {command.name!r} is there twice: give it once")
        if len(command.description) > DESCRIPTION_MAX:
            raise _wrong(f"the description of {command.name!r} has more than {DESCRIPTION_MAX} characters")
    return SlashClient(commands)


def _wrong(words: str) -> Problem:
    return Problem(400, "usage", f"commands: {words}", path="commands")


async def run_by_client(call: Call, session: Session, command: Command) -> Command | HandledCommand:
    """A command as it goes on: if it is a prompt that names a slash command, the text that a client made of it; what
    was handled does not go on."""
    if not isinstance(command, PromptReceived) or command.body is None or not command.body.content:
        return command
    first, *others = command.body.content
    if not isinstance(first, Text) or not first.text.startswith("/"):
        return command
    name, _, args = first.text[1:].partition(" ")
    desk = call.server.slash_desk
    if not desk.knows(session.key, name) or await session.runtime.host.log.taken_at(session.key, command.command_id):
        return command
    asking = desk.ask(
        session.key,
        name,
        args,
        request_id=session.runtime.ports.fresh_id(),
        by=command.actor,
        seconds=call.limits.wait_s,
    )
    answer, by = await call.unless_left(asking)
    if answer.handled or answer.text is None:
        return HandledCommand(command_id=command.command_id, session_id=session.session_id, handled_by=by)
    body = msgspec.structs.replace(
        command.body,
        content=(Text(text=answer.text), *others),
        displayed=command.body.displayed or first.text,
    )
    return msgspec.structs.replace(command, body=body, origin=Origin(kind="client", name=by))


async def list_commands(call: Call) -> Answer:
    """The commands that clients have now."""
    session = await call.session()
    return told(SlashCommandList(commands=call.server.slash_desk.commands(session.key)))


async def answer_command(call: Call) -> Answer:
    """Answers a command that somebody named."""
    session = await call.session()
    given = await call.json(SlashAnswer)
    if given.handled == (given.text is not None):
        raise Problem(422, "malformed", "$: give `text`, or `handled`: true, and not both", path="$")
    if given.text is not None and not given.text.strip():
        raise Problem(422, "malformed", '$.text: it is empty: write "handled": true if nothing goes on', path="$.text")
    return told(call.server.slash_desk.answer(session.key, call.names["request_id"], given, call.token.name))


ROUTES = (
    Route(
        method="GET",
        path="/v1/sessions/{session_id}/slash-commands",
        name="listSlashCommands",
        role="read",
        words="The slash commands that the clients of this server have brought to a session.",
        handler=list_commands,
        gives=SlashCommandList,
    ),
    Route(
        method="POST",
        path="/v1/sessions/{session_id}/slash-commands/{request_id}",
        name="answerSlashCommand",
        role="drive",
        words="Answers a slash command that somebody named. The first answer counts; a later one is told so (409).",
        handler=answer_command,
        takes=SlashAnswer,
        gives=SlashNotice,
        fails=(409,),
    ),
)
