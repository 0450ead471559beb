"""What can be said to a chat itself: lines that begin with a slash."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from windlass.cli import identity, stores
from windlass.cli.screen import number_words
from windlass.cli.screen.attachments import attachment_lines
from windlass.cli.terminal.text import Paint, one_line, padded, width_of
from windlass.cli.terminal.visible_text import spelt
from windlass.events.commands import PromptReceived
from windlass.events.errors import UsageError
from windlass.runtime.operate.item_text import blocks_text

from .server_prompts import list_prompts

if TYPE_CHECKING:
    from windlass.events.commands import PromptBody

    from .conversation import Chat

LOG_LINES = 20
TAIL_BYTES = 16 * 1024
SESSIONS_MAX = 20
LABEL_WIDTH = 22
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
    """Does what a line with a slash says; False if it says to leave. Raises `UsageError` for one that is none."""
    name, _, rest = line[1:].partition(" ")
    if name in ("quit", "exit"):
        return False
    if ":" in name:
        from .server_prompts import send

        await send(chat, name, rest.strip())
        chat.desk.invite()
        return True
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


async def attach(chat: Chat, rest: str) -> None:
    """Attaches something to the next prompt, read now so that whoever attaches it learns what is wrong with it."""
    import asyncio

    from windlass.cli.prompt_input import attachments_of

    if not rest:
        raise UsageError("write /attach PATH, PATH:10-20 for lines, or the address of an issue")
    (read,) = await asyncio.to_thread(attachments_of, [rest])
    chat.attached = (*chat.attached, read)
    for line in attachment_lines([read]):
        chat.note(f"({line}, for your next prompt)")


# --- prompts that wait ---


async def queued(chat: Chat) -> dict[str, str]:
    """The prompts that wait, by id, in their order, with what is attached to each."""
    from windlass.runtime.operate.item_text import prompt_text

    bodies = await waiting_bodies(chat)
    return {name: prompt_text(body, whole=False) if body is not None else "" for name, body in bodies.items()}


async def waiting_bodies(chat: Chat) -> dict[str, PromptBody | None]:
    """The same whole; None for one that was erased."""
    from windlass.events.values.ids import prompt_id

    waiting = (await chat.session.state()).queue.waiting
    before = min(waiting, default=1) - 1
    events = {r.seq: r.event async for r in chat.session.records(after=before) if r.seq in waiting}
    prompts = ((seq, events.get(seq)) for seq in waiting)
    return {prompt_id(seq): event.body if isinstance(event, PromptReceived) else None for seq, event in prompts}


async def queue(chat: Chat, rest: str) -> None:
    """Lists what waits, or adds to it."""
    if rest:
        await chat.say(rest, "follow_up")
        return
    waiting = await queued(chat)
    for line in number_words.table([(name, one_line(text, 200)) for name, text in waiting.items()]):
        chat.note(line, "")
    if not waiting:
        chat.note("no prompt waits")


def _named(waiting: dict[str, str], name: str, how: str) -> str:
    if name not in waiting:
        raise UsageError(f"no prompt {name!r} waits: write {how}; waiting are {', '.join(waiting) or 'none'}")
    return name


async def drop(chat: Chat, rest: str) -> None:
    waiting = await queued(chat)
    _named(waiting, rest, "/drop ID")
    await chat.session.edit_queue(*(name for name in waiting if name != rest), actor=identity.actor())
    chat.note(f"({rest} is dropped)")
    await chat.look()


async def first(chat: Chat, rest: str) -> None:
    waiting = await queued(chat)
    _named(waiting, rest, "/first ID")
    await chat.session.edit_queue(rest, *(name for name in waiting if name != rest), actor=identity.actor())
    chat.note(f"({rest} comes first)")


async def edit(chat: Chat, rest: str) -> None:
    """Another text for a prompt that waits; without one, the text comes into the input. What is attached stays."""
    from windlass.events.commands import PromptBody, QueueBody, QueueEdited
    from windlass.events.values.blocks import Text
    from windlass.models.tokens import estimate_text

    name, _, text = rest.partition(" ")
    waiting = await queued(chat)
    _named(waiting, name, "/edit ID TEXT")
    if not text.strip():
        body = (await waiting_bodies(chat))[name]
        chat.desk.prefill(f"/edit {name} {blocks_text(body.content) if body is not None else ''}")
        return
    command = QueueEdited(
        command_id=identity.fresh_command_id(),
        actor=identity.actor(),
        order=tuple(waiting),
        tokens={name: estimate_text(text)},
        body=QueueBody(edits={name: PromptBody(content=(Text(text=text.strip()),))}),
    )
    await chat.runtime.send(chat.session.key, command)
    chat.note(f"({name} is changed)")


# --- the session ---


async def ask(chat: Chat, rest: str) -> None:
    """Asks again what was left open."""
    if not (await chat.session.state()).asks.open:
        chat.note("nothing is open")
    elif not chat.interviewer.asking:
        chat.spawn(chat.ask_open())


async def go_on(chat: Chat, rest: str) -> None:
    await chat.session.wake(actor=identity.actor())


async def setup(chat: Chat, rest: str) -> None:
    from windlass.cli.screen.setup import setup_lines

    for line in setup_lines(await chat.session.setup()):
        chat.note(line, "")


async def cost(chat: Chat, rest: str) -> None:
    spent = (await chat.session.state()).budget.spent
    chat.note(f"{number_words.tokens(spent.usage)} (tokens), {number_words.dollars(spent.cost_nanos)}", "")


async def jobs(chat: Chat, rest: str) -> None:
    """Lists background jobs; reads or ends one."""
    from windlass.cli.screen.job_lines import job_lines
    from windlass.tools.shell.shown_output import shown_text

    verb, _, name = rest.partition(" ")
    rows = await chat.session.jobs()
    if not rest:
        for line in job_lines(rows):
            chat.note(line, "")
        if not rows:
            chat.note("no background jobs")
        return
    if verb not in ("tail", "kill") or name.strip() not in [row.job_id for row in rows]:
        there = ", ".join(row.job_id for row in rows) or "none"
        raise UsageError(f"write /jobs, /jobs tail ID or /jobs kill ID; there is {there}")
    if verb == "kill":
        await chat.session.kill_job(name.strip(), actor=identity.actor())  # the log says so, and what is shown of it
        return
    printed = await chat.session.job_output(name.strip(), -TAIL_BYTES, TAIL_BYTES)
    for line in shown_text(printed.data).splitlines()[-LOG_LINES:]:
        chat.note(spelt(line), "")


async def skill(chat: Chat, rest: str) -> None:
    """Lists skills, uses one, or leaves one."""
    active = [each.key.skill_name for each in (await chat.session.state()).skills.active.values()]
    if not rest:
        known = (await chat.session.setup()).skills
        for name in known:
            chat.note(f"{spelt(name)}{' (active)' if name in active else ''}", "")
        if not known:
            chat.note("no skills")
        return
    verb, _, name = rest.partition(" ")
    if verb == "off" and name.strip():
        await chat.session.deactivate_skill(name.strip(), via="user", actor=identity.actor())
        chat.note(f"(the skill {spelt(name.strip())} is left)")
        return
    await chat.session.activate_skill(verb, name.strip(), via="user", actor=identity.actor())
    now = {each.key.skill_name for each in (await chat.session.state()).skills.active.values()}
    told = "is active" if verb in now else "cannot be used: /skill lists those that there are"
    chat.note(f"(the skill {spelt(verb)} {told})")


async def agent(chat: Chat, rest: str) -> None:
    """Says who runs the session, and who could; has another one run it."""
    from windlass.events.errors import Refused

    summary = await chat.session.setup()
    own = summary.agent
    if not rest:
        for name in (own, *summary.specialists):
            runs = name == (summary.specialist or own)
            chat.note(f"{spelt(name)}{' (runs this session)' if runs else ''}", "")
        return
    try:
        await chat.session.select(None if rest == own else rest, actor=identity.actor())
    except Refused as refused:
        raise UsageError(str(refused)) from refused


async def log(chat: Chat, rest: str) -> None:
    from windlass.cli.screen.timeline import Timeline, TimelinePage
    from windlass.protocol.view import forms

    page = TimelinePage(width=width_of(sys.stderr) - 1, paint=Paint(sys.stderr))
    entries = [entry async for entry in forms(Timeline(), chat.session.records())]
    lines = [line for entry in entries for line in page.lines(entry)]
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
    name = chat.agent.name if chat.agent is not None else (await chat.session.state()).setup.agent.name
    rows = await chat.runtime.sessions(agent=name, limit=SESSIONS_MAX)
    for line in number_words.table([(spelt(row.session), row.state, one_line(row.title, 60)) for row in rows]):
        chat.note(line, "")


async def leave(chat: Chat, rest: str) -> None:
    """Never performed: leaving is the conversation's own end."""


