"""What can be said to a chat itself: lines that begin with a slash."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from windlass.events.errors import UsageError
from windlass.events.runs import PromptReceived

from . import stores, words
from .text import Paint, one_line, padded, visible, width_of

if TYPE_CHECKING:
    from .chatting import Chat

LOG_LINES = 20
SESSIONS_MAX = 20
LABEL_WIDTH = 19
KEYS = """Enter sends; Alt-Enter or a backslash at the end of a line begins another line
Up and Down     what you wrote before; Tab completes commands
Ctrl-A Ctrl-E   to the beginning, to the end; Ctrl-U Ctrl-K Ctrl-W cut, Ctrl-Y puts back
Ctrl-C          stop what it is doing; twice at an empty input: leave; Ctrl-D leaves too"""


class Command(NamedTuple):
    """A command: what is written behind it, what it does, and the doing."""

    given: str
    says: str
    do: Callable[[Chat, str], Awaitable[None]]


async def perform(chat: Chat, line: str) -> bool:
    """Does what a line with a slash says; False where it says to leave. Raises `UsageError` for one that is none."""
    name, _, rest = line[1:].partition(" ")
    if name in ("quit", "exit"):
        return False
    command = COMMANDS.get(name)
    if command is None:
        raise UsageError(f"no command '/{name}': /help lists them")
    await command.do(chat, rest.strip())
    chat.desk.invite()
    return True


def completions(text: str, waiting: Sequence[str]) -> list[str]:
    """What a line with a slash could become."""
    if not text.startswith("/"):
        return []
    name, space, rest = text[1:].partition(" ")
    if not space:
        return [f"/{known} " if COMMANDS[known].given else f"/{known}" for known in COMMANDS if known.startswith(name)]
    if name in ("edit", "drop", "first") and " " not in rest:
        return [f"/{name} {prompt_id} " for prompt_id in waiting if prompt_id.startswith(rest)]
    return []


async def show_help(chat: Chat, rest: str) -> None:
    for name, command in COMMANDS.items():
        chat.note(padded(f"/{name} {command.given}".rstrip(), LABEL_WIDTH) + command.says, "")
    for line in KEYS.splitlines():
        chat.note(line, "")


# --- prompts that wait ---


async def queued(chat: Chat) -> dict[str, str]:
    """The prompts that wait, by id, in their order."""
    from windlass.events.ids import prompt_id

    from .render import in_words

    waiting = (await chat.session.state()).queue
    events = {record.seq: record.event async for record in chat.session.records() if record.seq in waiting}
    found = {}
    for seq in waiting:
        event = events.get(seq)
        body = event.body if isinstance(event, PromptReceived) else None
        found[prompt_id(seq)] = in_words(body.content) if body is not None else ""
    return found


async def queue(chat: Chat, rest: str) -> None:
    """Lists what waits, or adds to it."""
    if rest:
        await chat.say(rest, "follow_up")
        return
    waiting = await queued(chat)
    for name, text in waiting.items():
        chat.note(f"{name}  {one_line(text, 200)}", "")
    if not waiting:
        chat.note("no prompt waits")


def _named(waiting: dict[str, str], name: str, how: str) -> str:
    if name not in waiting:
        raise UsageError(f"no prompt {name!r} waits: write {how}; waiting are {', '.join(waiting) or 'none'}")
    return name


async def drop(chat: Chat, rest: str) -> None:
    waiting = await queued(chat)
    _named(waiting, rest, "/drop ID")
    await chat.session.edit_queue(*(name for name in waiting if name != rest), actor=stores.actor())
    chat.note(f"({rest} is dropped)")
    await chat.look()


async def first(chat: Chat, rest: str) -> None:
    waiting = await queued(chat)
    _named(waiting, rest, "/first ID")
    await chat.session.edit_queue(rest, *(name for name in waiting if name != rest), actor=stores.actor())
    chat.note(f"({rest} comes first)")


async def edit(chat: Chat, rest: str) -> None:
    """Another text for a prompt that waits; without one, the text comes into the input."""
    from windlass.events.blocks import Text
    from windlass.events.runs import PromptBody, QueueBody, QueueEdited
    from windlass.models.tokens import estimate_text

    name, _, text = rest.partition(" ")
    waiting = await queued(chat)
    _named(waiting, name, "/edit ID TEXT")
    if not text.strip():
        chat.desk.prefill(f"/edit {name} {waiting[name]}")
        return
    command = QueueEdited(
        command_id=stores.fresh_command_id(),
        actor=stores.actor(),
        order=tuple(waiting),
        tokens={name: estimate_text(text)},
        body=QueueBody(edits={name: PromptBody(content=(Text(text=text.strip()),))}),
    )
    await chat.runtime.send(chat.session.key, command)
    chat.note(f"({name} is changed)")


# --- the session ---


async def ask(chat: Chat, rest: str) -> None:
    """Asks again what was left open."""
    if not (await chat.session.state()).asks:
        chat.note("nothing is open")
    elif not chat.interviewer.asking:
        chat.spawn(chat.ask_open())


async def go_on(chat: Chat, rest: str) -> None:
    await chat.session.wake(actor=stores.actor())


async def setup(chat: Chat, rest: str) -> None:
    from .setup_lines import setup_lines

    for line in setup_lines(await chat.session.setup()):
        chat.note(line, "")


async def cost(chat: Chat, rest: str) -> None:
    spent = (await chat.session.state()).spent
    chat.note(f"{words.tokens(spent.usage)} (tokens), {words.dollars(spent.cost_nanos)}", "")


async def log(chat: Chat, rest: str) -> None:
    from .render import Timeline

    view = Timeline(width=width_of(sys.stderr) - 1, paint=Paint(sys.stderr))
    lines: list[str] = []
    async for record in chat.session.records():
        lines += view.lines(record.seq, record.at_ms, record.event)
    chat.desk.narrator.rest()
    for line in lines[-LOG_LINES:]:
        chat.desk.show(line)


async def clear(chat: Chat, rest: str) -> None:
    await chat.session.clear()
    chat.note("(a fresh context)")


async def resume(chat: Chat, rest: str) -> None:
    if not rest:
        raise UsageError("write /resume SESSION; /sessions lists them")
    key = await stores.session_key(chat.runtime.store, chat.args, rest)
    await chat.enter(key.session)


async def sessions(chat: Chat, rest: str) -> None:
    for row in await chat.runtime.sessions(agent=chat.agent.name, limit=SESSIONS_MAX):
        chat.note(f"{visible(row.session)}  {row.state}  {one_line(row.title, 60)}", "")


async def leave(chat: Chat, rest: str) -> None:
    """Never performed: leaving is the conversation's own end."""


COMMANDS: dict[str, Command] = {
    "help": Command("", "this", show_help),
    "queue": Command("[TEXT]", "the prompts that wait; with a text, one more for when the run is over", queue),
    "edit": Command("ID [TEXT]", "change a prompt that waits; without a text, in the input", edit),
    "drop": Command("ID", "drop a prompt that waits", drop),
    "first": Command("ID", "let a prompt that waits come first", first),
    "ask": Command("", "ask again what was left open", ask),
    "continue": Command("", "go on with a run that was stopped", go_on),
    "setup": Command("", "agent, model, tools, policy and budget", setup),
    "cost": Command("", "what this session has used", cost),
    "log": Command("", "the last records of its log", log),
    "clear": Command("", "a fresh context (the log keeps everything)", clear),
    "sessions": Command("", "the sessions of this agent", sessions),
    "resume": Command("SESSION", "go on with another session of this agent", resume),
    "quit": Command("", "leave (Ctrl-D too); the session is kept", leave),
}