COMMANDS: dict[str, Command] = {
    "help": Command("", "this", show_help),
    "attach": Command("PATH", "give the model a file or directory with your next prompt; PATH:10-20 for lines", attach),
    "queue": Command("[TEXT]", "the prompts that wait; with a text, one more for when the run is over", queue),
    "edit": Command("ID [TEXT]", "change a prompt that waits; without a text, in the input", edit),
    "drop": Command("ID", "drop a prompt that waits", drop),
    "first": Command("ID", "let a prompt that waits come first", first),
    "ask": Command("", "ask again what was left open", ask),
    "continue": Command("", "resume a run that was stopped", go_on),
    "jobs": Command("[tail|kill ID]", "background jobs: list them, read one, end one", jobs),
    "skill": Command("[NAME|off NAME]", "skills: list them, use one, leave one", skill),
    "agent": Command("[NAME]", "who runs this session, and who could; with a name, have that one run it", agent),
    "prompts": Command("", "prompts of MCP servers; write /SERVER:PROMPT to send one", list_prompts),
    "setup": Command("", "agent, model, tools, policy and budget", setup),
    "cost": Command("", "what this session has used", cost),
    "log": Command("", "the last records of its log", log),
    "clear": Command("", "a fresh context (the log keeps everything)", clear),
    "sessions": Command("", "the sessions of this agent", sessions),
    "resume": Command("SESSION", "resume another session of this agent", resume),
    "quit": Command("", "leave (Ctrl-D too); the session is kept", leave),
}
